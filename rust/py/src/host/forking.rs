//! After a fork, the parent keeps everything. The child keeps nothing but this package itself.
//!
//! # Roles
//! The child's only thread runs [`after_in_child`].
//!
//! # States
//! `FORKS` only grows.
//!
//! # Orderings
//! `FORKS` is a number by itself and is relaxed.
//!
//! # Checked by
//! `tests/python/test_host_fork.py`.

use crate::{
    control::arming::Armer,
    door,
    state::host::{forget, try_host},
};
use inviso_core::host::control::Arm;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// The number of forks between the first process and this one.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Stops all tracing in the child. Threads that don't exist here may hold the locks of the old host. So only its list
/// of armed code is used, and only if its lock is free.
///
/// # Errors
/// An error that `sys.monitoring` raises.
pub fn after_in_child(py: Python<'_>) -> PyResult<()> {
    FORKS.fetch_add(1, Ordering::Relaxed);
    inviso_port::learned::after_fork();
    inviso_port::ports::abandon();
    inviso_port::recorder::abandon();
    let Some(host) = try_host() else { return Ok(()) };
    crate::host::instruments::forget(py);
    if let Ok(mut armed) = host.arming.try_lock() {
        let keys: Vec<(usize, u8)> = armed.codes.keys().map(|k| (*k, 0)).collect();
        armed.watched.clear();
        drop(armed);
        Armer.arm(&keys, 0);
    }
    #[cfg(Py_3_12)]
    let done = inviso_cpython::hooks::monitoring::Tool::abandon(py, crate::control::arming::TOOL);
    #[cfg(not(Py_3_12))]
    let done = Ok(());
    #[cfg(not(Py_3_12))]
    inviso_cpython::hooks::profile::end(py);
    crate::control::loading::forget(py);
    inviso_cpython::hooks::alloc::remove(py);
    inviso_cpython::tasks::running::forget();
    inviso_port::origin::forked();
    door::forget();
    forget();
    done
}
