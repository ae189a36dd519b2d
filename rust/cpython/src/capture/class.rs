//! Classes: what they and their instances define, read without running code.

use crate::{
    interpreter::Uncollected,
    object::held::{dict_get, Held},
};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use std::{ffi::CStr, ptr};

/// The dict of an object's own fields, or null.
///
/// # Safety
/// `object` stands, and the calling thread is attached and has no exception set.
pub unsafe fn instance_dict(object: *mut PyObject) -> Held {
    // SAFETY: the caller's promise. The object keeps its dict, which nobody can replace while there is a GIL.
    unsafe {
        // it may be made only now
        let _uncollected = Uncollected::new();
        let dict = ffi::PyObject_GenericGetDict(object, ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
        }
        #[cfg(not(Py_GIL_DISABLED))]
        {
            ffi::Py_XDECREF(dict);
            Held::borrowed(dict)
        }
        #[cfg(Py_GIL_DISABLED)]
        Held::owned(dict)
    }
}

/// An attribute by the generic rules, a new reference or null; no exception is left.
///
/// # Safety
/// `object` lives throughout, and the calling thread is attached to the interpreter.
pub(super) unsafe fn attribute(object: *mut PyObject, name: &CStr) -> *mut PyObject {
    // SAFETY: the object stands (the callers').
    unsafe {
        let name = Held::owned(ffi::PyUnicode_InternFromString(name.as_ptr()));
        let value = if name.is_null() { ptr::null_mut() } else { ffi::PyObject_GenericGetAttr(object, name.as_ptr()) };
        if value.is_null() {
            ffi::PyErr_Clear();
        }
        value
    }
}

/// What the classes of `class`'s method resolution order have under `name`, unbound; null if nothing.
///
/// # Safety
/// `class` stands, and the calling thread is attached.
pub unsafe fn attribute_of_class(class: *mut PyTypeObject, name: &str) -> Held {
    // SAFETY: the caller's promise; the text is as long as it says.
    unsafe {
        let key = Held::owned(ffi::PyUnicode_FromStringAndSize(name.as_ptr().cast(), name.len() as ffi::Py_ssize_t));
        lookup_key(class, &key)
    }
}

/// As [`attribute_of_class`], by a C string.
///
/// # Safety
/// As [`attribute_of_class`].
pub(super) unsafe fn lookup(class: *mut PyTypeObject, name: &CStr) -> Held {
    // SAFETY: a C string.
    unsafe { lookup_key(class, &Held::owned(ffi::PyUnicode_InternFromString(name.as_ptr()))) }
}

/// As [`attribute_of_class`], by a str.
///
/// # Safety
/// As [`attribute_of_class`]; what `key` holds is an exact str or null.
unsafe fn lookup_key(class: *mut PyTypeObject, key: &Held) -> Held {
    // SAFETY: the order of a ready type is a tuple of types.
    unsafe {
        let order = (*class).tp_mro;
        if key.is_null() || order.is_null() {
            ffi::PyErr_Clear();
            return Held::borrowed(ptr::null_mut());
        }
        for i in 0..ffi::PyTuple_GET_SIZE(order) {
            let dict = dict_of(ffi::PyTuple_GET_ITEM(order, i).cast());
            if dict.is_null() {
                continue;
            }
            let found = dict_get(dict.as_ptr(), key.as_ptr());
            if !found.is_null() {
                return found;
            }
        }
        Held::borrowed(ptr::null_mut())
    }
}

/// Shows what each class of `class`'s method resolution order has under a name of its own, unbound, until that says that it is enough.
/// Answers whether it was.
///
/// # Safety
/// `class` stands, `key` is an exact str or null, and the calling thread is attached.
pub unsafe fn each_definition(
    class: *mut PyTypeObject, key: *mut PyObject, mut is_enough: impl FnMut(*mut PyTypeObject, *mut PyObject) -> bool,
) -> bool {
    // SAFETY: the order of a ready type is a tuple of types.
    unsafe {
        let order = (*class).tp_mro;
        !order.is_null()
            && !key.is_null()
            && (0..ffi::PyTuple_GET_SIZE(order)).any(|i| {
                let class = ffi::PyTuple_GET_ITEM(order, i).cast();
                let dict = dict_of(class);
                let found = if dict.is_null() { Held::borrowed(ptr::null_mut()) } else { dict_get(dict.as_ptr(), key) };
                !found.is_null() && is_enough(class, found.as_ptr())
            })
    }
}

/// The class's own dict, exact; or null.
///
/// # Safety
/// `class` lives throughout, and the calling thread is attached to the interpreter.
pub(super) unsafe fn dict_of(class: *mut PyTypeObject) -> Held {
    // SAFETY: a ready type (the callers').
    unsafe {
        #[cfg(Py_3_12)]
        return Held::owned(ffi::PyType_GetDict(class));
        #[cfg(not(Py_3_12))]
        return Held::borrowed((*class).tp_dict);
    }
}
