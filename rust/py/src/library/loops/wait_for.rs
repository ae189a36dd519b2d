//! Tokens in `asyncio.wait_for` before Python 3.12, which runs a coroutine in a task of its own. The waiting process
//! continues with that task's last token, as if it had run the coroutine itself, which it does from 3.12 on.
//!
//! # Roles
//! The loop's thread waits for the task, attached.
//!
//! # States
//! See `processes::waited_tasks`.
//!
//! # Orderings
//! The code of `wait_for` is stored before it is watched.
//!
//! # Checked by
//! `tests/python/test_seq_carriers.py`.

use crate::{
    instrument::{modules, watch},
    processes::waited_tasks::CODE,
    state::{
        host::Host,
        instrument::{Ended, Handler},
        process,
        thread::ThreadState,
    },
};
use inviso_cpython::frames::frame::Frame;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;

/// `wait_for`: its task has ended, or time has run out.
pub static WAITED: Handler = Handler { end: Some(on_waited), ..Handler::NONE };

/// The module that defines `wait_for` is there.
///
/// # Errors
/// The error of the look-up, or of `sys.monitoring`.
pub fn adopt(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let code = modules::code(module, "wait_for", &["fut", "timeout"])?;
    modules::keep(&CODE, code.clone());
    watch::add(py, host, &WAITED, &[code])
}

fn on_waited(state: &mut ThreadState, frame: Frame, _how: Ended) {
    // SAFETY: the event's frame; the thread is attached. The call has bound the first argument to the task that it
    // made.
    let task = unsafe { frame.local(0) } as usize;
    let Some(task) = state.host.directory.known(task) else { return };
    if process::process(&task).is_waited_for.swap(false, Ordering::AcqRel) {
        // SAFETY: callbacks run attached.
        unsafe { state.running.identify(state.host, &mut state.thread) };
        let has = state.host.node.seq_copy(&task);
        state.host.node.seq_lend(state.thread.current(), has);
    }
}
