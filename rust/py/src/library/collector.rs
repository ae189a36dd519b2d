//! Garbage collections, as the interpreter reports them through `gc.callbacks`.
//!
//! A collection belongs to the process that triggered it. One that begins while this package works on the same thread
//! emits no message. Rules: trace.md, `process/4` (garbage_collection), `system/3` (long_gc, large_heap). Messages have
//! those of the figures that CPython knows.
//!
//! # Roles
//! The instrument adds and removes the callback. The interpreter calls it on the thread that collects.
//!
//! # States
//! `CALLBACK` is set while the instrument is installed. `MAX_HEAP_SIZE` is 0 while no limit is set.
//!
//! # Orderings
//! The mutex orders `CALLBACK`. `MAX_HEAP_SIZE` is a number by itself and needs no order.
//!
//! # Checked by
//! `tests/python/test_collector.py`.

use crate::{
    door,
    state::{
        instrument::Instrument,
        thread::{Begun, ThreadState},
        wants,
    },
};
use inviso_core::host::{flags::Flags, messages::About, monitor::LimitEvent, sync::Unpoisoned};
use inviso_cpython::{hooks::vectorcall, interpreter::calling::attached};
use inviso_term::{etf, record::Kind, term::Term};
use pyo3::{ffi, prelude::*, types::*};
use std::{
    fs::File,
    io::Read,
    sync::{
        atomic::{AtomicU64, Ordering},
        Mutex,
    },
};

/// The instrument of garbage collections.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| {
        wants.processes.has(Flags::GARBAGE_COLLECTION)
            || wants.watches(LimitEvent::LongGc)
            || wants.watches(LimitEvent::LargeHeap)
    },
    |py, _| begin(py),
    |py, _| end(py),
    |py| {
        if let Err(error) = end(py) {
            error.write_unraisable(py, None);
        }
    },
);

/// Our entry in `gc.callbacks`.
static CALLBACK: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Words of resident memory from which `gc_max_heap_size` is sent; 0 for never.
static MAX_HEAP_SIZE: AtomicU64 = AtomicU64::new(0);

/// The lowest generation that counts as a full collection.
const FULL: i64 = 2;

/// Bytes of a word.
const WORD: u64 = 8;

fn callbacks(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    Ok(py.import("gc")?.getattr("callbacks")?.cast_into::<PyList>()?)
}

fn begin(py: Python<'_>) -> PyResult<()> {
    // SAFETY: `on_collection` follows the contract of its type and checks its arguments.
    let callback = unsafe { vectorcall::callable(py, on_collection, std::ptr::null_mut()) }?;
    callbacks(py)?.append(&callback)?;
    *CALLBACK.lock().unpoisoned() = Some(callback);
    Ok(())
}

/// Adds the callback again if the program has removed it.
pub fn keep(py: Python<'_>) {
    let callback = CALLBACK.lock().unpoisoned().as_ref().map(|callback| callback.clone_ref(py));
    let (Some(callback), Ok(all)) = (callback, callbacks(py)) else { return };
    // compares by identity, as `end` does
    if !all.iter().any(|known| known.is(&callback)) {
        if let Err(error) = all.append(callback) {
            error.write_unraisable(py, None);
        }
    }
}

fn end(py: Python<'_>) -> PyResult<()> {
    let callback = CALLBACK.lock().unpoisoned().take();
    let Some(callback) = callback else { return Ok(()) };
    let all = callbacks(py)?;
    // compares by identity: the `__eq__` of other callbacks must not run
    if let Some(at) = all.iter().position(|known| known.is(&callback)) {
        all.del_item(at)?;
    }
    Ok(())
}

/// Sets the words of resident memory from which `gc_max_heap_size` is sent (0 for never). Returns the former value.
#[pyfunction]
pub fn set_max_heap_size(words: u64) -> u64 {
    MAX_HEAP_SIZE.swap(words, Ordering::AcqRel)
}

/// `callback(phase, info)` of `gc.callbacks`.
///
/// # Safety
/// Called as a [`vectorcall::Function`]: attached, with the stated number of arguments, which stand.
unsafe extern "C" fn on_collection(
    _this: *mut ffi::PyObject, args: *const *mut ffi::PyObject, nargsf: usize, _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called attached, with arguments that stand.
    unsafe {
        if vectorcall::nargs(nargsf) == 2 {
            door::enter(|state| {
                state.running.identify(state.host, &mut state.thread);
                attached(|py| {
                    let phase = Bound::from_borrowed_ptr(py, *args);
                    let info = Bound::from_borrowed_ptr(py, *args.add(1));
                    if let (Ok(phase), Ok(info)) = (phase.cast_exact::<PyString>(), info.cast_exact::<PyDict>()) {
                        match phase.to_str() {
                            Ok("start") => started(state, info),
                            Ok("stop") => stopped(state, info),
                            _ => {}
                        }
                    }
                });
            });
        }
    }
    vectorcall::none()
}

/// A figure of a collection, if the interpreter reports it.
fn figure(info: &Bound<'_, PyDict>, key: &str) -> Option<i64> {
    info.get_item(key).ok()??.cast_exact::<PyInt>().ok()?.extract().ok()
}

fn pair(key: &str, value: i64) -> Term {
    Term::Tuple(vec![Term::atom(key), Term::from(value)])
}

fn started(state: &mut ThreadState, info: &Bound<'_, PyDict>) {
    let generation = figure(info, "generation").unwrap_or(FULL);
    state.collection = Some(Begun { ticks: state.host.node.clock.ticks(), pid: state.thread.current().pid });
    if wants::wanted(Flags::GARBAGE_COLLECTION) {
        let kind = if generation < FULL { Kind::GcMinorStart } else { Kind::GcMajorStart };
        emit(state, kind, vec![pair("generation", generation)]);
    }
}

fn stopped(state: &mut ThreadState, info: &Bound<'_, PyDict>) {
    // a collection without a recorded beginning emits nothing
    let Some(begun) = state.collection.take() else { return };
    let current = state.thread.current().clone();
    if current.pid != begun.pid {
        return;
    }
    let clock = &state.host.node.clock;
    let spent = clock.monotonic(clock.ticks()).saturating_sub(clock.monotonic(begun.ticks));
    let generation = figure(info, "generation").unwrap_or(FULL);
    let mut figures = vec![pair("generation", generation)];
    for key in ["collected", "uncollectable", "candidates"] {
        figures.extend(figure(info, key).map(|value| pair(key, value)));
    }
    figures.push(pair("duration", spent as i64));
    let most = MAX_HEAP_SIZE.load(Ordering::Acquire);
    let wanted = wants::wanted(Flags::GARBAGE_COLLECTION);
    let large = wants::monitored(LimitEvent::LargeHeap);
    let size = if large || wanted { resident_words() } else { None };
    figures.extend(size.map(|size| pair("resident_size", size as i64)));
    if wanted {
        if size.is_some_and(|size| most != 0 && size >= most) {
            emit(state, Kind::GcMaxHeapSize, figures.clone());
        }
        let kind = if generation < FULL { Kind::GcMinorEnd } else { Kind::GcMajorEnd };
        emit(state, kind, figures.clone());
    }
    let node = &state.host.node;
    if wants::monitored(LimitEvent::LongGc) {
        let spent = spent / 1_000_000;
        node.alarm(&mut state.thread, current.pid, LimitEvent::LongGc, |_, limit| {
            (spent >= limit).then(|| {
                let timeout = pair("timeout", spent as i64);
                Term::List([timeout].into_iter().chain(figures.iter().cloned()).collect())
            })
        });
    }
    if let Some(size) = size.filter(|_| large) {
        node.alarm(&mut state.thread, current.pid, LimitEvent::LargeHeap, |_, limit| {
            (size >= limit).then(|| Term::List(figures.clone()))
        });
    }
}

fn emit(state: &mut ThreadState, kind: Kind, figures: Vec<Term>) {
    if state.host.node.is_asked(&state.thread, About::Current, Flags::GARBAGE_COLLECTION) {
        let payload = etf::encode(&Term::List(figures));
        state.host.node.emit_event(&mut state.thread, About::Current, Flags::GARBAGE_COLLECTION, kind, 0, &payload);
    }
}

/// The resident memory of the operating system's process.
fn resident_words() -> Option<u64> {
    extern "C" {
        fn getpagesize() -> std::ffi::c_int;
    }
    let mut bytes = [0; 128]; // seven numbers
    let length = File::open("/proc/self/statm").ok()?.read(&mut bytes).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: `getpagesize` has no preconditions.
    Some(pages * u64::try_from(unsafe { getpagesize() }).ok()? / WORD)
}
