//! Words that hold a function which the interpreter reads at each call. They are written as one word, and restored.
//!
//! A function that is put there is never unloaded; neither are the originals.
//!
//! # Roles
//! Attached threads find a word, replace it and give it back. Any thread that runs Python calls through it.
//!
//! # States
//! | `word` | `original` | the place has |
//! | --- | --- | --- |
//! | null | null | not been found |
//! | set | null | its own function |
//! | set | set | ours, or its own after it was given back |
//!
//! # Orderings
//! Those of [`Original`]. Ours runs only through the replaced word.
//!
//! # Checked by
//! `tests/python/test_scheduling.py`, `tests/python/test_uvloop.py`.

use super::{original::Original, vectorcall::Function};
use pyo3::{exceptions::PyRuntimeError, ffi, prelude::*};
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
};

/// A word that holds a function, and the function that belongs there.
pub struct FunctionSlot {
    word: AtomicPtr<AtomicPtr<()>>,
    original: Original,
}

impl Default for FunctionSlot {
    fn default() -> FunctionSlot {
        FunctionSlot::new()
    }
}

impl FunctionSlot {
    /// A word whose place is not known.
    pub const fn new() -> FunctionSlot {
        FunctionSlot { word: AtomicPtr::new(null_mut()), original: Original::new() }
    }

    /// Sets its place.
    ///
    /// # Safety
    /// `at` holds a function's address and stays for ever.
    pub unsafe fn found(&self, at: *mut *mut ()) {
        self.word.store(at.cast(), Release);
    }

    /// Sets its place to that of a function which is called through a word of its own (PEP 590), as Cython's are. The
    /// function is kept for ever.
    ///
    /// # Errors
    /// RuntimeError for another kind of object.
    pub fn found_in(&self, function: &Bound<'_, PyAny>) -> PyResult<()> {
        // SAFETY: the flag says that instances have such a word, at the offset in the type; the object is held for
        // ever.
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

    /// Puts a function there, which calls [`FunctionSlot::original`].
    pub fn put(&self, function: *mut ()) {
        let Some(word) = self.word() else { return };
        let there = word.load(Acquire);
        if there != function {
            self.original.set(there);
            word.store(function, Release);
        }
    }

    /// Restores the original. A function that other code has put there since stays, and ours under it.
    pub fn give_back(&self, function: *mut ()) {
        if let Some(word) = self.word() {
            let _ = word.compare_exchange(function, self.original.get(), AcqRel, Acquire);
        }
    }

    /// The function that ours stands before; for ours only.
    #[inline(always)]
    pub fn original(&self) -> *mut () {
        self.original.behind()
    }

    /// The original function of an object with a word of its own.
    ///
    /// # Safety
    /// Only the function that was put there calls it, after [`FunctionSlot::found_in`].
    #[inline(always)]
    pub unsafe fn original_call(&self) -> Function {
        // SAFETY: the caller has replaced a word that holds functions of this kind.
        unsafe { std::mem::transmute(self.original()) }
    }
}
