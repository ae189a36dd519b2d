//! Threads that are being started.

use inviso_core::host::tracee::Tracee;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};

/// A thread that is being started.
pub struct Pending {
    pub tracee: Arc<Tracee>,
    pub parent: u64,
    /// Its target and arguments as a term, after the start was seen.
    pub name: Option<Vec<u8>>,
    /// Whether it emits nothing.
    pub is_hidden: bool,
    /// Its object, weakly. A thread may begin and end unseen, after which another object may get its address.
    pub object: Option<Py<PyAny>>,
}

/// Threads between their start and their first event.
#[derive(Default)]
pub struct Spawning {
    pub pending: Mutex<FxHashMap<usize, Pending>>,
    pub started: Mutex<FxHashMap<u64, (u64, Vec<u8>)>>,
}
