//! Names that are looked up often: each is made once and kept.
//!
//! # Roles
//! Any attached thread gets a name.
//!
//! # States
//! `object` is null, then the name for ever.
//!
//! # Orderings
//! `object` is stored with `Release` and loaded `Acquire`. Threads that make it together store the same object.
//!
//! # Checked by
//! The tests of the names' users.

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
    /// A name that is made at its first use.
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
        // SAFETY: the caller promises that the calling thread is attached, and has no exception set.
        unsafe { self.make() }
    }

    /// # Safety
    /// As [`Interned::get`].
    #[cold]
    unsafe fn make(&self) -> *mut PyObject {
        // SAFETY: the thread is attached. Threads that come together get the same object, and each keeps a reference
        // for ever.
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
