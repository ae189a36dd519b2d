//! A task is made: the process that it is, and who has started it.

use super::{
    groups, relations,
    task_ends::{watch_end, ON},
    task_init::{self, keyword},
    task_turns,
};
use crate::{
    directory::orphans,
    door,
    instrument::tokens,
    state::{process, thread::ThreadState},
};
use inviso_core::host::{flags::Flags, messages::About, tracee::Tracee};
use inviso_cpython::{
    capture::{self, frame_names},
    object::interned::Interned,
    tasks::steps,
};
use inviso_term::etf::Encoder;
use pyo3::{ffi, prelude::*};
use std::{
    ffi::c_int,
    sync::{atomic::Ordering, Arc},
};

/// `Task.__init__`: announces the task first.
///
/// # Safety
/// Only the interpreter calls it.
pub unsafe extern "C" fn initialise(
    this: *mut ffi::PyObject, args: *mut ffi::PyObject, keywords: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: the interpreter calls an initialiser attached, with a tuple and a dict or null.
    unsafe {
        let coroutine = first_argument(args, keywords);
        let announced = if coroutine.is_null() { None } else { announce(this, coroutine) };
        let eager = task_turns::begin_eager(this, coroutine, keywords);
        let done = task_init::original()(this, args, keywords);
        #[cfg(Py_3_13)]
        if let (Some(tracee), 0) = (&announced, done) {
            process::note_name(tracee, this);
        }
        if announced.is_some() {
            task_turns::emit_end(this);
        }
        if let Some(eager) = eager {
            eager.end();
        }
        if done != 0 {
            if let (Some(tracee), Some(host)) = (announced, crate::state::host::try_host()) {
                orphans::gone_unseen(host, &tracee);
                host.node.end_process(&tracee);
            }
        }
        done
    }
}

/// The object that a task is made of.
///
/// # Safety
/// The thread is attached and has no exception set; `args` and `keywords` are those that the interpreter gives an
/// initialiser.
unsafe fn first_argument(args: *mut ffi::PyObject, keywords: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a tuple, and a dict or null; the result is borrowed from them.
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
/// The thread is attached and has no exception set; task and coroutine stand.
pub(super) unsafe fn announce(task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: the thread is attached; `coroutine` stands, and its type is checked.
    unsafe {
        if !ON.load(Ordering::Relaxed) || !is_coroutine(coroutine) {
            return None;
        }
        door::enter(|state| announce_of(state, task, coroutine)).flatten()
    }
}

/// # Safety
/// As [`announce`].
unsafe fn announce_of(
    state: &mut ThreadState, task: *mut ffi::PyObject, coroutine: *mut ffi::PyObject,
) -> Option<Arc<Tracee>> {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and task and coroutine stand.
    unsafe {
        state.running.identify(state.host, &mut state.thread);
        #[cfg(not(Py_3_13))]
        super::task_ends::note_made(state);
        let parent = state.thread.current().clone();
        let watched = Python::attach(|py| watch_end(py, state.host, coroutine));
        if watched.is_err() {
            ffi::PyErr_Clear();
        }
        let tracee = state.host.directory.task(state.host, task as usize, Some(&parent));
        process::process(&tracee).coroutine.store(coroutine as usize, Ordering::Release);
        let asked = |state: &ThreadState, who| state.host.node.is_asked(&state.thread, who, Flags::PROCS);
        let told = tokens::has(state) || asked(state, About::Current) || asked(state, About::Other(&tracee));
        let name = if told { name_of(coroutine) } else { Vec::new() };
        if told {
            state.host.node.on_spawn(&mut state.thread, &tracee, &name);
            if tokens::has(state) && !is_own_task(coroutine) {
                tokens::spawned(state, &tracee, &name);
            }
        }
        #[cfg(not(Py_3_12))]
        crate::processes::waited_tasks::made(state, &tracee);
        relations::link_announced(state, &tracee);
        groups::announced(state, coroutine, &tracee);
        state.thread.switch(tracee.clone());
        if told {
            state.host.node.on_spawned(&mut state.thread, parent.pid, &name);
        }
        relations::emit_announced(state);
        state.thread.switch(parent);
        #[cfg(not(Py_3_13))]
        state.made.replace(tracee.clone());
        Some(tracee)
    }
}

/// Coroutine functions of asyncio of which asyncio makes tasks for itself.
const OWN_TASKS: [&str; 7] = [
    "BaseEventLoop.shutdown_asyncgens",
    "BaseEventLoop.shutdown_default_executor",
    "BaseSubprocessTransport._connect_pipes",
    "Process._feed_stdin",
    "Process._noop",
    "Process._read_stream",
    "staggered_race.<locals>.run_one_coro",
];

/// Whether it is a coroutine of which the library makes a task for itself. Such a task inherits no token.
///
/// # Safety
/// The thread is attached; the coroutine stands, and has not begun.
unsafe fn is_own_task(coroutine: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that the thread is attached and the coroutine stands, and has not begun; the
    // coroutine holds its frame.
    unsafe {
        steps::frame_of(coroutine).is_some_and(|frame| {
            crate::instrument::message_view::is_library(frame)
                && capture::text_is(inviso_cpython::frames::frame::code_qualname(frame.code()), |name| {
                    OWN_TASKS.contains(&name)
                })
        })
    }
}

/// Whether a task may be made of this object: a first look at its class.
///
/// # Safety
/// The thread is attached; the object stands.
unsafe fn is_coroutine(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that the thread is attached and the object stands; the object holds its class.
    unsafe {
        let has = |name| !capture::attribute_of_class(ffi::Py_TYPE(object), name).is_null();
        steps::is_coroutine(object) || has("send") && has("throw")
    }
}

/// `(module, function, arguments)` of a coroutine that has not begun, as a term; the empty list if it doesn't fit. A
/// coroutine without a Python frame (any more) is named by its class, or as its class says, without arguments.
///
/// # Safety
/// The thread is attached and has no exception set; the coroutine stands.
unsafe fn name_of(coroutine: *mut ffi::PyObject) -> Vec<u8> {
    let mut name = vec![0; 8192];
    let mut out = Encoder::new(&mut name);
    // SAFETY: the caller promises that the thread is attached and has no exception set, and the coroutine stands; the
    // coroutine holds its frame.
    let written = out.tuple(3).and_then(|()| match unsafe { steps::frame_of(coroutine) } {
        Some(frame) => frame_names::write_module_and_function(frame, &mut out)
            .and_then(|()| frame_names::write_arguments(frame, &mut out, &capture::Limits::DEFAULT)),
        // SAFETY: the caller promises that the thread is attached and has no exception set, and the coroutine stands.
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
