//! Plain attributes of instances, read without running the program's code.

use super::interned::Interned;
use pyo3::ffi::{self, PyObject};
use std::ffi::CStr;

/// An attribute by its name.
pub struct Attribute(Interned);

impl Attribute {
    /// The attribute of this name.
    pub const fn new(name: &'static CStr) -> Attribute {
        Attribute(Interned::new(name))
    }

    /// The attribute's value by the generic rules, a new reference; or null, with no exception set. No class of the
    /// object may define a descriptor of the program under the name.
    ///
    /// # Safety
    /// The object stands; the thread is attached and has no exception set.
    pub unsafe fn of(&self, object: *mut PyObject) -> *mut PyObject {
        // SAFETY: the caller promises that the object stands and the thread is attached and has no exception set.
        unsafe {
            let name = self.0.get();
            let value = if name.is_null() { name } else { ffi::PyObject_GenericGetAttr(object, name) };
            if value.is_null() {
                ffi::PyErr_Clear();
            }
            value
        }
    }
}
