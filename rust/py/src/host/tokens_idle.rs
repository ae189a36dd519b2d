//! The instruments that carry tokens, put in place for the first token and removed after the last one.
//!
//! # Roles
//! The core reports that tokens are idle, from any thread. The main thread then removes the instruments that carry them.
//!
//! # States
//! `ASKED` is true while a call to the main thread is pending. `NEXT` is the time at which instruments may be removed
//! again.
//!
//! # Orderings
//! `Node::seq_end` decides in one step with the core's count of tokens; all atomics here are hints. `ASKED` is cleared
//! `Release` before the look, so that a token that goes meanwhile asks again.
//!
//! # Checked by
//! `tests/python/test_seq_trace.py`, `tests/python/test_seq_carriers.py`; the core's `models::seq`.

use crate::{
    directory::thread_ids,
    instrument::{senders, tokens::kept},
    state::{
        host::{try_host, Host},
        lock, process,
        wants::Wants,
    },
};
use inviso_cpython::interpreter::calling;
use pyo3::{PyResult, Python};
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The least time in ns between two removals of the instruments without a reset, and the number of removals that may
/// come at once. Putting instruments in place again takes a millisecond, and many if the program has millions of
/// objects. So a removal is no more frequent than lets that take this part of the time.
const PAUSE: u64 = 1_000_000_000;

const AT_ONCE: u64 = 10;

const PART: u64 = 500;

/// The ns that putting instruments in place took last.
static TOOK: AtomicU64 = AtomicU64::new(0);

/// Puts the instruments that carry tokens in place. If that fails, `undo` takes back what was recorded for it.
///
/// # Errors
/// As [`Host::adjust_or`].
pub fn enter(py: Python<'_>, host: &'static Host, undo: impl FnOnce()) -> PyResult<()> {
    let begun = host.node.clock.system_monotonic();
    host.adjust_or(py, Wants { tokens: true, ..Wants::default() }, undo)?;
    TOOK.store(host.node.clock.system_monotonic() - begun, Ordering::Relaxed);
    Ok(())
}

/// Tokens are out of use: removes the instruments that carry them, and drops the old tokens that wait in queues and
/// futures.
///
/// # Errors
/// The interpreter's error while instruments are removed.
pub fn leave(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    host.adjust(py, Wants::default())?;
    for object in host.directory.queues(py) {
        let known = process::process(&object);
        senders::empty(py, &host.node, &known.senders);
        if let Some(carried) = &mut *kept(&object) {
            host.node.seq_empty(carried);
        }
        if let Some(pieces) = lock(&known.pieces).as_deref_mut() {
            pieces.empty(&host.node);
        }
        lock(&known.buffer).empty(&host.node);
    }
    Ok(())
}

/// The last token has gone, or a thread has ended while there was none. Has the main thread look whether the
/// instruments are still needed.
pub fn all_gone() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    extern "C" fn call(_: *mut std::ffi::c_void) -> std::ffi::c_int {
        ASKED.store(false, Ordering::Release);
        let see = |py: Python<'_>| {
            if !calling::may_import(py) {
                return all_gone(); // in another frame, then
            }
            let host = try_host().filter(|host| host.process == std::process::id());
            if let Some(error) = host.and_then(|host| end(py, host).err()) {
                error.write_unraisable(py, None);
            }
        };
        crate::door::guard(|| Python::try_attach(see));
        0
    }
    // SAFETY: plain questions, which any thread may ask. A full queue does no harm: the next call asks again.
    unsafe {
        let asks = try_host().is_some_and(|host| host.node.seq_is_idle()) && pyo3::ffi::Py_IsInitialized() != 0;
        if asks && !ASKED.swap(true, Ordering::AcqRel) && pyo3::ffi::Py_AddPendingCall(Some(call), null_mut()) != 0 {
            ASKED.store(false, Ordering::Release);
        }
    }
}

/// Removes the instruments that carry tokens, if there are no tokens. It does nothing while there are threads besides
/// the main one, which may be passing something on.
fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    /// When the next removal is due; each removal adds a pause.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = host.node.clock.system_monotonic();
    let pause = PAUSE.max(PART * TOOK.load(Ordering::Relaxed));
    let due = |next: u64| (next <= now + pause * (AT_ONCE - 1)).then(|| next.max(now) + pause);
    if !thread_ids::is_one_thread(py)? || !host.node.seq_is_idle() {
        return Ok(());
    }
    if NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok() && host.node.seq_end() {
        return leave(py, host);
    }
    Ok(())
}
