//! The state of a thread at its first event.

use super::pending::keep_name;
use crate::state::{host::Host, thread::ThreadState};
use inviso_cpython::frames::frame::Frame;
#[cfg(not(Py_3_12))]
use std::cell::Cell;

#[cfg(not(Py_3_12))]
thread_local! {
    static FIRST: Cell<Option<Frame>> = const { Cell::new(None) };
}

/// Notes that this thread's state will be made at the beginning of this frame, which is not linked to its caller yet.
#[cfg(not(Py_3_12))]
#[cold]
pub fn begin_with(frame: Frame) {
    FIRST.set(Some(frame));
}

/// The innermost Python frame of this thread.
fn first_frame() -> Option<Frame> {
    if !inviso_cpython::layout::is_readable() {
        return None;
    }
    // SAFETY: attached, as events and calls into this package are.
    let linked = unsafe { Frame::current_python(inviso_cpython::interpreter::tstate()) };
    #[cfg(not(Py_3_12))]
    return linked.or(FIRST.take());
    #[cfg(Py_3_12)]
    linked
}

/// The state of a thread at its first event.
pub fn first(host: &'static Host) -> ThreadState {
    let frame = first_frame();
    let own = host.directory.own_process(host, frame);
    keep_name(&own, frame);
    ThreadState::new(host, own, false)
}
