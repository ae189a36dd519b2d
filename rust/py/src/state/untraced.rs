//! Work on objects of the program inside an event, which takes no event itself.

use super::thread::ThreadState;
use inviso_cpython::{
    interpreter::{calling::attached, tls, Aside, Uncollected},
    object::held::Held,
};
use pyo3::prelude::*;

/// Runs code that makes objects, or reads objects of the program by calls into the interpreter, inside an event. An
/// exception that is set stays set, nothing is collected, no event is taken, and allocations don't count as the
/// program's.
pub fn untraced<R>(state: &mut ThreadState, with: impl FnOnce(Python<'_>, &mut ThreadState) -> R) -> R {
    let allocated = tls::bytes();
    let done = attached(|py| {
        // SAFETY: the thread is attached until the end of this closure.
        let _kept = unsafe { (Uncollected::new(), Aside::new()) };
        with(py, state)
    });
    tls::set_bytes(allocated);
    done
}

/// Makes a message as [`untraced`] does; null if that fails.
pub fn build_untraced(state: &mut ThreadState, make: impl FnOnce(Python<'_>) -> Option<Bound<'_, PyAny>>) -> Held {
    Held::owned(untraced(state, |py, _| make(py).map_or(std::ptr::null_mut(), Bound::into_ptr)))
}
