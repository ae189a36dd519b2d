//! The state of the traced program.
//!
//! # Roles
//! The first use makes the host. Every thread finds it by one load. A forked child begins with a new one.
//!
//! # States
//! `HOST` is null, or a host, which is never freed.
//!
//! # Orderings
//! `HOST` is stored with `Release` when the host is whole, and loaded with `Acquire`.
//!
//! # Checked by
//! `tests/python/test_host_fork.py`, `tests/python/test_trace_host.py`.

use super::{
    armed::Armed, deliveries::Deliveries, directory::Directory, loading::Loading, lock, mailbox::Mailbox,
    process::process, spawning::Spawning,
};
use inviso_core::host::{node::Node, session::Session, tracee::Tracee};
use pyo3::prelude::*;
use std::sync::{
    atomic::{AtomicPtr, Ordering},
    Arc, Mutex,
};

/// The state of the traced program; a forked child begins with a new one.
pub struct Host {
    /// The operating system's number of its process.
    pub process: u32,
    /// Sessions, processes, plans.
    pub node: Arc<Node>,
    /// The armed events, and the code objects that are kept alive for them.
    pub arming: Mutex<Armed>,
    /// The code that exists, while a session waits for later code.
    pub loading: Loading,
    /// Threads and tasks.
    pub directory: Directory,
    /// Where each session's messages are delivered.
    pub deliveries: Deliveries,
    /// Threads and tasks that are being started.
    pub spawning: Spawning,
    #[cfg(Py_3_12)]
    /// The interpreter's mark for an absent argument.
    pub missing: Py<PyAny>,
    /// Sessions whose last strong handle is gone.
    pub pending_ends: Mutex<Vec<Arc<Session>>>,
    /// Python objects that have to be dropped outside every lock.
    pub deferred_drops: Mutex<Vec<Py<PyAny>>>,
}

pub static HOST: AtomicPtr<Host> = AtomicPtr::new(std::ptr::null_mut());

/// The host of this process, if the tracer was used in it.
#[inline(always)]
pub fn try_host() -> Option<&'static Host> {
    // SAFETY: the pointer is null or comes from `Box::leak`; hosts are never freed (a fork leaves one unused).
    unsafe { HOST.load(Ordering::Acquire).as_ref() }
}

/// The host is whole: every thread finds it from now on.
pub fn begin(host: &'static Host) {
    HOST.store(std::ptr::from_ref(host).cast_mut(), Ordering::Release);
}

/// Leaves the host unused in a forked child: its threads, locks and sessions are the parent's.
pub fn forget() {
    HOST.store(std::ptr::null_mut(), Ordering::Release);
}

impl Host {
    /// The interpreter's mark for an absent argument.
    #[cfg(Py_3_12)]
    pub fn missing(&self) -> *mut pyo3::ffi::PyObject {
        self.missing.as_ptr()
    }

    /// Keeps an object until [`Host::drop_deferred`] drops it.
    pub fn defer_drop(&self, object: Py<PyAny>) {
        lock(&self.deferred_drops).push(object);
    }

    /// Drops the objects that a change left. Called attached and outside every lock: a destructor may run any code.
    pub fn drop_deferred(&self, _py: Python<'_>) {
        let dead = std::mem::take(&mut *lock(&self.deferred_drops));
        drop(dead);
    }

    /// The mailbox of a process.
    pub fn mailbox(&self, tracee: &Tracee) -> Arc<Mailbox> {
        process(tracee).mailbox.clone()
    }
}
