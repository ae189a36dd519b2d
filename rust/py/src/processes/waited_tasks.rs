//! Tasks that `asyncio.wait_for` makes before Python 3.12, which runs a coroutine in a task of its own.
//!
//! # Roles
//! The loop's thread makes the task, attached. The instrument of the loop's tokens fills in the code.
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

use crate::state::{process, thread::ThreadState};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::{frames::frame::Frame, interpreter::tstate};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The code of `wait_for`.
pub static CODE: AtomicUsize = AtomicUsize::new(0);

/// The most frames between `wait_for` and the function that makes its task: `ensure_future`, `_ensure_future`, the
/// loop's `create_task`, a factory of tasks.
pub const BETWEEN: usize = 6;

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
