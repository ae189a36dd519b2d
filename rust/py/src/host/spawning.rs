//! Who starts whom, and how it ends: threads through the threading module's own functions, tasks through the task class's
//! initialiser.
//!
//! In place only while some session has asked for `procs` or for flags to be inherited.

use super::{
    call, directory, door, exits, groups,
    here::Here,
    instruments::Instrument,
    modules::{self, Module},
    originals, parcels, relations, scheduling, task_init, tokens,
    watch::{self, Ended, Handler},
    Host,
};
use crate::{
    capture::{self, Limits, Raised},
    ffi::{
        frame::Frame,
        held::dict_get,
        interned::Interned,
        steps::{self, Outcome},
        Aside,
    },
};
use inviso_core::{
    flags::Flags,
    messages::About,
    tracee::{Kind, Tracee},
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*, types::*};
use rustc_hash::FxHashMap;
use std::{
    ffi::c_int,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, Mutex,
    },
};

static ON: AtomicBool = AtomicBool::new(false);
static BOOTSTRAP_CODE: AtomicUsize = AtomicUsize::new(0);

/// The flags for whose sake spawning is watched; those of links for task groups.
pub const FLAGS: Flags = Flags(
    Flags::PROCS.0
        | Flags::SET_ON_SPAWN.0
        | Flags::SET_ON_FIRST_SPAWN.0
        | Flags::SET_ON_LINK.0
        | Flags::SET_ON_FIRST_LINK.0
        | Flags::EXITING.0,
);

/// Who starts whom, and how it ends.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(FLAGS) || wants.related || wants.tokens,
    |py, host| host.spawning.begin(py, host),
    |py, host| host.spawning.end(py, host),
    forget,
);

/// Where tasks come from.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| host.spawning.adopt_asyncio(py, host))];

/// `threading.Thread.start`.
pub static START: Handler =
    Handler { begin: Some(on_start), end: Some(on_start_failed), raises_only: true, ..Handler::NONE };

/// `threading.Thread._bootstrap_inner`: a thread's life.
pub static BOOTSTRAP: Handler = Handler { begin: Some(on_bootstrap), end: Some(on_thread_end), ..Handler::NONE };

/// What the threading module calls with an exception that has ended a thread.
pub static EXCEPTHOOK: Handler = Handler { begin: Some(on_excepthook), ..Handler::NONE };

/// Coroutines that tasks run. What is run by other objects (`collections.abc.Coroutine`, a coroutine of Cython's) has no code to be
/// watched: see [`scheduling::watch_ends`].
pub static COROUTINE: Handler = Handler { end: Some(on_coroutine_end), ..Handler::NONE };

/// A thread that is being started.
struct Pending {
    tracee: Arc<Tracee>,
    parent: u64,
    /// With what, once the start was seen.
    name: Option<Vec<u8>>,
    /// Whether nobody is told of it.
    is_hidden: bool,
    /// Its object, weakly: a thread may begin and end where nobody watches any more, and another object have its address then.
    object: Option<Py<PyAny>>,
}

/// Threads between their start and their first event.
#[derive(Default)]
pub struct Spawning {
    pending: Mutex<FxHashMap<usize, Pending>>,
    started: Mutex<FxHashMap<u64, (u64, Vec<u8>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Spawning {
    /// The calling thread's object, at the bottom of its frames, where something may have been announced of it.
    pub fn own_object(&self, frame: Option<Frame>) -> Option<usize> {
        let may_be = !lock(&self.pending).is_empty();
        may_be.then(|| thread_object(frame)).flatten().map(|object| object as usize)
    }

    /// The process that was announced for the calling thread, whose object this is.
    pub fn adopted(&self, object: usize) -> Option<Arc<Tracee>> {
        let pending = lock(&self.pending).remove(&object)?;
        directory::process(&pending.tracee).announced.store(0, Ordering::Release);
        if let Some(name) = pending.name {
            lock(&self.started).insert(pending.tracee.pid, (pending.parent, name));
        }
        Some(pending.tracee)
    }

    /// The process that a thread object will be; inherits from `parent`.
    pub fn announce(&self, host: &Host, object: usize, parent: &Tracee) -> Arc<Tracee> {
        let tracee = host.node.child(Kind::Thread, 0, parent);
        directory::process(&tracee).announced.store(object, Ordering::Release);
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

    /// A thread object's thread will be no process that anybody finds.
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

    /// What was announced of a thread object, unless its thread has begun: then it is only the waiting for that which was broken off.
    fn failed(&self, object: usize) -> Option<Pending> {
        if !lock(&self.pending).contains_key(&object) || is_beginning(object) {
            return None;
        }
        lock(&self.pending).remove(&object)
    }

    /// The process that was announced for a thread object whose thread runs, and which has come to no event of its own.
    pub fn begun(&self, object: usize) -> Option<Arc<Tracee>> {
        lock(&self.pending).remove(&object).map(|pending| pending.tracee)
    }

    /// Ends the processes of threads that have begun and ended since the last session that watched for it went away.
    ///
    /// # Errors
    /// What looking at the threading module's tables raises.
    pub fn sweep(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        let waiting: Vec<usize> = lock(&self.pending).keys().copied().collect();
        waiting.into_iter().try_for_each(|address| self.sweep_one(py, host, address).map(drop))
    }

    /// Whether a process is a thread that has begun and ended unseen: then it has ended from now on.
    ///
    /// # Errors
    /// As [`Spawning::sweep`].
    pub fn has_gone(&self, py: Python<'_>, host: &Host, tracee: &Tracee) -> PyResult<bool> {
        let address = directory::process(tracee).announced.load(Ordering::Acquire);
        if address == 0 || lock(&self.pending).get(&address).is_none_or(|pending| pending.tracee.pid != tracee.pid) {
            return Ok(false);
        }
        self.sweep_one(py, host, address)
    }

    /// Ends the process that was announced for the thread object of this address, if that thread is over; whether it was.
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
        relations::gone_unseen(host, &tracee);
        host.node.end_process(&tracee);
        Ok(true)
    }

    fn is_hidden(&self, object: usize) -> bool {
        lock(&self.pending).get(&object).is_some_and(|pending| pending.is_hidden)
    }

    /// The process of a thread object whose thread has been started but not come to its first event.
    pub fn started(&self, object: usize) -> Option<Arc<Tracee>> {
        lock(&self.pending).get(&object).map(|p| p.tracee.clone())
    }

    /// Watches from now on.
    ///
    /// # Errors
    /// What importing threading and asyncio, or `sys.monitoring`, raises.
    pub fn begin(&self, py: Python<'_>, host: &'static Host) -> PyResult<()> {
        let threading = crate::ffi::standard::module(py, "threading")?.into_any();
        let codes = |path| originals::codes(&threading, &[path]);
        watch::add(py, host, &START, &codes("Thread.start")?)?;
        // noted, if it is wrapped: it is a thread's first frame
        codes("Thread._bootstrap")?;
        let bootstrap = codes("Thread._bootstrap_inner")?;
        let known = bootstrap.first().map_or(0, |code| code.as_ptr() as usize);
        BOOTSTRAP_CODE.store(known, Ordering::Release);
        watch::add(py, host, &BOOTSTRAP, &bootstrap)?;
        for maker in codes("_make_invoke_excepthook")? {
            for constant in maker.getattr("co_consts")?.try_iter()? {
                let constant = constant?;
                // SAFETY: a type check.
                if unsafe { ffi::PyCode_Check(constant.as_ptr()) } != 0 {
                    watch::add(py, host, &EXCEPTHOOK, &[constant])?;
                }
            }
        }
        self.sweep(py, host)?;
        modules::need(py, host, &MODULES)
    }

    /// The program has imported asyncio.
    fn adopt_asyncio(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        if !(modules::is_there(py, "asyncio")? && modules::is_there(py, "_asyncio")?) {
            return Ok(()); // a file of the program's has this name
        }
        steps::learn(py)?; // what tells a coroutine that has ended, whose frame is not to be read
        ON.store(true, Ordering::Release);
        task_init::take(py, task_init::SPAWNING, initialise)?;
        self.watch_existing(py, host)
    }

    /// Nobody asks any more.
    ///
    /// # Errors
    /// What `sys.monitoring` raises.
    pub fn end(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        ON.store(false, Ordering::Release);
        task_init::give_back(py, task_init::SPAWNING, initialise);
        scheduling::leave_ends();
        lock(&self.started).clear();
        watch::remove(py, host, &[&START, &BOOTSTRAP, &EXCEPTHOOK, &COROUTINE])?;
        modules::leave(py, host, &MODULES)
    }

    /// Tasks that exist already: their end is to be seen, too.
    fn watch_existing(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        for (tracee, task) in host.directory.tasks(py, host)? {
            // SAFETY: attached, no exception is set. Another thread may be in the midst of making it: it has no coroutine yet, of
            // which `get_coro` knows nothing (3.12). It stands, and its type is looked at.
            unsafe {
                let Some(coroutine) = Bound::from_owned_ptr_or_opt(py, steps::coroutine_of(task.as_ptr())) else {
                    continue;
                };
                watch_end(py, host, coroutine.as_ptr())?;
                directory::process(&tracee).coroutine.store(coroutine.as_ptr() as usize, Ordering::Release);
            }
        }
        Ok(())
    }
}

/// The thread object of the calling thread, told by the first of its Python frames, `threading.Thread._bootstrap` (or a wrapper of that);
/// `frame` is the innermost one. Borrowed from that frame.
fn thread_object(frame: Option<Frame>) -> Option<*mut ffi::PyObject> {
    // SAFETY: frames of the calling thread, which is attached and runs them.
    unsafe {
        let (mut frame, mut bootstrap) = (frame?, None);
        loop {
            if capture::is_text(crate::ffi::frame::code_qualname(frame.code()), "Thread._bootstrap") {
                bootstrap = Some(frame);
            }
            let Some(caller) = frame.caller() else { break };
            frame = caller;
        }
        if let Some(bootstrap) = bootstrap {
            return Some(bootstrap.local(0));
        }
        if originals::is_around(frame.function()) {
            // a wrapper's frame, before that of what it wraps; any of its first arguments may be the thread
            let is_thread = |object: &*mut ffi::PyObject| {
                !object.is_null() && !capture::attribute_of_class(ffi::Py_TYPE(*object), "_bootstrap_inner").is_null()
            };
            return (0..3).map(|n| frame.given(n).as_ptr()).find(is_thread);
        }
        (frame.code() as usize == BOOTSTRAP_CODE.load(Ordering::Acquire)).then(|| frame.local(0))
    }
}

/// Notes the calling thread's name with its process: its counters outlive the thread.
pub fn keep_name(own: &Tracee, frame: Option<Frame>) {
    let Some(object) = thread_object(frame) else { return };
    Python::attach(|py| {
        // SAFETY: attached; the object is held by the thread's first frame.
        let name = unsafe { attribute(py, object, "_name") };
        if let Some(name) = name.and_then(|n| n.extract::<String>().ok()) {
            directory::process(own).last_name.get_or_init(|| name);
        }
    });
}

/// A thread is about to be started.
fn on_start(here: &mut Here, frame: Frame) {
    // SAFETY: the first argument of a method whose frame is about to run; callbacks run attached on this thread.
    let object = unsafe {
        here.running.identify(here.host, &mut here.thread);
        frame.local(0)
    };
    if !can_start(object) || here.host.spawning.is_hidden(object as usize) {
        return; // the call is going to raise; or it is no thread of the program's
    }
    let mut name = vec![0; 8192];
    let mut out = Encoder::new(&mut name);
    if thread_name(here, object, &mut out).is_err() {
        out.truncate(0);
        let _ = out.nil();
    }
    let len = out.len();
    name.truncate(len);
    let parent = here.thread.current().clone();
    let announced = here.host.spawning.started(object as usize);
    let tracee = announced.unwrap_or_else(|| here.host.spawning.announce(here.host, object as usize, &parent));
    here.host.node.on_spawn(&mut here.thread, &tracee, &name);
    if !is_of_library(frame) {
        tokens::spawned(here, &tracee, &name);
    }
    if let Some(pending) = lock(&here.host.spawning.pending).get_mut(&(object as usize)) {
        pending.name = Some(name);
    }
    relations::link_announced(here, &tracee);
}

/// Whether the library starts a thread of its own: that is nobody's child where tokens are concerned.
fn is_of_library(start: Frame) -> bool {
    // SAFETY: the event's frame, whose caller runs; attached.
    unsafe {
        let Some(caller) = super::passing::caller(start) else { return false };
        let module = crate::ffi::frame::module_of(caller.globals());
        !module.is_null()
            && capture::text_is(module.as_ptr(), |name| {
                ["asyncio.", "concurrent.futures", "multiprocessing"].iter().any(|library| name.starts_with(library))
            })
    }
}

/// The start has failed: the process that has been told of ends at once.
fn on_start_failed(here: &mut Here, frame: Frame, how: Ended) {
    // SAFETY: the event's frame still stands; attached.
    let object = unsafe { frame.local(0) } as usize;
    let Some(Pending { tracee, name, .. }) = here.host.spawning.failed(object) else { return };
    if name.is_some() {
        // SAFETY: as above.
        unsafe { here.running.identify(here.host, &mut here.thread) };
        let reason = reason(&tracee, how.error());
        relations::unborn(here.host, &mut here.thread, &tracee, &reason);
    }
    here.host.node.end_process(&tracee);
}

/// A thread begins.
fn on_bootstrap(here: &mut Here, _frame: Frame) {
    let told = lock(&here.host.spawning.started).remove(&here.thread.own().pid);
    if let Some((parent, name)) = told {
        here.thread.switch_to_own();
        here.host.node.on_spawned(&mut here.thread, parent, &name);
        relations::tell_announced(here);
    }
}

/// An exception has ended a thread: noted for its exit reason.
fn on_excepthook(here: &mut Here, _frame: Frame) {
    // SAFETY: attached; a new reference or null.
    unsafe {
        let error = ffi::PyErr_GetHandledException();
        if !error.is_null() {
            here.reason = Some(reason(here.thread.own(), Some(Raised::made(error))));
            ffi::Py_DECREF(error);
        }
    }
}

/// A thread ends.
fn on_thread_end(here: &mut Here, _frame: Frame, how: Ended) {
    if here.told_exit {
        return;
    }
    here.thread.switch_to_own();
    let own = here.thread.own().clone();
    let reason = here.reason.take().unwrap_or_else(|| reason(&own, how.error()));
    here.told_exit = true;
    relations::exit_thread(here, &own, &reason);
}

/// A coroutine ends; if it is the outermost one of a task, so does the task.
fn on_coroutine_end(here: &mut Here, frame: Frame, how: Ended) {
    // SAFETY: attached; the event's frame still stands.
    unsafe {
        let generator = frame.generator() as usize;
        here.running.identify(here.host, &mut here.thread);
        #[cfg(not(Py_3_13))]
        note_made(here);
        let current = here.thread.current().clone();
        if generator == 0 || current.kind != Kind::Task {
            return;
        }
        if directory::process(&current).coroutine.load(Ordering::Acquire) == generator {
            // its step runs, so that the task stands
            let task = current.object.load(Ordering::Acquire) as *mut ffi::PyObject;
            let reason = match how {
                Ended::Returned(_) if !task.is_null() => {
                    parcels::quietly(here, |_, _| reason_of_return(&current, task))
                }
                _ => reason(&current, how.error()),
            };
            if !task.is_null() {
                here.running.note_name(here.host, task as usize);
            }
            relations::exit(here.host, &mut here.thread, &current, &reason);
            here.host.node.end_process(&current);
        }
    }
}

/// Why a task ends whose coroutine returns. A cancellation that was asked for in its last step it meets now.
///
/// # Safety
/// Attached, no exception is set; the task stands.
unsafe fn reason_of_return(ending: &Tracee, task: *mut ffi::PyObject) -> Vec<u8> {
    // SAFETY: the caller's promise; the message is held.
    unsafe {
        let Some(message) = steps::cancellation(task) else { return normal() };
        let told = directory::process(ending).exits.reason_of(message.as_ptr());
        told.unwrap_or_else(|| {
            written(|out| {
                out.tuple(2)?;
                out.atom("asyncio.exceptions.CancelledError")?;
                if message.is_null() || message.as_ptr() == ffi::Py_None() {
                    return out.tuple(0);
                }
                out.tuple(1)?;
                capture::encode(message.as_ptr(), out, &Limits::DEFAULT)
            })
        })
    }
}

/// The end of the task that runs this coroutine is to be seen.
///
/// # Errors
/// What `sys.monitoring` raises.
///
/// # Safety
/// It stands, and no exception is set.
unsafe fn watch_end(py: Python<'_>, host: &Host, coroutine: *mut ffi::PyObject) -> PyResult<()> {
    // SAFETY: the caller's promise; the frame stands with its coroutine.
    unsafe {
        match steps::frame_of(coroutine) {
            Some(frame) => watch::add(py, host, &COROUTINE, &[Bound::from_borrowed_ptr(py, frame.code())]),
            None => scheduling::watch_ends(py),
        }
    }
}

/// A task's step has ended. If it was the last one, and no coroutine was seen to end, the task's end is told.
///
/// # Safety
/// Attached, no exception is set; the task stands.
pub unsafe fn step_ended(here: &mut Here, task: *mut ffi::PyObject) {
    // SAFETY: the caller's promise.
    unsafe {
        if !steps::is_done(task) {
            return;
        }
        let Some(tracee) = here.host.directory.known(task as usize).filter(|tracee| tracee.is_alive()) else { return };
        if !directory::go(here.host, &tracee) {
            let reason = reason_of_task(&tracee, task);
            relations::exit(here.host, &mut here.thread, &tracee, &reason);
        }
        here.host.node.end_process(&tracee);
    }
}

/// Why a task that is done has ended, as terms: what the task itself says. It gives the exception of a cancellation away once only,
/// so that is not asked for, and has no arguments.
///
/// # Safety
/// Attached, no exception is set; the task stands.
pub unsafe fn reason_of_task(ending: &Tracee, task: *mut ffi::PyObject) -> Vec<u8> {
    // SAFETY: the caller's promise; what the task has said is held.
    unsafe {
        match steps::outcome(task) {
            Outcome::Returned => return reason(ending, None),
            Outcome::Raised(error) => return reason(ending, Some(Raised::made(error.as_ptr()))),
            Outcome::Cancelled => {}
        }
        if let Some(told) = directory::process(ending).exits.last_reason() {
            return told;
        }
        written(|out| {
            out.tuple(2)?;
            out.atom("asyncio.exceptions.CancelledError")?;
            out.tuple(0)
        })
    }
}

/// `"normal"`, or `(type name, args)` of an exception, as terms.
pub fn reason(ending: &Tracee, error: Option<Raised>) -> Vec<u8> {
    // SAFETY: attached, and nothing is set; the exception is held by whoever raised it.
    if let Some(told) = error.and_then(|error| unsafe { exits::told(ending, error) }) {
        return told;
    }
    written(|out| match error {
        None => out.atom("normal"),
        // SAFETY: attached, and nothing is set; the exception is held by whoever raised it.
        Some(error) => unsafe { capture::exception(error, out, &Limits::DEFAULT) },
    })
}

/// What `write` writes, or `"normal"` if that doesn't fit.
fn written(write: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut out = Encoder::new(&mut bytes);
    if write(&mut out).is_err() {
        out.truncate(0);
        let _ = out.atom("normal");
    }
    let len = out.len();
    bytes.truncate(len);
    bytes
}

/// The reason of a process that ends well, as terms.
pub fn normal() -> Vec<u8> {
    let mut bytes = vec![0; 32];
    let mut out = Encoder::new(&mut bytes);
    let _ = out.atom("normal");
    let len = out.len();
    bytes.truncate(len);
    bytes
}

/// `(module, function, arguments)` of what a thread object will run, as a call that an executor is asked to make.
fn thread_name(here: &mut Here, thread: *mut ffi::PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: attached; generic attribute access runs none of the program's code for these plain attributes, whose values are
    // held meanwhile.
    unsafe {
        let call = parcels::made(here, |py| {
            let target = attribute(py, thread, "_target").filter(|target| !target.is_none())?;
            let args = attribute(py, thread, "_args").unwrap_or_else(|| PyTuple::empty(py).into_any());
            let args = match args.cast::<PyList>() {
                Ok(list) => list.to_tuple(),
                Err(_) => args.cast_into::<PyTuple>().unwrap_or_else(|_| PyTuple::empty(py)),
            };
            let keywords = attribute(py, thread, "_kwargs");
            let keywords = keywords.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            parcels::of_call(py, target.as_ptr(), args.as_ptr(), keywords).ok()
        });
        out.tuple(3)?;
        if call.is_null() {
            capture::name_of_run(thread, out)?;
            out.list(1)?;
            capture::encode(thread, out, &Limits::DEFAULT)?;
            return out.nil();
        }
        let part = |n| ffi::PyTuple_GET_ITEM(call.as_ptr(), n);
        capture::encode(part(0), out, &Limits::DEFAULT)?;
        capture::encode(part(1), out, &Limits::DEFAULT)?;
        capture::list_of(part(2), out)
    }
}

/// Whether a thread object has been made and not been started yet.
fn can_start(thread: *mut ffi::PyObject) -> bool {
    Python::attach(|py| {
        // SAFETY: attached; generic attribute access runs none of the program's code for these plain attributes.
        unsafe {
            let is_set = |of: *mut ffi::PyObject, name: &str| {
                attribute(py, of, name).is_some_and(|flag| flag.is_truthy().unwrap_or(false))
            };
            let started = attribute(py, thread, "_started");
            is_set(thread, "_initialized") && !started.is_some_and(|event| is_set(event.as_ptr(), "_flag"))
        }
    })
}

/// Whether a thread object's thread has been started and has not said yet that it runs.
fn is_beginning(object: usize) -> bool {
    Python::attach(|py| {
        let beginning = || {
            crate::ffi::standard::module(py, "threading")?.getattr("_limbo")?.cast_into::<PyDict>().map_err(PyErr::from)
        };
        // by identity: a class of threads may have an equality of its own
        beginning().is_ok_and(|all| all.values().iter().any(|thread| thread.as_ptr() as usize == object))
    })
}

/// Whether a thread object's thread has run and is over. It stands in one of the threading module's tables from before it says that it
/// runs until it ends, and goes from the first to the second.
fn has_ended(thread: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = thread.py();
    // SAFETY: attached; held. Plain attributes of the module's own classes.
    let has_begun = unsafe {
        attribute(py, thread.as_ptr(), "_started")
            .and_then(|event| attribute(py, event.as_ptr(), "_flag"))
            .is_some_and(|flag| flag.is_truthy().unwrap_or(false))
    };
    let threading = crate::ffi::standard::module(py, "threading")?;
    let stands = |table: &str| -> PyResult<bool> {
        let table = threading.getattr(table)?.cast_into::<PyDict>()?;
        Ok(table.values().iter().any(|other| other.is(thread)))
    };
    Ok(has_begun && !stands("_limbo")? && !stands("_active")?)
}

/// A weak reference to a thread object, if there can be one.
fn weakly(object: usize) -> Option<Py<PyAny>> {
    Python::attach(|py| {
        // SAFETY: attached; the caller's thread object stands. An exception that is set would be taken for one of the making.
        unsafe {
            let _aside = Aside::new();
            let made = ffi::PyWeakref_NewRef(object as *mut ffi::PyObject, std::ptr::null_mut());
            if made.is_null() {
                ffi::PyErr_Clear();
            }
            Bound::from_owned_ptr_or_opt(py, made).map(Bound::unbind)
        }
    })
}

extern "C" {
    fn _PyObject_GenericGetAttrWithDict(
        object: *mut ffi::PyObject, name: *mut ffi::PyObject, dict: *mut ffi::PyObject, suppress: std::ffi::c_int,
    ) -> *mut ffi::PyObject;
}

/// An attribute by the generic rules.
///
/// # Safety
/// The object stands, and the calling thread is attached. No class of the object may have a descriptor of the program's own under
/// the name.
pub unsafe fn attribute<'py>(py: Python<'py>, object: *mut ffi::PyObject, name: &str) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the caller's object is alive. An exception that is set would be taken for one of the look-up.
    unsafe {
        let _aside = Aside::new();
        let name = pyo3::types::PyString::intern(py, name);
        // It raises no AttributeError: to make one takes several times as long as the look-up.
        let value = _PyObject_GenericGetAttrWithDict(object, name.as_ptr(), std::ptr::null_mut(), 1);
        if value.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(Bound::from_owned_ptr(py, value))
    }
}

/// `Task.__init__`: announces the task to who asked.
///
/// # Safety
/// To be called by the interpreter only.
pub unsafe extern "C" fn initialise(
    this: *mut ffi::PyObject, args: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: the interpreter calls an initialiser attached, with a tuple and a dict or null.
    unsafe {
        let coroutine = first_argument(args, keywords);
        let announced = if coroutine.is_null() { None } else { announce(this, coroutine) };
        let eager = scheduling::begin_eager(this, coroutine, keywords);
        let done = task_init::original()(this, args, keywords);
        #[cfg(Py_3_13)]
        if let (Some(tracee), 0) = (&announced, done) {
            directory::note_name(tracee, this);
        }
        if announced.is_some() {
            scheduling::tell_end(this);
        }
        if let Some(eager) = eager {
            eager.end();
        }
        if done != 0 {
            if let (Some(tracee), Some(host)) = (announced, super::try_host()) {
                relations::gone_unseen(host, &tracee);
                host.node.end_process(&tracee);
            }
        }
        done
    }
}

/// The value of a keyword argument, borrowed; null if it isn't given.
///
/// # Safety
/// Attached, without an exception; `keywords` is what the interpreter gives an initialiser, or null.
pub unsafe fn keyword(keywords: *mut ffi::PyObject, name: &Interned) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise; its type is looked at before it is read. The caller's own dict, which nobody changes.
    unsafe {
        if keywords.is_null() || ffi::PyDict_CheckExact(keywords) == 0 {
            return std::ptr::null_mut();
        }
        dict_get(keywords, name.get()).as_ptr()
    }
}

/// What a task is made of.
///
/// # Safety
/// Attached, without an exception; `args` and `keywords` are what the interpreter gives an initialiser.
unsafe fn first_argument(args: *mut ffi::PyObject, keywords: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a tuple, and a dict or null; the answer is borrowed from them.
    unsafe {
        if ffi::PyTuple_GET_SIZE(args) > 0 {
            ffi::PyTuple_GET_ITEM(args, 0)
        } else {
            static CORO: Interned = Interned::new(c"coro");
            keyword(keywords, &CORO)
        }
    }
}

/// # Safety
/// Attached, with no exception set; both stand.
unsafe fn announce(task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: attached; `coroutine` stands, and its type is looked at.
    unsafe {
        if !ON.load(Ordering::Relaxed) || !is_coroutine(coroutine) {
            return None;
        }
        door::enter(|here| announce_of(here, task, coroutine)).flatten()
    }
}

/// # Safety
/// As [`announce`].
unsafe fn announce_of(here: &mut Here, task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: the caller's promise.
    unsafe {
        here.running.identify(here.host, &mut here.thread);
        #[cfg(not(Py_3_13))]
        note_made(here);
        let parent = here.thread.current().clone();
        let watched = Python::attach(|py| watch_end(py, here.host, coroutine));
        if watched.is_err() {
            ffi::PyErr_Clear();
        }
        let tracee = here.host.directory.task(here.host, task as usize, Some(&parent));
        directory::process(&tracee).coroutine.store(coroutine as usize, Ordering::Release);
        let asked = |here: &Here, who| here.host.node.is_asked(&here.thread, who, Flags::PROCS);
        let told = tokens::has(here) || asked(here, About::Current) || asked(here, About::Other(&tracee));
        let name = if told { name_of(coroutine) } else { Vec::new() };
        if told {
            here.host.node.on_spawn(&mut here.thread, &tracee, &name);
            if tokens::has(here) && !is_own_task(coroutine) {
                tokens::spawned(here, &tracee, &name);
            }
        }
        #[cfg(not(Py_3_12))]
        super::wait_for::made(here, &tracee);
        relations::link_announced(here, &tracee);
        groups::announced(here, coroutine, &tracee);
        here.thread.switch(tracee.clone());
        if told {
            here.host.node.on_spawned(&mut here.thread, parent.pid, &name);
        }
        relations::tell_announced(here);
        here.thread.switch(parent);
        #[cfg(not(Py_3_13))]
        here.made.replace(tracee.clone());
        Some(tracee)
    }
}

/// Notes the name of the task that was made last: before 3.13 it gets it after its initialiser, and before anything else happens.
#[cfg(not(Py_3_13))]
fn note_made(here: &mut Here) {
    let Some(made) = here.made.take() else { return };
    let task = made.object.load(Ordering::Acquire) as *mut ffi::PyObject;
    if !task.is_null() {
        // SAFETY: attached, with a GIL, so that the task stands as long as its process has its address.
        unsafe { directory::note_name(&made, task) };
    }
}

/// Coroutine functions of asyncio that it makes tasks of for itself.
const OWN_TASKS: [&str; 7] = [
    "BaseEventLoop.shutdown_asyncgens",
    "BaseEventLoop.shutdown_default_executor",
    "BaseSubprocessTransport._connect_pipes",
    "Process._feed_stdin",
    "Process._noop",
    "Process._read_stream",
    "staggered_race.<locals>.run_one_coro",
];

/// Whether a coroutine is one that the library makes a task of for itself: that is nobody's child where tokens are concerned.
///
/// # Safety
/// Attached; it stands, and has not begun.
unsafe fn is_own_task(coroutine: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller's promise; the frame stands with its coroutine.
    unsafe {
        steps::frame_of(coroutine).is_some_and(|frame| {
            super::passing::is_library(frame)
                && capture::text_is(crate::ffi::frame::code_qualname(frame.code()), |name| OWN_TASKS.contains(&name))
        })
    }
}

/// Whether a task may be made of this: a first look at its class.
///
/// # Safety
/// Attached; it stands.
unsafe fn is_coroutine(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller's promise; the class stands with its object.
    unsafe {
        let has = |name| !capture::attribute_of_class(ffi::Py_TYPE(object), name).is_null();
        steps::is_coroutine(object) || has("send") && has("throw")
    }
}

/// `(module, function, arguments)` of a coroutine that has not begun, as a term; the empty list if that doesn't fit. Of what has
/// no Python frame (any more), its class, or what its class says, without arguments.
///
/// # Safety
/// Attached, with no exception set; it stands.
unsafe fn name_of(coroutine: *mut ffi::PyObject) -> Vec<u8> {
    let mut name = vec![0; 8192];
    let mut out = Encoder::new(&mut name);
    // SAFETY: the caller's promise; the frame stands with its coroutine.
    let written = out.tuple(3).and_then(|()| match unsafe { steps::frame_of(coroutine) } {
        Some(frame) => call::write_module_and_function(frame, &mut out)
            .and_then(|()| call::write_arguments(frame, &mut out, &capture::Limits::DEFAULT)),
        // SAFETY: as above.
        None => unsafe { capture::name_of_coroutine(coroutine, &mut out) }.and_then(|()| out.nil()),
    });
    if written.is_err() {
        out.truncate(0);
        let _ = out.nil();
    }
    let len = out.len();
    name.truncate(len);
    name
}

/// In a forked child: nothing is watched.
fn forget(py: Python<'_>) {
    ON.store(false, Ordering::Release);
    modules::forget(&MODULES);
    scheduling::leave_ends();
    task_init::give_back(py, task_init::SPAWNING, initialise);
}
