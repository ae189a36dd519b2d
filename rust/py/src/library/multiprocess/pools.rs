//! What a pool of `multiprocessing` is asked to do with each of many items: `map`, `starmap`, `imap`, `imap_unordered`.
//!
//! The call of the method is one message to the pool, with the function's name and the items. The pool makes pieces of it, and gives each the token that the call went
//! with. What a piece comes to is one message to who asked: it arrives when the pool hands it on, and its token is taken with the
//! items, in their order; one that waits for an earlier piece waits with it.
//!
//! Between processes a token stands behind a task's pickle (see [`pickles`]); in a pool of threads the task goes through a queue,
//! and the token beside it.

use super::pickles;
use crate::{
    host::Host,
    instrument::{
        modules, parcels,
        passing::{self, Sender},
        senders::{self, Put},
        tokens,
        watch::{Ended, Handler},
    },
    library::{
        futures::{self, outcome, record, tell},
        multiprocess,
    },
    processes::{process, spawning::attribute},
    thread::here::Here,
};
use inviso_core::{messages::About, node::Node, seq::Carried, tracee::Tracee};
use inviso_cpython::{capture, frames::frame::Frame, object::held::Held};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    collections::BTreeMap,
    mem::take,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        MutexGuard,
    },
};

/// `__init__` of what a program waits by for many results.
pub static ASK: Handler = Handler { begin: Some(on_ask), ..Handler::NONE };

/// `MapResult._set`: a chunk of results has come.
pub static CHUNK: Handler = Handler { begin: Some(on_chunk), ..Handler::NONE };

/// `_set` of iterators: an item has come, or a chunk.
pub static ITEM: Handler = Handler { begin: Some(on_item), ..Handler::NONE };

/// `IMapIterator.next`.
pub static NEXT: Handler = Handler { end: Some(on_next), ..Handler::NONE };

/// What is known of such a call.
#[derive(Default)]
pub struct Pieces {
    /// What each piece goes out with.
    call: Carried,
    /// What came with the results that have not been taken, by their place.
    came: BTreeMap<u64, Carried>,
    /// Whether results have their places as they come.
    unordered: bool,
    /// How many have come, and how many were taken.
    arrived: u64,
    taken: u64,
}

fn pieces(result: &Tracee) -> MutexGuard<'_, Option<Box<Pieces>>> {
    process::process(result).pieces.lock().unwrap_or_else(|e| e.into_inner())
}

/// What a piece of this call goes out with; `None` if it is no such call.
pub fn call_of(result: &Tracee) -> Option<Carried> {
    pieces(result).as_ref().map(|pieces| pieces.call.clone())
}

/// What who takes all results of this call has then; `None` if it is no such call, or nothing came with them.
pub fn last_of(result: &Tracee) -> Option<Carried> {
    pieces(result).as_ref()?.came.values().next_back().cloned()
}

/// Tokens were reset: lets go of those of before.
pub fn empty(node: &Node, result: &Tracee) {
    if let Some(pieces) = pieces(result).as_deref_mut() {
        node.seq_empty(&mut pieces.call);
        pieces.came.values_mut().for_each(|carried| node.seq_empty(carried));
    }
}

/// What a task of a pool goes out with, and the call that it is of: `None` where that is not known or has nothing.
///
/// # Safety
/// The frame is that of `Pool._handle_tasks`, which runs; attached, with no exception set.
pub unsafe fn task(here: &mut Here, task: &Bound<'_, PyAny>, tasks: Frame) -> Option<(Carried, u64)> {
    let number = task.cast_exact::<PyTuple>().ok()?.get_item(0).ok()?;
    // SAFETY: the caller's promise; the fifth parameter, never assigned to.
    let cache = unsafe { Bound::from_borrowed_ptr_or_opt(task.py(), tasks.local(4)) }?;
    let result = cache.cast::<PyDict>().ok()?.get_item(number).ok()??;
    let record = here.host.directory.known(result.as_ptr() as usize)?;
    let carried = call_of(&record).or_else(|| tokens::kept_by(&record))?;
    Some((carried, record.pid))
}

/// Whether a pool of threads was asked for something while tokens were in use: tasks and results go through queues there.
static OF_THREADS: AtomicBool = AtomicBool::new(false);

/// A first look.
#[inline(always)]
pub fn of_threads() -> bool {
    OF_THREADS.load(Ordering::Relaxed)
}

/// Nobody looks at queues for the sake of pools any more.
pub fn forget() {
    OF_THREADS.store(false, Ordering::Release);
}

/// A pool is asked for something.
///
/// # Safety
/// The pool stands; attached, no exception is set.
pub unsafe fn asked(here: &mut Here, pool: *mut ffi::PyObject) {
    if of_threads() || !here.host.node.seq_in_use() {
        return;
    }
    // SAFETY: the caller's promise.
    let tasks = parcels::made(here, |py| unsafe { attribute(py, pool, "_inqueue") });
    let mut name = [0; 256];
    // SAFETY: null or held.
    let class = unsafe { tasks.as_ptr().as_ref().map(|tasks| capture::type_name(tasks.ob_type, &mut name)) };
    if class == Some("_queue.SimpleQueue") {
        OF_THREADS.store(true, Ordering::Release);
    }
}

/// Something is put into a queue; whether that is one of a pool of threads, in which tokens go from task to task.
///
/// # Safety
/// Both stand; attached, no exception is set.
pub unsafe fn put_among_threads(here: &mut Here, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller's promise; a frame that runs.
    unsafe {
        let Some(frame) = library(here) else { return false };
        let carried = if pickles::is(frame, "worker") {
            here.running.identify(here.host, &mut here.thread);
            let to = passing::queue(here, queue);
            let message = told_as(here, item);
            let write = tokens::writing(message.as_ptr());
            let sent = here.host.node.seq_send(&mut here.thread, About::Current, to, write);
            // the token was the task's, and none of the thread's own
            let write = tokens::writing(message.as_ptr());
            here.host.node.seq_receive(&mut here.thread, About::Current, Carried::Empty, write);
            sent
        } else if pickles::is(frame, "Pool._handle_tasks") {
            let found = parcels::quietly(here, |py, here| task(here, &Bound::from_borrowed_ptr(py, item), frame));
            found.map_or(Carried::Empty, |(carried, _)| carried)
        } else {
            return false;
        };
        if let Carried::Token(..) = carried {
            let sender = here.thread.current().pid;
            let queue = record(here, queue);
            senders::leave(Python::assume_attached(), &queue, item, Put { sender, number: 0, carried: Some(carried) });
        }
        true
    }
}

/// Something was taken out of a queue; whether that is one of a pool of threads.
///
/// # Safety
/// As [`put_among_threads`].
pub unsafe fn taken_among_threads(here: &mut Here, queue: *mut ffi::PyObject, item: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller's promise; a frame that runs.
    unsafe {
        let Some(frame) = library(here) else { return false };
        let works = pickles::is(frame, "worker");
        if !works && !pickles::is(frame, "Pool._handle_results") {
            return false;
        }
        let put = here
            .host
            .directory
            .known(queue as usize)
            .and_then(|queue| senders::pick(Python::assume_attached(), &queue, item));
        let carried = put.and_then(|put| put.carried).unwrap_or(Carried::Empty);
        if works {
            here.running.identify(here.host, &mut here.thread);
            let message = tokens::message_for(here, &carried, |here| told_as(here, item));
            let write = tokens::writing(message.as_ptr());
            here.host.node.seq_receive(&mut here.thread, About::Current, carried, write);
        } else {
            pickles::leave(carried);
        }
        true
    }
}

/// What passes between a pool and its workers, as it is told where it was asked for: a call or its value or exception, without the
/// numbers by which the pool knows it; a piece of a `map` as the `map` of these items. Anything else is told as it is.
///
/// # Safety
/// The item stands; attached, no exception is set.
pub unsafe fn told_as(here: &mut Here, item: *mut ffi::PyObject) -> Held {
    parcels::made(here, |py| {
        // SAFETY: the caller's promise.
        let item = unsafe { Bound::from_borrowed_ptr(py, item) };
        // SAFETY: parts of it; held by it.
        unsafe { call_or_result(&item) }.or(Some(item))
    })
}

/// # Safety
/// As [`told_as`].
unsafe fn call_or_result<'py>(item: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let (py, parts) = (item.py(), item.cast_exact::<PyTuple>().ok()?);
    let part = |n| parts.get_item(n).ok();
    // SAFETY: the caller's promise; methods are kept for ever.
    unsafe {
        match parts.len() {
            3 => {
                let result = part(2)?.cast_into_exact::<PyTuple>().ok()?;
                let (went_well, value) = result.extract::<(bool, Bound<'py, PyAny>)>().ok()?;
                if went_well {
                    return Some(value);
                }
                let inside = attribute(py, value.as_ptr(), "exc");
                parcels::of_exception(py, inside.unwrap_or(value).as_ptr()).ok()
            }
            5 => {
                let (function, args, keywords) = (part(2)?, part(3)?, part(4)?);
                let is = |word: &AtomicUsize| word.load(Ordering::Acquire) == function.as_ptr() as usize;
                let method = match (is(&MAPSTAR), is(&STARMAPSTAR)) {
                    (true, _) => &MAP,
                    (_, true) => &STARMAP,
                    _ => return multiprocess::call(py, function.as_ptr(), args.as_ptr(), keywords.as_ptr()),
                };
                let ((mapped, items),) = args.extract::<((Bound<'py, PyAny>, Bound<'py, PyAny>),)>().ok()?;
                let arguments = PyTuple::new(py, [parcels::name_of(py, mapped.as_ptr()).ok()?, items]).ok()?;
                let method = method.load(Ordering::Acquire) as *mut ffi::PyObject;
                parcels::of_call(py, method, arguments.as_ptr(), std::ptr::null_mut()).ok()
            }
            _ => None,
        }
    }
}

/// The running frame, if it is one of the library's and tokens are in use.
///
/// # Safety
/// Attached.
unsafe fn library(here: &Here) -> Option<Frame> {
    if !here.host.node.seq_in_use() {
        return None;
    }
    // SAFETY: attached.
    unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()).filter(|frame| passing::is_library(*frame)) }
}

/// The methods that such calls are told as, and the codes in which they are asked for.
static MAP: AtomicUsize = AtomicUsize::new(0);
static STARMAP: AtomicUsize = AtomicUsize::new(0);
static IMAP: AtomicUsize = AtomicUsize::new(0);
static IMAP_UNORDERED: AtomicUsize = AtomicUsize::new(0);
static MAP_CODE: AtomicUsize = AtomicUsize::new(0);
static IMAP_CODE: AtomicUsize = AtomicUsize::new(0);
static IMAP_UNORDERED_CODE: AtomicUsize = AtomicUsize::new(0);
/// What runs a chunk of `map`, and of `starmap`.
static MAPSTAR: AtomicUsize = AtomicUsize::new(0);
static STARMAPSTAR: AtomicUsize = AtomicUsize::new(0);
/// Which variable of `IMapIterator.next` has the item.
static VALUE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Watches them, in the module `multiprocessing.pool`.
///
/// # Errors
/// What something was found by that is not as it is known.
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

/// The method that asks for this by its frame; null if none does.
///
/// # Safety
/// The frame runs.
unsafe fn method(asks: Frame) -> *mut ffi::PyObject {
    let kept = |word: &AtomicUsize| word.load(Ordering::Acquire);
    // SAFETY: the caller's promise; parameters of functions that are known.
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

/// A pool is asked.
fn on_ask(here: &mut Here, frame: Frame) {
    // SAFETY: the event's frame begins; its caller runs, and has its parameters still.
    unsafe {
        let Some(caller) = passing::caller(frame) else { return };
        let (method, result) = (method(caller), frame.local(0));
        let [pool, function, items] = [0, 1, 2].map(|n| caller.local(n));
        if [method, result, pool, function, items].contains(&std::ptr::null_mut()) {
            return;
        }
        let result = multiprocess::ask(here, pool, result, |py| {
            let function = parcels::name_of(py, function).ok()?;
            let arguments = PyTuple::new(py, [function, Bound::from_borrowed_ptr(py, items)]).ok()?;
            parcels::of_call(py, method, arguments.as_ptr(), std::ptr::null_mut()).ok()
        });
        let Some(result) = result else { return };
        let call = tokens::kept_by(&result).unwrap_or_default();
        let unordered = method as usize == IMAP_UNORDERED.load(Ordering::Acquire);
        *pieces(&result) = Some(Box::new(Pieces { call, unordered, ..Pieces::default() }));
    }
}

/// A chunk of results comes.
fn on_chunk(here: &mut Here, frame: Frame) {
    let left = parcels::made(here, |py| {
        // SAFETY: the event's frame begins, and holds its parameters; attached.
        unsafe { attribute(py, frame.local(0), "_number_left") }
    });
    // SAFETY: held; null or an int, or what a number can't be had of.
    let is_last = !left.is_null() && unsafe { number(left.as_ptr()) } == Some(1);
    piece(here, frame, is_last);
}

/// An item of an iterator comes.
fn on_item(here: &mut Here, frame: Frame) {
    piece(here, frame, false);
}

/// # Safety
/// The object stands; attached, no exception is set.
unsafe fn number(object: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: the caller's promise; the type is checked.
    unsafe {
        if ffi::PyLong_CheckExact(object) == 0 {
            return None;
        }
        let number = ffi::PyLong_AsLongLong(object);
        ffi::PyErr_Clear();
        u64::try_from(number).ok()
    }
}

/// A piece comes: its place, and whether it went well with the value or exception.
fn piece(here: &mut Here, frame: Frame, is_last: bool) {
    // SAFETY: the event's frame begins, and holds its parameters; the type is checked before items are read.
    unsafe {
        let [result, place, pair] = [0, 1, 2].map(|n| frame.local(n));
        let Some(result) = here.host.directory.known(result as usize) else { return };
        if place.is_null() || pair.is_null() || ffi::PyTuple_Check(pair) == 0 || ffi::PyTuple_GET_SIZE(pair) != 2 {
            return;
        }
        {
            let mut pieces = pieces(&result);
            let Some(pieces) = pieces.as_mut() else { return };
            let place = if pieces.unordered { Some(pieces.arrived) } else { number(place) };
            pieces.arrived += 1;
            if let (Some(place), Some(carried)) = (place, pickles::waiting()) {
                pieces.came.insert(place, carried);
            }
        }
        here.running.identify(here.host, &mut here.thread);
        let asker = futures::living(here, outcome(&result).reply_to);
        if is_last {
            outcome(&result).is_set = true;
        }
        if let Some(asker) = asker.filter(|asker| parcels::is_asked_of(here, asker)) {
            let is_error = ffi::PyTuple_GET_ITEM(pair, 0) != ffi::Py_True();
            tell(here, ffi::PyTuple_GET_ITEM(pair, 1), is_error, |here, message| {
                passing::arrived(here.host, &mut here.thread, &asker, Sender::Unknown, message);
            });
        }
    }
}

/// An item is taken from an iterator, or none has come in time.
fn on_next(here: &mut Here, frame: Frame, how: Ended) {
    // SAFETY: the event's frame ends, and what ends it is held; its variables stand.
    unsafe {
        let Some(result) = here.host.directory.known(frame.local(0) as usize) else { return };
        if let Ended::Raised(error) = how {
            let value = VALUE.load(Ordering::Acquire);
            if value == usize::MAX || frame.local(value) != error.object() {
                let mut name = [0; 256];
                let class = capture::type_name(ffi::Py_TYPE(error.object()), &mut name);
                if class == "multiprocessing.context.TimeoutError" && !passing::is_inner(passing::caller(frame)) {
                    passing::timed_out(here);
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
            take_piece(here, carried, how, |value| {
                ffi::Py_INCREF(value);
                Held::owned(value)
            });
        }
    }
}

/// All pieces are taken, by `get`. False if it is no such call.
///
/// # Safety
/// The frame is that of `get`, which ends, and what ends it is held; attached.
pub unsafe fn take_all(here: &mut Here, result: &Tracee, frame: Frame, how: Ended) -> bool {
    let came = match pieces(result).as_mut() {
        Some(pieces) => take(&mut pieces.came),
        None => return false,
    };
    // SAFETY: the caller's promise.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        let size = parcels::made(here, |py| attribute(py, frame.local(0), "_chunksize"));
        let size = if size.is_null() { None } else { number(size.as_ptr()) }.unwrap_or(1);
        for (place, carried) in came {
            let range = (place * size) as isize..((place + 1) * size) as isize;
            take_piece(here, carried, how, |all| {
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

/// The running process takes a piece: `of` makes its message of what it was taken with, a new reference.
///
/// # Safety
/// What was taken is held; attached, with no exception set but what ends the event.
unsafe fn take_piece(here: &mut Here, carried: Carried, how: Ended, of: impl FnOnce(*mut ffi::PyObject) -> Held) {
    // SAFETY: the caller's promise.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        let message = tokens::message_for(here, &carried, |here| match how {
            Ended::Returned(value) => parcels::quietly(here, |_, _| of(value)),
            Ended::Raised(error) => parcels::made(here, |py| parcels::of_exception(py, error.object()).ok()),
        });
        let write = tokens::writing(message.as_ptr());
        here.host.node.seq_receive(&mut here.thread, About::Current, carried, write);
    }
}
