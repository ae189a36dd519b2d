//! The value of an int.

use std::ffi::c_int;

use pyo3::ffi::{self, PyObject};

/// The value of an int of at most 64 bits; of any other its sign, 1 or -1. No code runs, and no exception is left or
/// lost.
///
/// # Safety
/// `object` is an int, and the calling thread is attached.
#[inline]
pub unsafe fn value(object: *mut PyObject) -> Result<i64, c_int> {
    let mut overflow = 0;
    // SAFETY: the caller promises an int, which can only fail by overflow; that sets no exception.
    let n = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
    if overflow == 0 {
        Ok(n)
    } else {
        Err(overflow)
    }
}
