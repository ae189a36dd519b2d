//! Values that only attached threads use: with the GIL that is the lock, and no atomic operation is needed.
//!
//! # Roles
//! Attached threads lock a value.
//!
//! # States
//! A value is free, or in use by one guard.
//!
//! # Orderings
//! The GIL, or without it a mutex, orders everything.
//!
//! # Checked by
//! The tests of the values' users.

use pyo3::Python;

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::{RefCell, RefMut};
#[cfg(Py_GIL_DISABLED)]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value for attached threads. A guard is not kept while Python code can run, or the thread detach: with the GIL,
/// another thread that locks the value meanwhile panics.
#[derive(Default)]
pub struct GilCell<T> {
    #[cfg(not(Py_GIL_DISABLED))]
    value: RefCell<T>,
    #[cfg(Py_GIL_DISABLED)]
    value: Mutex<T>,
}

// SAFETY: a thread that uses the value, or its borrow state, is attached, and with the GIL one thread is so at a time;
// any thread may drop the value.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    /// A value that is free.
    pub const fn new(value: T) -> GilCell<T> {
        #[cfg(not(Py_GIL_DISABLED))]
        return GilCell { value: RefCell::new(value) };
        #[cfg(Py_GIL_DISABLED)]
        return GilCell { value: Mutex::new(value) };
    }

    /// The value, as long as the result lives.
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline(always)]
    pub fn lock<'a>(&'a self, _py: Python<'a>) -> RefMut<'a, T> {
        self.value.borrow_mut()
    }

    /// The value, as long as the result lives.
    #[cfg(Py_GIL_DISABLED)]
    pub fn lock<'a>(&'a self, _py: Python<'a>) -> MutexGuard<'a, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
