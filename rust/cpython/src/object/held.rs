//! An object that can be read for a while, borrowed or owned.

use pyo3::ffi::{self, PyObject};

/// An object that can be read until this is dropped: borrowed from a frame, or owned.
#[derive(Debug)]
pub struct Held {
    object: *mut PyObject,
    owned: bool,
}

impl Held {
    /// What a frame, or a container that nobody else can change, keeps alive.
    #[inline(always)]
    pub fn borrowed(object: *mut PyObject) -> Held {
        Held { object, owned: false }
    }

    /// Takes over one reference (or null).
    #[inline(always)]
    pub fn owned(object: *mut PyObject) -> Held {
        Held { object, owned: true }
    }

    /// One reference more.
    ///
    /// # Safety
    /// The object stands; attached.
    #[inline(always)]
    pub unsafe fn new(object: *mut PyObject) -> Held {
        // SAFETY: the caller's promise.
        unsafe { ffi::Py_INCREF(object) };
        Held::owned(object)
    }

    /// The object with a reference that is the caller's from now on; one that is borrowed gets one more. Null stays so.
    #[inline(always)]
    pub fn into_ptr(self) -> *mut PyObject {
        if !self.owned {
            // SAFETY: whoever holds a `Held` is attached.
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

    /// Whether a reference of it is ours.
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
            // SAFETY: the reference is ours, and whoever holds a `Held` is attached.
            unsafe { ffi::Py_XDECREF(self.object) }
        }
    }
}

/// `dict[key]`, or null where it isn't there.
///
/// # Safety
/// `dict` is an exact dict, `key` an exact str that stands or null, and the calling thread is attached.
#[inline]
pub unsafe fn dict_get(dict: *mut PyObject, key: *mut PyObject) -> Held {
    if key.is_null() {
        return Held::borrowed(key);
    }
    // SAFETY: the caller's promise. With a GIL nobody can take the value out of the dict while it is looked at.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::borrowed(ffi::PyDict_GetItemWithError(dict, key));
        #[cfg(Py_GIL_DISABLED)]
        {
            let mut value = std::ptr::null_mut();
            ffi::PyDict_GetItemRef(dict, key, &raw mut value);
            Held::owned(value)
        }
    }
}

/// `list[i]`, or null where it isn't there.
///
/// # Safety
/// `list` is a list, and the calling thread is attached.
#[inline]
pub unsafe fn list_get(list: *mut PyObject, i: ffi::Py_ssize_t) -> Held {
    // SAFETY: the caller's promise. With a GIL nobody can take the item out while it is looked at.
    unsafe {
        if i >= ffi::PyList_GET_SIZE(list) {
            return Held::borrowed(std::ptr::null_mut());
        }
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::borrowed(ffi::PyList_GET_ITEM(list, i));
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

/// Runs `read` while no other thread can be in a critical section of `object`.
///
/// # Safety
/// `object` stands, and the calling thread is attached.
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
