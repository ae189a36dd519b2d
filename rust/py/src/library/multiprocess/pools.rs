//! Pools of `multiprocessing`, asked to do something with each of many items: `map`, `starmap`, `imap`,
//! `imap_unordered`.
//!
//! The call of the method is one message to the pool, with the function's name and the items. The pool makes pieces of
//! it, and gives each the token of the call. The result of a piece is one message to the caller. It arrives when the
//! pool passes it on. Its token is received with the items, in their order; a piece that waits for an earlier one keeps
//! its token as long.
//!
//! Between processes a token stands after a task's pickle (see [`pickles`]). In a pool of threads the task goes through
//! a queue, and the token beside it.
//!
//! # Roles
//! The program's threads call a pool's methods; threads of the library pass tasks and results on. All of them are
//! attached.
//!
//! # States
//! A result's `Pieces` exist from the call on. The statics are 0, or the address of an object that is kept for ever.
//!
//! # Orderings
//! The mutex of a result orders its pieces. An address is stored `Release` after the object has been kept, and loaded
//! `Acquire`.
//!
//! # Checked by
//! `tests/python/test_seq_multiprocess.py`, `tests/python/test_multiprocess.py`.

use super::calls;
use crate::{
    instrument::{message_view, modules, senders, sent_values, tokens},
    library::{
        pool_queues::{self, PoolQueues},
        results::{self, emit, outcome, record},
    },
    state::{
        host::Host,
        instrument::{Ended, Handler},
        origin::Sender,
        pieces::Pieces,
        process,
        senders::QueuedItem,
        thread::ThreadState,
        untraced,
    },
};
use inviso_core::host::{messages::About, seq::Carried, sync::Unpoisoned, tracee::Tracee};
use inviso_cpython::{capture, frames::frame::Frame, interpreter::generic::attribute, object::held::Held};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    mem::take,
    sync::{
        atomic::{AtomicUsize, Ordering},
        MutexGuard,
    },
};

/// `__init__` of the objects by which a program waits for many results.
pub static ASK: Handler = Handler { begin: Some(on_ask), ..Handler::NONE };

/// `MapResult._set`: a chunk of results has come.
pub static CHUNK: Handler = Handler { begin: Some(on_chunk), ..Handler::NONE };

/// `_set` of iterators: an item has come, or a chunk.
pub static ITEM: Handler = Handler { begin: Some(on_item), ..Handler::NONE };

/// `IMapIterator.next`.
pub static NEXT: Handler = Handler { end: Some(on_next), ..Handler::NONE };

fn pieces(result: &Tracee) -> MutexGuard<'_, Option<Box<Pieces>>> {
    process::process(result).pieces.lock().unpoisoned()
}

/// The token that a piece of this call goes out with; `None` for any other call.
pub fn call_of(result: &Tracee) -> Option<Carried> {
    pieces(result).as_ref().map(|pieces| pieces.call.clone())
}

/// The token after all results of this call are taken; `None` for any other call, or if no result had one.
pub fn last_of(result: &Tracee) -> Option<Carried> {
    pieces(result).as_ref()?.came.values().next_back().cloned()
}

/// The token that a pool's task goes out with, and its call; `None` if the call is not known or has no token.
///
/// # Safety
/// The frame is that of `Pool._handle_tasks`, which runs; the thread is attached and has no exception set.
pub unsafe fn task(state: &mut ThreadState, task: &Bound<'_, PyAny>, tasks: Frame) -> Option<(Carried, u64)> {
    let number = task.cast_exact::<PyTuple>().ok()?.get_item(0).ok()?;
    // SAFETY: the caller promises that the frame is that of `Pool._handle_tasks`, which runs, and the thread is
    // attached and has no exception set; it is the fifth parameter, which the function never assigns to.
    let cache = unsafe { Bound::from_borrowed_ptr_or_opt(task.py(), tasks.local(4)) }?;
    let result = cache.cast::<PyDict>().ok()?.get_item(number).ok()??;
    let record = state.host.directory.known(result.as_ptr() as usize)?;
    let carried = call_of(&record).or_else(|| tokens::kept_by(&record))?;
    Some((carried, record.pid))
}

/// An item is put into a queue. Whether it is a queue of a pool of threads, where tokens go from task to task.
///
/// # Safety
/// Queue and item stand; the thread is attached and has no exception set.
pub unsafe fn put_among_threads(state: &mut ThreadState, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that queue and item stand, and the thread is attached and has no exception set; the
    // frame runs.
    unsafe {
        let Some(frame) = library(state) else { return false };
        let carried = if calls::is(frame, "worker") {
            state.running.identify(state.host, &mut state.thread);
            let to = message_view::queue(state, queue);
            let message = told_as(state, item);
            let write = tokens::writing(message.as_ptr());
            let sent = state.host.node.seq_send(&mut state.thread, About::Current, to, write);
            // the token was the task's, and not the thread's own
            let write = tokens::writing(message.as_ptr());
            state.host.node.seq_receive(&mut state.thread, About::Current, Carried::Empty, write);
            sent
        } else if calls::is(frame, "Pool._handle_tasks") {
            let found = untraced::untraced(state, |py, state| task(state, &Bound::from_borrowed_ptr(py, item), frame));
            found.map_or(Carried::Empty, |(carried, _)| carried)
        } else {
            return false;
        };
        if let Carried::Token(..) = carried {
            let sender = state.thread.current().pid;
            let queue = record(state, queue);
            senders::leave(
                Python::assume_attached(),
                &queue,
                item,
                QueuedItem { sender, number: 0, carried: Some(carried) },
            );
        }
        true
    }
}

/// An item was taken out of a queue. Whether it is a queue of a pool of threads.
///
/// # Safety
/// As [`put_among_threads`].
pub unsafe fn taken_among_threads(
    state: &mut ThreadState, queue: *mut ffi::PyObject, item: *mut ffi::PyObject,
) -> bool {
    // SAFETY: the caller promises that queue and item stand, and the thread is attached and has no exception set; the
    // frame runs.
    unsafe {
        let Some(frame) = library(state) else { return false };
        let works = calls::is(frame, "worker");
        if !works && !calls::is(frame, "Pool._handle_results") {
            return false;
        }
        let put = state
            .host
            .directory
            .known(queue as usize)
            .and_then(|queue| senders::pick(Python::assume_attached(), &queue, item));
        let carried = put.and_then(|put| put.carried).unwrap_or(Carried::Empty);
        if works {
            state.running.identify(state.host, &mut state.thread);
            let message = tokens::message_for(state, &carried, |state| told_as(state, item));
            let write = tokens::writing(message.as_ptr());
            state.host.node.seq_receive(&mut state.thread, About::Current, carried, write);
        } else {
            results::leave_token(carried);
        }
        true
    }
}

/// The message of an item between a pool and its workers, as the program knows it: a call, its value or its exception,
/// without the pool's numbers for it; a piece of a `map` as the `map` of these items. Any other item is its own
/// message.
///
/// # Safety
/// The item stands; the thread is attached and has no exception set.
pub unsafe fn told_as(state: &mut ThreadState, item: *mut ffi::PyObject) -> Held {
    untraced::build_untraced(state, |py| {
        // SAFETY: the caller promises that the item stands and the thread is attached and has no exception set.
        let item = unsafe { Bound::from_borrowed_ptr(py, item) };
        // SAFETY: the item holds its parts.
        unsafe { call_or_result(&item) }.or(Some(item))
    })
}

/// # Safety
/// As [`told_as`].
unsafe fn call_or_result<'py>(item: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let (py, parts) = (item.py(), item.cast_exact::<PyTuple>().ok()?);
    let part = |n| parts.get_item(n).ok();
    // SAFETY: the caller promises that the item stands; the methods are kept for ever.
    unsafe {
        match parts.len() {
            3 => {
                let result = part(2)?.cast_into_exact::<PyTuple>().ok()?;
                let (went_well, value) = result.extract::<(bool, Bound<'py, PyAny>)>().ok()?;
                if went_well {
                    return Some(value);
                }
                let inside = attribute(py, value.as_ptr(), "exc");
                sent_values::of_exception(py, inside.unwrap_or(value).as_ptr()).ok()
            }
            5 => {
                let (function, args, keywords) = (part(2)?, part(3)?, part(4)?);
                let is = |word: &AtomicUsize| word.load(Ordering::Acquire) == function.as_ptr() as usize;
                let method = match (is(&MAPSTAR), is(&STARMAPSTAR)) {
                    (true, _) => &MAP,
                    (_, true) => &STARMAP,
                    _ => return calls::call(py, function.as_ptr(), args.as_ptr(), keywords.as_ptr()),
                };
                let ((mapped, items),) = args.extract::<((Bound<'py, PyAny>, Bound<'py, PyAny>),)>().ok()?;
                let arguments = PyTuple::new(py, [sent_values::name_of(py, mapped.as_ptr()).ok()?, items]).ok()?;
                let method = method.load(Ordering::Acquire) as *mut ffi::PyObject;
                sent_values::of_call(py, method, arguments.as_ptr(), std::ptr::null_mut()).ok()
            }
            _ => None,
        }
    }
}

/// The running frame, if it is the library's and tokens are in use.
///
/// # Safety
/// The thread is attached.
unsafe fn library(state: &ThreadState) -> Option<Frame> {
    if !state.host.node.seq_in_use() {
        return None;
    }
    // SAFETY: the thread is attached.
    unsafe {
        Frame::current_python(inviso_cpython::interpreter::tstate()).filter(|frame| message_view::is_library(*frame))
    }
}

/// The methods by which such calls are shown, and the codes that make them.
static MAP: AtomicUsize = AtomicUsize::new(0);
static STARMAP: AtomicUsize = AtomicUsize::new(0);
static IMAP: AtomicUsize = AtomicUsize::new(0);
static IMAP_UNORDERED: AtomicUsize = AtomicUsize::new(0);
static MAP_CODE: AtomicUsize = AtomicUsize::new(0);
static IMAP_CODE: AtomicUsize = AtomicUsize::new(0);
static IMAP_UNORDERED_CODE: AtomicUsize = AtomicUsize::new(0);
/// The functions that run a chunk of `map`, and of `starmap`.
static MAPSTAR: AtomicUsize = AtomicUsize::new(0);
static STARMAPSTAR: AtomicUsize = AtomicUsize::new(0);
/// The index of the variable of `IMapIterator.next` that has the item.
static VALUE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Watches the functions of the module `multiprocessing.pool`.
///
/// # Errors
/// The error of looking up a function that is not as expected.
pub fn adopt(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let pool = module.getattr("Pool")?;
    let codes = [
        (&MAP_CODE, "Pool._map_async", &["self", "func", "iterable", "mapper"][..]),
        (&IMAP_CODE, "Pool.imap", &["self", "func", "iterable"]),
        (&IMAP_UNORDERED_CODE, "Pool.imap_unordered", &["self", "func", "iterable"]),
    ];
    for (word, path, parameters) in codes {
        modules::keep(word, modules::code(module, path, parameters)?);
    }
    for (word, name) in [(&MAP, "map"), (&STARMAP, "starmap"), (&IMAP, "imap"), (&IMAP_UNORDERED, "imap_unordered")] {
        modules::keep(word, pool.getattr(name)?);
    }
    modules::keep(&MAPSTAR, module.getattr("mapstar")?);
    modules::keep(&STARMAPSTAR, module.getattr("starmapstar")?);
    let next = &["self", "timeout"];
    let names: Vec<String> = modules::code(module, "IMapIterator.next", next)?.getattr("co_varnames")?.extract()?;
    VALUE.store(names.iter().position(|name| name == "value").unwrap_or(usize::MAX), Ordering::Release);
    let set = &["self", "i", "obj"];
    modules::watch_all(
        py,
        host,
        module,
        &[
            ("MapResult.__init__", &["self", "pool"], &ASK),
            ("IMapIterator.__init__", &["self", "pool"], &ASK),
            ("MapResult._set", &["self", "i", "success_result"], &CHUNK),
            ("IMapIterator._set", set, &ITEM),
            ("IMapUnorderedIterator._set", set, &ITEM),
            ("IMapIterator.next", next, &NEXT),
        ],
    )
}

/// The method that makes this call, by its frame; null for any other frame.
///
/// # Safety
/// The frame runs.
unsafe fn method(asks: Frame) -> *mut ffi::PyObject {
    let kept = |word: &AtomicUsize| word.load(Ordering::Acquire);
    // SAFETY: the caller promises that the frame runs; its code is known to have these parameters.
    let (code, mapper) = unsafe {
        let code = asks.code() as usize;
        (code, if code == kept(&MAP_CODE) { asks.local(3) as usize } else { 0 })
    };
    let method = match code {
        code if code == kept(&MAP_CODE) && mapper == kept(&STARMAPSTAR) => &STARMAP,
        code if code == kept(&MAP_CODE) => &MAP,
        code if code == kept(&IMAP_CODE) => &IMAP,
        code if code == kept(&IMAP_UNORDERED_CODE) => &IMAP_UNORDERED,
        _ => return std::ptr::null_mut(),
    };
    kept(method) as *mut ffi::PyObject
}

/// A pool is called.
fn on_ask(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the event's frame begins; its caller runs, and still has its parameters.
    unsafe {
        let Some(caller) = message_view::caller(frame) else { return };
        let (method, result) = (method(caller), frame.local(0));
        let [pool, function, items] = [0, 1, 2].map(|n| caller.local(n));
        if [method, result, pool, function, items].contains(&std::ptr::null_mut()) {
            return;
        }
        let result = calls::ask(
            state,
            pool,
            result,
            |py| {
                let function = sent_values::name_of(py, function).ok()?;
                let arguments = PyTuple::new(py, [function, Bound::from_borrowed_ptr(py, items)]).ok()?;
                sent_values::of_call(py, method, arguments.as_ptr(), std::ptr::null_mut()).ok()
            },
            asked,
        );
        let Some(result) = result else { return };
        let call = tokens::kept_by(&result).unwrap_or_default();
        let unordered = method as usize == IMAP_UNORDERED.load(Ordering::Acquire);
        *pieces(&result) = Some(Box::new(Pieces { call, unordered, ..Pieces::default() }));
    }
}

/// A chunk of results comes.
fn on_chunk(state: &mut ThreadState, frame: Frame) {
    let left = untraced::build_untraced(state, |py| {
        // SAFETY: the event's frame begins, and holds its parameters; the thread is attached.
        unsafe { attribute(py, frame.local(0), "_number_left") }
    });
    // SAFETY: held; `number` checks the type.
    let is_last = !left.is_null() && unsafe { number(left.as_ptr()) } == Some(1);
    piece(state, frame, is_last);
}

/// An item of an iterator comes.
fn on_item(state: &mut ThreadState, frame: Frame) {
    piece(state, frame, false);
}

/// # Safety
/// The object stands; the thread is attached and has no exception set.
unsafe fn number(object: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: the caller promises that the object stands; the type is checked.
    unsafe {
        if ffi::PyLong_CheckExact(object) == 0 {
            return None;
        }
        let number = ffi::PyLong_AsLongLong(object);
        ffi::PyErr_Clear();
        u64::try_from(number).ok()
    }
}

/// A piece comes, with its place and a pair: whether it went well, and the value or exception.
fn piece(state: &mut ThreadState, frame: Frame, is_last: bool) {
    // SAFETY: the event's frame begins, so it has its parameters; the type is checked before items are read.
    unsafe {
        let [result, place, pair] = [0, 1, 2].map(|n| frame.local(n));
        let Some(result) = state.host.directory.known(result as usize) else { return };
        if place.is_null() || pair.is_null() || ffi::PyTuple_Check(pair) == 0 || ffi::PyTuple_GET_SIZE(pair) != 2 {
            return;
        }
        {
            let mut pieces = pieces(&result);
            let Some(pieces) = pieces.as_mut() else { return };
            let place = if pieces.unordered { Some(pieces.arrived) } else { number(place) };
            pieces.arrived += 1;
            if let (Some(place), Some(carried)) = (place, results::waiting_token()) {
                pieces.came.insert(place, carried);
            }
        }
        state.running.identify(state.host, &mut state.thread);
        let asker = results::living(state, outcome(&result).reply_to);
        if is_last {
            outcome(&result).is_set = true;
        }
        if let Some(asker) = asker.filter(|asker| sent_values::is_asked_of(state, asker)) {
            let is_error = ffi::PyTuple_GET_ITEM(pair, 0) != ffi::Py_True();
            emit(state, ffi::PyTuple_GET_ITEM(pair, 1), is_error, |state, message| {
                message_view::arrived(state.host, &mut state.thread, &asker, Sender::Unknown, message);
            });
        }
    }
}

/// An item is taken from an iterator, or the time is over.
fn on_next(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the event's frame ends, and its value or exception is held; its variables stand.
    unsafe {
        let Some(result) = state.host.directory.known(frame.local(0) as usize) else { return };
        if let Ended::Raised(error) = how {
            let value = VALUE.load(Ordering::Acquire);
            if value == usize::MAX || frame.local(value) != error.object() {
                let mut name = [0; 256];
                let class = capture::type_name(ffi::Py_TYPE(error.object()), &mut name);
                if class == "multiprocessing.context.TimeoutError"
                    && !message_view::is_inner(message_view::caller(frame))
                {
                    message_view::timed_out(state);
                }
                return;
            }
        }
        let carried = {
            let mut pieces = pieces(&result);
            let Some(pieces) = pieces.as_mut() else { return };
            pieces.taken += 1;
            pieces.came.remove(&(pieces.taken - 1))
        };
        if let Some(carried) = carried {
            take_piece(state, carried, how, |value| {
                ffi::Py_INCREF(value);
                Held::owned(value)
            });
        }
    }
}

/// `get` takes all pieces. False for any other result.
///
/// # Safety
/// The frame is that of `get`, which ends; its value or exception is held; the thread is attached.
pub unsafe fn take_all(state: &mut ThreadState, result: &Tracee, frame: Frame, how: Ended) -> bool {
    let came = match pieces(result).as_mut() {
        Some(pieces) => take(&mut pieces.came),
        None => return false,
    };
    // SAFETY: the caller promises that the frame is that of `get`, which ends, its value or exception is held, and the
    // thread is attached.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let size = untraced::build_untraced(state, |py| attribute(py, frame.local(0), "_chunksize"));
        let size = if size.is_null() { None } else { number(size.as_ptr()) }.unwrap_or(1);
        for (place, carried) in came {
            let range = (place * size) as isize..((place + 1) * size) as isize;
            take_piece(state, carried, how, |all| {
                let is_list = ffi::PyList_CheckExact(all) != 0;
                Held::owned(if is_list {
                    ffi::PyList_GetSlice(all, range.start, range.end)
                } else {
                    std::ptr::null_mut()
                })
            });
        }
    }
    true
}

/// The running process receives a piece. `of` makes the message from the value, a new reference.
///
/// # Safety
/// The value or exception is held; the thread is attached and has no exception set but the one that ends the event.
unsafe fn take_piece(
    state: &mut ThreadState, carried: Carried, how: Ended, of: impl FnOnce(*mut ffi::PyObject) -> Held,
) {
    // SAFETY: the caller promises that the value or exception is held and the thread is attached and has no exception
    // set but the one that ends the event.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        let message = tokens::message_for(state, &carried, |state| match how {
            Ended::Returned(value) => untraced::untraced(state, |_, _| of(value)),
            Ended::Raised(error) => {
                untraced::build_untraced(state, |py| sent_values::of_exception(py, error.object()).ok())
            }
        });
        let write = tokens::writing(message.as_ptr());
        state.host.node.seq_receive(&mut state.thread, About::Current, carried, write);
    }
}

/// What pools of threads do at queues.
static QUEUES: PoolQueues = PoolQueues { put: put_among_threads, taken: taken_among_threads };

/// A pool is called.
///
/// # Safety
/// The pool stands; the thread is attached and has no exception set.
pub unsafe fn asked(state: &mut ThreadState, pool: *mut ffi::PyObject) {
    if pool_queues::in_use().is_some() || !state.host.node.seq_in_use() {
        return;
    }
    // SAFETY: the caller promises that the pool stands and the thread is attached and has no exception set.
    let tasks = untraced::build_untraced(state, |py| unsafe { attribute(py, pool, "_inqueue") });
    let mut name = [0; 256];
    // SAFETY: null or held.
    let class = unsafe { tasks.as_ptr().as_ref().map(|tasks| capture::type_name(tasks.ob_type, &mut name)) };
    if class == Some("_queue.SimpleQueue") {
        pool_queues::begin(&QUEUES);
    }
}
