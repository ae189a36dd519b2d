//! `queue.SimpleQueue`, which is written in C: its methods are replaced at their definitions.
//!
//! A thread may wait in `get` for hours. Its item is reported also if tracing began meanwhile. So `get` stays replaced
//! as long as this package is loaded, and looks after the wait whether a session traces it: that costs 1 or 2 ns a
//! call. The other methods are replaced only while they are traced.
//!
//! # Roles
//! Attached threads call the methods. The instrument replaces them and gives them back.
//!
//! # States
//! `SEEN` is true while receipts are reported. `QSIZE` is 0, or the C function of `qsize`, which stays valid with its
//! class.
//!
//! # Orderings
//! `QSIZE` is stored `Release` and loaded `Acquire`. `SEEN` is read `Relaxed`: an item near the switch may be missed.
//!
//! # Checked by
//! `tests/python/test_messages.py`, `tests/python/test_trace_messages.py`.

use crate::{
    door,
    instrument::{lengths, message_view, senders, sent_values, tokens},
    library::pool_queues,
    state::{host::Host, instrument::Instrument, senders::QueuedItem, thread::ThreadState, wants::monitored},
};
use inviso_core::host::{flags::Flags, monitor::LimitEvent};
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
    |wants| wants.messages() || wants.tokens || wants.watches(LimitEvent::LongMessageQueue),
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
/// Whether receipts are reported.
static SEEN: AtomicBool = AtomicBool::new(false);
/// The C function of `qsize`, which runs no Python.
static QSIZE: AtomicUsize = AtomicUsize::new(0);

const PUTS: &[Wrapper] = &[Wrapper::Fast(put)];
const PUTS_NOWAIT: &[Wrapper] = &[Wrapper::Fast(put_nowait)];
const GETS: &[Wrapper] = &[Wrapper::OfClass(get)];
const GETS_NOWAIT: &[Wrapper] = &[Wrapper::OfClass(get_nowait)];

/// From now on a thread that waits in `get` is seen when it returns.
///
/// # Errors
/// ImportError if the C module is missing; else as [`Method::take`].
pub fn take_waits(py: Python<'_>) -> PyResult<()> {
    let class = inviso_cpython::interpreter::standard::module(py, "_queue")?.getattr("SimpleQueue")?;
    // SAFETY: the wrapper has the kind of the method, and calls the original.
    unsafe { GET.take(&class, "get", GETS) }
}

fn begin(py: Python<'_>, _host: &'static Host) -> PyResult<()> {
    // by its own name: `queue` may be a module of the program
    let Ok(module) = inviso_cpython::interpreter::standard::module(py, "_queue") else { return Ok(()) };
    let class = module.getattr("SimpleQueue")?;
    if let Some(qsize) = method::plain(&class.getattr("__dict__")?.get_item("qsize")?, ffi::METH_NOARGS) {
        QSIZE.store(qsize as usize, Ordering::Release);
    }
    SEEN.store(true, Ordering::Relaxed);
    take_waits(py)?;
    // SAFETY: the wrappers below have the kinds of their methods, and call the originals.
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

/// The item of a call of put: its first argument, or the keyword argument `item`.
///
/// # Safety
/// The arguments are those of a method, as the interpreter passes them.
unsafe fn item(args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject) -> *mut PyObject {
    // SAFETY: the interpreter passes `count` values, then one for each name.
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
/// The queue stands; the thread is attached and has no exception set.
unsafe fn length(queue: *mut PyObject) -> Option<u64> {
    let qsize = QSIZE.load(Ordering::Acquire);
    if qsize == 0 {
        return None;
    }
    // SAFETY: a method of the queue's class that takes no arguments; it returns a new reference or null.
    unsafe {
        let answer = std::mem::transmute::<usize, Plain>(qsize)(queue, std::ptr::null_mut());
        let length = if answer.is_null() { -1 } else { ffi::PyLong_AsLongLong(answer) };
        ffi::Py_XDECREF(answer);
        u64::try_from(length).ok()
    }
}

/// Whether a session traces what the running process sends, or receives, or the queue matters otherwise. After this the
/// process is known.
///
/// # Safety
/// The queue stands; the thread is attached.
unsafe fn is_wanted(state: &mut ThreadState, queue: *mut PyObject, flag: Flags) -> bool {
    // SAFETY: the caller promises that the queue stands and the thread is attached.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        sent_values::is_asked(state, flag) || monitored(LimitEvent::LongMessageQueue) || senders::matter(state, queue)
    }
}

/// Reports an item that is about to be put in: no thread can take it before.
///
/// # Safety
/// `queue` stands throughout; `item` is null or stands throughout; the calling thread is attached.
unsafe fn emit_put(queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: methods are called attached; the state is not used beyond this function.
    unsafe {
        door::enter(|state| put_by(state, queue, item));
    }
}

/// # Safety
/// As [`emit_put`].
unsafe fn put_by(state: &mut ThreadState, queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: the caller promises that `queue` stands throughout, `item` is null or stands throughout, and the calling
    // thread is attached.
    unsafe {
        if let (false, Some(pools)) = (item.is_null(), pool_queues::in_use()) {
            if (pools.put)(state, queue, item) {
                return;
            }
        }
        if item.is_null()
            || !is_wanted(state, queue, Flags::SEND)
            || message_view::is_inner(Frame::current_python(tstate()))
        {
            return;
        }
        let number = message_view::queue(state, queue);
        let sent = message_view::sent_by_current(state, number, item);
        senders::put(state, queue, item, sent, None);
        lengths::of_queue(state, queue, number, 1, length);
    }
}

/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn put(
    this: *mut PyObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the contract of the method; the original gets the same arguments.
    unsafe {
        emit_put(this, item(args, count, names));
        PUT.original::<Fast>()(this, args, count, names)
    }
}

/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn put_nowait(
    this: *mut PyObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the contract of the method; the original gets the same arguments.
    unsafe {
        emit_put(this, item(args, count, names));
        PUT_NOWAIT.original::<Fast>()(this, args, count, names)
    }
}

/// Reports an item that was taken out, or that none came in time.
///
/// # Safety
/// `queue` stands throughout; `item` is null or stands throughout; the calling thread is attached.
#[inline(never)]
unsafe fn emit_get(queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: the caller promises that the queue stands, the item is null or stands, and the thread is attached. An
    // exception that is set is put aside and restored.
    unsafe {
        let nothing = item.is_null();
        if nothing {
            let error = ffi::PyErr_Occurred(); // its class
            let mut buffer = [0; 256];
            if error.is_null() || capture::type_name(error.cast(), &mut buffer) != "_queue.Empty" {
                return;
            }
        }
        door::enter(|state| got_by(state, queue, item));
    }
}

/// # Safety
/// As [`emit_get`].
unsafe fn got_by(state: &mut ThreadState, queue: *mut PyObject, item: *mut PyObject) {
    // SAFETY: the caller promises that `queue` stands throughout, `item` is null or stands throughout, and the calling
    // thread is attached.
    unsafe {
        let nothing = item.is_null();
        if let (false, Some(pools)) = (nothing, pool_queues::in_use()) {
            if (pools.taken)(state, queue, item) {
                return;
            }
        }
        if !is_wanted(state, queue, Flags::RECEIVE) || message_view::is_inner(Frame::current_python(tstate())) {
            return;
        }
        if nothing {
            message_view::timed_out(state);
            return;
        }
        let put = senders::take(state, queue, item, false);
        message_view::received_by_current(state, QueuedItem::origin(put.as_ref()), item);
        tokens::taken_from_queue(state, queue, put, item);
        if lengths::are_wanted() {
            let number = message_view::queue(state, queue);
            lengths::of_queue(state, queue, number, 0, length);
        }
    }
}

/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn get(
    this: *mut PyObject, class: *mut PyTypeObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the contract of the method; the original gets the same arguments.
    unsafe {
        let item = GET.original::<OfClass>()(this, class, args, count, names);
        if SEEN.load(Ordering::Relaxed) {
            emit_get(this, item);
        }
        item
    }
}

/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn get_nowait(
    this: *mut PyObject, class: *mut PyTypeObject, args: *const *mut PyObject, count: Py_ssize_t, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the contract of the method; the original gets the same arguments.
    unsafe {
        let item = GET_NOWAIT.original::<OfClass>()(this, class, args, count, names);
        emit_get(this, item);
        item
    }
}
