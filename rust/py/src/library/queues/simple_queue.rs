//! `queue.SimpleQueue`, which is written in C: its methods are taken at their definitions.
//!
//! A thread may wait in `get` for hours, and what comes then is to be told of also if nobody wanted to know when it began. So `get`
//! is taken as long as this package is there, and looks afterwards whether somebody wants to know: 1 or 2 ns each. The others come
//! and go.

use crate::{
    entry::door,
    host::{
        instruments::{monitored, Instrument},
        Host,
    },
    instrument::{
        lengths, parcels, passing,
        senders::{self, Put},
        tokens,
    },
    library::multiprocess::pools,
    thread::here::Here,
};
use inviso_core::{flags::Flags, monitor::Event};
use inviso_cpython::{
    capture,
    frames::frame::Frame,
    hooks::method::{self, Fast, Method, OfClass, Plain, Wrapper},
    interpreter::tstate,
};
use pyo3::{
    ffi::{self, PyObject, PyTypeObject, Py_ssize_t},
    prelude::*,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The methods of `SimpleQueue`.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages() || wants.tokens || wants.watches(Event::LongMessageQueue),
    begin,
    |_, _| end(),
    |_| {
        let _ = end();
    },
);

static PUT: Method = Method::new();
static GET: Method = Method::new();
static GET_NOWAIT: Method = Method::new();
static PUT_NOWAIT: Method = Method::new();
/// Whether what is taken is told of.
static SEEN: AtomicBool = AtomicBool::new(false);
/// The function behind `qsize`, which runs no Python.
static QSIZE: AtomicUsize = AtomicUsize::new(0);

const PUTS: &[Wrapper] = &[Wrapper::Fast(put)];
const PUTS_NOWAIT: &[Wrapper] = &[Wrapper::Fast(put_nowait)];
const GETS: &[Wrapper] = &[Wrapper::OfClass(get)];
const GETS_NOWAIT: &[Wrapper] = &[Wrapper::OfClass(get_nowait)];

/// From now on what waits in `get` is seen when it comes back.
///
/// # Errors
/// ImportError where the C module is missing; else as [`Method::take`].
pub fn take_waits(py: Python<'_>) -> PyResult<()> {
    let class = inviso_cpython::interpreter::standard::module(py, "_queue")?.getattr("SimpleQueue")?;
    // SAFETY: the wrapper keeps to its kind, and calls on.
    unsafe { GET.take(&class, "get", GETS) }
}

fn begin(py: Python<'_>, _host: &'static Host) -> PyResult<()> {
    // by its own name: `queue` may be a module of the program's
    let Ok(module) = inviso_cpython::interpreter::standard::module(py, "_queue") else { return Ok(()) };
    let class = module.getattr("SimpleQueue")?;
    if let Some(qsize) = method::plain(&class.getattr("__dict__")?.get_item("qsize")?, ffi::METH_NOARGS) {
        QSIZE.store(qsize as usize, Ordering::Release);
    }
    SEEN.store(true, Ordering::Relaxed);
    take_waits(py)?;
    // SAFETY: the wrappers below keep to their kinds, and call on.
    unsafe {
        PUT.take(&class, "put", PUTS)?;
        PUT_NOWAIT.take(&class, "put_nowait", PUTS_NOWAIT)?;
        GET_NOWAIT.take(&class, "get_nowait", GETS_NOWAIT)
    }
}

fn end() -> PyResult<()> {
    PUT.give_back(PUTS);
    PUT_NOWAIT.give_back(PUTS_NOWAIT);
    SEEN.store(false, Ordering::Relaxed);
    GET_NOWAIT.give_back(GETS_NOWAIT);
    Ok(())
}

/// The item of a call of put: its first argument, or the one called so.
///
/// # Safety
/// The arguments of a method, as the interpreter passes them.
unsafe fn item(args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject) -> *mut PyObject {
    // SAFETY: as the interpreter passes them: as many values, then one for each name.
    unsafe {
        if count > 0 {
            return *args;
        }
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        for n in 0..named {
            if ffi::PyUnicode_CompareWithASCIIString(ffi::PyTuple_GET_ITEM(names, n), c"item".as_ptr()) == 0 {
                return *args.offset(n);
            }
        }
        std::ptr::null_mut()
    }
}

/// How many items a queue holds.
///
/// # Safety
/// The queue stands; attached, without an exception.
unsafe fn length(queue: *mut PyObject) -> Option<u64> {
    let qsize = QSIZE.load(Ordering::Acquire);
    if qsize == 0 {
        return None;
    }
    // SAFETY: of a method of the queue's class that takes no arguments; it answers a new reference or null.
    unsafe {
        let answer = std::mem::transmute::<usize, Plain>(qsize)(queue, std::ptr::null_mut());
        let length = if answer.is_null() { -1 } else { ffi::PyLong_AsLongLong(answer) };
        ffi::Py_XDECREF(answer);
        u64::try_from(length).ok()
    }
}

/// Whether what the running process sends, or receives, matters to anybody. It is known afterwards.
///
/// # Safety
/// The queue stands; attached.
unsafe fn is_wanted(here: &mut Here, queue: *mut PyObject, flag: Flags) -> bool {
    // SAFETY: the caller's.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        parcels::is_asked(here, flag) || monitored(Event::LongMessageQueue) || senders::matter(here, queue)
    }
}

/// Tells of an item that is about to be put in: nobody can take it before.
///
/// # Safety
/// `queue` lives throughout, as does `item` unless it is null, and the calling thread is attached to the interpreter.
unsafe fn tell_put(queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: methods are called attached; the state is not used beyond this function.
    unsafe {
        door::enter(|here| put_by(here, queue, item));
    }
}

/// # Safety
/// As [`tell_put`].
unsafe fn put_by(here: &mut Here, queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: the caller's promise.
    unsafe {
        if !item.is_null() && pools::of_threads() && pools::put_among_threads(here, queue, item) {
            return;
        }
        if item.is_null() || !is_wanted(here, queue, Flags::SEND) || passing::is_inner(Frame::current_python(tstate()))
        {
            return;
        }
        let number = passing::queue(here, queue);
        let sent = passing::sent_by_current(here, number, item);
        senders::put(here, queue, item, sent, None);
        lengths::of_queue(here, queue, number, 1, length);
    }
}

/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn put(
    this: *mut PyObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the contract of the method, which is called on with what came.
    unsafe {
        tell_put(this, item(args, count, names));
        PUT.original::<Fast>()(this, args, count, names)
    }
}

/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn put_nowait(
    this: *mut PyObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        tell_put(this, item(args, count, names));
        PUT_NOWAIT.original::<Fast>()(this, args, count, names)
    }
}

/// Tells of an item that was taken out, or that none came.
///
/// # Safety
/// `queue` lives throughout, as does `item` unless it is null, and the calling thread is attached to the interpreter.
#[inline(never)]
unsafe fn tell_get(queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: as `tell_put`; an exception that is set is put aside and back.
    unsafe {
        let nothing = item.is_null();
        if nothing {
            let error = ffi::PyErr_Occurred(); // its class
            let mut buffer = [0; 256];
            if error.is_null() || capture::type_name(error.cast(), &mut buffer) != "_queue.Empty" {
                return;
            }
        }
        door::enter(|here| got_by(here, queue, item));
    }
}

/// # Safety
/// As [`tell_get`].
unsafe fn got_by(here: &mut Here, queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: the caller's promise.
    unsafe {
        let nothing = item.is_null();
        if !nothing && pools::of_threads() && pools::taken_among_threads(here, queue, item) {
            return;
        }
        if !is_wanted(here, queue, Flags::RECEIVE) || passing::is_inner(Frame::current_python(tstate())) {
            return;
        }
        if nothing {
            passing::timed_out(here);
            return;
        }
        let put = senders::take(here, queue, item, false);
        passing::received_by_current(here, Put::origin(put.as_ref()), item);
        tokens::taken_from_queue(here, queue, put, item);
        if lengths::are_wanted() {
            let number = passing::queue(here, queue);
            lengths::of_queue(here, queue, number, 0, length);
        }
    }
}

/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn get(
    this: *mut PyObject, class: *mut PyTypeObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let item = GET.original::<OfClass>()(this, class, args, count, names);
        if SEEN.load(Ordering::Relaxed) {
            tell_get(this, item);
        }
        item
    }
}

/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn get_nowait(
    this: *mut PyObject, class: *mut PyTypeObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let item = GET_NOWAIT.original::<OfClass>()(this, class, args, count, names);
        tell_get(this, item);
        item
    }
}
