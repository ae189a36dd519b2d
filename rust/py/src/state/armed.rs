//! The events that are armed, and the code objects that are held for them.
//!
//! # Roles
//! `control::arming` changes them. On 3.11 it also sets `ENDS_MATTER`, which every attached thread reads.
//!
//! # States
//! `ENDS_MATTER` is true while a session needs the frame in which an exception ends.
//!
//! # Orderings
//! `ENDS_MATTER` is `Relaxed`: the GIL orders the store and the loads.
//!
//! # Checked by
//! `tests/python/test_trace_host.py`, `tests/python/test_pep523.py`, `tests/python/test_trace_returns.py`.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;
#[cfg(not(Py_3_12))]
use std::sync::atomic::{AtomicBool, Ordering};

/// The events that are armed now. Changed under the lock of [`Host`] only.
#[derive(Default)]
pub struct Armed {
    /// Code objects that have events or are about to get them, each with the number of changes under way for it. They
    /// are held, so their addresses are not reused.
    pub codes: FxHashMap<usize, (Py<PyAny>, u32)>,
    /// Code that instruments watch, with the events that they need.
    pub watched: FxHashMap<usize, u8>,
    /// The events that plans need, by code.
    pub planned: FxHashMap<usize, u8>,
    #[cfg(Py_3_12)]
    pub tool: Option<inviso_cpython::hooks::monitoring::Tool>,
    /// All code gets its events through global events. Used on free-threaded builds, where each local change stops the
    /// world.
    #[cfg(Py_3_12)]
    pub everywhere: bool,
    #[cfg(Py_3_12)]
    pub global: u32,
}

/// Whether a session needs the frame in which an exception ends. Then the end of every frame matters.
#[cfg(not(Py_3_12))]
pub static ENDS_MATTER: AtomicBool = AtomicBool::new(false);

/// See [`ENDS_MATTER`].
#[cfg(not(Py_3_12))]
pub fn watch_ends(how: bool) {
    ENDS_MATTER.store(how, Ordering::Relaxed);
}
