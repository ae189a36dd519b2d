//! An object that can be read for a while, borrowed or owned.

use pyo3::ffi::{self, PyObject};

/// An object that can be read until this is dropped: borrowed from a frame, or owned.
#[derive(Debug)]
pub struct Held {
    object: *mut PyObject,
    owned: bool,
}

impl Held {
    /// An object that a frame keeps alive, or a container that no other thread can change.
    #[inline(always)]
    pub fn borrowed(object: *mut PyObject) -> Held {
        Held { object, owned: false }
    }

    /// Takes one reference (or null).
    #[inline(always)]
    pub fn owned(object: *mut PyObject) -> Held {
        Held { object, owned: true }
    }

    /// Adds one reference. Null stays null.
    ///
    /// # Safety
    /// The object is null or stands; the thread is attached.
    #[inline(always)]
    pub unsafe fn new(object: *mut PyObject) -> Held {
        // SAFETY: the caller promises that the object is null or stands and the thread is attached.
        unsafe { ffi::Py_XINCREF(object) };
        Held::owned(object)
    }

    /// The object with a reference that the caller owns; a borrowed one gets one more. Null stays null.
    #[inline(always)]
    pub fn into_ptr(self) -> *mut PyObject {
        if !self.owned {
            // SAFETY: the holder of a `Held` is attached.
            unsafe { ffi::Py_XINCREF(self.object) };
        }
        let object = self.object;
        std::mem::forget(self);
        object
    }

    /// The object, or null; to be read while `self` lives and the calling thread stays attached.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut PyObject {
        self.object
    }

    /// Whether it owns a reference.
    #[inline(always)]
    pub fn is_owned(&self) -> bool {
        self.owned
    }

    /// Whether there is no object.
    #[inline(always)]
    pub fn is_null(&self) -> bool {
        self.object.is_null()
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the reference is ours, and the holder of a `Held` is attached.
            unsafe { ffi::Py_XDECREF(self.object) }
        }
    }
}

/// `dict[key]`, or null if it isn't there.
///
/// # Safety
/// `dict` is an exact dict, `key` an exact str that stands or null, and the calling thread is attached.
#[inline]
pub unsafe fn dict_get(dict: *mut PyObject, key: *mut PyObject) -> Held {
    if key.is_null() {
        return Held::borrowed(key);
    }
    // SAFETY: the caller promises an exact dict and an attached thread. With a GIL nothing removes the value from the
    // dict before it gets its reference.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::new(ffi::PyDict_GetItemWithError(dict, key));
        #[cfg(Py_GIL_DISABLED)]
        {
            let mut value = std::ptr::null_mut();
            ffi::PyDict_GetItemRef(dict, key, &raw mut value);
            Held::owned(value)
        }
    }
}

/// `list[i]`, or null if it isn't there.
///
/// # Safety
/// `list` is a list, and the calling thread is attached.
#[inline]
pub unsafe fn list_get(list: *mut PyObject, i: ffi::Py_ssize_t) -> Held {
    // SAFETY: the caller promises a list and an attached thread. With a GIL nothing removes the item before it gets its
    // reference.
    unsafe {
        if i >= ffi::PyList_GET_SIZE(list) {
            return Held::borrowed(std::ptr::null_mut());
        }
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::new(ffi::PyList_GET_ITEM(list, i));
        #[cfg(Py_GIL_DISABLED)]
        {
            let item = ffi::PyList_GetItemRef(list, i);
            if item.is_null() {
                ffi::PyErr_Clear();
            }
            Held::owned(item)
        }
    }
}

/// Runs `read` while no other thread can be in a critical section of `object`. With a GIL no other thread runs anyway.
///
/// # Safety
/// `object` stands, the calling thread is attached, and `read` does not detach it.
#[cfg(not(Py_GIL_DISABLED))]
#[inline(always)]
pub unsafe fn locked<T>(_object: *mut PyObject, read: impl FnOnce() -> T) -> T {
    read()
}

/// Runs `read` while no other thread can be in a critical section of `object`.
///
/// # Safety
/// `object` stands, the calling thread is attached, and `read` does not detach it.
#[cfg(Py_GIL_DISABLED)]
pub unsafe fn locked<T>(object: *mut PyObject, read: impl FnOnce() -> T) -> T {
    // SAFETY: begin and end enclose the closure, which doesn't panic, on one C stack.
    unsafe {
        let mut section = std::mem::zeroed();
        ffi::PyCriticalSection_Begin(&raw mut section, object);
        let result = read();
        ffi::PyCriticalSection_End(&raw mut section);
        result
    }
}
