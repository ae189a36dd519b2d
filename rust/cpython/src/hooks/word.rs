//! Words that hold a function which the interpreter reads at each call: written as one word, and given back.
//!
//! What stands there meanwhile is never unloaded; neither are the functions that it calls on.

use super::vectorcall::Function;
use pyo3::{exceptions::PyRuntimeError, ffi, prelude::*};
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
};

/// A word that holds a function, and the function that belongs there.
pub struct Word {
    word: AtomicPtr<AtomicPtr<()>>,
    original: AtomicPtr<()>,
}

impl Default for Word {
    fn default() -> Word {
        Word::new()
    }
}

impl Word {
    /// One whose place is not known.
    pub const fn new() -> Word {
        Word { word: AtomicPtr::new(null_mut()), original: AtomicPtr::new(null_mut()) }
    }

    /// It is here.
    ///
    /// # Safety
    /// `at` holds a function's address and stays for ever.
    pub unsafe fn found(&self, at: *mut *mut ()) {
        self.word.store(at.cast(), Release);
    }

    /// It is that of a function that is called through a word of its own (PEP 590), as Cython's are. The function is kept for ever.
    ///
    /// # Errors
    /// RuntimeError for another kind of object.
    pub fn found_in(&self, function: &Bound<'_, PyAny>) -> PyResult<()> {
        // SAFETY: the flag says that instances have such a word, at the offset that the type has; the object is held for ever.
        unsafe {
            let class = ffi::Py_TYPE(function.as_ptr());
            let at = (*class).tp_vectorcall_offset;
            let has = ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HAVE_VECTORCALL) != 0 && at > 0;
            let word = function.as_ptr().cast::<u8>().offset(at).cast::<*mut ()>();
            if !has || (*word).is_null() {
                let text = format!("{function:?} is not called through a word of its own; its calls can't be seen");
                return Err(PyRuntimeError::new_err(text));
            }
            if self.word.load(Acquire) != word.cast() {
                ffi::Py_INCREF(function.as_ptr());
                self.found(word);
            }
        }
        Ok(())
    }

    /// Whether its place is known.
    pub fn is_found(&self) -> bool {
        self.word().is_some()
    }

    fn word(&self) -> Option<&AtomicPtr<()>> {
        // SAFETY: null, or a word that stays for ever.
        unsafe { self.word.load(Acquire).as_ref() }
    }

    /// Puts a function there, which calls [`Word::original`] on.
    pub fn put(&self, function: *mut ()) {
        let Some(word) = self.word() else { return };
        let there = word.load(Acquire);
        if there != function {
            self.original.store(there, Release);
            word.store(function, Release);
        }
    }

    /// What someone else has put there since stays, and ours under it.
    pub fn give_back(&self, function: *mut ()) {
        if let Some(word) = self.word() {
            let _ = word.compare_exchange(function, self.original.load(Acquire), AcqRel, Acquire);
        }
    }

    /// The function that ours stands before.
    #[inline(always)]
    pub fn original(&self) -> *mut () {
        self.original.load(Acquire)
    }

    /// That of an object with a word of its own.
    ///
    /// # Safety
    /// To be called by the function that was put there, after [`Word::found_in`].
    #[inline(always)]
    pub unsafe fn original_call(&self) -> Function {
        // SAFETY: the caller's promise: the word holds functions of this kind.
        unsafe { std::mem::transmute(self.original()) }
    }
}
