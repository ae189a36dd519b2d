//! Threads and tasks as processes: maps objects to processes and back.
//!
//! A task is known by its address. A weak reference removes it before the address is used again. A thread is known by
//! the operating system's number.
//!
//! # Roles
//! Attached threads look objects up and add them. A thread removes itself. Weak references remove others.
//!
//! # States
//! An object is unknown, known, or removed. `Process::is_gone` is set once, when the process announces its end.
//! `Process::found` is a thread's number until its first event, then 0.
//!
//! # Orderings
//! Locks order the maps. No Python code runs under them. The words of [`Process`] are `Release` and `Acquire`.
//!
//! # Checked by
//! `tests/python/test_trace_processes.py`, `tests/python/test_process_pids.py`, `tests/python/test_door.py`.

use super::thread_ids::{native_id, threads};
use crate::state::{
    above::above,
    buffer::Buffer,
    directory::Directory,
    host::Host,
    lock,
    process::{known, process},
    senders,
    tasks::{EndNotice, Task},
};
use inviso_core::host::tracee::{Kind, Tracee};
use inviso_cpython::{
    frames::frame::Frame,
    hooks::vectorcall,
    interpreter::{calling, Aside, Uncollected},
    object::tracked as objects,
    tasks::{
        name::{self as task_name, Name},
        running::task_type,
        steps,
    },
};
use inviso_port::platform::may_have_thread;
use pyo3::{ffi, prelude::*, sync::PyOnceLock, types::*};
use rustc_hash::FxHashMap;
use std::sync::{atomic::Ordering, Arc};

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
        // a search for threads may have found this one meanwhile
        if let Some(tracee) = threads.get(&id) {
            process(tracee).found.store(0, Ordering::Release);
            return tracee.clone();
        }
        let announced = object.and_then(|object| host.spawning.adopted(object));
        let tracee = announced.unwrap_or_else(|| host.node.process(Kind::Thread, 0));
        threads.insert(id, tracee.clone());
        drop(threads);
        // before the number: a trace port in another thread describes each thread that has a number, once
        super::pending::keep_name(&tracee, frame);
        lock(&self.numbers).note(tracee.pid, id);
        tracee
    }

    /// The operating system's number of a thread, and its name, as far as it is known without Python.
    pub fn number(&self, host: &Host, pid: u64) -> Option<(u64, String)> {
        let (number, seen) = lock(&self.numbers).of.get(&pid)?.clone();
        let living = host.node.tracee(pid);
        let of = living.as_deref().and_then(known);
        let given = of.and_then(|of| lock(&of.name).clone());
        let name = given.or_else(|| Some(seen).filter(|name| !name.is_empty()));
        let name = name.or_else(|| of.and_then(|of| of.last_name.get().cloned()));
        Some((number, name.or_else(|| lock(&self.ended_threads).find(pid)).unwrap_or_default()))
    }

    /// The numbers of all known threads.
    pub fn numbers(&self) -> Vec<(u64, u64)> {
        lock(&self.numbers).of.iter().map(|(pid, (number, _))| (*pid, *number)).collect()
    }

    /// Notes the names of the threads that Python knows, for callers that can't run Python.
    ///
    /// # Errors
    /// What listing them raises.
    pub fn name_threads(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        for (id, object) in threads(py)?.into_iter().filter(|(id, _)| may_have_thread(*id)) {
            self.thread_of(host, id, &object);
        }
        Ok(())
    }

    /// Finds or makes the process of an existing thread of this number.
    fn thread(&self, host: &Host, id: u64) -> Arc<Tracee> {
        let make = || host.node.process(Kind::Thread, 0);
        let tracee = Directory::found(&mut lock(&self.threads), id, make);
        lock(&self.numbers).note(tracee.pid, id);
        tracee
    }

    /// The process that `threads` has for this number. If there is none, makes one, which all callers get from then on.
    fn found(threads: &mut FxHashMap<u64, Arc<Tracee>>, id: u64, make: impl FnOnce() -> Arc<Tracee>) -> Arc<Tracee> {
        let new = || {
            let tracee = make();
            process(&tracee).found.store(id, Ordering::Release);
            tracee
        };
        threads.entry(id).or_insert_with(new).clone()
    }

    /// Finds or makes the process of an existing thread of this number and object. It is the process that was announced
    /// for the object, even if no event of it was seen.
    fn thread_of(&self, host: &Host, id: u64, object: &Bound<'_, PyAny>) -> Arc<Tracee> {
        let announced = || host.spawning.begun(object.as_ptr() as usize);
        let make = || announced().unwrap_or_else(|| host.node.process(Kind::Thread, 0));
        let tracee = Directory::found(&mut lock(&self.threads), id, make);
        // SAFETY: attached; the object is held. The attribute is a plain one of the class.
        let name = unsafe { inviso_cpython::interpreter::generic::attribute(object.py(), object.as_ptr(), "_name") };
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
        // a task whose end was emitted while its object still exists
        let notice = self.tasks.lock(py).all.values().find(|task| task.tracee.pid == pid)?.end.copy(py);
        let object = notice.object(py)?;
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
            let ended = tasks.all.values().filter(|task| !task.tracee.is_alive());
            ended.map(|task| (task.tracee.pid, task.end.copy(py))).collect()
        };
        for (pid, notice) in left {
            let Some(object) = notice.object(py) else { continue };
            // SAFETY: the task is held.
            names.extend(unsafe { task_name::name(py, object.as_ptr()) }.map(|name| (pid, name.text())));
        }
        names
    }

    /// Makes the calling thread this process. Returns the process that it was.
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
        super::orphans::gone_unseen(host, own);
        host.node.end_process(own);
        host.node.fold_counters(own);
        host.node.seq_leave(own);
        (above().tokens_idle)();
    }

    /// The process of the living task at this address. Made at first sight, as a child of `parent` if that is known.
    pub fn task(&self, host: &Host, address: usize, parent: Option<&Tracee>) -> Arc<Tracee> {
        self.object_process(host, Kind::Task, address, parent)
    }

    /// The task, queue or port of the object at this address; made at first sight. The object is alive and supports
    /// weak references.
    pub fn object_process(&self, host: &Host, kind: Kind, address: usize, parent: Option<&Tracee>) -> Arc<Tracee> {
        let object = address as *mut ffi::PyObject;
        // SAFETY: the caller has a live object, so it is attached.
        let py = unsafe { Python::assume_attached() };
        if kind == Kind::Task {
            task_name::learn(py);
        }
        if let Some(known) = self.known(address) {
            return known;
        }
        let tracee = match parent {
            Some(parent) => host.node.child(kind, address, parent),
            None => host.node.process(kind, address),
        };
        // SAFETY: the caller is attached and the object is alive. Python code may run here, and no lock is held.
        let end = EndNotice(unsafe { weak_reference(object) });
        let mut tasks = self.tasks.lock(py);
        if let Some(task) = tasks.all.get(&address) {
            let known = task.tracee.clone();
            drop(tasks);
            host.node.end_process(&tracee);
            return known;
        }
        if let EndNotice(Some(reference)) = &end {
            tasks.references.insert(reference.as_ptr() as usize, address);
        }
        tasks.all.insert(address, Task { tracee: tracee.clone(), end });
        drop(tasks);
        if kind == Kind::Queue {
            // SAFETY: the caller is attached and the object is alive.
            unsafe { super::channels::note(py, tracee.pid, object) };
        }
        tracee
    }

    /// The task, queue or port at this address, if it was met before.
    pub fn known(&self, address: usize) -> Option<Arc<Tracee>> {
        // SAFETY: the caller has a live object, so it is attached.
        let py = unsafe { Python::assume_attached() };
        self.tasks.lock(py).all.get(&address).map(|task| task.tracee.clone())
    }

    /// The living process, queue or port of a number. A done task is not living, even if its end was not watched and
    /// the program holds its object. Neither is a thread that has ended, nor a process that has announced its end, even
    /// if its thread still exists.
    pub fn living(&self, py: Python<'_>, host: &'static Host, pid: u64) -> Option<Arc<Tracee>> {
        host.node.tracee(pid).filter(|tracee| !process(tracee).is_gone() && !self.is_done(py, host, tracee))
    }

    /// Whether a process is a done task or an ended thread. If so, it has ended from now on.
    fn is_done(&self, py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>) -> bool {
        match tracee.kind {
            Kind::Task => {}
            Kind::Thread => return self.is_over(py, host, tracee).unwrap_or(false),
            _ => return false,
        }
        let Ok(Some(task)) = self.object(py, tracee) else { return false };
        // SAFETY: attached; the task is held. An exception that is set is put aside and restored.
        unsafe {
            let _aside = Aside::new();
            let done = steps::is_done_task(py, task.as_ptr());
            if done {
                object_ended(py, host, tracee, task.as_ptr());
            }
            done
        }
    }

    /// Whether a process is a thread that has ended without any event. If so, it has ended from now on.
    fn is_over(&self, py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>) -> PyResult<bool> {
        let id = process(tracee).found.load(Ordering::Acquire);
        if id == 0 {
            return host.spawning.has_gone(py, host, tracee);
        }
        let over = !may_have_thread(id) && threads(py)?.iter().all(|(other, _)| *other != id);
        if over {
            self.thread_ended(host, tracee);
        }
        Ok(over)
    }

    /// The process of the thread that the threading module knows by this number, as returned by `threading.get_ident`.
    pub fn of_ident(&self, py: Python<'_>, host: &Host, ident: &Bound<'_, PyAny>) -> Option<Arc<Tracee>> {
        let threading = inviso_cpython::interpreter::standard::present(py, "threading")?;
        let active = threading.getattr("_active").ok()?.cast_into::<PyDict>().ok()?;
        let thread = active.get_item(ident).ok()??;
        // SAFETY: the thread object is held; attached, no exception is set. The attribute is a plain one of the class.
        let id = unsafe { inviso_cpython::interpreter::generic::attribute(py, thread.as_ptr(), "_native_id") }?
            .extract()
            .ok()?;
        Some(self.thread(host, id))
    }

    /// The process of a task or thread object, or the queue for messages to another object; `None` for any other
    /// object.
    ///
    /// # Errors
    /// An error that reading a thread's attributes raises.
    pub fn of_object(&self, host: &'static Host, object: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Tracee>>> {
        let py = object.py();
        if let Some(class) = task_type(py) {
            if object.is_instance(class)? {
                let address = object.as_ptr() as usize;
                // SAFETY: attached; the object is held.
                return Ok(match unsafe { steps::is_done_task(py, object.as_ptr()) } {
                    true => self.known(address).filter(|tracee| !self.is_done(py, host, tracee)),
                    false => Some(self.task(host, address, None)),
                });
            }
        }
        let thread = inviso_cpython::interpreter::standard::module(py, "threading")?.getattr("Thread")?;
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

    /// The process of a task that has just been made. If the task is done, as an eager task may be, its process has
    /// ended.
    ///
    /// # Errors
    /// As [`Directory::of_object`].
    pub fn of_made(&self, host: &'static Host, object: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Tracee>>> {
        let (py, found) = (object.py(), self.of_object(host, object)?);
        // SAFETY: attached; the object is held.
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
    /// An error that the weak reference raises.
    pub fn object<'py>(&self, py: Python<'py>, tracee: &Arc<Tracee>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match tracee.kind {
            Kind::Task | Kind::Queue | Kind::Port => {
                let address = tracee.object.load(Ordering::Acquire);
                let notice = self.tasks.lock(py).all.get(&address).map(|task| task.end.copy(py));
                Ok(notice.and_then(|notice| notice.object(py)))
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
    /// An error that listing them raises.
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

    /// All objects that messages go through and that were met.
    pub fn queues(&self, py: Python<'_>) -> Vec<Arc<Tracee>> {
        let tasks = self.tasks.lock(py);
        let queues = tasks.all.values().map(|task| &task.tracee).filter(|tracee| tracee.kind == Kind::Queue);
        queues.filter(|queue| known(queue).is_some()).cloned().collect()
    }

    /// Adds every thread and task that exists and is not known yet. Finds those that have ended unseen.
    ///
    /// # Errors
    /// An error that listing them raises.
    pub fn refresh(&self, py: Python<'_>, host: &'static Host) -> PyResult<()> {
        let own = native_id();
        self.own_process(host, None);
        let mut alive = vec![own];
        // before 3.13 the threading module keeps ended threads that it did not start in its table
        for (id, object) in threads(py)?.into_iter().filter(|(id, _)| may_have_thread(*id)) {
            alive.push(id);
            self.thread_of(host, id, &object);
        }
        host.spawning.sweep(py, host)?;
        let gone: Vec<Arc<Tracee>> = {
            let threads = lock(&self.threads);
            threads
                .iter()
                .filter(|(id, _)| !alive.contains(id) && !may_have_thread(**id))
                .map(|(_, t)| t.clone())
                .collect()
        };
        gone.iter().for_each(|tracee| self.thread_ended(host, tracee));
        let living = |tracee: &&Arc<Tracee>| tracee.kind == Kind::Task && tracee.is_alive();
        let known: Vec<_> = self.tasks.lock(py).all.values().map(|task| &task.tracee).filter(living).cloned().collect();
        for tracee in &known {
            self.is_done(py, host, tracee);
        }
        self.tasks(py, host).map(drop)
    }

    /// The object of this weak reference is about to be freed, and nothing of it has been cleared.
    fn referent_ended(&self, py: Python<'_>, host: &'static Host, reference: usize) -> Option<Task> {
        let address = self.tasks.lock(py).references.remove(&reference)?;
        // SAFETY: attached; nothing of the object has been cleared.
        let ended = unsafe { self.tasks.lock(py).end(py, address) }?;
        // SAFETY: attached; nothing of the object has been cleared.
        unsafe { object_ended(py, host, &ended.tracee, address as *mut ffi::PyObject) };
        host.node.fold_counters(&ended.tracee);
        Some(ended)
    }
}

/// The end of an object that is about to be freed, or of a task that was found to be done.
///
/// # Safety
/// Attached; nothing of the object has been cleared.
unsafe fn object_ended(py: Python<'_>, host: &'static Host, tracee: &Arc<Tracee>, object: *mut ffi::PyObject) {
    match tracee.kind {
        Kind::Port => (above().port_gone)(host, tracee),
        // threads that have met the queue may remember its record
        Kind::Queue => known(tracee).into_iter().for_each(|process| {
            senders::gone(py, &process.senders);
            if let Ok(mut buffer) = process.buffer.try_lock() {
                *buffer = Buffer::default();
            }
        }),
        // SAFETY: attached; nothing of the task has been cleared.
        Kind::Task => unsafe { (above().task_gone)(py, host, tracee, object) },
        _ => {}
    }
    host.node.end_process(tracee);
    host.node.seq_leave(tracee);
}

/// Classes of objects that messages are addressed to while the receiver is not known.
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

/// Whether an object is of one of [`QUEUES`]. Looks only at modules that the program has imported.
fn is_queue(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    let Ok(modules) = py.import("sys").and_then(|sys| sys.getattr("modules")) else { return false };
    QUEUES.iter().any(|(module, name)| {
        let class = modules.get_item(module).and_then(|module| module.getattr(name));
        // SAFETY: both are classes and stand; attached. No metaclass of the program is called.
        class.is_ok_and(|class| unsafe {
            ffi::PyType_Check(class.as_ptr()) != 0
                && ffi::PyType_IsSubtype(object.get_type_ptr(), class.as_ptr().cast()) != 0
        })
    })
}

/// A weak reference that calls [`task_died`].
///
/// # Safety
/// Attached; `task` is alive.
pub unsafe fn weak_reference(task: *mut ffi::PyObject) -> Option<Py<PyAny>> {
    static CALLBACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // SAFETY: attached, and `task` is alive. An exception that is set is put aside and restored. On 3.11 collections
    // are held back: they would run at once, in the middle of an event.
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
    // SAFETY: a plain question; at its very end the interpreter lets no thread attach
    let ends = unsafe { ffi::Py_IsInitialized() } == 0;
    if let Some(host) = crate::state::host::try_host().filter(|_| !ends && vectorcall::nargs(nargsf) == 1) {
        // SAFETY: called attached, with one argument: the weak reference, or whatever code that got the callback from
        // it passes.
        let (py, reference) = unsafe { (Python::assume_attached(), *args as usize) };
        crate::door::guard(|| {
            if let Some(Task { end: EndNotice(Some(reference)), .. }) =
                host.directory.referent_ended(py, host, reference)
            {
                drop(reference.into_bound(py)); // let go of now: nothing else says here that this thread is attached
            }
        });
    }
    vectorcall::none()
}
