//! The library's classes of queues and the modules that define them, which identify the frames of their methods.
//!
//! # Roles
//! The instrument of queues keeps the namespaces when it begins. Any attached thread reads them.
//!
//! # States
//! A word is 0 or null, or the address of an object that is kept for ever.
//!
//! # Orderings
//! An address is only compared, so `Relaxed` loads are enough: a missed one is a queue that is not yet watched.
//!
//! # Checked by
//! `tests/python/test_messages.py`, `tests/python/test_queue_programs.py`.

use inviso_cpython::{capture, frames::frame::Frame};
use pyo3::{ffi, prelude::*};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The namespaces of these modules, which identify the frames of their functions.
pub static QUEUES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Keeps the namespace of a module for ever, so that no other object gets its address.
pub fn keep_names(module: &Bound<'_, PyAny>, names: &AtomicUsize) -> PyResult<()> {
    let dict = module.getattr("__dict__")?;
    if names.load(Ordering::Relaxed) != dict.as_ptr() as usize {
        names.store(dict.into_ptr() as usize, Ordering::Release);
    }
    Ok(())
}

/// Whether these globals are those of a module that defines the library's queues.
pub fn defines(globals: *mut ffi::PyObject) -> bool {
    QUEUES.iter().any(|module| module.load(Ordering::Relaxed) == globals as usize)
}

/// Whether a class is one of the standard library's whose newest item comes first, or derives from it.
pub fn is_lifo(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: the mro of a ready type is a tuple of types, which stand.
    unsafe {
        let order = (*class).tp_mro;
        let mut buffer = [0; 256];
        !order.is_null()
            && (0..ffi::PyTuple_GET_SIZE(order)).any(|n| {
                let name = capture::type_name(ffi::PyTuple_GET_ITEM(order, n).cast(), &mut buffer);
                matches!(name, "queue.LifoQueue" | "asyncio.queues.LifoQueue")
            })
    }
}

/// Whether a class is one of the standard library's own. The first such classes are recognised later by their address.
pub fn is_of_library(class: *mut ffi::PyTypeObject) -> bool {
    static KNOWN: [AtomicPtr<ffi::PyTypeObject>; 8] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 8];
    if KNOWN.iter().any(|known| known.load(Ordering::Acquire) == class) {
        return true;
    }
    let mut buffer = [0; 256];
    // SAFETY: the class stands; the thread is attached. A class in `KNOWN` is held for ever, so that no other object
    // gets its address.
    unsafe {
        let name = capture::type_name(class, &mut buffer);
        let is = name.starts_with("queue.") || name.starts_with("asyncio.queues.");
        let (none, seen) = (std::ptr::null_mut(), (Ordering::AcqRel, Ordering::Relaxed));
        if is && KNOWN.iter().any(|known| known.compare_exchange(none, class, seen.0, seen.1).is_ok()) {
            ffi::Py_INCREF(class.cast());
        }
        is
    }
}

/// The first frame from this one on that is outside these modules: the user of the queue.
///
/// # Safety
/// The frame runs; the thread is attached.
pub unsafe fn user(mut frame: Option<Frame>) -> Option<Frame> {
    // SAFETY: the caller promises that the frame runs and the thread is attached.
    unsafe {
        while let Some(state) = frame.filter(|frame| defines(frame.globals())) {
            frame = state.caller();
        }
    }
    frame
}
