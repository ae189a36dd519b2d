//! `put` and `get` of `queue.Queue`, and `put_nowait` and `get_nowait` of `asyncio.Queue`, where nobody waits: done here, without their frames.
//!
//! With a place in the queue, or an item, and nobody asleep at the other end, each of them and the functions that it calls are an item more or less in a `deque`
//! and a number. Where nobody would see their frames that is done here, and told in its place, as ever. It is done for plain
//! instances of the two classes only, and only as long as all of the functions are the ones whose code is known here by its checksum; all
//! else goes the function's own way, before anything is done.
//!
//! | file | is |
//! | --- | --- |
//! | `threads` | what is done in a `queue.Queue` |
//! | `tasks` | what is done in an `asyncio.Queue` |
//! | `calls` | how the functions come here: their calls are taken (3.12 on) |
//! | `frames` | on 3.11: their frames are answered, and those of the coroutines `put` and `get` |

#[cfg(Py_3_12)]
mod calls;
#[cfg(not(Py_3_12))]
mod frames;
mod tasks;
mod threads;

#[cfg(Py_3_12)]
pub use calls::{give_back, take};
#[cfg(not(Py_3_12))]
pub use frames::{answer, give_back, is_called, take};

use super::{here::Here, parcels::quietly};
use crate::ffi::{calling, code, held::Held, interned::Interned};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::{PyFunction, PyString, PyTuple, PyType},
};

/// Where something is done to a queue.
#[derive(Clone, Copy)]
enum End {
    Put,
    Get,
}

/// Functions that are known, and the code of each.
struct Functions<const N: usize> {
    all: [(*mut PyObject, *mut PyObject); N],
    _held: Vec<Py<PyAny>>,
}

// SAFETY: addresses of objects that it holds; it is looked at by attached threads only.
unsafe impl<const N: usize> Send for Functions<N> {}

impl<const N: usize> Functions<N> {
    /// The functions of these names in a class, and from the `from`th on in another one; `None` if one is not what its [`checksum`] says.
    fn find(
        class: &Bound<'_, PyType>, sums: [(&str, u32); N], other: &Bound<'_, PyType>, from: usize,
    ) -> PyResult<Option<Functions<N>>> {
        let mut found = Functions { all: [(std::ptr::null_mut(), std::ptr::null_mut()); N], _held: Vec::new() };
        for (n, (known, (name, sum))) in found.all.iter_mut().zip(sums).enumerate() {
            let owner = if n < from { class } else { other };
            let function = owner.getattr("__dict__")?.get_item(name)?;
            if !function.is_exact_instance_of::<PyFunction>() || checksum(&function)? != sum {
                return Ok(None);
            }
            let code = function.getattr("__code__")?;
            *known = (function.as_ptr(), code.as_ptr());
            found._held.extend([function.unbind(), code.unbind()]);
        }
        Ok(Some(found))
    }

    /// Whether the functions have the code that they had, and nobody gets events of it.
    ///
    /// # Safety
    /// Attached.
    #[inline(always)]
    unsafe fn are_as_found(&self) -> bool {
        // SAFETY: functions that are held, and their code.
        self.all.iter().all(|(known, code)| unsafe { code::of_function(*known) == *code && !has_events(*code) })
    }
}

/// A number by which what a function does is known: of its code without line numbers and texts, and of its defaults.
fn checksum(function: &Bound<'_, PyAny>) -> PyResult<u32> {
    let (py, code) = (function.py(), function.getattr("__code__")?);
    let mut parts = Vec::new();
    for name in ["co_code", "co_names", "co_varnames"] {
        parts.push(code.getattr(name)?);
    }
    let constants = code.getattr("co_consts")?.cast_into::<PyTuple>()?;
    let is_text = |constant: &Bound<'_, PyAny>| constant.is_instance_of::<PyString>();
    let numbers: Vec<_> = constants.iter().filter(|constant| !is_text(constant)).collect();
    parts.push(PyTuple::new(py, numbers)?.into_any());
    for name in ["argcount", "posonlyargcount", "kwonlyargcount", "flags", "freevars", "cellvars", "exceptiontable"] {
        parts.push(code.getattr(format!("co_{name}"))?);
    }
    parts.extend([function.getattr("__defaults__")?, function.getattr("__kwdefaults__")?]);
    Ok(crc32fast::hash(PyTuple::new(py, parts)?.repr()?.to_string_lossy().as_bytes()))
}

/// Whether some tool gets events of single code objects (3.12 on).
///
/// # Safety
/// A code object; attached.
#[inline(always)]
unsafe fn has_events(code: *mut PyObject) -> bool {
    #[cfg(Py_3_12)]
    // SAFETY: the caller's promise.
    return unsafe { crate::ffi::function::has_events(code) };
    #[cfg(not(Py_3_12))]
    return code.is_null();
}

/// Names that are as many as there are.
fn as_array<const N: usize>(names: &[&'static str]) -> [&'static str; N] {
    std::array::from_fn(|n| names[n])
}

/// One more task of a queue is unfinished, by the attribute of this name; false with an exception set.
///
/// # Safety
/// The name has been made; the queue stands; attached, without an exception.
#[inline(always)]
unsafe fn count_one(queue: *mut PyObject, name: &Interned) -> bool {
    // SAFETY: the caller's promise; new references.
    unsafe {
        let (name, one) = (name.get(), Held::owned(ffi::PyLong_FromLong(1)));
        let before = Held::owned(ffi::PyObject_GetAttr(queue, name));
        if before.is_null() {
            return false;
        }
        let after = Held::owned(ffi::PyNumber_Add(before.as_ptr(), one.as_ptr()));
        !after.is_null() && ffi::PyObject_SetAttr(queue, name, after.as_ptr()) == 0
    }
}

/// Calls a method for who has come to wait while it was told: the first one is woken. False with an exception set.
///
/// # Safety
/// All stand; attached, without an exception.
#[cold]
#[inline(never)]
unsafe fn wake(here: &mut Here, object: *mut PyObject, method: &str, waiters: Option<*mut PyObject>) -> bool {
    quietly(here, |py, _| {
        // SAFETY: the caller's promise.
        let borrowed = |object| unsafe { Bound::<PyAny>::from_borrowed_ptr(py, object) };
        let object = borrowed(object);
        let woken = match waiters {
            Some(waiters) => calling::method(&object, method, (borrowed(waiters),)),
            None => calling::method(&object, method, ()),
        };
        woken.map_err(|error| error.restore(py)).is_ok()
    })
}
