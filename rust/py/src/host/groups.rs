//! `asyncio.TaskGroup`: the task that waits for a group and those that it starts in it are linked.

use super::{
    directory,
    here::Here,
    instruments::Instrument,
    relations,
    watch::{self, Ended, Handler},
    Host,
};
use crate::ffi::frame::Frame;
use inviso_core::flags::Flags;
use pyo3::{ffi, prelude::*};

/// Links of task groups.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.processes.has(Flags::PROCS | Flags::SET_ON_LINK | Flags::SET_ON_FIRST_LINK),
    begin,
    |py, host| watch::remove(py, host, &[&CREATE]),
    |_| {},
);

/// `TaskGroup.create_task`.
pub static CREATE: Handler = Handler { end: Some(on_created), ..Handler::NONE };

fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    // the package before its module: another thread may be importing it
    py.import("asyncio")?;
    let code = py.import("asyncio.taskgroups")?.getattr("TaskGroup")?.getattr("create_task")?.getattr("__code__")?;
    watch::add(py, host, &CREATE, &[code])
}

fn on_created(here: &mut Here, frame: Frame, how: Ended) {
    let Ended::Returned(task) = how else { return };
    let was = std::mem::replace(&mut here.thread.busy, true);
    let pair = Python::attach(|py| {
        // SAFETY: attached; the event's frame stands, and so does what it returns. The group's own plain attribute.
        unsafe {
            let class = directory::task_type(py)?;
            let parent = super::spawning::attribute(py, frame.local(0), "_parent_task")?;
            let is_task = |object| ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class.as_ptr().cast()) != 0;
            if !is_task(parent.as_ptr()) || !is_task(task) {
                return None;
            }
            let process = |object: *mut ffi::PyObject| here.host.directory.task(here.host, object as usize, None);
            Some((process(parent.as_ptr()), process(task)))
        }
    });
    here.thread.busy = was;
    if let Some((parent, child)) = pair.filter(|(_, child)| child.is_alive()) {
        relations::group(here, &parent, &child);
    }
}
