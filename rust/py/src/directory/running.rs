//! The process that runs on a thread: its own, or that of the running task.
//!
//! # Roles
//! Each thread has a [`RunningTask`] of its own. No other thread touches it.
//!
//! # States
//! `task` is 0 outside tasks, else the address of the running task.
//!
//! # Orderings
//! Nothing here is shared but the records of processes.
//!
//! # Checked by
//! `tests/python/test_door.py`, `tests/python/test_scheduling.py`.

use crate::state::{
    host::Host,
    thread::{is, note_name, KnownTask, RunningTask},
};
use inviso_core::host::{thread::Thread, tracee::Tracee};
use inviso_cpython::tasks::running as tasks;
use pyo3::ffi::PyThreadState;
use std::sync::{atomic::Ordering, Arc};

/// Looks up a task that this thread does not remember.
fn look_up(host: &'static Host, task: usize) -> KnownTask {
    let tracee = host.directory.task(host, task, None);
    let known = KnownTask::new(task, tracee);
    note_name(&known);
    known
}

impl RunningTask {
    /// Makes `thread.current()` the process of the task that runs now, or the thread's own.
    ///
    /// # Safety
    /// Attached, in the thread that `thread` belongs to.
    #[inline(always)]
    pub unsafe fn identify(&self, host: &'static Host, thread: &mut Thread) {
        // SAFETY: the caller promises this.
        unsafe { self.identify_on(inviso_cpython::interpreter::tstate(), host, thread) }
    }

    /// The same, for a caller that has read the interpreter's state of the thread.
    ///
    /// # Safety
    /// As [`RunningTask::identify`]; `tstate` is the calling thread's.
    #[inline(always)]
    pub unsafe fn identify_on(&self, tstate: *mut PyThreadState, host: &'static Host, thread: &mut Thread) {
        let mut cache = self.cache.get();
        // SAFETY: attached, in the thread that `thread` belongs to.
        let running = unsafe { tasks::current_task(tstate, &mut cache) };
        let task = match running {
            tasks::Running::Same => self.task.get(),
            tasks::Running::Changed(task) => {
                self.cache.set(cache);
                task as usize
            }
        };
        if task == self.task.get() && (task == 0 || thread.current().object.load(Ordering::Relaxed) == task) {
            if task != 0 && matches!(running, tasks::Running::Changed(_)) {
                // a later step of the task
                self.note_name(host, task);
            }
            return;
        }
        self.switch(host, thread, task);
    }

    #[inline(never)]
    fn switch(&self, host: &'static Host, thread: &mut Thread, task: usize) {
        self.task.set(task);
        if task == 0 {
            thread.switch_to_own();
            return;
        }
        let tracee = self.known(host, task, |known| {
            note_name(known);
            known.tracee.clone()
        });
        thread.switch(tracee);
    }

    /// The process of the living task at this address.
    #[inline]
    pub fn process(&self, host: &'static Host, task: usize) -> Arc<Tracee> {
        self.known(host, task, |known| known.tracee.clone())
    }

    /// Notes the present name of the running task at this address for logs.
    pub fn note_name(&self, host: &'static Host, task: usize) {
        self.known(host, task, note_name);
    }

    /// Calls `with` with the entry of the living task at this address.
    #[inline]
    fn known<R>(&self, host: &'static Host, task: usize, with: impl FnOnce(&KnownTask) -> R) -> R {
        if let Some(known) = self.steps.borrow().last().filter(|known| is(known, task)) {
            return with(known);
        }
        if let Some(known) = self.known.borrow().get(task).filter(|known| is(known, task)) {
            return with(known);
        }
        let known = look_up(host, task);
        let found = with(&known);
        self.keep(known);
        found
    }

    /// The entry itself, for [`RunningTask::begin_step`] or to be given back to [`RunningTask::keep`]. Moving it avoids one
    /// more reference to the process, whose making and dropping would cost as much as everything else here.
    #[inline]
    pub fn take(&self, host: &'static Host, task: usize) -> KnownTask {
        let known = self.known.borrow_mut().take_if(task, |known| is(known, task));
        known.unwrap_or_else(|| look_up(host, task))
    }
}
