//! Other objects through which the data of a port go: the files of a subprocess's pipes, and the C halves of TLS
//! connections.
//!
//! # Roles
//! Any attached thread adds objects, looks them up and removes them.
//!
//! # States
//! `PIPES` maps a file to its port from the subprocess's start until the file or the port is closed. `ENCRYPTED` maps
//! the C half of a TLS connection to its port until the port is closed. `PIPE_COUNT` and `ENCRYPTED_COUNT` are their
//! sizes.
//!
//! # Orderings
//! The mutexes order the maps. The sizes are hints, read `Relaxed`: a use near a change may be missed.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

use crate::state::{lock, process};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::interpreter::generic::attribute;
use pyo3::{ffi, prelude::*};
use rustc_hash::FxHashMap;
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc, Mutex,
};

/// Ports by the address of the file of one of their pipes. A file is removed when it is closed, which comes before its
/// end.
static PIPES: Mutex<Option<FxHashMap<usize, Arc<Tracee>>>> = Mutex::new(None);

/// The number of such files.
static PIPE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// A file is one of the pipes of a port.
pub fn add_pipe(file: &Bound<'_, PyAny>, port: &Arc<Tracee>) {
    let mut pipes = lock(&PIPES);
    let pipes = pipes.get_or_insert_default();
    pipes.insert(file.as_ptr() as usize, port.clone());
    PIPE_COUNT.store(pipes.len(), Ordering::Relaxed);
}

pub fn of_pipe(file: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    if PIPE_COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    lock(&PIPES).as_ref()?.get(&(file as usize)).cloned()
}

/// A port is closed.
pub fn forget_pipes(port: &Tracee) {
    if PIPE_COUNT.load(Ordering::Relaxed) != 0 {
        if let Some(pipes) = lock(&PIPES).as_mut() {
            pipes.retain(|_, known| known.pid != port.pid);
            PIPE_COUNT.store(pipes.len(), Ordering::Relaxed);
        }
    }
}

/// A file is closed.
pub fn close_pipe(file: usize) {
    if let Some(pipes) = lock(&PIPES).as_mut() {
        pipes.remove(&file);
        PIPE_COUNT.store(pipes.len(), Ordering::Relaxed);
    }
}

/// The instrument is gone: no file is a port's.
pub fn end_pipes() {
    PIPE_COUNT.store(0, Ordering::Relaxed);
    // in a forked child a thread that no longer exists may hold the lock
    if let Ok(mut pipes) = PIPES.try_lock() {
        drop(pipes.take());
    }
}

/// Ports by the object through which asyncio encrypts their data.
static ENCRYPTED: Mutex<Option<FxHashMap<usize, Arc<Tracee>>>> = Mutex::new(None);

/// The number of such ports.
static ENCRYPTED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// This protocol encrypts what goes over this port.
///
/// # Safety
/// `protocol` stands throughout; the calling thread is attached.
pub unsafe fn encrypts(py: Python<'_>, protocol: *mut ffi::PyObject, port: Arc<Tracee>) {
    process::process(&port).port.is_encrypted.store(true, Ordering::Relaxed);
    // SAFETY: a plain attribute of an object that the caller holds.
    if let Some(half) = unsafe { attribute(py, protocol, "_sslobj") }.filter(|half| !half.is_none()) {
        let mut all = lock(&ENCRYPTED);
        let all = all.get_or_insert_default();
        all.retain(|_, port| port.is_alive());
        all.insert(half.as_ptr() as usize, port);
        ENCRYPTED_COUNT.store(all.len(), Ordering::Relaxed);
    }
}

/// The port that asyncio encrypts for through the object at this address.
pub fn of_tls(half: usize) -> Option<Arc<Tracee>> {
    if ENCRYPTED_COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    lock(&ENCRYPTED).as_ref()?.get(&half).filter(|port| port.is_alive()).cloned()
}

/// A port is closed: asyncio encrypts for it no longer.
pub fn forget_tls(port: &Tracee) {
    if process::process(port).port.is_encrypted.load(Ordering::Relaxed) {
        if let Some(all) = lock(&ENCRYPTED).as_mut() {
            all.retain(|_, known| known.pid != port.pid);
            ENCRYPTED_COUNT.store(all.len(), Ordering::Relaxed);
        }
    }
}

/// In a forked child: the ports are the parent's.
pub fn forget_all() {
    ENCRYPTED_COUNT.store(0, Ordering::Relaxed);
    // a thread that no longer exists may hold the lock
    if let Ok(mut all) = ENCRYPTED.try_lock() {
        drop(all.take());
    }
}
