//! Plain attributes of instances, found without asking by name where that was done once.
//!
//! From 3.13 on an instance of most classes written in Python has the values of its attributes in itself, each attribute of a class at one
//! place. The interpreter's own instructions read them there as long as the class has the same version; so does this.

use super::interned::Interned;
use inline::Places;
use pyo3::ffi::{self, PyObject};
use std::ffi::CStr;

/// An attribute by its name.
pub struct Attribute {
    name: Interned,
    places: Places,
}

impl Attribute {
    /// One of this name.
    pub const fn new(name: &'static CStr) -> Attribute {
        Attribute { name: Interned::new(name), places: Places::new() }
    }

    /// What an object has under the name by the generic rules, a new reference; or null, with no exception set. No class of the
    /// object may have a descriptor of the program's own under the name.
    ///
    /// # Safety
    /// The object stands; attached, with no exception set.
    #[inline(always)]
    pub unsafe fn of(&self, object: *mut PyObject) -> *mut PyObject {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(value) = self.places.value(object) {
                ffi::Py_INCREF(value);
                return value;
            }
            self.look_up(object)
        }
    }

    /// # Safety
    /// As [`Attribute::of`].
    #[inline(never)]
    unsafe fn look_up(&self, object: *mut PyObject) -> *mut PyObject {
        // SAFETY: the caller's promise.
        unsafe {
            let name = self.name.get();
            if name.is_null() {
                return name; // no memory
            }
            let value = ffi::PyObject_GenericGetAttr(object, name);
            if value.is_null() {
                ffi::PyErr_Clear();
                return value;
            }
            self.places.learn(object, value, name);
            value
        }
    }
}

/// From 3.13 on, with the GIL.
#[cfg(all(Py_3_13, not(Py_GIL_DISABLED)))]
mod inline {
    use crate::ffi::layout::values as at;
    use pyo3::ffi::{self, PyObject};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Where an attribute lies in instances of a few classes: the class's version, and behind it the bytes from the object on. No two classes have the
    /// same version at any time, and one that changes gets another.
    pub struct Places([AtomicU64; 8]);

    impl Places {
        pub const fn new() -> Places {
            Places([const { AtomicU64::new(0) }; 8])
        }

        /// # Safety
        /// The object stands; attached.
        #[inline(always)]
        pub unsafe fn value(&self, object: *mut PyObject) -> Option<*mut PyObject> {
            // SAFETY: the object is an instance of a class that has values behind the head, and the place is one of those.
            unsafe {
                let version = (*ffi::Py_TYPE(object)).tp_version_tag;
                let place = self.0[version as usize % 8].load(Relaxed);
                if place >> 32 != u64::from(version) || version == 0 || *object.cast::<u8>().add(at::VALID) == 0 {
                    return None;
                }
                let value = *object.cast::<u8>().add(place as u32 as usize).cast::<*mut PyObject>();
                (!value.is_null()).then_some(value)
            }
        }

        /// The object's attribute has this value.
        ///
        /// # Safety
        /// As [`Places::value`].
        pub unsafe fn learn(&self, object: *mut PyObject, value: *mut PyObject, name: *mut PyObject) {
            // SAFETY: the caller's promise.
            unsafe {
                let class = ffi::Py_TYPE(object);
                let Some(place) = crate::ffi::shape::place(object, value, name) else { return };
                let version = (*class).tp_version_tag;
                let place = u64::from(version) << 32 | (at::FIRST + usize::from(place) * size_of::<usize>()) as u64;
                self.0[version as usize % 8].store(place, Relaxed);
            }
        }
    }
}

/// Elsewhere values lie where the object points to, or are not to be read without a lock.
#[cfg(not(all(Py_3_13, not(Py_GIL_DISABLED))))]
mod inline {
    use pyo3::ffi::PyObject;

    pub struct Places;

    impl Places {
        pub const fn new() -> Places {
            Places
        }

        /// # Safety
        /// Nothing is asked of the object.
        #[inline(always)]
        pub unsafe fn value(&self, _object: *mut PyObject) -> Option<*mut PyObject> {
            None
        }

        /// # Safety
        /// As [`Places::value`].
        #[inline(always)]
        pub unsafe fn learn(&self, _object: *mut PyObject, _value: *mut PyObject, _name: *mut PyObject) {}
    }
}
