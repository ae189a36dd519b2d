//! The exception that is set, put aside.

#[cfg(not(Py_3_12))]
use std::ptr;

use pyo3::ffi::{self as api, PyObject};

/// An exception that is set (or none), put aside. It is set again when this is dropped.
#[derive(Debug)]
pub struct Aside {
    #[cfg(Py_3_12)]
    exception: *mut PyObject,
    #[cfg(not(Py_3_12))]
    exception: [*mut PyObject; 3],
}

impl Aside {
    /// Takes the exception that is set.
    ///
    /// # Safety
    /// The calling thread is attached, and still is when this is dropped.
    #[cold]
    #[inline(never)]
    pub unsafe fn new() -> Aside {
        // SAFETY: the caller promises that the calling thread is attached, and still is when this is dropped.
        unsafe {
            #[cfg(Py_3_12)]
            return Aside { exception: api::PyErr_GetRaisedException() };
            #[cfg(not(Py_3_12))]
            {
                let mut exception = [ptr::null_mut(); 3];
                let [kind, value, traceback] = &mut exception;
                api::PyErr_Fetch(kind, value, traceback);
                Aside { exception }
            }
        }
    }
}

#[cfg(not(Py_3_12))]
impl Aside {
    /// The exception that was set: its class and its value, which is an instance, its future arguments, or null.
    /// Borrowed.
    pub fn set(&self) -> (*mut PyObject, *mut PyObject) {
        let [kind, value, _] = self.exception;
        (kind, value)
    }
}

impl Drop for Aside {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: gives back the references that `new` took; null stands for no exception.
        unsafe {
            #[cfg(Py_3_12)]
            api::PyErr_SetRaisedException(self.exception);
            #[cfg(not(Py_3_12))]
            {
                let [kind, value, traceback] = self.exception;
                api::PyErr_Restore(kind, value, traceback);
            }
        }
    }
}
