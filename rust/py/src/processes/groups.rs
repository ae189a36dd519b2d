//! `asyncio.TaskGroup`: links the task that waits for a group with each task that it starts in the group. The link is
//! made with the task, because an eager task may have ended before the group gets it.

use super::relations;
use crate::{
    control::originals,
    instrument::{modules, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler, Instrument, Module},
        thread::ThreadState,
    },
};
use inviso_core::host::{flags::Flags, tracee::Tracee};
use inviso_cpython::{
    frames::frame::Frame,
    interpreter::{calling, generic},
    tasks::{running as tasks, steps},
};
use pyo3::{ffi, prelude::*};
use std::sync::Arc;

/// Links of task groups.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(Flags::PROCS | Flags::SET_ON_LINK | Flags::SET_ON_FIRST_LINK),
    |py, host| modules::want(py, host, &MODULES),
    |py, host| {
        watch::remove(py, host, &[&CREATE])?;
        modules::leave(py, host, &MODULES)
    },
    |_| modules::forget(&MODULES),
);

/// The module that defines task groups.
pub static MODULES: [Module; 1] = [Module::new("asyncio", |py, host, _| adopt(py, host))];

/// `TaskGroup.create_task`.
pub static CREATE: Handler = Handler { begin: Some(on_create), end: Some(on_created), ..Handler::NONE };

fn adopt(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    if !(modules::is_there(py, "asyncio")? && modules::is_there(py, "asyncio.taskgroups")?) {
        return Ok(());
    }
    let create = originals::codes(py.import("asyncio.taskgroups")?.as_any(), &["TaskGroup.create_task"])?;
    watch::add(py, host, &CREATE, &create)
}

fn on_create(state: &mut ThreadState, frame: Frame) {
    // SAFETY: the frame of the method is about to run, so its first two arguments are there.
    state.grouping = unsafe { (frame.local(0) as usize, frame.local(1) as usize) };
}

/// The running process makes a task of this coroutine.
///
/// # Safety
/// Attached, with no exception set; the coroutine stands.
pub unsafe fn announced(state: &mut ThreadState, coroutine: *mut ffi::PyObject, child: &Tracee) {
    let (group, of) = state.grouping;
    if group == 0 || of != coroutine as usize {
        return;
    }
    state.grouping = (0, 0);
    // SAFETY: attached. The group makes the task, so it stands.
    if let Some(parent) = unsafe { parent_of(state, group as *mut ffi::PyObject) } {
        relations::group_announced(state, &parent, child);
    }
}

/// The process that waits for a group.
///
/// # Safety
/// Attached, with no exception set; the group stands.
unsafe fn parent_of(state: &mut ThreadState, group: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: attached, no exception is set, and the group stands. The attribute is a plain one of the group.
    let parent = calling::attached(|py| unsafe {
        let parent = generic::attribute(py, group, "_parent_task")?;
        is_task(py, parent.as_ptr()).then(|| state.host.directory.task(state.host, parent.as_ptr() as usize, None))
    });
    parent
}

/// # Safety
/// Attached; the object stands.
unsafe fn is_task(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that the object stands and the thread is attached; the class is held.
    tasks::task_type(py)
        .is_some_and(|class| unsafe { ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class.as_ptr().cast()) } != 0)
}

/// The group has its task. A task that was not seen when it was made is linked now: a task factory made it of another
/// object.
fn on_created(state: &mut ThreadState, frame: Frame, how: Ended) {
    state.grouping = (0, 0);
    let Ended::Returned(task) = how else { return };
    // SAFETY: attached; the event's frame stands, and so does the returned object.
    let child = calling::attached(|py| unsafe {
        let living = is_task(py, task) && !steps::is_done_task(py, task);
        living.then(|| state.host.directory.task(state.host, task as usize, None))
    });
    let Some(child) = child.filter(|child| child.is_alive()) else { return };
    // SAFETY: attached, no exception is set. The frame's first argument is the group, which stands.
    if let Some(parent) = unsafe { parent_of(state, frame.local(0)) } {
        relations::group(state, &parent, &child);
    }
}
