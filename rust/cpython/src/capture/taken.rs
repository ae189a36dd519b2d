//! The first items of a dict or set, safe from other threads.

use std::ffi::c_int;
use std::ptr;

use inviso_term::etf::Full;
use pyo3::ffi::{self, PyObject};

use crate::object::held::{locked, Held};

extern "C" {
    fn _PySet_NextEntry(
        set: *mut PyObject, position: *mut ffi::Py_ssize_t, key: *mut *mut PyObject, hash: *mut ffi::Py_hash_t,
    ) -> c_int;
}

/// The items taken of a dict or set: its first ones, held.
pub(super) struct Taken {
    /// The number of items that were not taken.
    pub left: usize,
    items: Vec<(Held, Held)>,
}

impl Taken {
    /// The first `most` pairs of a dict.
    ///
    /// # Safety
    /// `dict` is a dict that stands, and the calling thread is attached until the result is dropped.
    pub unsafe fn pairs(dict: *mut PyObject, most: usize) -> Taken {
        // SAFETY: the caller promises a dict and an attached thread.
        unsafe { Taken::of(dict, false, most) }
    }

    /// The first `most` members of a set.
    ///
    /// # Safety
    /// `set` is a set that stands, and the calling thread is attached until the result is dropped.
    pub unsafe fn members(set: *mut PyObject, most: usize) -> Taken {
        // SAFETY: the caller promises a set and an attached thread.
        unsafe { Taken::of(set, true, most) }
    }

    /// The first `most` of a dict or set.
    ///
    /// # Safety
    /// As [`Taken::members`] if `is_set`, else as [`Taken::pairs`].
    unsafe fn of(container: *mut PyObject, is_set: bool, most: usize) -> Taken {
        // SAFETY: no other thread changes the container while it is locked; nothing that runs meanwhile can suspend the
        // lock.
        unsafe {
            locked(container, || {
                let size = size(container, is_set);
                let mut items = Vec::with_capacity(size.min(most));
                let mut position = 0;
                while items.len() < most {
                    let Some((key, value)) = next_item(container, is_set, &mut position) else { break };
                    items.push((Held::new(key), Held::new(value)));
                }
                Taken { left: size.saturating_sub(items.len()), items }
            })
        }
    }

    /// The number of items that were taken.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Calls `with` for each key and value (null in a set), which stand while it runs.
    pub fn each(&self, mut with: impl FnMut(*mut PyObject, *mut PyObject) -> Result<(), Full>) -> Result<(), Full> {
        self.items.iter().try_for_each(|(key, value)| with(key.as_ptr(), value.as_ptr()))
    }
}

/// The number of items of a dict or set.
///
/// # Safety
/// `container` is a set if `is_set`, else a dict; it stands, and the calling thread is attached.
unsafe fn size(container: *mut PyObject, is_set: bool) -> usize {
    // SAFETY: the caller promises the type; both calls read a field.
    unsafe {
        if is_set {
            ffi::PySet_Size(container) as usize
        } else {
            ffi::PyDict_Size(container) as usize
        }
    }
}

/// The next key and value (null in a set) of a dict or set from `position` on, borrowed.
///
/// # Safety
/// `container` is a set if `is_set`, else a dict; it stands, the calling thread is attached, and nothing changes the
/// container while the result is used.
pub unsafe fn next_item(
    container: *mut PyObject, is_set: bool, position: &mut ffi::Py_ssize_t,
) -> Option<(*mut PyObject, *mut PyObject)> {
    let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the caller promises the type; both calls walk the table and call nothing.
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
