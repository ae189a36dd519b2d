//! The initialiser of tasks, at every place where the interpreter finds it.
//!
//! | place | for |
//! | --- | --- |
//! | `tp_init` of asyncio's own class | its tasks |
//! | `tp_init` of classes derived from it | those that have no `__init__` of their own |
//! | the function that `Task.__init__` wraps | an `__init__` written in Python that calls it, and the `tp_init` of classes that are made later |
//!
//! The interpreter reads each of them as one word, and this module writes it as one.
//!
//! # Roles
//! Attached threads replace and give back the initialiser. Any attached thread makes tasks.
//!
//! # States
//! `HOOKED_FOR` has a bit for each user; tasks have our initialiser while a bit is set. `ORIGINAL` is null, or
//! asyncio's initialiser.
//!
//! # Orderings
//! `ORIGINAL` is stored `Release` before any place gets ours, and loaded `Acquire` by ours.
//!
//! # Checked by
//! `tests/python/test_trace_processes.py`, `tests/python/test_scheduling.py`.

use inviso_cpython::{
    object::{held::dict_get, interned::Interned, tracked as objects},
    tasks::running as tasks,
};
use pyo3::{ffi, prelude::*};
use std::{
    ffi::c_int,
    ptr::null_mut,
    sync::atomic::{
        AtomicPtr, AtomicU8,
        Ordering::{AcqRel, Acquire, Release},
    },
};

/// An initialiser: the object, arguments, keywords.
pub type Init = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

static ORIGINAL: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// The users that see tasks when they are made, a bit each.
static HOOKED_FOR: AtomicU8 = AtomicU8::new(0);
/// For the events of spawning.
pub const SPAWNING: u8 = 1;
/// For the first step of eager tasks.
pub const EAGER: u8 = 2;

/// asyncio's own initialiser.
///
/// # Safety
/// Only the function that [`take`] has put in place calls it.
#[inline(always)]
pub unsafe fn original() -> Init {
    // SAFETY: read from a slot of this kind before ours was put there; it is never unloaded.
    unsafe { std::mem::transmute(ORIGINAL.load(Acquire)) }
}

/// Initialises tasks by `ours` from now on, which calls [`original`]. `ours` is always the same function.
///
/// # Errors
/// The error of listing the derived classes.
pub fn take(py: Python<'_>, user: u8, ours: Init) -> PyResult<()> {
    let Some(class) = tasks::task_type(py) else { return Ok(()) };
    HOOKED_FOR.fetch_or(user, AcqRel);
    let there = slot(class).load(Acquire);
    if !std::ptr::eq(there, ours as *const ()) {
        ORIGINAL.store(there, Release);
        slot(class).store(ours as *mut (), Release);
    }
    put(class, ORIGINAL.load(Acquire), ours as *mut ())
}

/// A user needs it no longer.
pub fn give_back(py: Python<'_>, user: u8, ours: Init) {
    if HOOKED_FOR.fetch_and(!user, AcqRel) & !user != 0 {
        return;
    }
    if let Some(class) = tasks::task_type(py) {
        let (ours, original) = (ours as *mut (), ORIGINAL.load(Acquire));
        exchange(slot(class), ours, original);
        // a place that keeps ours still calls the original
        let _ = put(class, ours, original);
    }
}

/// Puts `to` in the place of `from`: first for classes that are made later.
fn put(class: &Bound<'_, PyAny>, from: *mut (), to: *mut ()) -> PyResult<()> {
    let wrapper = class.getattr("__init__")?;
    // SAFETY: the exact type is checked; asyncio's own class holds its wrapper.
    unsafe {
        if ffi::Py_TYPE(wrapper.as_ptr()) == &raw mut ffi::PyWrapperDescr_Type {
            let wrapper: *mut ffi::PyWrapperDescrObject = wrapper.as_ptr().cast();
            exchange(AtomicPtr::from_ptr((&raw mut (*wrapper).d_wrapped).cast()), from, to);
        }
    }
    for class in objects::with_derived(class)?.iter().skip(1) {
        exchange(slot(class), from, to);
    }
    Ok(())
}

fn exchange(place: &AtomicPtr<()>, from: *mut (), to: *mut ()) {
    let _ = place.compare_exchange(from, to, AcqRel, Acquire);
}

fn slot<'a>(class: &'a Bound<'_, PyAny>) -> &'a AtomicPtr<()> {
    // SAFETY: asyncio's own class or one that derives from it, which is held meanwhile.
    unsafe {
        let class: *mut ffi::PyTypeObject = class.as_ptr().cast();
        AtomicPtr::from_ptr((&raw mut (*class).tp_init).cast())
    }
}

/// The value of a keyword argument, borrowed; null if it isn't given.
///
/// # Safety
/// The thread is attached and has no exception set; `keywords` is the dict that the interpreter gives an initialiser,
/// or null.
pub unsafe fn keyword(keywords: *mut ffi::PyObject, name: &Interned) -> *mut ffi::PyObject {
    // SAFETY: the caller promises that the thread is attached and has no exception set, and `keywords` is the dict that
    // the interpreter gives an initialiser, or null; the type is checked before it is read. The dict belongs to the
    // call, and nothing changes it.
    unsafe {
        if keywords.is_null() || ffi::PyDict_CheckExact(keywords) == 0 {
            return std::ptr::null_mut();
        }
        dict_get(keywords, name.get()).as_ptr()
    }
}
