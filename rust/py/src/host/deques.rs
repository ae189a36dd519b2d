//! `collections.deque`: its methods, called without their names.

use crate::ffi::method::{self, Plain};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The class, and the functions behind two of its methods; 0 until they are known.
static DEQUE: AtomicUsize = AtomicUsize::new(0);
static APPEND: AtomicUsize = AtomicUsize::new(0);
static POPLEFT: AtomicUsize = AtomicUsize::new(0);

/// Finds them; false if they are not those of a built-in class that nobody can change.
///
/// # Errors
/// What the interpreter raises.
pub fn learn(py: Python<'_>) -> PyResult<bool> {
    if DEQUE.load(Ordering::Acquire) != 0 {
        return Ok(true);
    }
    let class = py.import("collections")?.getattr("deque")?;
    // SAFETY: the kind is looked at.
    let is_fixed = unsafe {
        ffi::PyType_Check(class.as_ptr()) != 0
            && ffi::PyType_GetFlags(class.as_ptr().cast()) & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0
    };
    if !is_fixed {
        return Ok(false);
    }
    let methods = class.getattr("__dict__")?;
    for (found, name, kind) in [(&APPEND, "append", ffi::METH_O), (&POPLEFT, "popleft", ffi::METH_NOARGS)] {
        let Some(function) = method::plain(&methods.get_item(name)?, kind) else { return Ok(false) };
        found.store(function as usize, Ordering::Release);
    }
    DEQUE.store(class.into_ptr() as usize, Ordering::Release);
    Ok(true)
}

/// Whether an object is a deque, and of no class that derives from it.
///
/// # Safety
/// It stands; attached.
#[inline(always)]
pub unsafe fn is_one(object: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::Py_TYPE(object) as usize == DEQUE.load(Ordering::Acquire) }
}

/// `deque.append(item)`: None, or null with an exception set.
///
/// # Safety
/// A deque (so that they are known); attached.
#[inline(always)]
pub unsafe fn append(deque: *mut PyObject, item: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller's promise; `learn` looked at how it is called.
    unsafe { std::mem::transmute::<usize, Plain>(APPEND.load(Ordering::Acquire))(deque, item) }
}

/// `deque.popleft()`: the item, or null with an exception set.
///
/// # Safety
/// As [`append`].
#[inline(always)]
pub unsafe fn popleft(deque: *mut PyObject) -> *mut PyObject {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<usize, Plain>(POPLEFT.load(Ordering::Acquire))(deque, std::ptr::null_mut()) }
}
