//! Objects that the interpreter's collector knows, found by their types.
//!
//! `gc.get_objects` holds every one of them while it is asked. Where threads run side by side, one that asks keeps alive what another one drops
//! meanwhile, and as long as threads ask in turns nothing ever goes; so the free-threaded build is asked for those that are wanted, and no others
//! are held.

use pyo3::{ffi, prelude::*, types::*};

/// Objects of exactly these types. The result holds them. Frozen objects (`gc.freeze`) are left out.
///
/// # Errors
/// What listing them raises: no memory.
#[cfg(not(Py_GIL_DISABLED))]
pub fn all<'py>(py: Python<'py>, types: &[*mut ffi::PyTypeObject]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let all = py.import("gc")?.call_method0("get_objects")?.cast_into::<PyList>()?;
    Ok(all.iter().filter(|object| types.contains(&object.get_type_ptr())).collect())
}

/// The same. Types are compared by address and never read.
///
/// # Errors
/// None.
#[cfg(Py_GIL_DISABLED)]
pub fn all<'py>(py: Python<'py>, types: &[*mut ffi::PyTypeObject]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    use ffi::PyObject;
    use std::ffi::{c_int, c_void};

    extern "C" {
        /// Since 3.12; other threads are stopped while it visits.
        fn PyUnstable_GC_VisitObjects(visit: extern "C" fn(*mut PyObject, *mut c_void) -> c_int, with: *mut c_void);
    }

    /// `_PyGC_BITS_UNREACHABLE` in an object's head: a collection that is under way takes it apart.
    const UNREACHABLE: u8 = 1 << 2;

    struct Search<'a, 'py> {
        py: Python<'py>,
        types: &'a [*mut ffi::PyTypeObject],
        found: Vec<Bound<'py, PyAny>>,
    }

    extern "C" fn visit(object: *mut PyObject, with: *mut c_void) -> c_int {
        // SAFETY: called by the function below only, with its own search; the object's head can be read.
        unsafe {
            let search = &mut *with.cast::<Search<'_, '_>>();
            if (*object).ob_gc_bits & UNREACHABLE == 0 && search.types.contains(&(*object).ob_type) {
                search.found.push(Bound::from_borrowed_ptr(search.py, object));
            }
        }
        1
    }

    let mut search = Search { py, types, found: Vec::new() };
    // SAFETY: attached; the search stands meanwhile, and nobody else has it.
    unsafe { PyUnstable_GC_VisitObjects(visit, (&raw mut search).cast()) };
    Ok(search.found)
}

/// A class and all that are derived from it.
///
/// # Errors
/// What listing them raises: no memory.
pub fn with_derived<'py>(class: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    // a method of `type`: what the class itself may call so is not asked
    let subclasses = class.py().get_type::<PyType>().getattr("__subclasses__")?;
    let mut all = vec![class.clone()];
    let mut at = 0;
    while let Some(class) = all.get(at) {
        let derived = subclasses.call1((class,))?.cast_into::<PyList>()?;
        all.extend(derived.iter());
        at += 1;
    }
    Ok(all)
}
