//! Attributes by the generic rules: no `__getattr__` of the program runs.

use super::Aside;
use pyo3::{ffi, prelude::*, types::PyString};

extern "C" {
    fn _PyObject_GenericGetAttrWithDict(
        object: *mut ffi::PyObject, name: *mut ffi::PyObject, dict: *mut ffi::PyObject, suppress: std::ffi::c_int,
    ) -> *mut ffi::PyObject;
}

/// An attribute by the generic rules.
///
/// # Safety
/// The object stands, and the calling thread is attached. No class of the object may have a descriptor of the program's
/// own under the name.
pub unsafe fn attribute<'py>(py: Python<'py>, object: *mut ffi::PyObject, name: &str) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the caller's object stands. An exception that is set would look like one of the look-up.
    unsafe {
        let _aside = Aside::new();
        let name = PyString::intern(py, name);
        // It raises no AttributeError: to make one takes several times as long as the look-up.
        let value = _PyObject_GenericGetAttrWithDict(object, name.as_ptr(), std::ptr::null_mut(), 1);
        if value.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(Bound::from_owned_ptr(py, value))
    }
}
