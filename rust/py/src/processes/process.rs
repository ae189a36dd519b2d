//! What this package keeps with a process.

use super::{directory::lock, exits::Exits};
use crate::{host::Host, instrument::senders::Senders, thread::mailbox::Mailbox};
use inviso_core::{seq::Carried, tracee::Tracee};
use inviso_cpython::tasks::name::{self as task_name};
use inviso_port::learned;
use pyo3::{ffi, prelude::*};
use std::{
    any::Any,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc, Mutex, OnceLock,
    },
};

/// What this package keeps with a process.
#[derive(Default)]
pub struct Process {
    /// Its mailbox.
    pub mailbox: Arc<Mailbox>,
    /// A task's outermost coroutine, by address.
    pub coroutine: AtomicUsize,
    /// Its name, if it was given one here.
    pub name: Mutex<Option<String>>,
    /// The name that its thread had when it was first seen.
    pub last_name: OnceLock<String>,
    /// Whether exit signals come as messages.
    pub traps_exit: AtomicBool,
    /// The exit signals that it got.
    pub exits: Exits,
    /// Whether it was told to end and has not heard it yet.
    pub told: AtomicBool,
    /// Whether its end has been told.
    is_gone: AtomicBool,
    /// Of a thread that was announced and has come to no event yet: its object, by address; else 0.
    pub announced: AtomicUsize,
    /// Of a thread that was found and has come to no event yet: its number; else 0.
    pub(super) found: AtomicU64,
    /// Who linked itself to it while starting it, until that is told; else 0.
    pub linked_by: AtomicU64,
    /// Who is told of its end: the reference, and whose mailbox gets the message.
    pub monitors: Mutex<Vec<(Py<PyAny>, u64)>>,
    /// Of a queue, whether items carry tokens: see [`carrier`](crate::instrument::tokens::carrier).
    pub carrier: AtomicU8,
    /// Of a queue, who put in what is there.
    pub senders: Senders,
    /// Sessions that were told that its mailbox, or it as a queue, is long.
    pub long_for: Mutex<Vec<u64>>,
    /// What a thread runs as `(module, function, arity)`, a term, once its beginning was seen; of the task that was running when
    /// scheduling began to be traced, its outermost coroutine.
    pub place: OnceLock<Box<[u8]>>,
    /// What is known of it if it is a port.
    pub port: crate::library::ports::Own,
    /// Of a future: the token of the call that it stands for, until that begins, and then of its result, until that is taken.
    pub carried: Mutex<Option<Carried>>,
    /// Of a future: on its way to whom its result is.
    pub result: Mutex<crate::library::futures::Outcome>,
    /// Of a task, whether `wait_for` has made it and waits for it.
    #[cfg(not(Py_3_12))]
    pub is_waited_for: AtomicBool,
    /// Of what a program waits by for many results of a pool.
    pub pieces: Mutex<Option<Box<crate::library::multiprocess::pools::Pieces>>>,
    /// Of what holds a queue's objects until they are pickled: what is known of them.
    pub buffer: Mutex<crate::library::multiprocess::buffers::Buffer>,
}

impl Process {
    fn of(pid: u64) -> Process {
        Process { mailbox: Arc::new(Mailbox::of(pid)), ..Process::default() }
    }

    /// Whether it has told of its end, or is about to.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

/// A process tells of its end now, and is none to anybody from here on: nor a tracer, so that who finds it dead doesn't find its flags.
/// Whether it was so before.
pub fn go(host: &Host, tracee: &Tracee) -> bool {
    host.node.lose_tracers(tracee);
    process(tracee).is_gone.swap(true, Ordering::AcqRel)
}

/// Logs know a task by the name that it has now.
///
/// # Safety
/// Attached; the task stands.
#[cold]
pub unsafe fn note_name(tracee: &Tracee, task: *mut ffi::PyObject) {
    let is_given = known(tracee).is_some_and(|process| lock(&process.name).is_some());
    // SAFETY: the caller's promise.
    let name = unsafe { task_name::name(Python::assume_attached(), task) };
    if let Some(name) = name.filter(|_| !is_given) {
        learned::task(tracee.pid, name.text());
    }
}

/// What this package keeps with `tracee`; made at first use.
pub fn process(tracee: &Tracee) -> &Process {
    let kept: &(dyn Any + Send + Sync) = &**tracee.host.get_or_init(|| Box::new(Process::of(tracee.pid)));
    debug_assert!(kept.is::<Process>());
    // SAFETY: only this line fills it. To ask for its type takes a call, at each message.
    unsafe { &*std::ptr::from_ref(kept).cast() }
}

/// The same if it was made.
pub fn known(tracee: &Tracee) -> Option<&Process> {
    tracee.host.get()?.downcast_ref()
}
