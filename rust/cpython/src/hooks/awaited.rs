//! What `await` does with the objects of a class, taken at the class's slot.

use pyo3::ffi;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// The slot of a class. One for each, as a `static`, which the wrapper names.
pub struct Awaited {
    class: AtomicPtr<ffi::PyTypeObject>,
    original: AtomicPtr<()>,
}

impl Default for Awaited {
    fn default() -> Awaited {
        Awaited::new()
    }
}

impl Awaited {
    /// One that is not taken.
    pub const fn new() -> Awaited {
        Awaited { class: AtomicPtr::new(std::ptr::null_mut()), original: AtomicPtr::new(std::ptr::null_mut()) }
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

    /// Takes the slot, if the class has one.
    ///
    /// # Safety
    /// The class lives for ever; the wrapper calls the original on.
    pub unsafe fn take(&self, class: *mut ffi::PyTypeObject, wrapper: ffi::unaryfunc) {
        self.class.store(class, Release);
        if let Some(word) = self.word() {
            let there = word.load(Acquire);
            if there != wrapper as *mut () {
                self.original.store(there, Release);
                word.store(wrapper as *mut (), Release);
            }
        }
    }

    /// Gives it back. A wrapper that someone else has put in since stays, and ours under it.
    pub fn give_back(&self, wrapper: ffi::unaryfunc) {
        let original = self.original.load(Acquire);
        if let Some(word) = self.word().filter(|_| !original.is_null()) {
            let _ = word.compare_exchange(wrapper as *mut (), original, AcqRel, Acquire);
        }
    }

    /// What the wrapper stands before.
    ///
    /// # Safety
    /// To be called by the wrapper only.
    #[inline(always)]
    pub unsafe fn original(&self) -> ffi::unaryfunc {
        // SAFETY: the wrapper is in place only after the original was stored, a function of that type.
        unsafe { std::mem::transmute::<*mut (), ffi::unaryfunc>(self.original.load(Acquire)) }
    }

    fn word(&self) -> Option<&'static AtomicPtr<()>> {
        // SAFETY: null or a class that lives for ever; the slot is read by the interpreter as one word, and written here as one.
        unsafe {
            let methods = self.class.load(Acquire).as_ref()?.tp_as_async;
            (!methods.is_null()).then(|| AtomicPtr::from_ptr((&raw mut (*methods).am_await).cast()))
        }
    }
}
