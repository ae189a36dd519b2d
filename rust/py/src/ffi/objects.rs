//! Objects that the interpreter's collector knows, found by their types.
//!
//! `gc.get_objects` holds every one of them while it is asked. Where threads run side by side, one that asks keeps alive what another one drops
//! meanwhile, and as long as threads ask in turns nothing ever goes; so the free-threaded build is asked for those that are wanted, and no others
//! are held.

use pyo3::{prelude::*, types::*};

/// Those that are wanted, which are held from now on; of frozen ones (`gc.freeze`) none. `wanted` is asked of each while no other thread runs Python, and looks
/// at its type only.
///
/// # Errors
/// What listing them raises: no memory.
#[cfg(not(Py_GIL_DISABLED))]
pub fn all<'py>(
    py: Python<'py>, mut wanted: impl FnMut(*mut pyo3::ffi::PyObject) -> bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let all = py.import("gc")?.call_method0("get_objects")?.cast_into::<PyList>()?;
    Ok(all.iter().filter(|object| wanted(object.as_ptr())).collect())
}

/// The same.
///
/// # Errors
/// None.
#[cfg(Py_GIL_DISABLED)]
pub fn all<'py, W: FnMut(*mut pyo3::ffi::PyObject) -> bool>(
    py: Python<'py>, wanted: W,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    use pyo3::ffi::PyObject;
    use std::ffi::{c_int, c_void};

    extern "C" {
        /// Since 3.12; other threads are stopped while it visits.
        fn PyUnstable_GC_VisitObjects(visit: extern "C" fn(*mut PyObject, *mut c_void) -> c_int, with: *mut c_void);
    }

    /// `_PyGC_BITS_UNREACHABLE` in an object's head: a collection that is under way takes it apart.
    const UNREACHABLE: u8 = 1 << 2;

    struct Search<'py, W> {
        py: Python<'py>,
        wanted: W,
        found: Vec<Bound<'py, PyAny>>,
    }

    extern "C" fn visit<W: FnMut(*mut PyObject) -> bool>(object: *mut PyObject, with: *mut c_void) -> c_int {
        // SAFETY: called by the function below only, with its own search and an object that stands.
        unsafe {
            let search = &mut *with.cast::<Search<'_, W>>();
            if (*object).ob_gc_bits & UNREACHABLE == 0 && (search.wanted)(object) {
                search.found.push(Bound::from_borrowed_ptr(search.py, object));
            }
        }
        1
    }

    let mut search = Search { py, wanted, found: Vec::new() };
    // SAFETY: attached; the search stands meanwhile, and nobody else has it.
    unsafe { PyUnstable_GC_VisitObjects(visit::<W>, (&raw mut search).cast()) };
    Ok(search.found)
}
