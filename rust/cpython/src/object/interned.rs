//! Names that are looked up often: each is made once and kept.

use pyo3::ffi::{self, PyObject};
use std::{
    ffi::CStr,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

/// An interned str.
pub struct Interned {
    object: AtomicPtr<PyObject>,
    text: &'static CStr,
}

impl Interned {
    /// One that will be made at its first use.
    pub const fn new(text: &'static CStr) -> Interned {
        Interned { object: AtomicPtr::new(ptr::null_mut()), text }
    }

    /// Its text.
    pub fn text(&self) -> &'static str {
        self.text.to_str().unwrap_or_default()
    }

    /// The object, borrowed for ever; null if there is no memory for it, with no exception set.
    ///
    /// # Safety
    /// The calling thread is attached, and has no exception set.
    #[inline]
    pub unsafe fn get(&self) -> *mut PyObject {
        let known = self.object.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the caller's promise.
        unsafe { self.make() }
    }

    /// # Safety
    /// As [`Interned::get`].
    #[cold]
    unsafe fn make(&self) -> *mut PyObject {
        // SAFETY: attached. Threads that come together get the same object, and keep a reference too many.
        unsafe {
            let made = ffi::PyUnicode_InternFromString(self.text.as_ptr());
            if made.is_null() {
                ffi::PyErr_Clear();
            } else {
                self.object.store(made, Ordering::Release);
            }
            made
        }
    }
}
