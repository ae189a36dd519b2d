//! The state that a thread keeps between two events: its scheduler, the process that runs on it, and what instruments
//! keep with it.
//!
//! # Roles
//! Each thread has a [`ThreadState`] of its own; the door hands it out. No other thread touches it.
//!
//! # States
//! `running.task` is 0 outside tasks, else the address of the running task.
//!
//! # Orderings
//! Nothing here is shared but the records of processes. `Tracee::object` is loaded with `Acquire`, so a task's address
//! that is used again is not taken for the old task.
//!
//! # Checked by
//! `tests/python/test_door.py`, `tests/python/test_scheduling.py`.

#[cfg(not(Py_3_12))]
use super::loading::SeenCode;
use super::{
    host::Host,
    object_cache::ObjectCache,
    places::{CalleeNames, PlaceName},
    process,
    stacks::Stacks,
};
use inviso_core::host::{seq::Carried, thread::Thread, tracee::Tracee};
use inviso_cpython::{
    object::address_cache::AddressCache,
    tasks::{name as task_name, running as tasks},
};
use std::{
    cell::{Cell, RefCell},
    sync::{atomic::Ordering, Arc},
};

/// One thread's state. Only its thread touches it.
pub struct ThreadState {
    /// The host that it belongs to.
    pub host: &'static Host,
    /// Its scheduler.
    pub thread: Thread,
    /// The running task.
    pub running: RunningTask,
    /// Queues and ports that it has met recently.
    pub places: ObjectCache,
    /// Whether the process that is being started here has to be linked to its parent.
    pub linking: bool,
    /// The reference of the parent's monitor of the process that is being started.
    pub watching: Option<pyo3::Py<pyo3::PyAny>>,
    /// A task group that is about to make a task, and the coroutine of the task, until the task is made (addresses);
    /// else 0.
    pub grouping: (usize, usize),
    /// The task that was made last, until its name is noted for logs.
    #[cfg(not(Py_3_13))]
    pub made: Option<Arc<Tracee>>,
    /// Code that is not new.
    #[cfg(not(Py_3_12))]
    pub seen_code: SeenCode,
    /// The reason with which the thread's own process ends, once that is known.
    pub reason: Option<Vec<u8>>,
    /// Whether its end has been emitted.
    pub told_exit: bool,
    /// The task or callback that runs on it, see `scheduling`.
    pub turn: SchedulerState,
    /// Callbacks of an event loop that run here, while tokens are in use.
    pub lent: Vec<Lent>,
    /// The garbage collection that is under way.
    pub collection: Option<Begun>,
    /// Its greenlets.
    pub greenlets: Stacks,
}

impl ThreadState {
    /// A state of the calling thread, whose process is `own`. `told_exit` is false for the first one: the end of the
    /// thread has to be emitted.
    pub fn new(host: &'static Host, own: Arc<Tracee>, told_exit: bool) -> ThreadState {
        ThreadState {
            host,
            thread: host.node.thread(own),
            running: RunningTask::default(),
            places: ObjectCache::default(),
            linking: false,
            watching: None,
            grouping: (0, 0),
            #[cfg(not(Py_3_13))]
            made: None,
            #[cfg(not(Py_3_12))]
            seen_code: SeenCode::default(),
            reason: None,
            told_exit,
            turn: SchedulerState::default(),
            lent: Vec::new(),
            collection: None,
            greenlets: Stacks::default(),
        }
    }

    /// Drops the state without emitting anything about the thread.
    pub fn leave(self) {
        self.host.node.end_thread(self.thread);
    }

    /// Whether any function is traced, or was traced when a call began here that has not ended.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        self.host.node.traces_functions() || !self.thread.is_idle()
    }
}

/// The running task of this thread, remembered from one event to the next.
#[derive(Default)]
pub struct RunningTask {
    /// The last value of the interpreter's own mark of the running task.
    pub cache: Cell<tasks::Cache>,
    /// The running task's address, 0 outside tasks.
    pub task: Cell<usize>,
    /// Tasks that ran here recently.
    pub known: RefCell<AddressCache<KnownTask, KNOWN>>,
    /// Tasks in whose steps this thread is, the innermost last. Meanwhile they are not in `known`.
    pub steps: RefCell<Vec<KnownTask>>,
}

/// A task.
#[derive(Clone)]
pub struct KnownTask {
    /// Its address.
    pub task: usize,
    /// Its process.
    pub tracee: Arc<Tracee>,
    /// Its outermost coroutine; None if that was not needed yet.
    pub place: Option<PlaceName>,
    /// The name object that logs know it by, by address.
    pub named: Cell<usize>,
}

/// How many tasks a thread remembers.
pub const KNOWN: usize = 4096;

impl KnownTask {
    /// A task without any other facts.
    pub fn new(task: usize, tracee: Arc<Tracee>) -> KnownTask {
        KnownTask { task, tracee, place: None, named: Cell::new(0) }
    }
}

impl RunningTask {
    /// Looks for the running task again the next time: this call may come just before a step begins.
    pub fn look_again(&self) {
        self.cache.set(tasks::Cache::new());
    }

    /// Remembers a task.
    #[inline]
    pub fn keep(&self, task: KnownTask) {
        let before = self.known.borrow_mut().put(task.task, task);
        // it may be the last reference to that process, whose mailbox has objects of the program
        drop(before);
    }

    /// A step of this task begins.
    #[inline]
    pub fn begin_step(&self, task: KnownTask) {
        self.steps.borrow_mut().push(task);
    }

    /// A step has ended. Returns the task, to be given back to [`RunningTask::keep`]. `None` in a forked child, where no
    /// step has begun. The step is nearly always the innermost one; code that switches stacks may end another first.
    #[inline]
    pub fn end_step(&self, task: usize) -> Option<KnownTask> {
        let mut steps = self.steps.borrow_mut();
        if let Some(last) = steps.pop_if(|last| last.task == task) {
            return Some(last);
        }
        let at = steps.iter().rposition(|step| step.task == task)?;
        Some(steps.remove(at))
    }
}

/// Whether the entry is still that of the task at this address.
pub fn is(known: &KnownTask, task: usize) -> bool {
    known.task == task && known.tracee.object.load(Ordering::Acquire) == task
}

/// Notes a task's present name for logs. Does nothing if the name is the same object as before.
#[inline]
pub fn note_name(known: &KnownTask) {
    let task = known.task as *mut pyo3::ffi::PyObject;
    // SAFETY: attached, because only attached threads ask which task runs. The task stands.
    unsafe {
        let name = task_name::object(task);
        if name != known.named.replace(name) {
            process::note_name(&known.tracee, task);
        }
    }
}

/// A thread's record of what it runs.
#[derive(Default)]
pub struct SchedulerState {
    /// Ticks at which the running process was scheduled in; valid while that is timed.
    pub since: u64,
    /// The names of places that the thread has met.
    pub places: CalleeNames,
    /// The task that was in a step here when the instrument began, until that step ends; else 0.
    pub unseen: u64,
    /// Whether that task's coroutine is watched.
    pub watching: bool,
    /// Whether the thread is known to have ended, or its end emits nothing.
    pub told: bool,
    /// What its event loop runs besides tasks.
    pub callbacks: Vec<RunningCallback>,
}

/// A callback that runs on a thread.
pub struct RunningCallback {
    /// Its key: see [`enter`].
    pub key: usize,
    /// The function that it calls, as `(module, function, arity)`, a term.
    pub place: Box<[u8]>,
    /// The port that it runs for, if a session needs that.
    pub serves: Option<Served>,
    /// When the interrupted callback began: a loop may run inside another loop's callback.
    pub since: u64,
}

/// A port, and the driver callback that runs for it, in Erlang's words (trace.md, `system/3`).
pub type Served = (Arc<Tracee>, &'static str);

/// A running callback.
pub struct Lent {
    /// Its key: see [`begin`].
    pub key: usize,
    /// The token that the thread had before.
    pub had: Carried,
    /// Whether the program scheduled it.
    pub by_program: bool,
}

/// A collection that has begun on a thread.
#[derive(Clone, Copy)]
pub struct Begun {
    pub ticks: u64,
    pub pid: u64,
}
