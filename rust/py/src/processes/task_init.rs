//! The initialiser of tasks, at every place where the interpreter finds it.
//!
//! | place | for |
//! | --- | --- |
//! | `tp_init` of asyncio's own class | its tasks |
//! | `tp_init` of classes derived from it | those that have no `__init__` of their own |
//! | what `Task.__init__` wraps | an `__init__` written in Python that calls it, and the `tp_init` of classes that are made later |
//!
//! Each is read by the interpreter as one word, and written here as one.

use inviso_cpython::{object::tracked as objects, tasks::running as tasks};
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

/// Who needs tasks to be seen when they are made, a bit each.
static HOOKED_FOR: AtomicU8 = AtomicU8::new(0);
/// For the messages about spawning.
pub const SPAWNING: u8 = 1;
/// For the first step of eager tasks.
pub const EAGER: u8 = 2;

/// asyncio's own initialiser.
///
/// # Safety
/// To be called by the function that [`take`] has put there.
#[inline(always)]
pub unsafe fn original() -> Init {
    // SAFETY: read from a slot of this kind before anything was put there; it is never unloaded.
    unsafe { std::mem::transmute(ORIGINAL.load(Acquire)) }
}

/// From now on tasks are initialised by `ours`, which calls [`original`] on; always the same.
///
/// # Errors
/// What listing the derived classes raises.
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

/// One needs it no longer.
pub fn give_back(py: Python<'_>, user: u8, ours: Init) {
    if HOOKED_FOR.fetch_and(!user, AcqRel) & !user != 0 {
        return;
    }
    if let Some(class) = tasks::task_type(py) {
        let (ours, original) = (ours as *mut (), ORIGINAL.load(Acquire));
        exchange(slot(class), ours, original);
        // where it stays, it calls on
        let _ = put(class, ours, original);
    }
}

/// Puts `to` where `from` stands: first what classes to come begin with.
fn put(class: &Bound<'_, PyAny>, from: *mut (), to: *mut ()) -> PyResult<()> {
    let wrapper = class.getattr("__init__")?;
    // SAFETY: the exact type is looked at; what asyncio's own class has stands with it.
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
