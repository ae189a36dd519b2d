//! The first items of a dict or set, safe from other threads.

use std::ffi::c_int;
use std::ptr;

use inviso_term::etf::Full;
use pyo3::ffi::{self, PyObject};

extern "C" {
    fn _PySet_NextEntry(
        set: *mut PyObject, position: *mut ffi::Py_ssize_t, key: *mut *mut PyObject, hash: *mut ffi::Py_hash_t,
    ) -> c_int;
}

/// What is taken of a dict or set. With a GIL that is the container itself, walked in place; without, its first items, held.
pub(super) struct Taken {
    /// How many were not taken.
    pub left: usize,
    #[cfg(not(Py_GIL_DISABLED))]
    walked: (*mut PyObject, bool, usize),
    #[cfg(Py_GIL_DISABLED)]
    held: Vec<(*mut PyObject, *mut PyObject)>,
}

impl Taken {
    /// The first `most` pairs of a dict.
    ///
    /// # Safety
    /// `dict` is a dict, stands while the result is used, and the calling thread is and stays attached.
    pub unsafe fn pairs(dict: *mut PyObject, most: usize) -> Taken {
        // SAFETY: the caller's promise.
        unsafe { Taken::of(dict, false, most) }
    }

    /// The first `most` members of a set.
    ///
    /// # Safety
    /// As [`Taken::pairs`], for a set.
    pub unsafe fn members(set: *mut PyObject, most: usize) -> Taken {
        // SAFETY: the caller's promise.
        unsafe { Taken::of(set, true, most) }
    }

    /// The first `most` of a dict or set.
    ///
    /// # Safety
    /// As [`Taken::members`] if `is_set`, else as [`Taken::pairs`].
    #[cfg(not(Py_GIL_DISABLED))]
    unsafe fn of(container: *mut PyObject, is_set: bool, most: usize) -> Taken {
        // SAFETY: the type is as the caller says.
        let size = unsafe { size(container, is_set) };
        Taken { left: size.saturating_sub(most), walked: (container, is_set, size.min(most)) }
    }

    /// The first `most` of a dict or set.
    ///
    /// # Safety
    /// As [`Taken::members`] if `is_set`, else as [`Taken::pairs`].
    #[cfg(Py_GIL_DISABLED)]
    unsafe fn of(container: *mut PyObject, is_set: bool, most: usize) -> Taken {
        // SAFETY: in the critical section nobody else changes the container; nothing that runs in it can suspend it.
        unsafe {
            let mut section = std::mem::zeroed();
            ffi::PyCriticalSection_Begin(&raw mut section, container);
            let size = size(container, is_set);
            let mut held = Vec::with_capacity(size.min(most));
            let mut position = 0;
            while held.len() < most {
                let Some((key, value)) = next(container, is_set, &mut position) else { break };
                ffi::Py_INCREF(key);
                ffi::Py_XINCREF(value);
                held.push((key, value));
            }
            ffi::PyCriticalSection_End(&raw mut section);
            Taken { left: size.saturating_sub(held.len()), held }
        }
    }

    /// How many were taken.
    pub fn len(&self) -> usize {
        #[cfg(not(Py_GIL_DISABLED))]
        return self.walked.2;
        #[cfg(Py_GIL_DISABLED)]
        return self.held.len();
    }

    /// Calls `with` for each key and value (null in a set).
    ///
    /// # Safety
    /// The container stands.
    pub unsafe fn each(
        &self, mut with: impl FnMut(*mut PyObject, *mut PyObject) -> Result<(), Full>,
    ) -> Result<(), Full> {
        #[cfg(not(Py_GIL_DISABLED))]
        {
            let (container, is_set, count) = self.walked;
            let mut position = 0;
            for _ in 0..count {
                // SAFETY: `with` runs no Python code, so the container is as it was at the first step, with `count` items.
                let (key, value) =
                    unsafe { next(container, is_set, &mut position) }.unwrap_or((ptr::null_mut(), ptr::null_mut()));
                with(key, value)?;
            }
            Ok(())
        }
        #[cfg(Py_GIL_DISABLED)]
        self.held.iter().try_for_each(|&(key, value)| with(key, value))
    }
}

#[cfg(Py_GIL_DISABLED)]
impl Drop for Taken {
    fn drop(&mut self) {
        for &(key, value) in &self.held {
            // SAFETY: these references are ours; attached, as `pairs` was promised.
            unsafe {
                ffi::Py_DECREF(key);
                ffi::Py_XDECREF(value);
            }
        }
    }
}

/// How many a dict or set has.
///
/// # Safety
/// `container` is a set if `is_set`, else a dict; it stands, and the calling thread is attached.
unsafe fn size(container: *mut PyObject, is_set: bool) -> usize {
    // SAFETY: the caller's type; both read a field.
    unsafe {
        if is_set {
            ffi::PySet_Size(container) as usize
        } else {
            ffi::PyDict_Size(container) as usize
        }
    }
}

/// The next key and value (null in a set) from `position` on, borrowed.
///
/// # Safety
/// As [`size`], and nobody changes the container while the answer is used.
unsafe fn next(
    container: *mut PyObject, is_set: bool, position: &mut ffi::Py_ssize_t,
) -> Option<(*mut PyObject, *mut PyObject)> {
    let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the caller's type; both walk the table and call nothing.
    let found = unsafe {
        if is_set {
            let mut hash = 0;
            _PySet_NextEntry(container, position, &raw mut key, &raw mut hash)
        } else {
            ffi::PyDict_Next(container, position, &raw mut key, &raw mut value)
        }
    };
    (found != 0).then_some((key, value))
}
