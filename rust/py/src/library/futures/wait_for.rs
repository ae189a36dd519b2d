//! Tokens in `asyncio.wait_for` before Python 3.12, which runs a coroutine in a task of its own: who waits goes on with what that task
//! has in the end, as if the coroutine had run where it is waited for, as it does from 3.12 on.

use crate::{
    host::Host,
    instrument::{
        modules,
        watch::{self, Ended, Handler},
    },
    processes::process,
    thread::here::Here,
};
use inviso_core::tracee::Tracee;
use inviso_cpython::{frames::frame::Frame, interpreter::tstate};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `wait_for`: its task has ended, or time has run out.
pub static WAITED: Handler = Handler { end: Some(on_waited), ..Handler::NONE };

/// The module is there that defines it.
///
/// # Errors
/// What it is not found by, or what `sys.monitoring` raises.
pub fn adopt(py: Python<'_>, host: &'static Host, module: &Bound<'_, PyAny>) -> PyResult<()> {
    let code = modules::code(module, "wait_for", &["fut", "timeout"])?;
    modules::keep(&CODE, code.clone());
    watch::add(py, host, &WAITED, &[code])
}

/// The code of `wait_for`.
static CODE: AtomicUsize = AtomicUsize::new(0);

/// Frames between `wait_for` and what makes its task: `ensure_future`, `_ensure_future`, the loop's `create_task`; a factory of tasks.
const BETWEEN: usize = 6;

/// The running process has made a task. If `wait_for` has, that is noted.
///
/// # Safety
/// Attached.
pub unsafe fn made(here: &Here, task: &Tracee) {
    let code = CODE.load(Ordering::Acquire);
    if code == 0 || !here.host.node.seq_in_use() {
        return;
    }
    // SAFETY: the caller's promise; whoever called a frame that runs does, too.
    unsafe {
        let innermost = Frame::current_python(tstate());
        let mut frames = std::iter::successors(innermost, |frame| frame.caller()).take(BETWEEN);
        if frames.any(|frame| frame.code() as usize == code) {
            process::process(task).is_waited_for.store(true, Ordering::Release);
        }
    }
}

fn on_waited(here: &mut Here, frame: Frame, _how: Ended) {
    // SAFETY: the event's frame, attached: its first argument, which the call has bound to the task that it has made.
    let task = unsafe { frame.local(0) } as usize;
    let Some(task) = here.host.directory.known(task) else { return };
    if process::process(&task).is_waited_for.swap(false, Ordering::AcqRel) {
        // SAFETY: callbacks run attached.
        unsafe { here.running.identify(here.host, &mut here.thread) };
        let has = here.host.node.seq_copy(&task);
        here.host.node.seq_lend(here.thread.current(), has);
    }
}
