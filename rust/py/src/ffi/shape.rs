//! All attributes of the plain instances of a class at once: each in its place, and none besides.
//!
//! From 3.13 on an instance of most classes written in Python has the values of its attributes in itself, each attribute of a class at
//! one place (see [`layout::values`](super::layout::values)). An instance that has as many values as the shape has names, all of them
//! in the shape's places, has no attribute under another name: nothing that stands before what its class defines.

use super::layout::{self, values as at};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::PyType,
};

extern "C" {
    fn _PyType_Lookup(class: *mut ffi::PyTypeObject, name: *mut PyObject) -> *mut PyObject;
}

/// Where instances of a class have `N` attributes, as long as the class stays what it is.
#[derive(Clone, Copy)]
pub struct Shape<const N: usize> {
    /// The class's: no two classes have the same one at any time, and one that changes gets another.
    version: u32,
    /// From the object on, in bytes.
    places: [u16; N],
}

impl<const N: usize> Shape<N> {
    /// The shape of instances that have just these attributes; `None` where they can't be found so. No code of the class runs.
    ///
    /// # Errors
    /// What the interpreter raises where there is no memory.
    pub fn learn(class: &Bound<'_, PyType>, names: [&str; N]) -> PyResult<Option<Shape<N>>> {
        let py = class.py();
        let object_class = py.get_type::<PyAny>();
        // SAFETY: types that stand; attached.
        unsafe {
            let (plain, asked) = (object_class.as_type_ptr(), class.as_type_ptr());
            let same = |of: fn(*mut ffi::PyTypeObject) -> usize| of(plain) == of(asked);
            let is_plain = same(|class| (*class).tp_new.map_or(0, |new| new as usize))
                && same(|class| (*class).tp_getattro.map_or(0, |get| get as usize))
                && same(|class| (*class).tp_setattro.map_or(0, |set| set as usize));
            if !is_plain || (*asked).tp_flags & at::HAS == 0 {
                return Ok(None);
            }
        }
        let probe = object_class.getattr("__new__")?.call1((class,))?;
        let mut places = [0; N];
        let values = names.map(|_| object_class.call0());
        for (name, value) in names.iter().zip(values) {
            probe.setattr(*name, value?)?;
        }
        for (name, found) in names.iter().zip(&mut places) {
            let (name, value) = (pyo3::types::PyString::intern(py, name), probe.getattr(*name)?);
            // SAFETY: the probe stands with its values; attached.
            let Some(at) = (unsafe { place(probe.as_ptr(), value.as_ptr(), name.as_ptr()) }) else { return Ok(None) };
            *found = at;
        }
        // SAFETY: a type; it has a version since the lookups above.
        let shape = Shape { version: unsafe { (*class.as_type_ptr()).tp_version_tag }, places };
        // SAFETY: as above.
        Ok((shape.version != 0 && unsafe { shape.values(probe.as_ptr()) }.is_some()).then_some(shape))
    }

    /// What an instance has under these names, in their order and borrowed, if it has those attributes and no other.
    ///
    /// # Safety
    /// The object stands; attached. The values stand until somebody else may run.
    #[inline(always)]
    pub unsafe fn values(&self, object: *mut PyObject) -> Option<[*mut PyObject; N]> {
        // SAFETY: the version says that it is an instance of the class, which has values behind the head, and the places are among those.
        unsafe {
            let bytes = object.cast::<u8>();
            let is = (*ffi::Py_TYPE(object)).tp_version_tag == self.version
                && *bytes.add(at::VALID) == 1
                && usize::from(*bytes.add(at::COUNT)) == N;
            if !is {
                return None;
            }
            let values = self.places.map(|place| *bytes.add(usize::from(place)).cast::<*mut PyObject>());
            (!values.iter().any(|value| value.is_null())).then_some(values)
        }
    }
}

/// Where an object has this value of its attribute `name`, in bytes from the object on; `None` if not in itself, or not surely so.
///
/// # Safety
/// The object stands; attached.
pub unsafe fn place(object: *mut PyObject, value: *mut PyObject, name: *mut PyObject) -> Option<u16> {
    // SAFETY: the structure is looked at where the class's flags say that it is there.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if (*class).tp_flags & at::HAS == 0 || (*class).tp_basicsize != layout::HEAD as isize {
            return None;
        }
        // what a class has under the name may go first
        if !layout::raw_ok() || !_PyType_Lookup(class, name).is_null() {
            return None;
        }
        let bytes = object.cast::<u8>();
        let values = bytes.add(at::FIRST).cast::<*mut PyObject>();
        let mut same = (0..usize::from(*bytes.add(at::ROOM))).filter(|n| *values.add(*n) == value);
        match (*bytes.add(at::VALID) == 1 && (*class).tp_version_tag != 0, same.next(), same.next()) {
            (true, Some(n), None) => u16::try_from(at::FIRST + n * size_of::<usize>()).ok(),
            _ => None,
        }
    }
}
