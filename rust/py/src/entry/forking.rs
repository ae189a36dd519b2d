//! What survives a fork: in the parent everything, in the child nothing but this package itself.

use super::{arming::Armer, door};
use crate::host::{forget, try_host};
use inviso_core::control::Arm;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// How many forks lie before this process.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// In the child: what the parent traced is no longer traced. Its locks may be held by threads that don't exist here, so
/// nothing of the old host is used but its list of armed code, where that is not held.
///
/// # Errors
/// What `sys.monitoring` raises.
pub fn after_in_child(py: Python<'_>) -> PyResult<()> {
    FORKS.fetch_add(1, Ordering::Relaxed);
    inviso_port::learned::after_fork();
    inviso_port::ports::abandon();
    inviso_port::recorder::abandon();
    let Some(host) = try_host() else { return Ok(()) };
    crate::host::instruments::forget(py);
    crate::processes::task_end::forget(py);
    crate::api::seq::forget();
    if let Ok(mut armed) = host.arming.try_lock() {
        let keys: Vec<(usize, u8)> = armed.codes.keys().map(|k| (*k, 0)).collect();
        armed.watched.clear();
        drop(armed);
        Armer.arm(&keys, 0);
    }
    #[cfg(Py_3_12)]
    let done = inviso_cpython::hooks::monitoring::Tool::abandon(py, super::arming::TOOL);
    #[cfg(not(Py_3_12))]
    let done = Ok(());
    #[cfg(not(Py_3_12))]
    inviso_cpython::hooks::profile::end(py);
    super::loading::forget(py);
    inviso_cpython::hooks::alloc::remove(py);
    inviso_cpython::tasks::running::forget();
    inviso_port::origin::forked();
    door::forget();
    forget();
    done
}
