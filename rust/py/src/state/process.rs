//! What this package keeps with a process.

use super::{exits::Exits, lock, mailbox::Mailbox, senders::Senders};
use inviso_core::host::{node::Node, seq::Carried, tracee::Tracee};
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

/// The data that this package stores with a process.
#[derive(Default)]
pub struct Process {
    /// Its mailbox.
    pub mailbox: Arc<Mailbox>,
    /// A task's outermost coroutine, by address.
    pub coroutine: AtomicUsize,
    /// Its name, if the program gave it one with this package.
    pub name: Mutex<Option<String>>,
    /// The name that its thread had when it was first seen.
    pub last_name: OnceLock<String>,
    /// Whether exit signals arrive as messages.
    pub traps_exit: AtomicBool,
    /// The exit signals that it received.
    pub exits: Exits,
    /// Whether it got the order to end and has not received that yet.
    pub told: AtomicBool,
    /// Whether it has announced its end.
    is_gone: AtomicBool,
    /// Of a thread that was announced and has had no event yet: the address of its object; else 0.
    pub announced: AtomicUsize,
    /// Of a thread that was found and has had no event yet: its number; else 0.
    pub found: AtomicU64,
    /// The process that linked itself to it while starting it, until that is emitted; else 0.
    pub linked_by: AtomicU64,
    /// Monitors of its end: the reference, and the process whose mailbox gets the message.
    pub monitors: Mutex<Vec<(Py<PyAny>, u64)>>,
    /// Of a queue, whether items carry tokens: see [`carrier`](crate::instrument::tokens::carrier).
    pub carrier: AtomicU8,
    /// Of a queue, the senders of its items.
    pub senders: Senders,
    /// Sessions that got the message that its mailbox, or its queue, is long.
    pub long_for: Mutex<Vec<u64>>,
    /// Of a thread whose beginning was seen, the function that it runs: `(module, function, arity)`, a term. Of a task
    /// that was running when tracing of scheduling began, its outermost coroutine.
    pub place: OnceLock<Box<[u8]>>,
    /// Its state if it is a port.
    pub port: crate::state::port::Own,
    /// Of a future: the token of its call until that begins, then the token of its result until that is taken.
    pub carried: Mutex<Option<Carried>>,
    /// Of a future: the process that its result is on its way to.
    pub result: Mutex<crate::state::outcome::Outcome>,
    /// Of a task, whether `wait_for` has made it and waits for it.
    #[cfg(not(Py_3_12))]
    pub is_waited_for: AtomicBool,
    /// Of an object by which a program waits for many results of a pool: the results.
    pub pieces: Mutex<Option<Box<crate::state::pieces::Pieces>>>,
    /// Of a queue's buffer of objects that wait to be pickled: facts about them.
    pub buffer: Mutex<crate::state::buffer::Buffer>,
}

impl Process {
    fn of(pid: u64) -> Process {
        Process { mailbox: Arc::new(Mailbox::of(pid)), ..Process::default() }
    }

    /// Whether it has announced its end, or is about to.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

/// A process announces its end now. From here on nobody sees it as a process or tracer; whoever sees it dead also sees
/// its flags cleared. Returns whether it had announced its end before.
pub fn go(node: &Node, tracee: &Tracee) -> bool {
    node.lose_tracers(tracee);
    process(tracee).is_gone.swap(true, Ordering::AcqRel)
}

/// Notes a task's present name for logs.
///
/// # Safety
/// Attached; the task stands.
#[cold]
pub unsafe fn note_name(tracee: &Tracee, task: *mut ffi::PyObject) {
    let is_given = known(tracee).is_some_and(|process| lock(&process.name).is_some());
    // SAFETY: attached; the task stands.
    let name = unsafe { task_name::name(Python::assume_attached(), task) };
    if let Some(name) = name.filter(|_| !is_given) {
        learned::task(tracee.pid, name.text());
    }
}

/// The data that this package stores with `tracee`; made at first use.
pub fn process(tracee: &Tracee) -> &Process {
    let kept: &(dyn Any + Send + Sync) = &**tracee.host.get_or_init(|| Box::new(Process::of(tracee.pid)));
    debug_assert!(kept.is::<Process>());
    // SAFETY: only the line above fills it, so its type is known. A checked cast would take a call at each message.
    unsafe { &*std::ptr::from_ref(kept).cast() }
}

/// The same, if it was made.
pub fn known(tracee: &Tracee) -> Option<&Process> {
    tracee.host.get()?.downcast_ref()
}
