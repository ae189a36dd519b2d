//! `queue.Queue` and `asyncio.Queue`, and their kinds: a put is a message to the queue, a get takes one.
//!
//! What is watched are `_put` and `_get`, which each kind has of its own: they run while nobody else can touch the queue, so that
//! what is told is in the order of the queue. A class of the program's own that has others is found when it is first used.

use super::{
    here::Here,
    instruments::Instrument,
    lengths,
    passing::{self, Sender},
    senders,
    watch::{self, Ended, Handler},
    Host,
};
use crate::{
    capture::{self, Raised},
    ffi::frame::{CodeLayout, Frame},
};
use pyo3::{ffi, prelude::*, types::*};

/// Both kinds of queues.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.messages() || wants.watches(inviso_core::monitor::Event::LongMessageQueue),
    begin,
    |py, host| watch::remove(py, host, &[&PUT, &GET, &GET_LAST, &WAIT, &NEW]),
    |_| {},
);

/// `_put`.
pub static PUT: Handler = Handler { begin: Some(on_put), ..Handler::NONE };

/// `_get`.
pub static GET: Handler = Handler { end: Some(on_get), ..Handler::NONE };

/// `_get` of a queue whose newest item comes first.
pub static GET_LAST: Handler = Handler { end: Some(on_get_last), ..Handler::NONE };

/// `queue.Queue.get` and `asyncio.Queue.get_nowait`, which raise where nothing has come in time.
pub static WAIT: Handler = Handler { end: Some(on_nothing), raises_only: true, ..Handler::NONE };

/// `__init__`: a class of queues is used.
pub static NEW: Handler = Handler { begin: Some(on_new), ..Handler::NONE };

fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    for (module, wait) in [("queue", "get"), ("asyncio.queues", "get_nowait")] {
        let class = py.import(module)?.getattr("Queue")?;
        let code = |name: &str| class.getattr(name)?.getattr("__code__");
        watch::add(py, host, &WAIT, &[code(wait)?])?;
        watch::add(py, host, &NEW, &[code("__init__")?])?;
        learn_all(py, host, &class)?;
    }
    Ok(())
}

/// A class of queues and those that derive from it.
fn learn_all(py: Python<'_>, host: &Host, class: &Bound<'_, PyAny>) -> PyResult<()> {
    learn(py, host, class.as_ptr().cast())?;
    // a method of `type`: what the class itself may call so is not asked
    let derived = py.get_type::<PyType>().getattr("__subclasses__")?.call1((class,))?;
    for class in derived.cast_into::<PyList>()?.iter() {
        learn_all(py, host, &class)?;
    }
    Ok(())
}

/// The methods of a class of queues, its own or not.
fn learn(py: Python<'_>, host: &Host, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let takes_last = is_lifo(class);
    for (name, handler) in [("_put", &PUT), ("_get", if takes_last { &GET_LAST } else { &GET })] {
        // SAFETY: the class stands, and the token says that the thread is attached; the exact type of what is found is checked.
        unsafe {
            let method = capture::attribute_of_class(class, name);
            if !method.is_null() && ffi::PyFunction_Check(method.as_ptr()) != 0 {
                let code = Bound::from_borrowed_ptr(py, ffi::PyFunction_GetCode(method.as_ptr()));
                watch::add(py, host, handler, &[code])?;
            }
        }
    }
    Ok(())
}

/// Whether a class is one of the standard library's whose newest item comes first, or derives from one.
fn is_lifo(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: the order of a ready type is a tuple of types, which stand.
    unsafe {
        let order = (*class).tp_mro;
        let mut buffer = [0; 256];
        !order.is_null()
            && (0..ffi::PyTuple_GET_SIZE(order)).any(|n| {
                let name = capture::type_name(ffi::PyTuple_GET_ITEM(order, n).cast(), &mut buffer);
                matches!(name, "queue.LifoQueue" | "asyncio.queues.LifoQueue")
            })
    }
}

/// The queue of a method's frame.
fn queue_of(frame: Frame) -> *mut ffi::PyObject {
    // SAFETY: an event's frame, which has its first argument.
    unsafe { frame.argument(&CodeLayout::read(frame.code()), 0).as_ptr() }
}

/// Whether a method was called by that of a class that derives from its own: then that one has told, or will.
fn is_super(frame: Frame, queue: *mut ffi::PyObject) -> bool {
    let Some(caller) = watch::caller(frame) else { return false };
    // SAFETY: the caller's frame runs; what is watched is a method, which has a first argument.
    unsafe {
        watch::find(caller.code()).is_some_and(|watched| watched.has(&PUT) || watched.has(&GET) || watched.has(&GET_LAST))
            && queue_of(caller) == queue
    }
}

fn on_put(here: &mut Here, frame: Frame) {
    // SAFETY: the event's frame, of a method with an item; its arguments stand as long as it runs.
    unsafe {
        let layout = CodeLayout::read(frame.code());
        let queue = frame.argument(&layout, 0);
        if layout.arity() < 2 || is_super(frame, queue.as_ptr()) {
            return;
        }
        let item = frame.argument(&layout, 1);
        if item.is_null() {
            return;
        }
        let number = passing::queue(here, queue.as_ptr());
        passing::sent(here, number, item.as_ptr());
        senders::put(here, queue.as_ptr(), number, item.as_ptr());
        lengths::of_queue(here, queue.as_ptr(), number, 1);
    }
}

fn on_get(here: &mut Here, frame: Frame, how: Ended) {
    take(here, frame, how, false);
}

fn on_get_last(here: &mut Here, frame: Frame, how: Ended) {
    take(here, frame, how, true);
}

fn take(here: &mut Here, frame: Frame, how: Ended, last: bool) {
    let Ended::Returned(item) = how else { return };
    // SAFETY: the event's frame still stands, and so does what it returns.
    unsafe {
        let queue = queue_of(frame);
        if queue.is_null() || is_super(frame, queue) {
            return;
        }
        let number = passing::queue(here, queue);
        let sender = senders::take(here, number, item, last).map_or(Sender::Unknown, Sender::Process);
        passing::received(here, sender, item);
        lengths::of_queue(here, queue, number, 0);
    }
}

fn on_nothing(here: &mut Here, _frame: Frame, how: Ended) {
    let Some(error) = how.error() else { return };
    if is_empty(error) {
        passing::timed_out(here);
    }
}

/// Whether an exception says that nothing was there.
fn is_empty(error: Raised) -> bool {
    let mut buffer = [0; 256];
    // SAFETY: the exception is held by who raises it; attached.
    let name = unsafe { error.type_name(&mut buffer) };
    matches!(name, "_queue.Empty" | "queue.Empty" | "asyncio.queues.QueueEmpty")
}

/// A queue is made: if its class has methods of its own, they are watched from now on.
fn on_new(here: &mut Here, frame: Frame) {
    let was = std::mem::replace(&mut here.thread.busy, true);
    Python::attach(|py| {
        let queue = queue_of(frame);
        if !queue.is_null() {
            // SAFETY: the argument stands while the frame runs.
            let class = unsafe { ffi::Py_TYPE(queue) };
            if let Err(error) = learn(py, here.host, class) {
                error.write_unraisable(py, None);
            }
        }
    });
    here.thread.busy = was;
}
