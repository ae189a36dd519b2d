//! uvloop's event loops, which are written in Cython and show nothing of a handle. The methods that schedule a callback
//! are replaced at the words by which they are called. While a session traces it, they schedule a callable of ours in
//! place of the program's, which it calls.
//!
//! `loops`, `loop_tokens` and `loop_callbacks` do this for asyncio's own loops. Here it is done for `call_soon`,
//! `call_soon_threadsafe`, `call_later` and `call_at`, and for readers, writers and handlers of signals. Methods that
//! make protocols are replaced, too: the protocol's methods that uvloop calls for a connection are watched, for the
//! loop's token.
//!
//! # Roles
//! The instrument replaces the words, attached. Any thread of the program schedules callbacks; the loop's thread runs
//! them.
//!
//! # States
//! A method's word is the original or ours (see [`FunctionSlot`]). `Scheduled::came` is there until the callback runs first.
//!
//! # Orderings
//! The word's own. A mutex lets one run take `came`.
//!
//! # Checked by
//! `tests/python/test_uvloop.py`.

use super::{loop_callbacks, loop_lag};
use crate::{
    door,
    instrument::{
        callback_tokens::{self, CallbackToken},
        message_view, modules, sent_values, watch,
    },
    library::{inner_callbacks, loops},
    state::{
        host::Host,
        instrument::{Handler, Instrument, Module},
        origin::{Origin, Sender},
        thread::ThreadState,
        untraced::{self, untraced},
        wants,
    },
};
use inviso_core::host::{flags::Flags, monitor::LimitEvent, seq::Carried, sync::Unpoisoned, tracee::Kind::Thread};
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
    hooks::{
        function_slot::FunctionSlot,
        vectorcall::{nargs, Function},
    },
    interpreter::{
        calling::{self, attached},
        tstate,
    },
    object::held::Held,
    tasks::{running as tasks, steps},
};
use pyo3::{
    ffi::{self, PyObject},
    gc::{PyTraverseError, PyVisit},
    prelude::*,
    types::{PyString, PyTuple},
};
use std::sync::Mutex;

/// Callbacks on uvloop.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages() || wants.processes.has(Flags::RUNNING_PROCS) || wants.watches(LimitEvent::LongSchedule),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        give_back();
        watch::remove(py, host, &[&PROTOCOL])?;
        modules::leave(py, host, &MODULES)
    },
    |_| {
        give_back();
        modules::forget(&MODULES);
    },
);

/// A protocol's method.
pub static PROTOCOL: Handler = Handler {
    begin: Some(on_protocol),
    end: Some(|state, frame, _| callback_tokens::end(state, frame.address())),
    ..Handler::NONE
};

/// The methods of protocols.
const CALLED: [&str; 13] = [
    "connection_made",
    "connection_lost",
    "pause_writing",
    "resume_writing",
    "data_received",
    "eof_received",
    "get_buffer",
    "buffer_updated",
    "datagram_received",
    "error_received",
    "pipe_data_received",
    "pipe_connection_lost",
    "process_exited",
];

/// The module of its loops.
pub static MODULES: [Module; 1] = [Module::new("uvloop.loop", adopt)];

/// A method that schedules a callback.
struct Method {
    name: &'static str,
    word: FunctionSlot,
    ours: Function,
    /// The index of the callback among the arguments, after the loop.
    callback: usize,
    kind: MethodKind,
}

/// The threads that may call a method, and how often it calls its callback.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MethodKind {
    /// The loop's thread; once.
    Once,
    /// Any thread; once.
    Threadsafe,
    /// The loop's thread; whenever something has happened.
    Often,
    /// As [`MethodKind::Often`], but a coroutine function is refused.
    Signal,
    /// Makes protocols, for connections.
    Protocols,
}

const fn method(name: &'static str, ours: Function, callback: usize, kind: MethodKind) -> Method {
    Method { name, word: FunctionSlot::new(), ours, callback, kind }
}

static METHODS: [Method; 17] = [
    method("call_soon", call_soon, 1, MethodKind::Once),
    method("call_soon_threadsafe", call_threadsafe, 1, MethodKind::Threadsafe),
    method("call_later", call_later, 2, MethodKind::Once),
    method("call_at", call_at, 2, MethodKind::Once),
    method("add_reader", add_reader, 2, MethodKind::Often),
    method("add_writer", add_writer, 2, MethodKind::Often),
    method("add_signal_handler", add_signal_handler, 2, MethodKind::Signal),
    method("create_server", create_server, 1, MethodKind::Protocols),
    method("create_connection", create_connection, 1, MethodKind::Protocols),
    method("create_unix_server", create_unix_server, 1, MethodKind::Protocols),
    method("create_unix_connection", create_unix_connection, 1, MethodKind::Protocols),
    method("create_datagram_endpoint", create_datagram_endpoint, 1, MethodKind::Protocols),
    method("connect_accepted_socket", connect_accepted_socket, 1, MethodKind::Protocols),
    method("connect_read_pipe", connect_read_pipe, 1, MethodKind::Protocols),
    method("connect_write_pipe", connect_write_pipe, 1, MethodKind::Protocols),
    method("subprocess_exec", subprocess_exec, 1, MethodKind::Protocols),
    method("subprocess_shell", subprocess_shell, 1, MethodKind::Protocols),
];

fn adopt(py: Python<'_>, _host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    steps::learn(py)?;
    let class = module.getattr("Loop")?.getattr("__dict__")?;
    for method in &METHODS {
        method.word.found_in(&class.get_item(method.name)?)?;
    }
    METHODS.iter().for_each(|method| method.word.put(method.ours as *mut ()));
    Ok(())
}

fn give_back() {
    METHODS.iter().for_each(|method| method.word.give_back(method.ours as *mut ()));
}

macro_rules! taken {
    ($name:ident, $number:literal) => {
        /// # Safety
        /// Only the interpreter calls it.
        unsafe extern "C" fn $name(
            function: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
        ) -> *mut PyObject {
            // SAFETY: the method's own arguments.
            unsafe { schedule(&METHODS[$number], function, args, nargsf, names) }
        }
    };
}
taken!(call_soon, 0);
taken!(call_threadsafe, 1);
taken!(call_later, 2);
taken!(call_at, 3);
taken!(add_reader, 4);
taken!(add_writer, 5);
taken!(add_signal_handler, 6);
taken!(create_server, 7);
taken!(create_connection, 8);
taken!(create_unix_server, 9);
taken!(create_unix_connection, 10);
taken!(create_datagram_endpoint, 11);
taken!(connect_accepted_socket, 12);
taken!(connect_read_pipe, 13);
taken!(connect_write_pipe, 14);
taken!(subprocess_exec, 15);
taken!(subprocess_shell, 16);

/// A callback is scheduled.
///
/// # Safety
/// The arguments are those with which the interpreter calls the method's function.
unsafe fn schedule(
    method: &'static Method, function: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller promises the interpreter's arguments: the values, then one for each name; the method's own
    // function is called with them.
    unsafe {
        let original = method.word.original_call();
        let count = nargs(nargsf);
        if count <= method.callback {
            return original(function, args, nargsf, names); // it is named, or missing
        }
        let Some(ours) = stand_in(method, std::slice::from_raw_parts(args, count)) else {
            return original(function, args, nargsf, names);
        };
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) as usize };
        let mut all = std::slice::from_raw_parts(args, count + named).to_vec();
        all[method.callback] = ours.as_ptr();
        original(function, all.as_ptr(), count, names)
    }
}

/// The object that is scheduled in the callback's place, if a session traces it.
///
/// # Safety
/// The arguments of the method stand, the callback among them; the thread is attached.
unsafe fn stand_in(method: &Method, arguments: &[*mut PyObject]) -> Option<Held> {
    // SAFETY: methods are called attached; the state is not used beyond this function; the caller's frame runs.
    unsafe { door::enter(|state| stand_in_of(state, method, arguments)).flatten() }
}

/// # Safety
/// As [`stand_in`].
unsafe fn stand_in_of(state: &mut ThreadState, method: &Method, arguments: &[*mut PyObject]) -> Option<Held> {
    let (event_loop, callback) = (arguments[0], arguments[method.callback]);
    // SAFETY: the caller promises that the arguments of the method stand, the callback among them, and the thread is
    // attached.
    unsafe {
        // `call_at` calls `call_later`, and that may call `call_soon`
        if steps::is_step(callback)
            || attached(|py| {
                Bound::from_borrowed_ptr(py, callback).is_instance_of::<Scheduled>() || loop_lag::is_probe(py, callback)
            })
            || method.kind == MethodKind::Signal && is_coroutine_function(state, callback)
        {
            return None;
        }
        let caller = Frame::current_python(tstate());
        let by_library = message_view::is_inner(caller);
        // uvloop's own functions have no frames: a thread that runs one of them seems to run its `run`
        let sets_future = inner_callbacks::is_method(callback)
            && (by_library || caller.is_some_and(|frame| capture::is_text(code_qualname(frame.code()), "Thread.run")));
        let mut by = 0;
        let came = match method.kind {
            MethodKind::Protocols => ScheduledBy::Makes,
            MethodKind::Often | MethodKind::Signal => ScheduledBy::Inner,
            // a task that is done schedules the callbacks that await it, below the frame that runs the loop
            MethodKind::Once if by_library && !sets_future && state.host.node.seq_in_use() => match ends_task(state) {
                true => ScheduledBy::Scheduled(state.host.node.seq_copy(state.thread.current())),
                false => caller
                    .and_then(|frame| inner_callbacks::carried(state, frame))
                    .map_or(ScheduledBy::Inner, ScheduledBy::Scheduled),
            },
            MethodKind::Once | MethodKind::Threadsafe if by_library || sets_future => ScheduledBy::Inner,
            MethodKind::Threadsafe if is_closed(state, event_loop) => ScheduledBy::Inner,
            MethodKind::Threadsafe => {
                state.running.identify(state.host, &mut state.thread);
                by = state.thread.current().pid;
                let rest = &arguments[method.callback + 1..];
                let (number, carried) =
                    loops::send(state, event_loop, |py| loops::call(py, callback, tuple(py, rest)?.as_ptr()));
                ScheduledBy::Sent(number, carried)
            }
            MethodKind::Once if state.host.node.seq_in_use() => {
                state.running.identify(state.host, &mut state.thread);
                ScheduledBy::Scheduled(state.host.node.seq_copy(state.thread.current()))
            }
            MethodKind::Once => ScheduledBy::Inner,
        };
        // a callback of this kind may run when a token is in use that is not in use yet
        let tokens = !sets_future
            && (state.host.node.seq_in_use() || matches!(method.kind, MethodKind::Often | MethodKind::Signal));
        if matches!(came, ScheduledBy::Inner) && !tokens && !shows_turns() {
            return None;
        }
        let made = untraced(state, |py, _| {
            let callback = Bound::from_borrowed_ptr(py, callback).unbind();
            Py::new(
                py,
                Scheduled { callback, makes: matches!(came, ScheduledBy::Makes), by, came: Mutex::new(Some(came)) },
            )
        });
        Some(Held::owned(made.ok()?.into_ptr()))
    }
}

/// Whether the running process is a task that is done. The process is known after this.
///
/// # Safety
/// The thread is attached.
unsafe fn ends_task(state: &mut ThreadState) -> bool {
    // SAFETY: the caller promises that the thread is attached; the running task stands.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let task = state.running.task.get() as *mut PyObject;
        !task.is_null() && untraced(state, |py, _| steps::is_done_task(py, task))
    }
}

/// Whether the loop is closed, so that the call is going to raise.
///
/// # Safety
/// The loop stands; the thread is attached.
unsafe fn is_closed(state: &mut ThreadState, event_loop: *mut PyObject) -> bool {
    untraced(state, |py, _| {
        // SAFETY: the caller promises that the loop stands and the thread is attached.
        let answer = calling::method(&unsafe { Bound::from_borrowed_ptr(py, event_loop) }, "is_closed", ());
        answer.and_then(|answer| answer.is_truthy()).unwrap_or(false)
    })
}

/// Whether the callback is a coroutine function, so that the call is going to raise.
///
/// # Safety
/// The callback stands; the thread is attached.
unsafe fn is_coroutine_function(state: &mut ThreadState, callback: *mut PyObject) -> bool {
    untraced(state, |py, _| {
        // SAFETY: the caller promises that the callback stands and the thread is attached.
        let callback = unsafe { Bound::from_borrowed_ptr(py, callback) };
        let answer = inviso_cpython::interpreter::standard::module(py, "inspect")
            .and_then(|m| calling::method(&m, "iscoroutinefunction", (callback,)));
        answer.and_then(|answer| answer.is_truthy()).unwrap_or(false)
    })
}

/// # Safety
/// The objects stand; the thread is attached.
unsafe fn tuple<'py>(py: Python<'py>, objects: &[*mut PyObject]) -> Option<Bound<'py, PyTuple>> {
    // SAFETY: the caller promises that the objects stand and the thread is attached.
    PyTuple::new(py, objects.iter().map(|object| unsafe { Bound::from_borrowed_ptr(py, *object) })).ok()
}

/// Whether a session traces when callbacks run.
fn shows_turns() -> bool {
    wants::wanted(Flags::RUNNING_PROCS) || wants::monitored(LimitEvent::LongSchedule)
}

/// How a callback came to the loop.
enum ScheduledBy {
    /// From another thread: the message's number, and its token or none.
    Sent(u64, Carried),
    /// Scheduled by the program in the loop's own thread.
    Scheduled(Carried),
    /// Without an event.
    Inner,
    /// Not as a callback: it makes protocols.
    Makes,
}

/// Whether this is a code object that is not watched.
fn is_new(code: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is held.
    let is_code = unsafe { ffi::PyCode_Check(code.as_ptr()) != 0 };
    is_code && watch::find(code.as_ptr()).is_none_or(|handlers| !handlers.has(&PROTOCOL))
}

/// A callback on its way. In all else it behaves as the program's own.
#[pyclass(frozen, weakref, module = "inviso._native")]
pub struct Scheduled {
    callback: Py<PyAny>,
    /// Whether it makes protocols.
    makes: bool,
    by: u64,
    /// Until it runs.
    came: Mutex<Option<ScheduledBy>>,
}

#[pymethods]
impl Scheduled {
    /// Called as loops call: with positional arguments.
    #[pyo3(signature = (*args))]
    fn __call__<'py>(slf: &Bound<'py, Self>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (this, key) = (slf.get(), slf.as_ptr() as usize | callback_tokens::SURE);
        let callback = this.callback.bind(slf.py());
        if this.makes {
            return this.make(key, args);
        }
        let came = this.came.lock().unpoisoned().take();
        // SAFETY: the thread is attached; all of them are held.
        unsafe { door::enter(|state| this.begins(state, key, came, callback, args)) };
        let done = calling::call(callback, args.clone());
        // SAFETY: the thread is attached.
        unsafe {
            door::enter(|state| {
                loop_callbacks::leave(state, key);
                callback_tokens::end(state, key);
            });
        }
        done
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        calling::attribute(self.callback.bind(py), name.cast::<PyString>()?.to_str()?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let builtins = py.import("builtins")?;
        calling::call(&builtins.getattr("repr")?, (&self.callback,))?.extract()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callback)
    }
}

/// A protocol's method is called, by uvloop or by the program.
fn on_protocol(state: &mut ThreadState, frame: Frame) {
    set_apart(state, frame.address());
}

/// A call that is neither a task nor a callback runs now on a loop's thread. The thread has its own token again when
/// the call ends, see [`callback_tokens::end`].
fn set_apart(state: &mut ThreadState, key: usize) {
    if !state.host.node.seq_in_use() {
        return;
    }
    callback_tokens::end(state, key); // one that ended unseen
                                      // SAFETY: the callers are attached.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let own = state.thread.current().kind == Thread && !callback_tokens::is_inside(state);
        if own && tasks::runs_here(std::ptr::null_mut()) {
            callback_tokens::begin(state, key, CallbackToken::None, |_| Held::borrowed(std::ptr::null_mut()));
        }
    }
}

impl Scheduled {
    /// The callable makes a protocol, whose methods are watched from now on.
    fn make<'py>(&self, key: usize, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        // SAFETY: the thread is attached.
        unsafe { door::enter(|state| set_apart(state, key)) };
        let made = calling::call(self.callback.bind(py), args.clone());
        let ends = |state: &mut ThreadState| {
            callback_tokens::end(state, key);
            if let (Ok(protocol), true) = (&made, state.host.node.seq_in_use()) {
                let class = protocol.get_type();
                untraced(state, |py, state| {
                    let code = |name: &&str| {
                        calling::attribute(calling::attribute(&class, name).ok()?.as_any(), "__code__").ok()
                    };
                    let codes: Vec<_> = CALLED.iter().filter_map(code).filter(is_new).collect();
                    // a method that can't be watched is left out
                    let _ = watch::add(py, state.host, &PROTOCOL, &codes);
                });
            }
        };
        // SAFETY: the thread is attached.
        unsafe { door::enter(ends) };
        made
    }

    /// The callback is about to run.
    ///
    /// # Safety
    /// The thread is attached and has no exception set.
    unsafe fn begins(
        &self, state: &mut ThreadState, key: usize, came: Option<ScheduledBy>, callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) {
        let make = |state: &mut ThreadState| {
            // SAFETY: both are held; no exception is set while the message is made.
            untraced::build_untraced(state, |py| unsafe { loops::call(py, callback.as_ptr(), args.as_ptr()) })
        };
        let way = match came {
            Some(ScheduledBy::Scheduled(carried)) => CallbackToken::Unseen(carried),
            Some(ScheduledBy::Sent(number, carried)) => {
                // SAFETY: the thread is attached.
                unsafe { state.running.identify(state.host, &mut state.thread) };
                if sent_values::is_asked(state, Flags::RECEIVE) {
                    let message = make(state);
                    // SAFETY: held; the thread is attached.
                    unsafe { sent_values::receive(state, Origin::new(Sender::Process(self.by), number), &message) };
                }
                CallbackToken::Message(carried)
            }
            _ => CallbackToken::None,
        };
        // SAFETY: the thread is attached.
        unsafe { callback_tokens::begin(state, key, way, make) };
        if shows_turns() {
            // SAFETY: held; the thread is attached, and takes no events meanwhile.
            let place =
                untraced(state, |_, state| unsafe { loop_callbacks::place_of(state, callback.as_ptr(), args.len()) });
            loop_callbacks::enter(state, key, place, None);
        }
    }
}
