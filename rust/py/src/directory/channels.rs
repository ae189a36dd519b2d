//! The class, name and size of a queue, future, executor or event loop, for logs. Read when the object is first met.

use inviso_cpython::{capture, interpreter::generic::attribute};
use inviso_log::about::Channel;
use inviso_port::learned;
use pyo3::{ffi, prelude::*, types::*};

/// The attributes in which the library's queues have their maximum number of items.
const LIMITS: [&str; 2] = ["maxsize", "_maxsize"];

/// The attributes in which a program, or the library for an executor, stores a name.
const NAMES: [&str; 2] = ["name", "_thread_name_prefix"];

/// Notes the queue of this number for logs.
///
/// # Safety
/// Attached; the object stands.
#[cold]
pub unsafe fn note(py: Python<'_>, pid: u64, object: *mut ffi::PyObject) {
    // SAFETY: the caller promises that the object stands and the thread is attached.
    unsafe {
        let class = capture::type_name(ffi::Py_TYPE(object), &mut [0; 256]).to_owned();
        let own = |names: [&str; 2]| names.into_iter().find_map(|name| own_attribute(py, object, name));
        let maxsize = own(LIMITS).and_then(|limit| limit.cast_exact::<PyInt>().ok()?.extract().ok());
        let name = own(NAMES).and_then(|name| Some(name.cast_exact::<PyString>().ok()?.to_string_lossy().into_owned()));
        learned::channel(pid, Channel { class, name: name.unwrap_or_default(), maxsize });
    }
}

/// An attribute of the object itself, unless its class has one of the same name. Runs no code of the program.
///
/// # Safety
/// As [`note`].
unsafe fn own_attribute<'py>(py: Python<'py>, object: *mut ffi::PyObject, name: &str) -> Option<Bound<'py, PyAny>> {
    // SAFETY: the caller promises that the object stands and the thread is attached; an object holds its class.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if (*class).tp_dictoffset == 0 && !has_managed_dict(class)
            || !capture::attribute_of_class(class, name).is_null()
        {
            return None;
        }
        attribute(py, object, name)
    }
}

/// Whether the interpreter manages the attributes of a class's objects.
///
/// # Safety
/// The class stands.
unsafe fn has_managed_dict(class: *mut ffi::PyTypeObject) -> bool {
    const MANAGED_DICT: std::ffi::c_ulong = 1 << 4;
    // SAFETY: the class stands.
    unsafe { ffi::PyType_HasFeature(class, MANAGED_DICT) != 0 }
}
