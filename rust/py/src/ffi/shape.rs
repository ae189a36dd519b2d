//! All attributes of the plain instances of a class at once: each in its place, and none besides.
//!
//! An instance of most classes written in Python has the values of its attributes in a row, each attribute of a class at one place (see [`layout::values`](super::layout::values)). An instance that has as many values as the shape has names, all of them
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
    /// Which of an instance's values each is.
    places: [u8; N],
}

impl<const N: usize> Shape<N> {
    /// The shape of instances that have just these attributes; `None` where they can't be found so. No code of the class runs.
    ///
    /// # Errors
    /// What the interpreter raises where there is no memory.
    pub fn learn(class: &Bound<'_, PyType>, names: [&'static str; N]) -> PyResult<Option<Shape<N>>> {
        let py = class.py();
        let object_class = py.get_type::<PyAny>();
        // SAFETY: types that stand; attached.
        unsafe {
            let (plain, asked) = (object_class.as_type_ptr(), class.as_type_ptr());
            let same = |of: fn(*mut ffi::PyTypeObject) -> usize| of(plain) == of(asked);
            let is_plain = same(|class| (*class).tp_new.map_or(0, |new| new as usize))
                && same(|class| (*class).tp_getattro.map_or(0, |get| get as usize))
                && same(|class| (*class).tp_setattro.map_or(0, |set| set as usize))
                && same(|class| (*class).tp_finalize.map_or(0, |end| end as usize))
                && same(|class| (*class).tp_del.map_or(0, |end| end as usize));
            let goes_first = |name: &&str| is_in_front(asked, pyo3::types::PyString::intern(py, name).as_ptr());
            if !is_plain || names.iter().any(goes_first) {
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
        // SAFETY: the version says that it is an instance of the class, which has values, and the places are among those.
        unsafe {
            if (*ffi::Py_TYPE(object)).tp_version_tag != self.version {
                return None;
            }
            let (values, count) = row(object)?;
            if usize::from(count) != N {
                return None;
            }
            let values = self.places.map(|place| *values.add(usize::from(place)));
            (!values.iter().any(|value| value.is_null())).then_some(values)
        }
    }
}

/// Whether what a class has under a name goes before what an instance has, and is what an instance's attribute of that name is set by.
///
/// # Safety
/// A type and a str, which stand; attached.
unsafe fn is_in_front(class: *mut ffi::PyTypeObject, name: *mut PyObject) -> bool {
    // SAFETY: the caller's promise; what the lookup answers is borrowed from the class.
    unsafe {
        let other = _PyType_Lookup(class, name);
        !other.is_null() && (*ffi::Py_TYPE(other)).tp_descr_set.is_some()
    }
}

/// Which of its own values an object has as its attribute `name`; `None` if none, or not surely so.
///
/// # Safety
/// The object stands; attached.
pub unsafe fn place(object: *mut PyObject, value: *mut PyObject, name: *mut PyObject) -> Option<u8> {
    // SAFETY: values are looked at where the class's flags say that there are some.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if !layout::raw_ok() || (*class).tp_flags & at::HAS == 0 {
            return None;
        }
        if is_in_front(class, name) {
            return None;
        }
        #[cfg(Py_3_13)]
        if (*class).tp_basicsize != layout::HEAD as isize {
            return None;
        }
        let (values, count) = row(object)?;
        let mut same = taken(values, count, object).filter(|n| *values.add(usize::from(*n)) == value);
        match (same.next(), same.next()) {
            (Some(n), None) if (*class).tp_version_tag != 0 => Some(n),
            _ => None,
        }
    }
}

/// The values of an object, and how many there are; `None` if a dict has them.
///
/// # Safety
/// The object stands, and its class has [`at::HAS`]; attached.
#[cfg(Py_3_13)]
#[inline(always)]
unsafe fn row(object: *mut PyObject) -> Option<(*const *mut PyObject, u8)> {
    // SAFETY: they lie behind the head.
    unsafe {
        let bytes = object.cast::<u8>();
        (*bytes.add(at::VALID) == 1)
            .then(|| (bytes.add(at::FIRST).cast::<*mut PyObject>().cast_const(), *bytes.add(at::COUNT)))
    }
}

/// The values of an object, and how many there are; `None` if a dict has them.
///
/// # Safety
/// As on 3.13.
#[cfg(not(Py_3_13))]
#[inline(always)]
unsafe fn row(object: *mut PyObject) -> Option<(*const *mut PyObject, u8)> {
    // SAFETY: before the head is their address, and before them how many they are.
    unsafe {
        let kept: usize = object.cast::<u8>().sub(at::ADDRESS_BEFORE).cast::<usize>().read();
        if kept == 0 || kept & 1 != at::ADDRESS_MORE {
            return None;
        }
        let values = (kept + at::ADDRESS_MORE) as *const *mut PyObject;
        Some((values, *values.cast::<u8>().sub(at::COUNT_BEFORE)))
    }
}

/// Which places may have a value.
///
/// # Safety
/// What [`row`] says of this object.
unsafe fn taken(values: *const *mut PyObject, count: u8, object: *mut PyObject) -> impl Iterator<Item = u8> {
    #[cfg(Py_3_13)]
    {
        let _ = (values, count);
        // SAFETY: a byte behind the head.
        0..unsafe { *object.cast::<u8>().add(at::ROOM) }
    }
    #[cfg(not(Py_3_13))]
    {
        let _ = object;
        // SAFETY: as many bytes before the number of values.
        (1..=usize::from(count)).map(move |n| unsafe { *values.cast::<u8>().sub(at::COUNT_BEFORE + n) })
    }
}
