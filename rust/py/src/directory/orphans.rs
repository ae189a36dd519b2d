//! Processes that have ended where nothing could be signalled, and the monitors that wait for an end.
//!
//! # Roles
//! A thread that can't run Python leaves an orphan. The main thread, or a thread that waits for a message, settles the
//! orphans.
//!
//! # States
//! An orphan is in `ORPHANS` from the unseen end until it is settled. `MONITORS` counts the monitors in all processes.
//!
//! # Orderings
//! The mutex orders the orphans. `MONITORS` is a hint.
//!
//! # Checked by
//! `tests/python/test_process_links.py`, `tests/python/test_exit.py`.

use super::exit_reason;
use crate::{
    door,
    state::{above::above, host::Host, lock, process},
};
use inviso_core::host::{flags::Flags, messages::About, process_events::Turn, thread::Thread, tracee::Tracee};
use pyo3::prelude::*;
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc, Mutex,
};

/// The number of monitors that wait for an end.
pub static MONITORS: AtomicUsize = AtomicUsize::new(0);

/// Whether any process is linked, has a name, or is monitored.
pub fn are_any(host: &Host) -> bool {
    MONITORS.load(Ordering::Relaxed) != 0 || host.node.is_related()
}

/// A process is gone and nothing saw its end. True if it had relations, which the main thread signals soon.
pub fn gone_unseen(host: &Host, tracee: &Arc<Tracee>) {
    if tracee.kind.is_process() && are_any(host) && !process::go(&host.node, tracee) {
        let links = host.node.unrelate(None, tracee);
        let monitors = take_monitors(tracee);
        orphan(Orphan { tracee: tracee.clone(), reason: exit_reason::normal(), links, monitors, untold: None });
    }
}

/// A process that has ended where nothing could be signalled.
pub struct Orphan {
    pub tracee: Arc<Tracee>,
    pub reason: Vec<u8>,
    pub links: Vec<u64>,
    pub monitors: Monitors,
    pub untold: Option<Untold>,
}

/// The part of an end that sessions have not got.
pub struct Untold {
    /// The name that the process had.
    pub name: Option<Box<str>>,
    /// Whether it was destroyed, so that no step has emitted its `out`.
    pub destroyed: bool,
}

impl Orphan {
    /// Emits the missing events.
    pub fn emit(&mut self, host: &Host, thread: &mut Thread) {
        let Some(Untold { name, destroyed }) = self.untold.take() else { return };
        let tracee = &*self.tracee;
        host.node.on_process_exit(thread, About::Other(tracee), &self.reason);
        if let Some(name) = name {
            host.node.on_unregister(thread, tracee, &name);
        }
        if destroyed {
            // it was out already, so only sessions that trace ends get this
            host.node.on_turn(thread, About::Other(tracee), Turn::Exited, Flags::NONE, &[]);
        }
    }
}

pub static ORPHANS: Mutex<Vec<Orphan>> = Mutex::new(Vec::new());

/// Has the main thread settle the orphans.
pub fn settle_soon() {
    extern "C" fn call(_: *mut std::ffi::c_void) -> std::ffi::c_int {
        door::guard(above().settle);
        0
    }
    // SAFETY: may be called from any thread, attached or not. A full queue does no harm: the next call settles all.
    unsafe { pyo3::ffi::Py_AddPendingCall(Some(call), std::ptr::null_mut()) };
}

pub fn orphan(orphan: Orphan) {
    if orphan.links.is_empty() && orphan.monitors.is_empty() && orphan.untold.is_none() {
        return;
    }
    // SAFETY: a plain question. A daemon thread may end while the interpreter does; then there is no process to signal.
    if unsafe { pyo3::ffi::Py_IsInitialized() } == 0 {
        return std::mem::forget(orphan);
    }
    lock(&ORPHANS).push(orphan);
    settle_soon();
}

pub type Monitors = Vec<(Py<PyAny>, u64)>;

pub fn take_monitors(tracee: &Tracee) -> Monitors {
    let monitors = std::mem::take(&mut *lock(&process::process(tracee).monitors));
    MONITORS.fetch_sub(monitors.len(), Ordering::Relaxed);
    monitors
}
