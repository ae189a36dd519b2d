//! Tokens in `asyncio.wait_for` before Python 3.12, which runs a coroutine in a task of its own. The waiting process
//! continues with that task's last token, as if it had run the coroutine itself, which it does from 3.12 on.
//!
//! # Roles
//! The loop's thread makes the task and waits for it, attached. The instrument fills in the code.
//!
//! # States
//! `CODE` is 0, or the code of `wait_for`, which is kept for ever. A task's `is_waited_for` is true from its making
//! until `wait_for` ends.
//!
//! # Orderings
//! `CODE` is stored `Release` after the code is kept.
//!
//! # Checked by
//! `tests/python/test_seq_carriers.py`.

use crate::{
    instrument::{modules, watch},
    state::{
        host::Host,
        instrument::{Ended, Handler},
        process,
        thread::ThreadState,
    },
};
use inviso_core::tracee::Tracee;
use inviso_cpython::{frames::frame::Frame, interpreter::tstate};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// The code of `wait_for`.
static CODE: AtomicUsize = AtomicUsize::new(0);

/// The most frames between `wait_for` and the function that makes its task: `ensure_future`, `_ensure_future`, the
/// loop's `create_task`, a factory of tasks.
const BETWEEN: usize = 6;

/// The running process has made a task. Records it if `wait_for` has.
///
/// # Safety
/// The thread is attached.
pub unsafe fn made(state: &ThreadState, task: &Tracee) {
    let code = CODE.load(Ordering::Acquire);
    if code == 0 || !state.host.node.seq_in_use() {
        return;
    }
    // SAFETY: the caller promises that the thread is attached; the callers of a running frame run, too.
    unsafe {
        let innermost = Frame::current_python(tstate());
        let mut frames = std::iter::successors(innermost, |frame| frame.caller()).take(BETWEEN);
        if frames.any(|frame| frame.code() as usize == code) {
            process::process(task).is_waited_for.store(true, Ordering::Release);
        }
    }
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
