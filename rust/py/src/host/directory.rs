//! Threads and tasks as processes: which object is which process, and back.
//!
//! A task is known by its address while it lives: its class's finaliser, or a weak reference's callback, takes it out before the
//! address can belong to another. A thread is known by the operating system's number for it.

use super::{
    exits::Exits,
    senders::{self, Senders},
    task_end, tokens, Host,
};
use crate::{
    ffi::{
        calling,
        frame::Frame,
        guarded::Guarded,
        objects, steps,
        task_name::{self, Name},
        vectorcall, Aside, Uncollected,
    },
    mailbox::Mailbox,
};
use inviso_core::{
    seq::Carried,
    tracee::{Kind, Tracee},
};
use inviso_port::learned;
use pyo3::{ffi, prelude::*, sync::PyOnceLock, types::*};
use rustc_hash::FxHashMap;
use std::{
    any::Any,
    collections::{hash_map::Entry, VecDeque},
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc, Mutex, MutexGuard, OnceLock,
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
    found: AtomicU64,
    /// Who linked itself to it while starting it, until that is told; else 0.
    pub linked_by: AtomicU64,
    /// Who is told of its end: the reference, and whose mailbox gets the message.
    pub monitors: Mutex<Vec<(Py<PyAny>, u64)>>,
    /// Of a queue, whether items carry tokens: see [`carrier`](super::tokens::carrier).
    pub carrier: AtomicU8,
    /// Of a queue, who put in what is there.
    pub senders: Senders,
    /// Sessions that were told that its mailbox, or it as a queue, is long.
    pub long_for: Mutex<Vec<u64>>,
    /// What a thread runs as `(module, function, arity)`, a term, once its beginning was seen; of the task that was running when
    /// scheduling began to be traced, its outermost coroutine.
    pub place: OnceLock<Box<[u8]>>,
    /// What is known of it if it is a port.
    pub port: super::ports::Own,
    /// Of a future: the token of the call that it stands for, until that begins, and then of its result, until that is taken.
    pub carried: Mutex<Option<Carried>>,
    /// Of a future: on its way to whom its result is.
    pub result: Mutex<super::futures::Outcome>,
    /// Of a task, whether `wait_for` has made it and waits for it.
    #[cfg(not(Py_3_12))]
    pub is_waited_for: AtomicBool,
    /// Of what a program waits by for many results of a pool.
    pub pieces: Mutex<Option<Box<super::pools::Pieces>>>,
    /// Of what holds a queue's objects until they are pickled: what is known of them.
    pub buffer: Mutex<super::buffers::Buffer>,
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

/// An object that a thread has met lately, and its process, queue or port.
#[derive(Clone)]
pub struct Place(Arc<Tracee>);

impl Place {
    /// What this is at its address now.
    pub fn new(tracee: Arc<Tracee>) -> Place {
        Place(tracee)
    }
}

/// Objects that a thread has met lately, by address: looked up at each of their events.
#[derive(Default)]
pub struct Places(Vec<Option<Place>>);

/// Objects that a thread remembers (a power of two).
const MET: usize = 256;

impl Places {
    fn at(address: usize) -> usize {
        (address >> 4 ^ address >> 12) & (MET - 1)
    }

    /// The number of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<u64> {
        match self.0.get(Self::at(address)) {
            Some(Some(Place(tracee))) if tracee.object.load(Ordering::Acquire) == address => Some(tracee.pid),
            _ => None,
        }
    }

    /// The record of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn tracee(&self, address: usize) -> Option<&Arc<Tracee>> {
        match self.0.get(Self::at(address)) {
            Some(Some(Place(tracee))) if tracee.object.load(Ordering::Acquire) == address => Some(tracee),
            _ => None,
        }
    }

    /// Remembers an object.
    pub fn keep(&mut self, place: Place) {
        self.0.resize(MET, None);
        let at = Self::at(place.0.object.load(Ordering::Acquire));
        self.0[at] = Some(place);
    }
}

/// A task, queue or port: its record, and who tells that its object is gone.
struct Task {
    tracee: Arc<Tracee>,
    end: Teller,
}

/// Who tells that an object is gone.
enum Teller {
    /// A weak reference.
    Weak(Py<PyAny>),
    /// The finaliser of its class, see [`task_end`].
    Finaliser,
    /// Nobody.
    None,
}

impl Teller {
    /// The object at this address, of which this tells, if it still exists.
    fn object<'py>(&self, py: Python<'py>, address: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Teller::Weak(reference) => reference.bind(py).cast::<PyWeakref>().ok()?.upgrade(),
            // SAFETY: while the thread is attached (there is a GIL where finalisers tell) no other one lets go of it, and this
            // one does after the finaliser only.
            Teller::Finaliser => unsafe { Bound::from_borrowed_ptr_or_opt(py, address as *mut ffi::PyObject) },
            Teller::None => None,
        }
    }

    fn copy(&self, py: Python<'_>) -> Teller {
        match self {
            Teller::Weak(reference) => Teller::Weak(reference.clone_ref(py)),
            Teller::Finaliser => Teller::Finaliser,
            Teller::None => Teller::None,
        }
    }
}

/// Tasks, queues and ports by address, and those addresses by that of the weak reference.
#[derive(Default)]
struct Tasks {
    all: FxHashMap<usize, Task>,
    references: FxHashMap<usize, usize>,
    ended: EndedNames,
}

impl Tasks {
    /// Takes out what has ended, if it is to be `told` so, and keeps the name that it was given, or else its own.
    ///
    /// # Safety
    /// Attached; nothing of the object at this address has been cleared.
    unsafe fn end(&mut self, py: Python<'_>, address: usize, told: fn(&Teller) -> bool) -> Option<Task> {
        let ended = match self.all.entry(address) {
            Entry::Occupied(known) if told(&known.get().end) => known.remove(),
            _ => return None,
        };
        // SAFETY: the caller's promise.
        let own = || unsafe { task_name::name(py, address as *mut ffi::PyObject) };
        let given = known(&ended.tracee).and_then(|process| lock(&process.name).clone()).map(Name::Given);
        if let Some(name) = given.or_else(own) {
            self.ended.keep(ended.tracee.pid, name);
        }
        Some(ended)
    }
}

/// All processes by what they are in Python.
#[derive(Default)]
pub struct Directory {
    tasks: Guarded<Tasks>,
    threads: Mutex<FxHashMap<u64, Arc<Tracee>>>,
    ended_threads: Mutex<EndedNames>,
    /// The operating system's numbers of threads, by pid: the latest.
    numbers: Mutex<Numbers>,
}

/// Names of processes that have ended, the latest ones.
#[derive(Default)]
struct EndedNames(VecDeque<(u64, Name)>);

/// How many names of ended threads, and of tasks, are kept.
const ENDED_NAMES: usize = 4096;

impl EndedNames {
    fn keep(&mut self, pid: u64, name: Name) {
        if self.0.len() >= ENDED_NAMES {
            self.0.pop_front();
        }
        self.0.push_back((pid, name));
    }

    /// Rarely asked for, and of many thousands.
    fn find(&self, pid: u64) -> Option<String> {
        self.0.iter().rev().find(|(known, _)| *known == pid).map(|(_, name)| name.text())
    }
}

/// The operating system's numbers of threads, those of ended ones too, and the names that they had when they were seen by their objects.
#[derive(Default)]
struct Numbers {
    of: FxHashMap<u64, (u64, String)>,
    order: VecDeque<u64>,
}

impl Numbers {
    fn note(&mut self, pid: u64, number: u64) {
        let new = !self.of.contains_key(&pid);
        self.of.entry(pid).or_default().0 = number;
        if new {
            self.order.push_back(pid);
            if self.order.len() > ENDED_NAMES {
                let oldest = self.order.pop_front();
                oldest.map(|pid| self.of.remove(&pid));
            }
        }
    }
}

extern "C" {
    fn PyThread_get_thread_native_id() -> std::ffi::c_ulong;
}

/// The operating system's number of the calling thread.
pub fn native_id() -> u64 {
    // SAFETY: a plain query of the calling thread.
    unsafe { PyThread_get_thread_native_id() as u64 }
}

/// Whether the operating system has a thread of this number in this process.
fn exists(id: u64) -> bool {
    std::path::Path::new(&format!("/proc/self/task/{id}")).exists()
}

/// None of these locks is held while Python code can run, so attached threads may wait for them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Directory {
    /// The calling thread as a process; `frame` is its innermost frame.
    pub fn own_process(&self, host: &Host, frame: Option<Frame>) -> Arc<Tracee> {
        let id = native_id();
        if let Some(tracee) = lock(&self.threads).get(&id) {
            process(tracee).found.store(0, Ordering::Release);
            return tracee.clone();
        }
        let object = host.spawning.own_object(frame);
        let mut threads = lock(&self.threads);
        // who looks for threads has found this one meanwhile
        if let Some(tracee) = threads.get(&id) {
            process(tracee).found.store(0, Ordering::Release);
            return tracee.clone();
        }
        let announced = object.and_then(|object| host.spawning.adopted(object));
        let tracee = announced.unwrap_or_else(|| host.node.process(Kind::Thread, 0));
        threads.insert(id, tracee.clone());
        drop(threads);
        // The name comes first: a trace port runs in another thread, and describes each thread once, when that has a number.
        super::spawning::keep_name(&tracee, frame);
        lock(&self.numbers).note(tracee.pid, id);
        tracee
    }

    /// The operating system's number of a thread, and its name as far as it is known without Python.
    pub fn number(&self, host: &Host, pid: u64) -> Option<(u64, String)> {
        let (number, seen) = lock(&self.numbers).of.get(&pid)?.clone();
        let living = host.node.tracee(pid);
        let of = living.as_deref().and_then(known);
        let given = of.and_then(|of| lock(&of.name).clone());
        let name = given.or_else(|| Some(seen).filter(|name| !name.is_empty()));
        let name = name.or_else(|| of.and_then(|of| of.last_name.get().cloned()));
        Some((number, name.or_else(|| lock(&self.ended_threads).find(pid)).unwrap_or_default()))
    }

    /// The same of all threads that are known.
    pub fn numbers(&self) -> Vec<(u64, u64)> {
        lock(&self.numbers).of.iter().map(|(pid, (number, _))| (*pid, *number)).collect()
    }

    /// Notes the names of the threads that Python knows of, for who asks without it.
    ///
    /// # Errors
    /// What listing them raises.
    pub fn name_threads(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        for (id, object) in threads(py)?.into_iter().filter(|(id, _)| exists(*id)) {
            self.thread_of(host, id, &object);
        }
        Ok(())
    }

    /// A thread of this number exists.
    fn thread(&self, host: &Host, id: u64) -> Arc<Tracee> {
        let make = || host.node.process(Kind::Thread, 0);
        let tracee = Directory::found(&mut lock(&self.threads), id, make);
        lock(&self.numbers).note(tracee.pid, id);
        tracee
    }

    /// The process that `threads` have for this number; or else one that is made, which is the same for everybody from then on.
    fn found(threads: &mut FxHashMap<u64, Arc<Tracee>>, id: u64, make: impl FnOnce() -> Arc<Tracee>) -> Arc<Tracee> {
        let new = || {
            let tracee = make();
            process(&tracee).found.store(id, Ordering::Release);
            tracee
        };
        threads.entry(id).or_insert_with(new).clone()
    }

    /// A thread of this number and object exists. It is the process that was announced for it, though no event has told so.
    fn thread_of(&self, host: &Host, id: u64, object: &Bound<'_, PyAny>) -> Arc<Tracee> {
        let announced = || host.spawning.begun(object.as_ptr() as usize);
        let make = || announced().unwrap_or_else(|| host.node.process(Kind::Thread, 0));
        let tracee = Directory::found(&mut lock(&self.threads), id, make);
        // SAFETY: attached; the object is held. The attribute is a plain one of the class's own.
        let name = unsafe { super::spawning::attribute(object.py(), object.as_ptr(), "_name") };
        let name = name.and_then(|name| name.extract::<String>().ok()).unwrap_or_default();
        let mut numbers = lock(&self.numbers);
        numbers.note(tracee.pid, id);
        if let Some((_, known)) = numbers.of.get_mut(&tracee.pid) {
            *known = name;
        }
        drop(numbers);
        tracee
    }

    /// The name of a process that has ended, if it is still known.
    pub fn ended_name(&self, py: Python<'_>, pid: u64) -> Option<String> {
        let ended = match Kind::of(pid) {
            Kind::Task => self.tasks.lock(py).ended.find(pid),
            _ => lock(&self.ended_threads).find(pid),
        };
        if ended.is_some() {
            return ended;
        }
        // a task whose end was told while its object is still there
        let (address, teller) = {
            let tasks = self.tasks.lock(py);
            let (address, task) = tasks.all.iter().find(|(_, task)| task.tracee.pid == pid)?;
            (*address, task.end.copy(py))
        };
        let object = teller.object(py, address)?;
        // SAFETY: the task is held.
        unsafe { task_name::name(py, object.as_ptr()) }.map(|name| name.text())
    }

    /// The names that are still known of processes that have ended.
    pub fn ended_names(&self, py: Python<'_>) -> Vec<(u64, String)> {
        let text = |(pid, name): &(u64, Name)| (*pid, name.text());
        let mut names: Vec<_> = lock(&self.ended_threads).0.iter().map(text).collect();
        let left: Vec<_> = {
            let tasks = self.tasks.lock(py);
            names.extend(tasks.ended.0.iter().map(text));
            let ended = tasks.all.iter().filter(|(_, task)| !task.tracee.is_alive());
            ended.map(|(address, task)| (*address, task.tracee.pid, task.end.copy(py))).collect()
        };
        for (address, pid, teller) in left {
            let Some(object) = teller.object(py, address) else { continue };
            // SAFETY: the task is held.
            names.extend(unsafe { task_name::name(py, object.as_ptr()) }.map(|name| (pid, name.text())));
        }
        names
    }

    /// The calling thread is this process from now on; which one was known for it.
    pub fn replace_own(&self, own: &Arc<Tracee>) -> Option<Arc<Tracee>> {
        lock(&self.numbers).note(own.pid, native_id());
        lock(&self.threads).insert(native_id(), own.clone())
    }

    /// The calling thread has ended.
    pub fn thread_ended(&self, host: &Host, own: &Arc<Tracee>) {
        lock(&self.threads).retain(|_, t| !Arc::ptr_eq(t, own));
        let given = lock(&process(own).name).clone();
        if let Some(name) = given.or_else(|| process(own).last_name.get().cloned()) {
            lock(&self.ended_threads).keep(own.pid, Name::Given(name));
        }
        super::relations::gone_unseen(host, own);
        host.node.end_process(own);
        host.node.fold_counters(own);
        host.node.seq_leave(own);
        tokens::all_gone();
    }

    /// The process of the task at this address, which is alive; made at first sight, as a child of `parent` if that is known.
    pub fn task(&self, host: &Host, address: usize, parent: Option<&Tracee>) -> Arc<Tracee> {
        self.object_process(host, Kind::Task, address, parent)
    }

    /// The task, queue or port that the object at this address is; made at first sight. The object is alive, and one that weak
    /// references can be made to.
    pub fn object_process(&self, host: &Host, kind: Kind, address: usize, parent: Option<&Tracee>) -> Arc<Tracee> {
        let object = address as *mut ffi::PyObject;
        // SAFETY: who has a live object is attached.
        let py = unsafe { Python::assume_attached() };
        if kind == Kind::Task {
            task_name::learn(py);
        }
        let make = || match parent {
            Some(parent) => host.node.child(kind, address, parent),
            None => host.node.process(kind, address),
        };
        {
            let mut tasks = self.tasks.lock(py);
            let place = match tasks.all.entry(address) {
                Entry::Occupied(known) => return known.get().tracee.clone(),
                Entry::Vacant(place) => place,
            };
            // SAFETY: the caller is attached and the object alive.
            if kind == Kind::Task && unsafe { task_end::wait_for(object) } {
                return place.insert(Task { tracee: make(), end: Teller::Finaliser }).tracee.clone();
            }
        }
        let tracee = make();
        // SAFETY: the caller is attached and the object alive. Python code may run here, and no lock is held.
        let end = unsafe { weak_reference(object) }.map_or(Teller::None, Teller::Weak);
        let mut tasks = self.tasks.lock(py);
        if let Some(task) = tasks.all.get(&address) {
            let known = task.tracee.clone();
            drop(tasks);
            host.node.end_process(&tracee);
            return known;
        }
        if let Teller::Weak(reference) = &end {
            tasks.references.insert(reference.as_ptr() as usize, address);
        }
        tasks.all.insert(address, Task { tracee: tracee.clone(), end });
        drop(tasks);
        if kind == Kind::Queue {
            // SAFETY: the caller is attached and the object alive.
            unsafe { super::channels::note(py, tracee.pid, object) };
        }
        tracee
    }

    /// What the task, queue or port at this address is, if it was met before.
    pub fn known(&self, address: usize) -> Option<Arc<Tracee>> {
        // SAFETY: who has a live object is attached.
        let py = unsafe { Python::assume_attached() };
        self.tasks.lock(py).all.get(&address).map(|task| task.tracee.clone())
    }

    /// The living process, queue or port of a number. A task that is done is none, also where nobody has watched for its end and
    /// the program holds its object, and no more is a thread that is over; nor is a process that has told of its end, though its thread may not be gone.
    pub fn living(&self, py: Python<'_>, host: &'static Host, pid: u64) -> Option<Arc<Tracee>> {
        host.node.tracee(pid).filter(|tracee| !process(tracee).is_gone() && !self.is_done(py, host, tracee))
    }

    /// Whether a process is a task that is done, or a thread that is over: then it has ended from now on.
    fn is_done(&self, py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>) -> bool {
        match tracee.kind {
            Kind::Task => {}
            Kind::Thread => return self.is_over(py, host, tracee).unwrap_or(false),
            _ => return false,
        }
        let Ok(Some(task)) = self.object(py, tracee) else { return false };
        // SAFETY: attached; held. An exception that is set is put aside and back.
        unsafe {
            let _aside = Aside::new();
            let done = steps::is_done_task(py, task.as_ptr());
            if done {
                object_ended(py, host, tracee, task.as_ptr());
            }
            done
        }
    }

    /// Whether a process is a thread that has ended and of which no event has come: then it has ended from now on.
    fn is_over(&self, py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>) -> PyResult<bool> {
        let id = process(tracee).found.load(Ordering::Acquire);
        if id == 0 {
            return host.spawning.has_gone(py, host, tracee);
        }
        let over = !exists(id) && threads(py)?.iter().all(|(other, _)| *other != id);
        if over {
            self.thread_ended(host, tracee);
        }
        Ok(over)
    }

    /// The process of the thread that the threading module knows by this number, as `threading.get_ident` gives it.
    pub fn of_ident(&self, py: Python<'_>, host: &Host, ident: &Bound<'_, PyAny>) -> Option<Arc<Tracee>> {
        let threading = crate::ffi::standard::present(py, "threading")?;
        let active = threading.getattr("_active").ok()?.cast_into::<PyDict>().ok()?;
        let thread = active.get_item(ident).ok()??;
        // SAFETY: held; attached, with nothing set. The attribute is a plain one of the class's own.
        let id = unsafe { super::spawning::attribute(py, thread.as_ptr(), "_native_id") }?.extract().ok()?;
        Some(self.thread(host, id))
    }

    /// The process of a task or thread object, or the queue that messages to an object are addressed to; `None` of any other.
    ///
    /// # Errors
    /// What reading a thread's attributes raises.
    pub fn of_object(&self, host: &'static Host, object: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Tracee>>> {
        let py = object.py();
        if let Some(class) = task_type(py) {
            if object.is_instance(class)? {
                let address = object.as_ptr() as usize;
                // SAFETY: attached; held.
                return Ok(match unsafe { steps::is_done_task(py, object.as_ptr()) } {
                    true => self.known(address).filter(|tracee| !self.is_done(py, host, tracee)),
                    false => Some(self.task(host, address, None)),
                });
            }
        }
        let thread = crate::ffi::standard::module(py, "threading")?.getattr("Thread")?;
        if !object.is_instance(&thread)? {
            let queue =
                is_queue(object).then(|| self.object_process(host, Kind::Queue, object.as_ptr() as usize, None));
            return Ok(queue.filter(|queue| queue.kind == Kind::Queue));
        }
        host.spawning.sweep(py, host)?;
        if let Some(tracee) = host.spawning.started(object.as_ptr() as usize) {
            return Ok(Some(tracee));
        }
        let id = calling::attribute(object, "native_id")?;
        if id.is_none() || !calling::method(object, "is_alive", ())?.extract::<bool>()? {
            return Ok(None);
        }
        Ok(Some(self.thread(host, id.extract()?)))
    }

    /// The process of a task that has just been made. One that is done, as an eager one may be, is a process that has ended.
    ///
    /// # Errors
    /// As [`Directory::of_object`].
    pub fn of_made(&self, host: &'static Host, object: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Tracee>>> {
        let (py, found) = (object.py(), self.of_object(host, object)?);
        // SAFETY: attached; held.
        if found.is_some() || !unsafe { steps::is_done_task(py, object.as_ptr()) } {
            return Ok(found);
        }
        let tracee = self.task(host, object.as_ptr() as usize, None);
        self.is_done(py, host, &tracee);
        Ok(Some(tracee))
    }

    /// The thread or task object of a process, if it still exists.
    ///
    /// # Errors
    /// What the weak reference raises.
    pub fn object<'py>(&self, py: Python<'py>, tracee: &Arc<Tracee>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match tracee.kind {
            Kind::Task | Kind::Queue | Kind::Port => {
                let address = tracee.object.load(Ordering::Acquire);
                let teller = self.tasks.lock(py).all.get(&address).map(|task| task.end.copy(py));
                Ok(teller.and_then(|teller| teller.object(py, address)))
            }
            Kind::Thread => {
                let id = lock(&self.threads).iter().find(|(_, t)| Arc::ptr_eq(t, tracee)).map(|(id, _)| *id);
                let Some(id) = id else { return Ok(None) };
                Ok(threads(py)?.into_iter().find(|(number, _)| *number == id).map(|(_, object)| object))
            }
        }
    }

    /// Every task that is not done, with its process.
    ///
    /// # Errors
    /// What listing them raises.
    pub fn tasks<'py>(&self, py: Python<'py>, host: &Host) -> PyResult<Vec<(Arc<Tracee>, Bound<'py, PyAny>)>> {
        let Some(class) = task_type(py) else { return Ok(Vec::new()) };
        let done = class.getattr("done")?;
        let mut all = Vec::new();
        let classes = objects::with_derived(class)?;
        let types: Vec<_> = classes.iter().map(|class| class.as_ptr().cast()).collect();
        for object in objects::all(py, &types)? {
            if !done.call1((&object,))?.extract::<bool>()? {
                all.push((self.task(host, object.as_ptr() as usize, None), object));
            }
        }
        Ok(all)
    }

    /// Every object that messages go through and that was met.
    pub fn queues(&self, py: Python<'_>) -> Vec<Arc<Tracee>> {
        let tasks = self.tasks.lock(py);
        let queues = tasks.all.values().map(|task| &task.tracee).filter(|tracee| tracee.kind == Kind::Queue);
        queues.filter(|queue| known(queue).is_some()).cloned().collect()
    }

    /// Takes in every thread and task that exists and has not been seen yet, and finds out which ones have ended unseen.
    ///
    /// # Errors
    /// What listing them raises.
    pub fn refresh(&self, py: Python<'_>, host: &'static Host) -> PyResult<()> {
        let own = native_id();
        self.own_process(host, None);
        let mut alive = vec![own];
        // before 3.13, threads that threading did not start stay in its table when they have ended
        for (id, object) in threads(py)?.into_iter().filter(|(id, _)| exists(*id)) {
            alive.push(id);
            self.thread_of(host, id, &object);
        }
        host.spawning.sweep(py, host)?;
        let gone: Vec<Arc<Tracee>> = {
            let threads = lock(&self.threads);
            threads.iter().filter(|(id, _)| !alive.contains(id) && !exists(**id)).map(|(_, t)| t.clone()).collect()
        };
        gone.iter().for_each(|tracee| self.thread_ended(host, tracee));
        let living = |tracee: &&Arc<Tracee>| tracee.kind == Kind::Task && tracee.is_alive();
        let known: Vec<_> = self.tasks.lock(py).all.values().map(|task| &task.tracee).filter(living).cloned().collect();
        for tracee in &known {
            self.is_done(py, host, tracee);
        }
        self.tasks(py, host).map(drop)
    }

    /// Nobody traces any more: from now on weak references tell of the tasks whose ends finalisers were to tell.
    pub fn leave_finalisers(&self, py: Python<'_>) {
        let awaited = |task: &Task| matches!(task.end, Teller::Finaliser);
        let all: Vec<(usize, Bound<'_, PyAny>)> = {
            let tasks = self.tasks.lock(py);
            let waiting = tasks.all.iter().filter(|(_, task)| awaited(task));
            waiting.filter_map(|(address, task)| Some((*address, task.end.object(py, *address)?))).collect()
        };
        for (address, object) in all {
            // SAFETY: attached; held. Python code may run here, and no lock is held.
            let end = unsafe { weak_reference(object.as_ptr()) }.map_or(Teller::None, Teller::Weak);
            let mut tasks = self.tasks.lock(py);
            if tasks.all.get(&address).is_some_and(awaited) {
                if let Teller::Weak(reference) = &end {
                    tasks.references.insert(reference.as_ptr() as usize, address);
                }
                if let Some(task) = tasks.all.get_mut(&address) {
                    task.end = end;
                }
                drop(tasks);
                task_end::done(py);
            }
        }
    }

    /// The task at this address is about to be freed, and nothing of it has been cleared.
    pub fn finalised(&self, py: Python<'_>, host: &'static Host, address: usize) {
        // SAFETY: nothing of it has been cleared; attached.
        let ended = unsafe { self.tasks.lock(py).end(py, address, |end| matches!(end, Teller::Finaliser)) };
        if let Some(ended) = ended {
            // SAFETY: attached; nothing of it has been cleared.
            unsafe { object_ended(py, host, &ended.tracee, address as *mut ffi::PyObject) };
            host.node.fold_counters(&ended.tracee);
            task_end::done(py);
        }
    }

    /// The object of this weak reference is about to be freed, and nothing of it has been cleared.
    fn referent_ended(&self, py: Python<'_>, host: &'static Host, reference: usize) -> Option<Task> {
        let address = self.tasks.lock(py).references.remove(&reference)?;
        // SAFETY: as above.
        let ended = unsafe { self.tasks.lock(py).end(py, address, |_| true) }?;
        // SAFETY: attached; as above.
        unsafe { object_ended(py, host, &ended.tracee, address as *mut ffi::PyObject) };
        host.node.fold_counters(&ended.tracee);
        Some(ended)
    }
}

/// An object is about to be freed, or is a task that was found to be done.
///
/// # Safety
/// Attached; nothing of the object has been cleared.
unsafe fn object_ended(py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>, object: *mut ffi::PyObject) {
    match tracee.kind {
        Kind::Port => super::ports::collected(host, tracee),
        // threads that have met it may remember its record
        Kind::Queue => known(tracee).into_iter().for_each(|process| {
            senders::gone(py, &process.senders);
            super::buffers::gone(tracee);
        }),
        // SAFETY: the caller's promise.
        Kind::Task => unsafe { super::relations::task_gone(py, host, tracee, object) },
        _ => {}
    }
    host.node.end_process(tracee);
    host.node.seq_leave(tracee);
}

/// Whether the threading module knows of one thread only.
pub fn is_one_thread(py: Python<'_>) -> PyResult<bool> {
    Ok(threads(py)?.len() <= 1)
}

/// Threads that Python knows of: number and object. Reads the threading module's own table, and runs none of its code.
fn threads(py: Python<'_>) -> PyResult<Vec<(u64, Bound<'_, PyAny>)>> {
    let Some(threading) = crate::ffi::standard::present(py, "threading") else { return Ok(Vec::new()) };
    let active = threading.getattr("_active")?.cast_into::<PyDict>()?.copy()?;
    let mut all = Vec::new();
    for thread in active.values() {
        if let Ok(id) = thread.getattr("_native_id") {
            if let Ok(id) = id.extract::<u64>() {
                all.push((id, thread));
            }
        }
    }
    Ok(all)
}

/// Classes whose objects are what messages are addressed to while it isn't known who will take them.
const QUEUES: [(&str, &str); 12] = [
    ("queue", "Queue"),
    ("_queue", "SimpleQueue"),
    ("queue", "_PySimpleQueue"),
    ("asyncio.queues", "Queue"),
    ("concurrent.futures._base", "Executor"),
    ("concurrent.futures._base", "Future"),
    ("_asyncio", "Future"),
    ("asyncio.futures", "_PyFuture"),
    ("multiprocessing.queues", "Queue"),
    ("multiprocessing.queues", "SimpleQueue"),
    ("multiprocessing.connection", "_ConnectionBase"),
    ("multiprocessing.pool", "Pool"),
];

/// Whether an object is of one of [`QUEUES`], of those modules that the program has imported.
fn is_queue(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    let Ok(modules) = py.import("sys").and_then(|sys| sys.getattr("modules")) else { return false };
    QUEUES.iter().any(|(module, name)| {
        let class = modules.get_item(module).and_then(|module| module.getattr(name));
        // SAFETY: both are classes, and stand; attached. No class of the program's is asked.
        class.is_ok_and(|class| unsafe {
            ffi::PyType_Check(class.as_ptr()) != 0
                && ffi::PyType_IsSubtype(object.get_type_ptr(), class.as_ptr().cast()) != 0
        })
    })
}

/// asyncio's own task class, if the program has imported it.
#[inline]
pub fn task_type<'py>(py: Python<'py>) -> Option<&'py Bound<'py, PyAny>> {
    static KNOWN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    #[cold]
    fn find<'py>(py: Python<'py>) -> Option<&'py Bound<'py, PyAny>> {
        let modules = py.import("sys").ok()?.getattr("modules").ok()?;
        let class = modules.get_item("_asyncio").ok()?.getattr("Task").ok()?;
        Some(KNOWN.get_or_init(py, || class.unbind()).bind(py))
    }
    KNOWN.get(py).map(|known| known.bind(py)).or_else(|| find(py))
}

/// A weak reference that calls [`task_died`].
///
/// # Safety
/// Attached; `task` is alive.
unsafe fn weak_reference(task: *mut ffi::PyObject) -> Option<Py<PyAny>> {
    static CALLBACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // SAFETY: attached; an exception that is set is put aside and back, and collections are held back on 3.11, where they
    // would run at once and in the midst of an event.
    unsafe {
        let py = Python::assume_attached();
        let _aside = Aside::new();
        let _uncollected = Uncollected::new();
        let made = || vectorcall::callable(py, task_died, std::ptr::null_mut());
        let reference = match CALLBACK.get_or_try_init(py, made) {
            Ok(callback) => ffi::PyWeakref_NewRef(task, callback.as_ptr()),
            Err(_) => std::ptr::null_mut(),
        };
        if reference.is_null() {
            ffi::PyErr_Clear();
        }
        Bound::from_owned_ptr_or_opt(py, reference).map(Bound::unbind)
    }
}

/// A task object is about to be freed.
///
/// # Safety
/// As [`vectorcall::Function`].
unsafe extern "C" fn task_died(
    _this: *mut ffi::PyObject, args: *const *mut ffi::PyObject, nargsf: usize, _keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: a plain question; at its very end the interpreter lets nobody attach any more
    let ends = unsafe { ffi::Py_IsInitialized() } == 0;
    if let Some(host) = super::try_host().filter(|_| !ends && vectorcall::nargs(nargsf) == 1) {
        // SAFETY: called attached, with one argument: the weak reference, or what somebody who has the callback from it passes.
        let (py, reference) = unsafe { (Python::assume_attached(), *args as usize) };
        super::door::guard(|| {
            if let Some(Task { end: Teller::Weak(reference), .. }) = host.directory.referent_ended(py, host, reference)
            {
                drop(reference.into_bound(py)); // let go of now: nothing else says here that this thread is attached
            }
        });
    }
    vectorcall::none()
}
