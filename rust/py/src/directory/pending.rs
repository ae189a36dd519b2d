//! Threads between their start and their first event.
//!
//! # Roles
//! The parent announces a thread, attached. The thread adopts its process at its first event.
//!
//! # States
//! A thread is in `pending` from its announcement until its first event, or until its start fails or it is found to be
//! over. It is in `started` from that first event until it emits `spawned`.
//!
//! # Orderings
//! Mutexes order the two maps. The announced object's address is stored `Release`.
//!
//! # Checked by
//! `tests/python/test_trace_processes.py`, `tests/python/test_executors.py`.

use super::{
    orphans::gone_unseen,
    thread_objects::{has_ended, is_beginning, weakly},
};
use crate::{
    control::originals,
    state::{
        host::Host,
        lock, process,
        spawning::{Pending, Spawning},
    },
};
use inviso_core::host::tracee::{Kind, Tracee};
use inviso_cpython::{capture, frames::frame::Frame, interpreter::generic::attribute};
use pyo3::{ffi, prelude::*, types::*};
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc,
};

/// The code of `Thread._bootstrap_inner`, or 0.
pub static BOOTSTRAP_CODE: AtomicUsize = AtomicUsize::new(0);

impl Spawning {
    /// The calling thread's object, from the bottom of its frames, if any thread has been announced.
    pub fn own_object(&self, frame: Option<Frame>) -> Option<usize> {
        let may_be = !lock(&self.pending).is_empty();
        may_be.then(|| thread_object(frame)).flatten().map(|object| object as usize)
    }

    /// Takes the process that was announced for the calling thread, whose object this is.
    pub fn adopted(&self, object: usize) -> Option<Arc<Tracee>> {
        let pending = lock(&self.pending).remove(&object)?;
        process::process(&pending.tracee).announced.store(0, Ordering::Release);
        if let Some(name) = pending.name {
            lock(&self.started).insert(pending.tracee.pid, (pending.parent, name));
        }
        Some(pending.tracee)
    }

    /// Announces the process of a thread object, which inherits from `parent`.
    pub fn announce(&self, host: &Host, object: usize, parent: &Tracee) -> Arc<Tracee> {
        let tracee = host.node.child(Kind::Thread, 0, parent);
        process::process(&tracee).announced.store(object, Ordering::Release);
        let pending = Pending {
            tracee: tracee.clone(),
            parent: parent.pid,
            name: None,
            is_hidden: false,
            object: weakly(object),
        };
        lock(&self.pending).insert(object, pending);
        tracee
    }

    /// The thread of a thread object will be a process that nothing finds.
    pub fn hide(&self, host: &Host, object: usize) {
        let tracee = host.node.hidden();
        let pending = Pending { tracee, parent: 0, name: None, is_hidden: true, object: weakly(object) };
        lock(&self.pending).insert(object, pending);
    }

    /// The thread object was not started after all.
    pub fn renounce(&self, host: &Host, object: usize) {
        if let Some(announced) = self.failed(object) {
            host.node.end_process(&announced.tracee);
        }
    }

    /// Takes the announcement of a thread object, unless the thread already runs and only `start()`'s wait was
    /// interrupted.
    pub fn failed(&self, object: usize) -> Option<Pending> {
        if !lock(&self.pending).contains_key(&object) || is_beginning(object) {
            return None;
        }
        lock(&self.pending).remove(&object)
    }

    /// Takes the process that was announced for a thread object whose thread runs, and has had no event of its own.
    pub fn begun(&self, object: usize) -> Option<Arc<Tracee>> {
        lock(&self.pending).remove(&object).map(|pending| pending.tracee)
    }

    /// Ends the processes of threads that have begun and ended since spawning was last watched.
    ///
    /// # Errors
    /// The error of reading the threading module's tables.
    pub fn sweep(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        let waiting: Vec<usize> = lock(&self.pending).keys().copied().collect();
        waiting.into_iter().try_for_each(|address| self.sweep_one(py, host, address).map(drop))
    }

    /// Whether a process is a thread that has begun and ended unseen. If so, this ends it.
    ///
    /// # Errors
    /// As [`Spawning::sweep`].
    pub fn has_gone(&self, py: Python<'_>, host: &Host, tracee: &Tracee) -> PyResult<bool> {
        let address = process::process(tracee).announced.load(Ordering::Acquire);
        if address == 0 || lock(&self.pending).get(&address).is_none_or(|pending| pending.tracee.pid != tracee.pid) {
            return Ok(false);
        }
        self.sweep_one(py, host, address)
    }

    /// Ends the process that was announced for the thread object of this address if that thread is over. Returns
    /// whether it was.
    fn sweep_one(&self, py: Python<'_>, host: &Host, address: usize) -> PyResult<bool> {
        let reference =
            lock(&self.pending).get(&address).and_then(|p| p.object.as_ref().map(|object| object.clone_ref(py)));
        let Some(reference) = reference else { return Ok(false) };
        let object = reference.bind(py).cast::<PyWeakref>().ok().and_then(PyWeakrefMethods::upgrade);
        if object.is_some_and(|thread| !has_ended(&thread).unwrap_or(false)) {
            return Ok(false);
        }
        let is_same = |p: &Pending| p.object.as_ref().is_some_and(|object| object.is(&reference));
        let ended = {
            let mut pending = lock(&self.pending);
            pending.get(&address).is_some_and(is_same).then(|| pending.remove(&address)).flatten()
        };
        let Some(Pending { tracee, .. }) = ended else { return Ok(false) };
        gone_unseen(host, &tracee);
        host.node.end_process(&tracee);
        Ok(true)
    }

    /// Whether the thread of a thread object emits nothing.
    pub fn is_hidden(&self, object: usize) -> bool {
        lock(&self.pending).get(&object).is_some_and(|pending| pending.is_hidden)
    }

    /// The process of a thread object whose thread has been started but has had no event yet.
    pub fn started(&self, object: usize) -> Option<Arc<Tracee>> {
        lock(&self.pending).get(&object).map(|p| p.tracee.clone())
    }
}

/// The thread object of the calling thread, borrowed from the first of its Python frames: `threading.Thread._bootstrap`
/// or a wrapper of it. `frame` is the innermost one.
fn thread_object(frame: Option<Frame>) -> Option<*mut ffi::PyObject> {
    // SAFETY: frames of the calling thread, which is attached and runs them.
    unsafe {
        let (mut frame, mut bootstrap) = (frame?, None);
        loop {
            if capture::is_text(inviso_cpython::frames::frame::code_qualname(frame.code()), "Thread._bootstrap") {
                bootstrap = Some(frame);
            }
            let Some(caller) = frame.caller() else { break };
            frame = caller;
        }
        if let Some(bootstrap) = bootstrap {
            return Some(bootstrap.local(0));
        }
        if originals::is_around(frame) {
            // a wrapper's frame, below that of its function; any of its first arguments may be the thread
            let is_thread = |object: &*mut ffi::PyObject| {
                !object.is_null() && !capture::attribute_of_class(ffi::Py_TYPE(*object), "_bootstrap_inner").is_null()
            };
            return (0..3).map(|n| frame.given(n).as_ptr()).find(is_thread);
        }
        (frame.code() as usize == BOOTSTRAP_CODE.load(Ordering::Acquire)).then(|| frame.local(0))
    }
}

/// Keeps the calling thread's name with its process, whose counters outlive the thread.
pub fn keep_name(own: &Tracee, frame: Option<Frame>) {
    let Some(object) = thread_object(frame) else { return };
    Python::attach(|py| {
        // SAFETY: the thread is attached; the object is held by the thread's first frame.
        let name = unsafe { attribute(py, object, "_name") };
        if let Some(name) = name.and_then(|n| n.extract::<String>().ok()) {
            process::process(own).last_name.get_or_init(|| name);
        }
    });
}
