//! The buffer of a `multiprocessing.Queue`: the number and the token of each object in it, until the feeder thread has
//! pickled the object.
//!
//! An entry is found by the object's address, the oldest first. So each `put` adds an entry, even an untraced one. If
//! two threads put the same object at the same time, their order in the buffer is unknown, and neither message has a
//! number.
//!
//! # Roles
//! The threads that call `put` add entries. The feeder thread takes them out.
//!
//! # States
//! `TIMES` only grows. A buffer whose `times` differs from it holds entries from an earlier use, and is filled anew at
//! the next `put`.
//!
//! # Orderings
//! The mutex of the buffer orders its entries. `TIMES` is `AcqRel` and `Acquire`: a `put` that sees the new value runs
//! after the wrappers were installed.
//!
//! # Checked by
//! `tests/python/test_process_message_numbers.py`, `tests/python/test_seq_multiprocess.py`.

use super::numbers::Frames;
use crate::{
    library::results,
    state::{
        buffer::{Buffer, Entry},
        process,
        thread::ThreadState,
        untraced::untraced,
    },
};
use inviso_core::host::{seq::Carried, sync::Unpoisoned, tracee::Tracee};
use inviso_cpython::{frames::frame::Frame, interpreter::generic::attribute};
use pyo3::{ffi::PyObject, prelude::*};
use std::sync::{
    atomic::{AtomicU32, Ordering},
    Arc, MutexGuard,
};

/// How often the wrappers of the pickler were installed. Entries from before may belong to objects that were pickled
/// unseen.
static TIMES: AtomicU32 = AtomicU32::new(0);

/// A `put` that is under way.
struct PendingPut {
    number: u64,
    buffer: Arc<Tracee>,
}

thread_local! {
    static PUTS: Frames<PendingPut> = const { Frames::new() };
}

fn of(buffer: &Tracee) -> MutexGuard<'_, Buffer> {
    process::process(buffer).buffer.lock().unpoisoned()
}

/// The wrappers of the pickler are installed from now on.
pub fn begin() {
    TIMES.fetch_add(1, Ordering::AcqRel);
}

/// The record of a queue's buffer.
///
/// # Safety
/// The frame belongs to the current event and to a method of a queue; attached.
unsafe fn record(state: &mut ThreadState, frame: Frame) -> Option<Arc<Tracee>> {
    // SAFETY: the frame is that of a queue's method, so its first parameter is the queue, which holds its buffer.
    // Attached.
    unsafe {
        let buffer = untraced(state, |py, _| attribute(py, frame.local(0), "_buffer").map(|buffer| buffer.as_ptr()))?;
        Some(results::record(state, buffer))
    }
}

/// The `put` that begins in this frame is about to add an object, with its number (or 0) and its token.
///
/// # Safety
/// As [`record`].
pub unsafe fn leave(state: &mut ThreadState, frame: Frame, number: u64, carried: Carried) {
    // SAFETY: the frame is that of a `put`, so its second parameter is the object. Attached.
    let (object, record) = unsafe { (frame.local(1) as usize, record(state, frame)) };
    let Some(record) = record else { return };
    let times = TIMES.load(Ordering::Acquire);
    let is_first = of(&record).times != times;
    // SAFETY: the frame is that of the current event; attached.
    let before = if is_first { unsafe { objects(state, frame) } } else { Vec::new() };
    let mut buffer = of(&record);
    if buffer.times != times {
        let unknown = |object| Entry { object, frame: 0, number: 0, carried: Carried::Nothing };
        *buffer = Buffer { times, line: before.into_iter().map(unknown).collect(), open: 0 };
    }
    let mut entry = Entry { object, frame: frame.address(), number, carried };
    let open = buffer.open;
    for other in buffer.line.iter_mut().rev().filter(|other| other.frame != 0).take(open) {
        if other.object == object {
            (other.number, entry.number) = (0, 0);
        }
    }
    buffer.line.push_back(entry);
    buffer.open += 1;
    drop(buffer);
    // SAFETY: the frame is that of the current event; attached.
    PUTS.with(|puts| unsafe { puts.put(frame, PendingPut { number, buffer: record }) });
}

/// The addresses of the objects that are already in the buffer.
///
/// # Safety
/// As [`record`].
unsafe fn objects(state: &mut ThreadState, frame: Frame) -> Vec<usize> {
    untraced(state, |py, _| {
        // SAFETY: the frame is that of a queue's method, so its first parameter is the queue. Copying a deque runs no
        // code of the program.
        let all = unsafe { attribute(py, frame.local(0), "_buffer") }.and_then(|buffer| buffer.try_iter().ok());
        all.into_iter().flatten().filter_map(Result::ok).map(|object| object.as_ptr() as usize).collect()
    })
}

/// The `put` in this frame has ended; `is_there` says whether the object is in the buffer. Returns the number that
/// `put` began with, or 0.
///
/// # Safety
/// As [`record`].
pub unsafe fn end(frame: Frame, is_there: bool) -> u64 {
    // SAFETY: the frame is that of the current event; attached.
    let Some(put) = PUTS.with(|puts| unsafe { puts.take(frame) }) else { return 0 };
    let mut buffer = of(&put.buffer);
    // the entry is gone if the feeder was faster
    if let Some(at) = buffer.line.iter().rposition(|entry| entry.frame == frame.address()) {
        buffer.open -= 1;
        match buffer.line.get_mut(at) {
            Some(entry) if is_there => entry.frame = 0,
            _ => drop(buffer.line.remove(at)),
        }
    }
    put.number
}

/// The feeder has taken an object out of the buffer to pickle it. Returns its number (or 0) and its token.
pub fn take(buffer: &Tracee, object: *mut PyObject) -> Option<(u64, Carried)> {
    let mut buffer = of(buffer);
    let at = buffer.line.iter().position(|entry| entry.object == object as usize)?;
    let entry = buffer.line.remove(at)?;
    buffer.open -= usize::from(entry.frame != 0);
    Some((entry.number, entry.carried))
}
