//! The bytes of an int beyond 64 bits.

#[cfg(Py_3_13)]
use std::{ffi::c_int, ptr};

use pyo3::ffi::{self, PyObject};

/// The magnitude, lowest byte first; `None` if it needs more than `most` bytes.
///
/// # Safety
/// `object` is an int, negative or not as said, and the calling thread is attached.
pub unsafe fn magnitude(object: *mut PyObject, negative: bool, most: usize) -> Option<Vec<u8>> {
    // SAFETY: an int; the buffer is as long as it was measured.
    let mut bytes = unsafe {
        let size = big_size(object);
        if size > most {
            return None;
        }
        let mut bytes = vec![0u8; size];
        big_bytes(object, &mut bytes);
        bytes
    };
    if negative {
        // from two's complement
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(carry as u8);
        }
    }
    Some(bytes)
}

/// Bytes that the two's complement of an int takes, with its sign.
///
/// # Safety
/// `object` is an int, and the calling thread is attached.
unsafe fn big_size(object: *mut PyObject) -> usize {
    #[cfg(Py_3_13)]
    // SAFETY: an int, and no buffer: it says how long one must be.
    return unsafe { ffi::PyLong_AsNativeBytes(object, ptr::null_mut(), 0, LITTLE_ENDIAN) }.max(0) as usize;
    #[cfg(not(Py_3_13))]
    {
        extern "C" {
            fn _PyLong_NumBits(object: *mut PyObject) -> usize;
        }
        // SAFETY: an int.
        unsafe { _PyLong_NumBits(object) / 8 + 1 }
    }
}

/// Fills `buffer`, which [`big_size`] measured, with the two's complement of an int.
///
/// # Safety
/// As [`big_size`], and `buffer` is as long as that said.
unsafe fn big_bytes(object: *mut PyObject, buffer: &mut [u8]) {
    #[cfg(Py_3_13)]
    // SAFETY: the buffer is as long as said.
    unsafe {
        ffi::PyLong_AsNativeBytes(object, buffer.as_mut_ptr().cast(), buffer.len() as ffi::Py_ssize_t, LITTLE_ENDIAN);
    }
    #[cfg(not(Py_3_13))]
    // SAFETY: the buffer is as long as said, little end first, signed.
    unsafe {
        ffi::_PyLong_AsByteArray(object.cast(), buffer.as_mut_ptr(), buffer.len(), 1, 1);
    }
}

#[cfg(Py_3_13)]
const LITTLE_ENDIAN: c_int = 1;
