//! Callbacks by which the library itself sets futures. They are no messages of the program.
//!
//! # Roles
//! The instrument of futures keeps the class when the program has imported `_asyncio`. Any attached thread reads it.
//!
//! # States
//! `CLASS` is null, or asyncio's class of futures, which is held for ever.
//!
//! # Orderings
//! `CLASS` is stored with `Release` and loaded with `Acquire`.
//!
//! # Checked by
//! `tests/python/test_futures.py`, `tests/python/test_seq_carriers.py`.

use crate::{instrument::tokens, state::thread::ThreadState};
use inviso_core::host::seq::Carried;
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, Frame},
};
use pyo3::ffi;
use std::{
    cell::Cell,
    sync::atomic::{AtomicPtr, Ordering},
};

/// The future class.
pub static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// The library's functions that set one future from another: the other one is their first parameter.
pub const COPIES: [&str; 2] = ["_copy_future_state", "shield.<locals>._inner_done_callback"];

thread_local! {
    /// The handle that this thread runs, if the library scheduled it for itself; else 0.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// This thread runs a handle of the library's own, by its address; 0 for any other.
pub fn run(handle: usize) {
    RUNNING.set(handle);
}

/// Whether this frame, the innermost one, runs a callback that the library scheduled for itself.
///
/// # Safety
/// The frame runs.
pub unsafe fn runs_inner(frame: Frame) -> bool {
    let handle = RUNNING.get();
    // SAFETY: the frame runs; the first variable of `Handle._run` is the handle.
    handle != 0
        && unsafe { capture::is_text(code_qualname(frame.code()), "Handle._run") && frame.local(0) as usize == handle }
}

/// Whether an object is an asyncio future of the class written in C or of a subclass.
///
/// # Safety
/// The object stands; attached.
pub unsafe fn is(object: *mut ffi::PyObject) -> bool {
    let class = CLASS.load(Ordering::Acquire);
    // SAFETY: the class is null or lives for ever.
    unsafe { !class.is_null() && ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class) != 0 }
}

/// Whether a callback is a method of an asyncio future.
///
/// # Safety
/// The object stands; the calling thread is attached.
pub unsafe fn is_method(callback: *mut ffi::PyObject) -> bool {
    // SAFETY: the type is checked before the layout is read; both classes are null or live for ever.
    unsafe {
        if callback.is_null() || ffi::PyCFunction_Check(callback) == 0 {
            return false;
        }
        let function: *mut ffi::PyCFunctionObject = callback.cast();
        let owner = (*function).m_self;
        !owner.is_null() && ffi::Py_TYPE(owner) == CLASS.load(Ordering::Acquire)
    }
}

/// The token of the result that the library passes on to an asyncio future in this frame, if it does so.
///
/// # Safety
/// The frame runs; attached.
pub unsafe fn carried(state: &mut ThreadState, frame: Frame) -> Option<Carried> {
    // SAFETY: the frame runs, so its second parameter stands; attached.
    unsafe {
        if !capture::is_text(code_qualname(frame.code()), COPIES[0]) {
            return None;
        }
        let target = state.host.directory.known(frame.local(1) as usize)?;
        tokens::shown_by(&target)
    }
}
