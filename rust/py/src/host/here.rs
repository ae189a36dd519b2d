//! What a thread keeps between two events: its scheduler, and which process runs on it.

use super::{directory, directory::Places, places::Place, Host};
use crate::ffi::{frame::Frame, task_name, tasks};
use inviso_core::{thread::Thread, tracee::Tracee};
use std::{
    cell::{Cell, RefCell},
    sync::{atomic::Ordering, Arc},
};

/// One thread's state. Only its thread touches it.
pub struct Here {
    /// The host that it belongs to.
    pub host: &'static Host,
    /// Its scheduler.
    pub thread: Thread,
    /// Which task runs.
    pub running: Running,
    /// Queues and ports that it has met lately.
    pub places: Places,
    /// Whether the process that is being started here is to be linked to its parent.
    pub linking: bool,
    /// By which reference its end is to be told to its parent.
    pub watching: Option<pyo3::Py<pyo3::PyAny>>,
    /// A task group that is about to make a task, and what of (addresses), until that is made; else 0.
    pub grouping: (usize, usize),
    /// The task that was made last, until logs know its name.
    #[cfg(not(Py_3_13))]
    pub made: Option<Arc<Tracee>>,
    /// Which code is not new.
    #[cfg(not(Py_3_12))]
    pub met: super::loading::Met,
    /// How the thread's own process will have ended, once that is known.
    pub reason: Option<Vec<u8>>,
    /// Whether its end has been told.
    pub told_exit: bool,
    /// What runs on it, see `scheduling`.
    pub turn: super::scheduling::Here,
    /// Callbacks of an event loop that run here, while tokens are in use.
    pub lent: Vec<super::loop_tokens::Lent>,
    /// The collection of garbage that is under way.
    pub collection: Option<super::collector::Begun>,
    /// Its greenlets.
    pub greenlets: super::greenlets::Stacks,
}

/// Which task runs on this thread, remembered from one event to the next.
#[derive(Default)]
pub struct Running {
    /// What the interpreter's own mark of the running task was.
    cache: Cell<tasks::Cache>,
    /// The running task's address, 0 outside tasks.
    pub task: Cell<usize>,
    /// Tasks that ran here lately.
    known: RefCell<Vec<Option<Known>>>,
    /// Tasks in whose steps this thread is, the innermost last: they are not among those known meanwhile.
    steps: RefCell<Vec<Known>>,
}

/// A task.
#[derive(Clone)]
pub struct Known {
    /// Its address.
    pub task: usize,
    /// Its process.
    pub tracee: Arc<Tracee>,
    /// Its outermost coroutine; None where nobody has asked.
    pub place: Option<Place>,
    /// The object of the name that logs know it by, by address.
    named: Cell<usize>,
}

/// Places for the tasks that a thread remembers (a power of two); made at the first one.
const KNOWN: usize = 4096;

#[cfg(not(Py_3_12))]
thread_local! {
    static FIRST: Cell<Option<Frame>> = const { Cell::new(None) };
}

/// This thread's state will be made at the beginning of this frame, which is not linked to its caller yet.
#[cfg(not(Py_3_12))]
#[cold]
pub fn begin_with(frame: Frame) {
    FIRST.set(Some(frame));
}

/// The innermost Python frame of this thread.
fn first_frame() -> Option<Frame> {
    // SAFETY: attached (`create` is called by events and by calls into this package).
    let linked = unsafe { Frame::current_python(crate::ffi::tstate()) };
    #[cfg(not(Py_3_12))]
    return linked.or(FIRST.take());
    #[cfg(Py_3_12)]
    linked
}

impl Known {
    /// A task that nothing else is known of.
    pub fn new(task: usize, tracee: Arc<Tracee>) -> Known {
        Known { task, tracee, place: None, named: Cell::new(0) }
    }
}

impl Here {
    /// The state of a thread whose first event this is.
    pub fn first(host: &'static Host) -> Here {
        let frame = first_frame();
        let own = host.directory.own_process(host, frame);
        super::spawning::keep_name(&own, frame); // also for a thread that was found before its first event
        let thread = host.node.thread(own);
        Here {
            host,
            thread,
            running: Running::default(),
            places: Places::default(),
            linking: false,
            watching: None,
            grouping: (0, 0),
            #[cfg(not(Py_3_13))]
            made: None,
            #[cfg(not(Py_3_12))]
            met: super::loading::Met::default(),
            reason: None,
            told_exit: false,
            turn: super::scheduling::Here::default(),
            lent: Vec::new(),
            collection: None,
            greenlets: super::greenlets::Stacks::default(),
        }
    }

    /// Another state of the same thread, whose process is `own`.
    pub fn of(host: &'static Host, own: Arc<Tracee>) -> Here {
        Here {
            host,
            thread: host.node.thread(own),
            running: Running::default(),
            places: Places::default(),
            linking: false,
            watching: None,
            grouping: (0, 0),
            #[cfg(not(Py_3_13))]
            made: None,
            #[cfg(not(Py_3_12))]
            met: super::loading::Met::default(),
            reason: None,
            told_exit: true,
            turn: super::scheduling::Here::default(),
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
            // its first frames were not seen to end: on 3.11 what ran before the hook, and threads without the threading module
            let reason = self.reason.take().unwrap_or_else(super::spawning::normal);
            super::relations::exit_unattached(&mut self, &own, &reason);
        }
        super::scheduling::thread_ended(&mut self);
        let host = self.host;
        host.node.end_thread(self.thread);
        host.directory.thread_ended(host, &own);
    }

    /// The state goes, and nothing is told of the thread.
    pub fn leave(self) {
        self.host.node.end_thread(self.thread);
    }

    /// Whether any function is traced, or was while a call began here that has not ended.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        self.host.node.traces_functions() || !self.thread.is_idle()
    }
}

impl Running {
    /// Makes `thread.current()` the process of the task that runs now, or the thread's own.
    ///
    /// # Safety
    /// Attached, in the thread that `thread` belongs to.
    #[inline(always)]
    pub unsafe fn identify(&self, host: &'static Host, thread: &mut Thread) {
        let mut cache = self.cache.get();
        // SAFETY: the caller is attached.
        let running = unsafe { tasks::current_task(crate::ffi::tstate(), &mut cache) };
        self.cache.set(cache);
        let task = match running {
            tasks::Running::Same => self.task.get(),
            tasks::Running::Changed(task) => task as usize,
        };
        if task == self.task.get() && (task == 0 || thread.current().object.load(Ordering::Relaxed) == task) {
            if task != 0 && matches!(running, tasks::Running::Changed(_)) {
                // a later step of it
                self.note_name(host, task);
            }
            return;
        }
        self.switch(host, thread, task);
    }

    /// Which task runs is asked anew the next time: this may have been just before a step begins.
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

    /// The process of the task at this address, which is alive.
    #[inline]
    pub fn process(&self, host: &'static Host, task: usize) -> Arc<Tracee> {
        self.known(host, task, |known| known.tracee.clone())
    }

    /// Logs know the task at this address, which runs, by the name that it has now.
    pub fn note_name(&self, host: &'static Host, task: usize) {
        self.known(host, task, note_name);
    }

    /// What is remembered of the task at this address, which is alive.
    #[inline]
    fn known<R>(&self, host: &'static Host, task: usize, with: impl FnOnce(&Known) -> R) -> R {
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

    /// The same, to be given to [`Running::begin_step`] or back to [`Running::keep`]: each further reference to a process that is
    /// made and dropped costs as much as all else that is done here.
    #[inline]
    pub fn take(&self, host: &'static Host, task: usize) -> Known {
        let known = self.known.borrow_mut().get_mut(place(task)).and_then(|slot| slot.take_if(|known| is(known, task)));
        known.unwrap_or_else(|| look_up(host, task))
    }

    /// Remembers a task.
    #[inline]
    pub fn keep(&self, task: Known) {
        let mut known = self.known.borrow_mut();
        if known.is_empty() {
            known.resize(KNOWN, None);
        }
        let before = known[place(task.task)].replace(task);
        // it may be the last that knows of that process, whose mailbox has objects of the program's
        drop(known);
        drop(before);
    }

    /// A step of this task begins.
    #[inline]
    pub fn begin_step(&self, task: Known) {
        self.steps.borrow_mut().push(task);
    }

    /// It has ended: the task, to be given back to [`Running::keep`]. `None` in a forked child, where no step has begun. Nearly
    /// always the innermost one; who switches stacks may end another first.
    #[inline]
    pub fn end_step(&self, task: usize) -> Option<Known> {
        let mut steps = self.steps.borrow_mut();
        if let Some(last) = steps.pop_if(|last| last.task == task) {
            return Some(last);
        }
        let at = steps.iter().rposition(|step| step.task == task)?;
        Some(steps.remove(at))
    }
}

/// Whether what is remembered is the process of the task at this address still.
fn is(known: &Known, task: usize) -> bool {
    known.task == task && known.tracee.object.load(Ordering::Acquire) == task
}

/// A task that this thread does not remember.
fn look_up(host: &'static Host, task: usize) -> Known {
    let tracee = host.directory.task(host, task, None);
    let known = Known::new(task, tracee);
    note_name(&known);
    known
}

/// Logs know a task by the name that it has now; nothing is done where that is the same object as before.
#[inline]
fn note_name(known: &Known) {
    let task = known.task as *mut pyo3::ffi::PyObject;
    // SAFETY: all that asks which task runs is attached; that one stands.
    unsafe {
        let name = task_name::object(task);
        if name != known.named.replace(name) {
            directory::note_name(&known.tracee, task);
        }
    }
}

/// Where a task's process is remembered.
fn place(task: usize) -> usize {
    (task >> 4 ^ task >> 16) & (KNOWN - 1)
}
