//! The function that one of ours stands before, in a word of the interpreter that another thread may call through at once.
//!
//! # Roles
//! An attached thread stores the original, and then puts our function into the interpreter's word. Any thread reads that
//! word, calls our function, and loads the original there.
//!
//! # States
//! Null (nothing was replaced), then an original. An original stays when the word gets it back; only another original
//! replaces it.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | original, then the interpreter's word | [`Original::set`], a `Release` fence | the interpreter, a plain load and an indirect call | our function finds an original |
//!
//! The interpreter's load is no acquire. On x86-64 loads are in order, so a thread inside our function sees the original. A
//! weakly ordered processor may guess the target of the call, and load the original before the interpreter's word. So
//! [`Original::behind`] repeats a load that found null. The original was stored before our function could be called, so the
//! repetition ends when the store arrives. With a lock of the interpreter between both threads null is never found.
//!
//! # Checked by
//! `tests/python/test_tprof.py`, `tests/python/test_messages.py`, also in a build with `--cfg inviso_portable`.

use std::{
    hint::spin_loop,
    ptr::null_mut,
    sync::atomic::{fence, AtomicPtr, Ordering::Acquire, Ordering::Release},
};

/// Whether loads are in order, so that a thread inside our function sees the original.
const IN_ORDER: bool = cfg!(all(target_arch = "x86_64", not(inviso_portable)));

/// An original function, or null.
pub struct Original(AtomicPtr<()>);

impl Default for Original {
    fn default() -> Original {
        Original::new()
    }
}

impl Original {
    /// No function yet.
    pub const fn new() -> Original {
        Original(AtomicPtr::new(null_mut()))
    }

    /// Sets it. Stores that the caller makes afterwards are seen later than this one.
    #[inline]
    pub fn set(&self, function: *mut ()) {
        self.0.store(function, Release);
        // `Release` orders earlier stores before this one; the fence orders this one before the interpreter's word
        fence(Release);
    }

    /// The original, or null if nothing was replaced.
    #[inline(always)]
    pub fn get(&self) -> *mut () {
        self.0.load(Acquire)
    }

    /// The original, for the function that stands before it and that the interpreter has called.
    #[inline(always)]
    pub fn behind(&self) -> *mut () {
        let function = self.get();
        if IN_ORDER || !function.is_null() {
            return function;
        }
        self.arriving()
    }

    #[cold]
    fn arriving(&self) -> *mut () {
        loop {
            spin_loop();
            let function = self.get();
            if !function.is_null() {
                return function;
            }
        }
    }
}
