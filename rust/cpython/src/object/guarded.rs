//! What only attached threads look at: with the GIL that is the lock, and no atomic operation is needed.

use pyo3::Python;

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::{RefCell, RefMut};
#[cfg(Py_GIL_DISABLED)]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value for attached threads. A guard is not kept while Python code can run, or the thread detach: with the GIL another thread
/// that asks meanwhile panics.
#[derive(Default)]
pub struct Guarded<T> {
    #[cfg(not(Py_GIL_DISABLED))]
    value: RefCell<T>,
    #[cfg(Py_GIL_DISABLED)]
    value: Mutex<T>,
}

// SAFETY: who looks at the value or at its state of being borrowed is attached, and with the GIL one thread is at a time; the value
// may be dropped by any thread.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// A value that nobody looks at yet.
    pub const fn new(value: T) -> Guarded<T> {
        #[cfg(not(Py_GIL_DISABLED))]
        return Guarded { value: RefCell::new(value) };
        #[cfg(Py_GIL_DISABLED)]
        return Guarded { value: Mutex::new(value) };
    }

    /// The value, for as long as the answer stands.
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline(always)]
    pub fn lock<'a>(&'a self, _py: Python<'a>) -> RefMut<'a, T> {
        self.value.borrow_mut()
    }

    /// The value, for as long as the answer stands.
    #[cfg(Py_GIL_DISABLED)]
    pub fn lock<'a>(&'a self, _py: Python<'a>) -> MutexGuard<'a, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
