//! The state that a thread keeps between two events: its scheduler, and the process that runs on it.
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

use crate::{
    host::Host,
    state::{object_cache::ObjectCache, places::PlaceName, process},
};
use inviso_core::{thread::Thread, tracee::Tracee};
use inviso_cpython::{
    frames::frame::Frame,
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
    pub met: crate::entry::loading::Met,
    /// The reason with which the thread's own process ends, once that is known.
    pub reason: Option<Vec<u8>>,
    /// Whether its end has been emitted.
    pub told_exit: bool,
    /// The task or callback that runs on it, see `scheduling`.
    pub turn: crate::processes::scheduling::SchedulerState,
    /// Callbacks of an event loop that run here, while tokens are in use.
    pub lent: Vec<crate::library::loops::loop_tokens::Lent>,
    /// The garbage collection that is under way.
    pub collection: Option<crate::entry::collector::Begun>,
    /// Its greenlets.
    pub greenlets: super::greenlets::Stacks,
}

/// The running task of this thread, remembered from one event to the next.
#[derive(Default)]
pub struct RunningTask {
    /// The last value of the interpreter's own mark of the running task.
    cache: Cell<tasks::Cache>,
    /// The running task's address, 0 outside tasks.
    pub task: Cell<usize>,
    /// Tasks that ran here recently.
    known: RefCell<Vec<Option<KnownTask>>>,
    /// Tasks in whose steps this thread is, the innermost last. Meanwhile they are not in `known`.
    steps: RefCell<Vec<KnownTask>>,
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
    named: Cell<usize>,
}

/// How many tasks a thread remembers (a power of two). Allocated at the first task.
const KNOWN: usize = 4096;

#[cfg(not(Py_3_12))]
thread_local! {
    static FIRST: Cell<Option<Frame>> = const { Cell::new(None) };
}

/// Notes that this thread's state will be made at the beginning of this frame, which is not linked to its caller yet.
#[cfg(not(Py_3_12))]
#[cold]
pub fn begin_with(frame: Frame) {
    FIRST.set(Some(frame));
}

/// The innermost Python frame of this thread.
fn first_frame() -> Option<Frame> {
    // SAFETY: attached, as events and calls into this package are.
    let linked = unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()) };
    #[cfg(not(Py_3_12))]
    return linked.or(FIRST.take());
    #[cfg(Py_3_12)]
    linked
}

impl KnownTask {
    /// A task without any other facts.
    pub fn new(task: usize, tracee: Arc<Tracee>) -> KnownTask {
        KnownTask { task, tracee, place: None, named: Cell::new(0) }
    }
}

impl ThreadState {
    /// The state of a thread at its first event.
    pub fn first(host: &'static Host) -> ThreadState {
        let frame = first_frame();
        let own = host.directory.own_process(host, frame);
        crate::processes::spawning::keep_name(&own, frame);
        let thread = host.node.thread(own);
        ThreadState {
            host,
            thread,
            running: RunningTask::default(),
            places: ObjectCache::default(),
            linking: false,
            watching: None,
            grouping: (0, 0),
            #[cfg(not(Py_3_13))]
            made: None,
            #[cfg(not(Py_3_12))]
            met: crate::entry::loading::Met::default(),
            reason: None,
            told_exit: false,
            turn: crate::processes::scheduling::SchedulerState::default(),
            lent: Vec::new(),
            collection: None,
            greenlets: super::greenlets::Stacks::default(),
        }
    }

    /// A further state of the same thread, whose process is `own`.
    pub fn of(host: &'static Host, own: Arc<Tracee>) -> ThreadState {
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
            met: crate::entry::loading::Met::default(),
            reason: None,
            told_exit: true,
            turn: crate::processes::scheduling::SchedulerState::default(),
            lent: Vec::new(),
            collection: None,
            greenlets: super::greenlets::Stacks::default(),
        }
    }

    /// The thread ends.
    pub fn end(mut self) {
        let own = self.thread.own().clone();
        self.thread.switch_to_own();
        if !self.told_exit {
            // its first frames were not seen to end: code before the hook on 3.11, or a thread without the threading
            // module
            let reason = self.reason.take().unwrap_or_else(crate::processes::exit_reason::normal);
            crate::processes::relations::exit_unattached(&mut self, &own, &reason);
        }
        crate::processes::scheduling::thread_ended(&mut self);
        let host = self.host;
        host.node.end_thread(self.thread);
        host.directory.thread_ended(host, &own);
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

impl RunningTask {
    /// Makes `thread.current()` the process of the task that runs now, or the thread's own.
    ///
    /// # Safety
    /// Attached, in the thread that `thread` belongs to.
    #[inline(always)]
    pub unsafe fn identify(&self, host: &'static Host, thread: &mut Thread) {
        let mut cache = self.cache.get();
        // SAFETY: attached, in the thread that `thread` belongs to.
        let running = unsafe { tasks::current_task(inviso_cpython::interpreter::tstate(), &mut cache) };
        self.cache.set(cache);
        let task = match running {
            tasks::Running::Same => self.task.get(),
            tasks::Running::Changed(task) => task as usize,
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

    /// Looks for the running task again the next time: this call may come just before a step begins.
    pub fn look_again(&self) {
        self.cache.set(tasks::Cache::new());
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
        if let Some(Some(known)) = self.known.borrow().get(place(task)) {
            if is(known, task) {
                return with(known);
            }
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
        let known = self.known.borrow_mut().get_mut(place(task)).and_then(|slot| slot.take_if(|known| is(known, task)));
        known.unwrap_or_else(|| look_up(host, task))
    }

    /// Remembers a task.
    #[inline]
    pub fn keep(&self, task: KnownTask) {
        let mut known = self.known.borrow_mut();
        if known.is_empty() {
            known.resize(KNOWN, None);
        }
        let before = known[place(task.task)].replace(task);
        // it may be the last reference to that process, whose mailbox has objects of the program
        drop(known);
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
fn is(known: &KnownTask, task: usize) -> bool {
    known.task == task && known.tracee.object.load(Ordering::Acquire) == task
}

/// Looks up a task that this thread does not remember.
fn look_up(host: &'static Host, task: usize) -> KnownTask {
    let tracee = host.directory.task(host, task, None);
    let known = KnownTask::new(task, tracee);
    note_name(&known);
    known
}

/// Notes a task's present name for logs. Does nothing if the name is the same object as before.
#[inline]
fn note_name(known: &KnownTask) {
    let task = known.task as *mut pyo3::ffi::PyObject;
    // SAFETY: attached, because only attached threads ask which task runs. The task stands.
    unsafe {
        let name = task_name::object(task);
        if name != known.named.replace(name) {
            process::note_name(&known.tracee, task);
        }
    }
}

/// The index of a task's entry.
fn place(task: usize) -> usize {
    (task >> 4 ^ task >> 16) & (KNOWN - 1)
}
