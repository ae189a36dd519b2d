//! uvloop's event loops, which are written in Cython: nothing of a handle can be seen there. Their methods that schedule a callback are
//! taken at the words by which they are called; while somebody wants to know of it, what is scheduled is a callable of ours, which
//! stands before the program's.
//!
//! What `loops`, `loop_tokens` and `loop_callbacks` see on asyncio's own loops is told here of what goes by `call_soon`,
//! `call_soon_threadsafe`, `call_later` and `call_at`.

use super::{
    futures, here,
    here::Here,
    instruments::{self, Instrument},
    loop_callbacks,
    loop_tokens::{self, Way},
    loops,
    modules::{self, Module},
    parcels::{self, quietly},
    passing::{self, Sender},
    Host,
};
use crate::{
    capture,
    ffi::{
        calling::{self, attached},
        frame::{code_qualname, Frame},
        held::Held,
        steps, tstate,
        vectorcall::{nargs, Function},
        word::Word,
    },
};
use inviso_core::{flags::Flags, monitor::Event, seq::Carried};
use pyo3::{
    ffi::{self, PyObject},
    gc::{PyTraverseError, PyVisit},
    prelude::*,
    types::{PyString, PyTuple},
};
use std::sync::Mutex;

/// Callbacks on uvloop.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages() || wants.processes.has(Flags::RUNNING_PROCS) || wants.watches(Event::LongSchedule),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        give_back();
        modules::leave(py, host, &MODULES)
    },
    |_| {
        give_back();
        modules::forget(&MODULES);
    },
);

/// Where its loops are.
pub static MODULES: [Module; 1] = [Module::new("uvloop.loop", adopt)];

/// A method that schedules a callback.
struct Method {
    name: &'static str,
    word: Word,
    ours: Function,
    /// Which argument the callback is, behind the loop.
    callback: usize,
    /// Whether it is for other threads.
    threadsafe: bool,
}

static METHODS: [Method; 4] = [
    Method { name: "call_soon", word: Word::new(), ours: call_soon, callback: 1, threadsafe: false },
    Method { name: "call_soon_threadsafe", word: Word::new(), ours: call_threadsafe, callback: 1, threadsafe: true },
    Method { name: "call_later", word: Word::new(), ours: call_later, callback: 2, threadsafe: false },
    Method { name: "call_at", word: Word::new(), ours: call_at, callback: 2, threadsafe: false },
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
        /// To be called by the interpreter only.
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

/// A callback is scheduled.
///
/// # Safety
/// With what the interpreter calls the method's function with.
unsafe fn schedule(
    method: &'static Method, function: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's promise: as many arguments, then one for each name; the method's own function is called on.
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

/// What is scheduled in the callback's place, if anybody wants to know of it.
///
/// # Safety
/// The arguments of the method stand, the callback among them; attached.
unsafe fn stand_in(method: &Method, arguments: &[*mut PyObject]) -> Option<Held> {
    let (event_loop, callback) = (arguments[0], arguments[method.callback]);
    // SAFETY: methods are called attached; the state is not used beyond this function; the caller's frame runs.
    unsafe {
        let here = here::here().filter(|here| !here.thread.busy)?;
        // `call_at` calls `call_later`, and that may call `call_soon`
        if steps::is_step(callback)
            || attached(|py| Bound::from_borrowed_ptr(py, callback).is_instance_of::<Scheduled>())
        {
            return None;
        }
        let caller = Frame::current_python(tstate());
        // uvloop's own functions have no frames: a thread that runs one of them seems to do so from its `run`
        let by_library = passing::is_inner(caller)
            || futures::is_method(callback)
                && caller.is_some_and(|frame| capture::is_text(code_qualname(frame.code()), "Thread.run"));
        let mut by = 0;
        let came = if by_library || method.threadsafe && is_closed(here, event_loop) {
            Came::Inner
        } else if method.threadsafe {
            here.running.identify(here.host, &mut here.thread);
            by = here.thread.current().pid;
            let rest = &arguments[method.callback + 1..];
            Came::Sent(loops::send(here, event_loop, |py| loops::call(py, callback, tuple(py, rest)?.as_ptr())))
        } else if here.host.node.seq_in_use() {
            here.running.identify(here.host, &mut here.thread);
            Came::Scheduled(here.host.node.seq_copy(here.thread.current()))
        } else {
            Came::Inner
        };
        if matches!(came, Came::Inner) && !shows_turns() {
            return None;
        }
        let made = quietly(here, |py, _| {
            let callback = Bound::from_borrowed_ptr(py, callback).unbind();
            Py::new(py, Scheduled { callback, by, came: Mutex::new(Some(came)) })
        });
        Some(Held::owned(made.ok()?.into_ptr()))
    }
}

/// Whether the call is going to raise for that.
///
/// # Safety
/// It stands; attached.
unsafe fn is_closed(here: &mut Here, event_loop: *mut PyObject) -> bool {
    quietly(here, |py, _| {
        // SAFETY: the caller's promise.
        let answer = calling::method(&unsafe { Bound::from_borrowed_ptr(py, event_loop) }, "is_closed", ());
        answer.and_then(|answer| answer.is_truthy()).unwrap_or(false)
    })
}

/// # Safety
/// They stand.
unsafe fn tuple<'py>(py: Python<'py>, objects: &[*mut PyObject]) -> Option<Bound<'py, PyTuple>> {
    // SAFETY: the caller's promise.
    PyTuple::new(py, objects.iter().map(|object| unsafe { Bound::from_borrowed_ptr(py, *object) })).ok()
}

/// Whether somebody wants to know when callbacks run.
fn shows_turns() -> bool {
    instruments::wanted(Flags::RUNNING_PROCS) || instruments::monitored(Event::LongSchedule)
}

/// How a callback came to the loop.
enum Came {
    /// From another thread, with a token or none.
    Sent(Carried),
    /// Scheduled by the program in the loop's own thread.
    Scheduled(Carried),
    /// Nobody is told.
    Inner,
}

/// A callback on its way; otherwise as the program's own.
#[pyclass(frozen, weakref, module = "inviso._native")]
pub struct Scheduled {
    callback: Py<PyAny>,
    by: u64,
    /// Until it runs.
    came: Mutex<Option<Came>>,
}

#[pymethods]
impl Scheduled {
    /// As loops call: with positional arguments.
    #[pyo3(signature = (*args))]
    fn __call__<'py>(slf: &Bound<'py, Self>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (this, key) = (slf.get(), slf.as_ptr() as usize);
        let callback = this.callback.bind(slf.py());
        let came = this.came.lock().unwrap_or_else(|e| e.into_inner()).take();
        // SAFETY: attached; the state is not used while the callback runs.
        if let Some(here) = unsafe { here::here() }.filter(|here| !here.thread.busy) {
            // SAFETY: as above; all of them are held.
            unsafe { this.begins(here, key, came, callback, args) };
        }
        let done = calling::call(callback, args.clone());
        // SAFETY: as above.
        if let Some(here) = unsafe { here::here() }.filter(|here| !here.thread.busy) {
            loop_callbacks::leave(here, key);
            loop_tokens::end(here, key);
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

impl Scheduled {
    /// It is about to run.
    ///
    /// # Safety
    /// Attached, with nothing set.
    unsafe fn begins(
        &self, here: &mut Here, key: usize, came: Option<Came>, callback: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>,
    ) {
        let make = |here: &mut Here| {
            // SAFETY: both are held; nothing is set while the message is made.
            parcels::made(here, |py| unsafe { loops::call(py, callback.as_ptr(), args.as_ptr()) })
        };
        let way = match came {
            Some(Came::Scheduled(carried)) => Way::Unseen(carried),
            Some(Came::Sent(carried)) => {
                // SAFETY: attached.
                unsafe { here.running.identify(here.host, &mut here.thread) };
                if parcels::is_asked(here, Flags::RECEIVE) {
                    let message = make(here);
                    // SAFETY: held; attached.
                    unsafe { parcels::receive(here, Sender::Process(self.by), &message) };
                }
                Way::Message(carried)
            }
            _ => Way::None,
        };
        // SAFETY: attached.
        unsafe { loop_tokens::begin(here, key, way, make) };
        if shows_turns() {
            // SAFETY: held; attached, and nobody listens.
            let place =
                quietly(here, |_, here| unsafe { loop_callbacks::place_of(here, callback.as_ptr(), args.len()) });
            loop_callbacks::enter(here, key, place, None);
        }
    }
}
