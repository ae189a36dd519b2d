//! What is kept of functions that are created later, while a session waits for them; and whether one does.
//!
//! # Roles
//! Sessions begin and end the noticing. Any attached thread that makes a function, or begins a frame, looks at `ON` and
//! the known code.
//!
//! # States
//! `ON` is true while a session waits for new code. Code is unknown or known; freed code is unknown again. `TIMES` only
//! grows; each thread forgets its met code when it changes.
//!
//! # Orderings
//! Each table of [`Loading`] has a mutex, which orders it. No Python code runs under them. `ON` and `TIMES` are relaxed
//! for readers: a function made by a thread that still sees the old value counts as made before.
//!
//! # Checked by
//! `tests/python/test_trace_loading.py`.

use super::pattern::Pattern;
#[cfg(not(Py_3_12))]
use inviso_cpython::object::address_cache::AddressCache;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Mutex,
};
#[cfg(not(Py_3_12))]
use std::{num::NonZeroUsize, sync::atomic::AtomicU32};

pub static ON: AtomicBool = AtomicBool::new(false);

/// Whether a session waits for new code.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// How often the noticing of new code has begun. A thread's met code is valid while this does not change.
#[cfg(not(Py_3_12))]
pub static TIMES: AtomicU32 = AtomicU32::new(0);

/// Code that a thread has met recently, each at the one index that its address gives (3.11).
#[cfg(not(Py_3_12))]
#[derive(Default)]
pub struct SeenCode {
    times: u32,
    codes: AddressCache<NonZeroUsize, 1024>,
}

#[cfg(not(Py_3_12))]
impl SeenCode {
    /// Whether it has a code.
    #[inline(always)]
    pub fn has(&self, code: usize) -> bool {
        self.codes.get(code).is_some_and(|known| known.get() == code) && self.times == TIMES.load(Ordering::Relaxed)
    }

    /// Adds a code.
    pub fn add(&mut self, code: usize) {
        let times = TIMES.load(Ordering::Relaxed);
        if self.times != times {
            self.times = times;
            self.codes = AddressCache::default();
        }
        if let Some(known) = NonZeroUsize::new(code) {
            self.codes.put(code, known);
        }
    }
}

std::thread_local! {
    static CHANGING: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// While a value of this type exists, its thread is inside a change. Functions that are created on the thread then (a
/// destructor may run any code) wait until the change is done.
pub struct Changing(());

impl Changing {
    /// Begins a change.
    #[must_use]
    pub fn new() -> Self {
        CHANGING.set(CHANGING.get() + 1);
        Changing(())
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.set(CHANGING.get() - 1);
    }
}

/// Known code; all other code is new.
#[derive(Default)]
pub struct Loading {
    pub known: Mutex<KnownCode>,
    /// Functions that were created inside a change.
    pub late: Mutex<Vec<Py<PyAny>>>,
    /// The patterns that each session waits for. Nothing is armed for a function that no session waits for.
    pub wanted: Mutex<FxHashMap<u64, Vec<Pattern>>>,
}

#[derive(Default)]
pub struct KnownCode {
    pub codes: FxHashSet<usize>,
    #[cfg(not(Py_3_12))]
    pub held: Vec<Py<PyAny>>,
    #[cfg(Py_3_12)]
    pub watchers: Option<(inviso_cpython::hooks::watch::Watcher, inviso_cpython::hooks::watch::Watcher)>,
}

/// Whether this thread is inside a change.
#[cfg(Py_3_12)]
pub fn is_changing() -> bool {
    CHANGING.get() > 0
}
