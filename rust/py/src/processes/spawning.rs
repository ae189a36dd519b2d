//! The starts and ends of processes. Threads are seen through functions of the threading module, tasks through the
//! initialiser of the task class.
//!
//! The instrument is in place only while a session traces `procs`, has flags that are inherited, or needs relations or
//! tokens.
//!
//! # Roles
//! The parent announces a thread or task, attached. The thread adopts its process at its first event. Instruments
//! switch this on and off.
//!
//! # States
//! Those of `directory::pending`. [`ON`]: tasks are announced.
//!
//! # Orderings
//! Those of `directory::pending` and `task_ends`.
//!
//! # Checked by
//! `tests/python/test_trace_processes.py`, `tests/python/test_executors.py`.

use super::{
    relations,
    task_ends::{watch_end, COROUTINE, ON},
    task_init,
    task_made::initialise,
    task_turns,
};
use crate::{
    control::originals,
    directory::{exit_reason::reason, pending::BOOTSTRAP_CODE, thread_objects::can_start},
    instrument::{modules, sent_values, tokens, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        lock, process,
        spawning::{Pending, Spawning},
        thread::ThreadState,
        untraced,
    },
};
use inviso_core::host::flags::Flags;
use inviso_cpython::{
    capture::{self, Limits, Raised},
    frames::frame::Frame,
    interpreter::generic::attribute,
    tasks::steps,
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*, types::*};
use std::sync::atomic::Ordering;

/// The flags that need spawning to be watched; those of links for task groups.
pub const FLAGS: Flags = Flags(
    Flags::PROCS.0
        | Flags::SET_ON_SPAWN.0
        | Flags::SET_ON_FIRST_SPAWN.0
        | Flags::SET_ON_LINK.0
        | Flags::SET_ON_FIRST_LINK.0
        | Flags::EXITING.0,
);

/// The starts and ends of processes.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(FLAGS) || wants.related || wants.tokens,
    |py, host| host.spawning.begin(py, host),
    |py, host| host.spawning.end(py, host),
    forget,
);

/// The module that tasks come from.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| host.spawning.adopt_asyncio(py, host))];

/// `threading.Thread.start`.
pub static START: Handler =
    Handler { begin: Some(on_start), end: Some(on_start_failed), raises_only: true, ..Handler::NONE };

/// `threading.Thread._bootstrap_inner`: a thread's life.
pub static BOOTSTRAP: Handler = Handler { begin: Some(on_bootstrap), end: Some(on_thread_end), ..Handler::NONE };

/// The function that the threading module calls with an exception that has ended a thread.
pub static EXCEPTHOOK: Handler = Handler { begin: Some(on_excepthook), ..Handler::NONE };

/// A thread is about to be started.
fn on_start(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the first argument of a method whose frame is about to run; callbacks run attached on this thread.
    let object = unsafe {
        state.running.identify(state.host, &mut state.thread);
        frame.local(0)
    };
    if !can_start(object) || state.host.spawning.is_hidden(object as usize) {
        return; // the call is going to raise; or it is no thread of the program's
    }
    let mut name = vec![0; 8192];
    let mut out = Encoder::new(&mut name);
    if thread_name(state, object, &mut out).is_err() {
        out.truncate(0);
        let _ = out.nil();
    }
    let len = out.len();
    name.truncate(len);
    let parent = state.thread.current().clone();
    let announced = state.host.spawning.started(object as usize);
    let tracee = announced.unwrap_or_else(|| state.host.spawning.announce(state.host, object as usize, &parent));
    state.host.node.on_spawn(&mut state.thread, &tracee, &name);
    if !is_of_library(frame) {
        tokens::spawned(state, &tracee, &name);
    }
    if let Some(pending) = lock(&state.host.spawning.pending).get_mut(&(object as usize)) {
        pending.name = Some(name);
    }
    relations::link_announced(state, &tracee);
}

/// Whether the library starts a thread of its own. Such a thread inherits no token.
fn is_of_library(start: Frame) -> bool {
    // SAFETY: the event's frame, whose caller runs; the thread is attached.
    unsafe {
        let Some(caller) = crate::instrument::message_view::caller(start) else { return false };
        let module = inviso_cpython::frames::frame::module_of(caller.globals());
        !module.is_null()
            && capture::text_is(module.as_ptr(), |name| {
                ["asyncio.", "concurrent.futures", "multiprocessing"].iter().any(|library| name.starts_with(library))
            })
    }
}

/// The start has failed: the announced process ends at once.
fn on_start_failed(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the event's frame still stands; the thread is attached.
    let object = unsafe { frame.local(0) } as usize;
    let Some(Pending { tracee, name, .. }) = state.host.spawning.failed(object) else { return };
    if name.is_some() {
        // SAFETY: the thread is attached.
        unsafe { state.running.identify(state.host, &mut state.thread) };
        let reason = reason(&tracee, how.error());
        relations::unborn(state.host, &mut state.thread, &tracee, &reason);
    }
    state.host.node.end_process(&tracee);
}

/// A thread begins.
fn on_bootstrap(state: &mut ThreadState, _frame: Frame) {
    let told = lock(&state.host.spawning.started).remove(&state.thread.own().pid);
    if let Some((parent, name)) = told {
        state.thread.switch_to_own();
        state.host.node.on_spawned(&mut state.thread, parent, &name);
        relations::emit_announced(state);
    }
}

/// An exception has ended a thread: kept for its exit reason.
fn on_excepthook(state: &mut ThreadState, _frame: Frame) {
    // SAFETY: the thread is attached; a new reference or null.
    unsafe {
        let error = ffi::PyErr_GetHandledException();
        if !error.is_null() {
            state.reason = Some(reason(state.thread.own(), Some(Raised::made(error))));
            ffi::Py_DECREF(error);
        }
    }
}

/// A thread ends.
fn on_thread_end(state: &mut ThreadState, _frame: Frame, how: Ended) {
    if state.told_exit {
        return;
    }
    state.thread.switch_to_own();
    let own = state.thread.own().clone();
    let reason = state.reason.take().unwrap_or_else(|| reason(&own, how.error()));
    state.told_exit = true;
    relations::exit_thread(state, &own, &reason);
}

/// In a forked child: watches nothing.
fn forget(py: Python<'_>) {
    ON.store(false, Ordering::Release);
    modules::forget(&MODULES);
    task_turns::leave_ends();
    task_init::give_back(py, task_init::SPAWNING, initialise);
}

/// `(module, function, arguments)` of a thread object's target, as a call that an executor shall make.
fn thread_name(state: &mut ThreadState, thread: *mut ffi::PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the thread is attached; generic attribute access runs no code of the program for these plain attributes,
    // whose values are held meanwhile.
    unsafe {
        let call = untraced::build_untraced(state, |py| {
            let target = attribute(py, thread, "_target").filter(|target| !target.is_none())?;
            let args = attribute(py, thread, "_args").unwrap_or_else(|| PyTuple::empty(py).into_any());
            let args = match args.cast::<PyList>() {
                Ok(list) => list.to_tuple(),
                Err(_) => args.cast_into::<PyTuple>().unwrap_or_else(|_| PyTuple::empty(py)),
            };
            let keywords = attribute(py, thread, "_kwargs");
            let keywords = keywords.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            sent_values::of_call(py, target.as_ptr(), args.as_ptr(), keywords).ok()
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

impl Spawning {
    /// Begins to watch.
    ///
    /// # Errors
    /// The error of importing threading and asyncio, or of `sys.monitoring`.
    pub fn begin(&self, py: Python<'_>, host: &'static Host) -> PyResult<()> {
        let threading = inviso_cpython::interpreter::standard::module(py, "threading")?.into_any();
        let codes = |path| originals::codes(&threading, &[path]);
        watch::add(py, host, &START, &codes("Thread.start")?)?;
        // also records its wrapper, which is a thread's first frame
        codes("Thread._bootstrap")?;
        let bootstrap = codes("Thread._bootstrap_inner")?;
        let known = bootstrap.first().map_or(0, |code| code.as_ptr() as usize);
        BOOTSTRAP_CODE.store(known, Ordering::Release);
        watch::add(py, host, &BOOTSTRAP, &bootstrap)?;
        for maker in codes("_make_invoke_excepthook")? {
            for constant in maker.getattr("co_consts")?.try_iter()? {
                let constant = constant?;
                // SAFETY: the object is held.
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

    /// Spawning is watched no longer.
    ///
    /// # Errors
    /// The error of `sys.monitoring`.
    pub fn end(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        ON.store(false, Ordering::Release);
        task_init::give_back(py, task_init::SPAWNING, initialise);
        task_turns::leave_ends();
        lock(&self.started).clear();
        watch::remove(py, host, &[&START, &BOOTSTRAP, &EXCEPTHOOK, &COROUTINE])?;
        modules::leave(py, host, &MODULES)
    }

    /// Watches the ends of tasks that exist already.
    fn watch_existing(&self, py: Python<'_>, host: &Host) -> PyResult<()> {
        for (tracee, task) in host.directory.tasks(py, host)? {
            // SAFETY: the thread is attached and has no exception set. Another thread may be making the task: then it
            // has no coroutine yet, and `get_coro` of 3.12 doesn't expect that. The task stands, and its type is
            // checked.
            unsafe {
                let Some(coroutine) = Bound::from_owned_ptr_or_opt(py, steps::coroutine_of(task.as_ptr())) else {
                    continue;
                };
                watch_end(py, host, coroutine.as_ptr())?;
                process::process(&tracee).coroutine.store(coroutine.as_ptr() as usize, Ordering::Release);
            }
        }
        Ok(())
    }
}
