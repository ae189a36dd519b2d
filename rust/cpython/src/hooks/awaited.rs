//! The `await` of a class's objects, replaced at the class's slot.
//!
//! # Roles
//! Attached threads replace the slot and give it back. Any attached thread awaits.
//!
//! # States
//! `class` is null until the slot is first replaced. `original` is null, or the slot's function before that.
//!
//! # Orderings
//! Those of [`Original`]. `class` is stored `Release` before the slot is replaced.
//!
//! # Checked by
//! `tests/python/test_seq_carriers.py`, `tests/python/test_uvloop.py`.

use super::original::Original;
use pyo3::ffi;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// The slot of a class. There is one for each, a `static` that the wrapper names.
pub struct Awaited {
    class: AtomicPtr<ffi::PyTypeObject>,
    original: Original,
}

impl Default for Awaited {
    fn default() -> Awaited {
        Awaited::new()
    }
}

impl Awaited {
    /// A slot that is not replaced.
    pub const fn new() -> Awaited {
        Awaited { class: AtomicPtr::new(std::ptr::null_mut()), original: Original::new() }
    }

    /// Whether an object's class is this one; never before it has been taken.
    ///
    /// # Safety
    /// `object` stands.
    #[inline(always)]
    pub unsafe fn is_class_of(&self, object: *mut ffi::PyObject) -> bool {
        // SAFETY: the object stands, by this function's contract.
        std::ptr::eq(unsafe { ffi::Py_TYPE(object) }, self.class.load(Acquire))
    }

    /// Replaces the slot, if the class has one.
    ///
    /// # Safety
    /// The class lives for ever; the wrapper calls the original.
    pub unsafe fn take(&self, class: *mut ffi::PyTypeObject, wrapper: ffi::unaryfunc) {
        self.class.store(class, Release);
        if let Some(word) = self.word() {
            let there = word.load(Acquire);
            if there != wrapper as *mut () {
                self.original.set(there);
                word.store(wrapper as *mut (), Release);
            }
        }
    }

    /// Gives it back. A wrapper that another tool has installed since stays, and ours under it.
    pub fn give_back(&self, wrapper: ffi::unaryfunc) {
        let original = self.original.get();
        if let Some(word) = self.word().filter(|_| !original.is_null()) {
            let _ = word.compare_exchange(wrapper as *mut (), original, AcqRel, Acquire);
        }
    }

    /// The function that the wrapper stands before.
    ///
    /// # Safety
    /// Only the wrapper calls it.
    #[inline(always)]
    pub unsafe fn original(&self) -> ffi::unaryfunc {
        // SAFETY: the original, a function of that type, was stored before the wrapper was in place.
        unsafe { std::mem::transmute::<*mut (), ffi::unaryfunc>(self.original.behind()) }
    }

    fn word(&self) -> Option<&'static AtomicPtr<()>> {
        // SAFETY: null or a class that lives for ever; the interpreter reads the slot as one word, and this module
        // writes it as one.
        unsafe {
            let methods = self.class.load(Acquire).as_ref()?.tp_as_async;
            (!methods.is_null()).then(|| AtomicPtr::from_ptr((&raw mut (*methods).am_await).cast()))
        }
    }
}
