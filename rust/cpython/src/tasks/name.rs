//! The name of a task, also of one that is about to be freed: `get_name` would hold the task, and releasing it would
//! free it again.
//!
//! # Roles
//! One attached thread learns the place. Any attached thread reads names.
//!
//! # States
//! `PLACE` is empty, then the result of the search for ever.
//!
//! # Orderings
//! `OnceLock`'s own.
//!
//! # Checked by
//! `tests/python/test_process_pids.py`, `tests/python/test_executors.py`.

use super::running::{known_task_type, task_type};
use crate::object::int;
use pyo3::{ffi, prelude::*, types::*};
use std::sync::OnceLock;

/// The offset of the name in asyncio's own task objects, found once. `None` if it was not found.
static PLACE: OnceLock<Option<usize>> = OnceLock::new();

/// The name of a task.
pub enum Name {
    /// The name that it was given.
    Given(String),
    /// From 3.12 on a task without a given name has only a number until its name is read.
    Number(u64),
}

impl Name {
    /// The name as asyncio writes it.
    pub fn text(&self) -> String {
        match self {
            Name::Given(name) => name.clone(),
            Name::Number(number) => format!("Task-{number}"),
        }
    }
}

/// Finds the place of the name, once: makes a task and drops it. Before this a task's name is not known.
pub fn learn(py: Python<'_>) {
    if PLACE.get().is_none() {
        if let Some(class) = task_type(py) {
            let place = find(class);
            let _another_was_first = PLACE.set(place);
        }
    }
}

/// The address of the object that is the name of a task of asyncio's own class; 0 for any other object.
///
/// # Safety
/// As [`name`].
#[inline]
pub unsafe fn object(task: *mut ffi::PyObject) -> usize {
    // SAFETY: the caller promises an object that has not been cleared; all objects of the class have the field.
    unsafe {
        match (PLACE.get(), known_task_type(Python::assume_attached())) {
            (Some(Some(place)), Some(class)) if is_a(task, class) => *task.byte_add(*place).cast::<usize>(),
            _ => 0,
        }
    }
}

/// # Safety
/// Nothing of the object has been cleared.
unsafe fn is_a(task: *mut ffi::PyObject, class: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the caller promises that nothing of the object has been cleared.
    unsafe {
        let kind = ffi::Py_TYPE(task);
        kind == class.as_ptr().cast() || ffi::PyType_IsSubtype(kind, class.as_ptr().cast()) != 0
    }
}

/// The name of a task of asyncio's own class; `None` for any other object. Runs no code.
///
/// # Safety
/// Nothing of `task` has been cleared yet; the calling thread is attached.
pub unsafe fn name(py: Python<'_>, task: *mut ffi::PyObject) -> Option<Name> {
    let class = known_task_type(py)?;
    // SAFETY: the type of an object that has not been cleared; then a field that all objects of that type have.
    let name = unsafe {
        if !is_a(task, class) {
            return None;
        }
        let place = (*PLACE.get()?)?;
        let name = *task.byte_add(place).cast::<*mut ffi::PyObject>();
        if !name.is_null() && ffi::PyLong_CheckExact(name) != 0 {
            if let Ok(number) = int::value(name) {
                return u64::try_from(number).ok().map(Name::Number);
            }
        }
        Bound::from_borrowed_ptr_or_opt(py, name)?
    };
    match name.cast::<PyString>() {
        Ok(text) => Some(Name::Given(text.to_string_lossy().into_owned())),
        Err(_) => name.cast_exact::<PyInt>().ok()?.extract().ok().map(Name::Number),
    }
}

/// Names a task that was made but never initialised, and searches the task for that name.
fn find(class: &Bound<'_, PyAny>) -> Option<usize> {
    let py = class.py();
    let task = class.call_method1("__new__", (class,)).ok()?;
    let name = PyString::new(py, "a name to be found");
    task.call_method1("set_name", (&name,)).ok()?;
    let size: usize = class.getattr("__basicsize__").ok()?.extract().ok()?;
    let word = size_of::<usize>();
    (size_of::<ffi::PyObject>()..size.checked_sub(word)?)
        .step_by(word)
        // SAFETY: words inside the object, which is held.
        .find(|place| unsafe { *task.as_ptr().byte_add(*place).cast::<usize>() } == name.as_ptr() as usize)
}
