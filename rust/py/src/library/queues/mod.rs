//! `queue.Queue` and `asyncio.Queue`, and their kinds: a put is a message to the queue, a get receives one.
//!
//! The instrument watches `_put` and `_get`, which each kind defines for itself. They run while no other thread can
//! touch the queue, so the events have the order of the queue. A class of the program with its own methods is found at
//! its first use. Its `_put` is reported after it returns, since it may raise.
//!
//! # Roles
//! Traced threads run the handlers, attached. The instrument fills in names and codes when it begins.
//!
//! # States
//! `DERIVED` becomes true with the first class of the program and stays true. The other statics are 0 or null, or the
//! address of an object that is kept for ever.
//!
//! # Orderings
//! An address is only compared, so `Relaxed` loads are enough: a missed one is a queue that is not yet watched.
//!
//! # Checked by
//! `tests/python/test_messages.py`, `tests/python/test_queue_programs.py`, `tests/python/test_trace_messages.py`.

pub mod simple_queue;

use crate::{
    control::originals,
    instrument::{
        lengths, message_view, modules,
        queue_classes::{defines, is_lifo, is_of_library, keep_names, QUEUES},
        senders, sent_values, tokens, watch,
    },
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        senders::QueuedItem,
        thread::ThreadState,
        untraced::untraced,
        wants::monitored,
    },
};
use inviso_core::host::{flags::Flags, monitor::LimitEvent};
use inviso_cpython::{
    capture::{self, Raised},
    frames::frame::{code_qualname, CodeLayout, Frame},
    interpreter::calling,
    object::interned::Interned,
};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Whether a class has been met that derives from the standard library's and has methods of its own.
static DERIVED: AtomicBool = AtomicBool::new(false);

/// Both kinds of queues.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages() || wants.tokens || wants.watches(LimitEvent::LongMessageQueue),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&PUT, &GET, &GET_LAST, &OWN_PUT, &OWN_GET, &WAIT, &NEW])?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// `_put`.
pub static PUT: Handler = Handler { begin: Some(on_put), ..Handler::NONE };

/// `_get`.
pub static GET: Handler = Handler { end: Some(on_get), ..Handler::NONE };

/// `_get` of a queue whose newest item comes first.
pub static GET_LAST: Handler = Handler { end: Some(on_get_last), ..Handler::NONE };

/// `_put` of a class of the program.
pub static OWN_PUT: Handler = Handler { begin: Some(on_own_put), end: Some(on_own_put_done), ..Handler::NONE };

/// `_get` of a class of the program.
pub static OWN_GET: Handler = Handler { end: Some(on_own_get), ..Handler::NONE };

/// `queue.Queue.get`, `asyncio.Queue.get_nowait`, `asyncio.wait_for` and `asyncio.timeout`, which raise if no item
/// comes in time.
pub static WAIT: Handler = Handler { end: Some(on_nothing), raises_only: true, ..Handler::NONE };

/// `__init__`: a class of queues is used.
pub static NEW: Handler = Handler { begin: Some(on_new), ..Handler::NONE };

/// The modules that define them, and those of the standard library that use them.
pub static MODULES: [Module; 5] = [
    Module::new("queue", |py, host, module| adopt(py, host, module, "get", 0)),
    Module::new("asyncio.queues", |py, host, module| adopt(py, host, module, "get_nowait", 1)),
    Module::new("concurrent.futures.process", |_, _, module| keep_names(module, &PROCESSES)),
    Module::new("asyncio.tasks", |py, host, module| {
        keep_names(module, &TASKS)?;
        watch::add(py, host, &WAIT, &originals::codes(module, &["wait_for"])?)
    }),
    Module::new("asyncio.timeouts", |py, host, module| {
        watch::add(py, host, &WAIT, &originals::codes(module, &["Timeout.__aexit__"])?)
    }),
];

/// The code of `asyncio.Queue.get`.
static AWAITED: AtomicUsize = AtomicUsize::new(0);
/// The code of their `Queue.shutdown`, from Python 3.13 on.
static SHUTDOWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static PROCESSES: AtomicUsize = AtomicUsize::new(0);
static TASKS: AtomicUsize = AtomicUsize::new(0);

fn adopt(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>, wait: &str, which: usize) -> PyResult<()> {
    keep_names(module, &QUEUES[which])?;
    let class = module.getattr("Queue")?;
    // also records their wrappers: the library calls these, too
    originals::codes(&class, &["put", "put_nowait", "get", "get_nowait"])?;
    if let (1, Ok(get)) = (which, originals::code(&class, "get")) {
        modules::keep(&AWAITED, get);
    }
    if let Ok(shutdown) = originals::code(&class, "shutdown") {
        modules::keep(&SHUTDOWN[which], shutdown);
    }
    watch::add(py, host, &WAIT, &originals::codes(&class, &[wait])?)?;
    watch::add(py, host, &NEW, &originals::codes(&class, &["__init__"])?)?;
    learn_all(py, host, &class)
}

/// Watches a class of queues and the classes that derive from it.
fn learn_all(py: Python<'_>, host: &Host, class: &Bound<'_, PyAny>) -> PyResult<()> {
    learn(py, host, class.as_ptr().cast())?;
    // a method of `type`: an attribute of this name of the class itself is not called
    let derived = py.get_type::<PyType>().getattr("__subclasses__")?.call1((class,))?;
    for class in derived.cast_into::<PyList>()?.iter() {
        learn_all(py, host, &class)?;
    }
    Ok(())
}

/// Watches the methods of a class of queues, its own or inherited.
fn learn(py: Python<'_>, host: &Host, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let own = !is_of_library(class);
    let get = if is_lifo(class) { &GET_LAST } else { &GET };
    for (name, handler, own_handler) in [(&NAME_OF_PUT, &PUT, &OWN_PUT), (&NAME_OF_GET, get, &OWN_GET)] {
        let Some((of, method)) = definition(py, class, name) else { continue };
        if own && is_of_library(of) || !own && is_known(&method, handler) {
            continue;
        }
        // SAFETY: the class stands; the thread is attached.
        let of = unsafe { Bound::from_borrowed_ptr(py, of.cast::<ffi::PyObject>()) };
        let original = if own { None } else { originals::function(&of, name.text())?.filter(is_librarys) };
        let method = original.as_ref().unwrap_or(&method);
        // SAFETY: the type is checked.
        let code = unsafe {
            if ffi::PyFunction_Check(method.as_ptr()) == 0 {
                continue;
            }
            Bound::from_borrowed_ptr(py, ffi::PyFunction_GetCode(method.as_ptr()))
        };
        let watched = |by| watch::find(code.as_ptr()).is_some_and(|watched| watched.has(by));
        if original.is_some() {
            watch::add(py, host, handler, &[code])?;
        } else if ![&PUT, &GET, &GET_LAST, own_handler].into_iter().any(watched) {
            DERIVED.store(true, Ordering::Release);
            watch::add(py, host, own_handler, &[code])?;
        }
    }
    Ok(())
}

static NAME_OF_PUT: Interned = Interned::new(c"_put");
static NAME_OF_GET: Interned = Interned::new(c"_get");

/// The class that defines a method that instances of `class` have, and the method, unbound.
fn definition<'py>(
    py: Python<'py>, class: *mut ffi::PyTypeObject, name: &Interned,
) -> Option<(*mut ffi::PyTypeObject, Bound<'py, PyAny>)> {
    let mut found = None;
    // SAFETY: the class stands; the thread is attached.
    unsafe {
        capture::each_definition(class, name.get(), |class, method| {
            found = Some((class, Bound::from_borrowed_ptr(py, method)));
            true
        });
    }
    found
}

/// Whether a method is one of the library's that is watched already.
fn is_known(method: &Bound<'_, PyAny>, handler: &'static Handler) -> bool {
    // SAFETY: the type is checked; a function holds its code.
    unsafe {
        ffi::PyFunction_Check(method.as_ptr()) != 0
            && watch::find(ffi::PyFunction_GetCode(method.as_ptr())).is_some_and(|by| by.has(handler))
    }
}

/// Whether a function is the library's, and not one that the program has put in its place.
fn is_librarys(function: &Bound<'_, PyAny>) -> bool {
    // SAFETY: [`originals::function`] returns functions.
    defines(unsafe { ffi::PyFunction_GetGlobals(function.as_ptr()) })
}

/// The queue of a method's frame.
fn queue_of(frame: Frame) -> *mut ffi::PyObject {
    // SAFETY: an event's frame has its first argument.
    unsafe { frame.argument(&CodeLayout::read(frame.code()), 0).as_ptr() }
}

/// The caller of a queue's method, whose frame is the event's.
#[inline(always)]
fn caller(frame: Frame) -> Option<Frame> {
    // SAFETY: an event's frame runs; callbacks are attached.
    unsafe { message_view::caller(frame) }
}

/// Whether the method of a derived class called this one. Then that method reports the event.
#[inline(always)]
fn is_super(method: Frame, queue: *mut ffi::PyObject) -> bool {
    DERIVED.load(Ordering::Relaxed) && is_called_by_own(method, queue)
}

/// The most functions between a method of the library and the program's method that called it: those of decorators.
const BETWEEN: usize = 8;

#[cold]
#[inline(never)]
fn is_called_by_own(method: Frame, queue: *mut ffi::PyObject) -> bool {
    let mut next = caller(method);
    for _ in 0..BETWEEN {
        let Some(frame) = next else { return false };
        // SAFETY: the callers of a running frame run, too; the thread is attached.
        unsafe {
            if defines(frame.globals()) {
                return false;
            }
            if let Some(watched) = watch::find(frame.code()) {
                let put = watched.has(&OWN_PUT) && own_queue(frame, &NAME_OF_PUT) == queue && !frame.given(1).is_null();
                if put || watched.has(&OWN_GET) && own_queue(frame, &NAME_OF_GET) == queue {
                    return true;
                }
            }
            next = frame.caller();
        }
    }
    false
}

/// The queue whose method of this name runs in a frame. Null if another function runs: several functions may share one
/// code.
fn own_queue(frame: Frame, name: &Interned) -> *mut ffi::PyObject {
    // SAFETY: the frame of an event, or one that runs; its arguments stand. The thread is attached.
    unsafe {
        let queue = frame.given(0).as_ptr();
        let is = !queue.is_null()
            && capture::each_definition(ffi::Py_TYPE(queue), name.get(), |_, method| frame.runs(method))
            && !originals::is_around(frame);
        if is {
            queue
        } else {
            std::ptr::null_mut()
        }
    }
}

/// Whether a call of a queue's method is reported: a session traces it or a token is concerned, and the program has
/// called it. After this the running process is known.
#[inline(always)]
fn is_told(state: &mut ThreadState, method: Frame, queue: *mut ffi::PyObject, flag: Flags) -> bool {
    // SAFETY: callbacks run attached; the queue stands while a method of it runs.
    let wanted = unsafe {
        state.running.identify(state.host, &mut state.thread);
        sent_values::is_asked(state, flag) || monitored(LimitEvent::LongMessageQueue) || senders::matter(state, queue)
    };
    wanted && !is_inner(method)
}

/// Whether another part of the standard library uses the queue, as the callers of the queue's method show. Its items
/// are part of a larger message.
#[inline(always)]
fn is_inner(method: Frame) -> bool {
    let is = |globals: usize, module: &AtomicUsize| globals == module.load(Ordering::Relaxed);
    // SAFETY: the event's frame; the callers of a running frame run, too.
    unsafe {
        let mut frame = caller(method);
        while let Some(state) = frame {
            let globals = state.globals() as usize;
            if is(globals, &TASKS) {
                return capture::text_is(code_qualname(state.code()), is_as_completed);
            }
            if !is(globals, &QUEUES[0]) && !is(globals, &QUEUES[1]) {
                return is(globals, &PROCESSES);
            }
            frame = originals::caller(state);
        }
        false
    }
}

fn is_as_completed(function: &str) -> bool {
    function.starts_with("as_completed.") || function.starts_with("_AsCompletedIterator.")
}

/// The running process, which is known, puts an item into a queue. Both stand, and the callers are attached.
#[inline(always)]
fn put(state: &mut ThreadState, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) {
    // SAFETY: the callers promise that queue and item stand and the thread is attached.
    unsafe {
        let number = message_view::queue(state, queue);
        let sent = message_view::sent_by_current(state, number, item);
        senders::put(state, queue, item, sent, Some(lengths::length));
        lengths::of_queue(state, queue, number, 1, lengths::length);
    }
}

/// The same after the put: the item is in the queue already.
fn put_already(state: &mut ThreadState, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) {
    /// The length before the put.
    ///
    /// # Safety
    /// The queue stands; the thread is attached.
    unsafe fn before(queue: *mut ffi::PyObject) -> Option<u64> {
        // SAFETY: the caller promises that the queue stands and the thread is attached.
        unsafe { lengths::length(queue) }.map(|length| length.saturating_sub(1))
    }
    // SAFETY: the callers promise that queue and item stand and the thread is attached.
    unsafe {
        let number = message_view::queue(state, queue);
        let sent = message_view::sent_by_current(state, number, item);
        senders::put(state, queue, item, sent, Some(before));
        lengths::of_queue(state, queue, number, 0, lengths::size);
    }
}

/// Whether the caller of a queue's method shuts the queue down at once. It discards the items, and their tokens.
#[inline(always)]
fn shuts_down(method: Frame) -> bool {
    let known = |code: usize| SHUTDOWN.iter().any(|shutdown| shutdown.load(Ordering::Relaxed) == code);
    // SAFETY: the caller's frame runs.
    caller(method).is_some_and(|caller| known(unsafe { caller.code() } as usize))
}

/// The method whose frame this is takes an item out of a queue. Queue and item stand, and the callers are attached.
#[inline(always)]
fn take(state: &mut ThreadState, method: Frame, queue: *mut ffi::PyObject, item: *mut ffi::PyObject, last: bool) {
    // SAFETY: the callers promise that queue and item stand and the thread is attached.
    unsafe {
        let number = message_view::queue(state, queue);
        let put = senders::take(state, queue, item, last);
        if !shuts_down(method) {
            message_view::received_by_current(state, QueuedItem::origin(put.as_ref()), item);
            tokens::taken_from_queue(state, queue, put, item);
        }
        lengths::of_queue(state, queue, number, 0, lengths::size);
    }
}

fn on_put(state: &mut ThreadState, method: Frame) {
    // SAFETY: arguments of the standard library's methods, which stand as long as the event's frame; they are not
    // cells.
    let (queue, item) = unsafe { (method.local(0), method.local(1)) };
    if !is_super(method, queue) && is_told(state, method, queue, Flags::SEND) {
        put(state, queue, item);
    }
}

fn on_get(state: &mut ThreadState, frame: Frame, how: Ended) {
    get(state, frame, how, false);
}

fn on_get_last(state: &mut ThreadState, frame: Frame, how: Ended) {
    get(state, frame, how, true);
}

#[inline(always)]
fn get(state: &mut ThreadState, method: Frame, how: Ended, last: bool) {
    let Ended::Returned(item) = how else { return };
    // SAFETY: the method's first argument, as above; no method assigns to it.
    let queue = unsafe { method.local(0) };
    if !is_super(method, queue) && is_told(state, method, queue, Flags::RECEIVE) {
        take(state, method, queue, item, last);
    }
}

thread_local! {
    /// Running calls of `_put` of the program's classes. They are kept because the method may assign to its arguments.
    static PUTTING: RefCell<Vec<Putting>> = const { RefCell::new(Vec::new()) };
}

/// A call of a `_put`.
struct Putting {
    /// Its frame, and the function that runs there.
    frame: usize,
    function: usize,
    queue: Py<PyAny>,
    item: Py<PyAny>,
}

fn on_own_put(state: &mut ThreadState, frame: Frame) {
    // SAFETY: an event's frame; the thread is attached.
    let item = unsafe { frame.given(1) };
    let queue = own_queue(frame, &NAME_OF_PUT);
    if queue.is_null() || item.is_null() || is_super(frame, queue) || !is_told(state, frame, queue, Flags::SEND) {
        return;
    }
    // SAFETY: the event's frame begins, and holds its arguments.
    let [queue, item] = untraced(state, |py, _| unsafe {
        [queue, item.as_ptr()].map(|object| Bound::from_borrowed_ptr(py, object).unbind())
    });
    // SAFETY: the event's frame begins, and holds its function.
    let function = unsafe { frame.function() } as usize;
    let putting = Putting { frame: frame.address(), function, queue, item };
    // a call whose end was not seen may have left its entry
    let left = PUTTING.with_borrow_mut(|all| {
        let left = all.iter().position(|known| known.frame == putting.frame).map(|at| all.swap_remove(at));
        all.push(putting);
        left
    });
    untraced(state, |_, _| drop(left));
}

/// The method has put the item, unless it raises: then nothing was sent.
fn on_own_put_done(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the event's frame.
    let (frame, function) = (frame.address(), unsafe { frame.function() } as usize);
    let putting = PUTTING.with_borrow_mut(|all| {
        let at = all.iter().rposition(|known| known.frame == frame && known.function == function)?;
        Some(all.swap_remove(at))
    });
    let Some(putting) = putting else { return };
    if matches!(how, Ended::Returned(_)) {
        // SAFETY: callbacks run attached.
        unsafe { state.running.identify(state.host, &mut state.thread) };
        put_already(state, putting.queue.as_ptr(), putting.item.as_ptr());
    }
    untraced(state, |_, _| drop(putting));
}

fn on_own_get(state: &mut ThreadState, frame: Frame, how: Ended) {
    let (queue, Ended::Returned(item)) = (own_queue(frame, &NAME_OF_GET), how) else { return };
    if !queue.is_null() && !is_super(frame, queue) && is_told(state, frame, queue, Flags::RECEIVE) {
        // SAFETY: the queue stands while its method runs.
        let last = is_lifo(unsafe { ffi::Py_TYPE(queue) });
        take(state, frame, queue, item, last);
    }
}

fn on_nothing(state: &mut ThreadState, frame: Frame, how: Ended) {
    let Some(error) = how.error() else { return };
    // SAFETY: callbacks run attached; the thread that raises the exception holds it.
    let in_vain = unsafe {
        if error.is_a(ffi::PyExc_TimeoutError) {
            state.running.identify(state.host, &mut state.thread);
            sent_values::is_asked(state, Flags::RECEIVE) && untraced(state, |py, _| ends_a_get(py, error.object()))
        } else {
            is_empty(error) && is_told(state, frame, queue_of(frame), Flags::RECEIVE)
        }
    };
    if in_vain {
        message_view::timed_out(state);
    }
}

/// Whether a call makes this TimeoutError out of the cancellation that has ended an `asyncio.Queue.get`, and so was the
/// first to raise it.
///
/// # Safety
/// It stands; the thread is attached and has no exception set.
unsafe fn ends_a_get(py: Python<'_>, error: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that the error stands and the thread is attached without an exception; the type is
    // checked, and only C code of the interpreter runs.
    unsafe {
        if ffi::PyExceptionInstance_Check(error) == 0 {
            return false;
        }
        // before 3.12 it has a traceback of its own where it is caught; one that leaves `Timeout.__aexit__` leaves
        // `wait_for` only later
        let passes = traceback(py, error).is_some_and(|own| !own.getattr("tb_next").is_ok_and(|next| next.is_none()));
        let cause = Bound::from_owned_ptr_or_opt(py, ffi::PyException_GetCause(error)).filter(|_| !passes);
        let cancelled = cause.and_then(|cause| traceback(py, cause.as_ptr()));
        let code = cancelled.and_then(|cancelled| innermost(cancelled).ok());
        code.is_some_and(|code| code.as_ptr() as usize == AWAITED.load(Ordering::Relaxed))
    }
}

/// # Safety
/// `error` stands and is an exception; the thread is attached.
unsafe fn traceback(py: Python<'_>, error: *mut ffi::PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the caller promises that `error` stands and is an exception, and the thread is attached.
    unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyException_GetTraceback(error)) }
}

/// The code in which the exception of a traceback was raised.
fn innermost(traceback: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let mut at = traceback;
    loop {
        let next = at.getattr("tb_next")?;
        if next.is_none() {
            return at.getattr("tb_frame")?.getattr("f_code");
        }
        at = next;
    }
}

/// Whether an exception says that the queue was empty.
fn is_empty(error: Raised) -> bool {
    let mut buffer = [0; 256];
    // SAFETY: the thread that raises the exception holds it; the thread is attached.
    let name = unsafe { error.type_name(&mut buffer) };
    matches!(name, "_queue.Empty" | "queue.Empty" | "asyncio.queues.QueueEmpty")
}

/// A queue is made. If its class has methods of its own, they are watched from now on.
fn on_new(state: &mut ThreadState, frame: Frame) {
    calling::attached(|py| {
        let queue = queue_of(frame);
        if !queue.is_null() {
            // SAFETY: the argument stands while the frame runs.
            let class = unsafe { ffi::Py_TYPE(queue) };
            if let Err(error) = learn(py, state.host, class) {
                error.write_unraisable(py, None);
            }
        }
    });
}
