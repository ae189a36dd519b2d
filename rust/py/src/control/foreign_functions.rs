//! Functions written in C, found by name.

use super::found::Found;
use crate::state::pattern::Pattern;
use inviso_core::host::plan::Mfa;
use pyo3::{ffi, prelude::*, types::PyString};
use std::sync::Arc;

/// The function written in C that a pattern names: the pattern has a module, a name, and `_` as the arity.
///
/// # Errors
/// An error that reading the dictionary of a module or type raises.
pub fn find(py: Python<'_>, pattern: &Pattern) -> PyResult<Option<Found>> {
    let (Some(module), Some(function), None) = (&pattern.module, &pattern.function, pattern.arity) else {
        return Ok(None);
    };
    let modules = py.import("sys")?.getattr("modules")?;
    let Ok(mut object) = modules.get_item(module) else { return Ok(None) };
    for part in function.split('.') {
        // SAFETY: attached. Generic access to modules and types only, so no code of the program runs.
        let next = unsafe {
            let name = PyString::new(py, part);
            if ffi::PyModule_Check(object.as_ptr()) != 0 {
                // reads the dict, not the attribute: that would load a lazily loaded module
                let dict = Bound::from_borrowed_ptr(py, ffi::PyModule_GetDict(object.as_ptr()));
                dict.get_item(name)
            } else if ffi::PyType_Check(object.as_ptr()) != 0 {
                // bypasses a metaclass's own access; since 3.12 built-in types do not store their dict in their own
                // structure
                let dict = ffi::PyObject_GenericGetAttr(object.as_ptr(), pyo3::intern!(py, "__dict__").as_ptr());
                Bound::from_owned_ptr_or_err(py, dict).and_then(|dict| dict.get_item(name))
            } else {
                return Ok(None);
            }
        };
        let next = match next {
            Ok(next) => next,
            Err(_) => return Ok(None),
        };
        object = next;
    }
    let Some(key) = key(object.as_ptr()) else { return Ok(None) };
    let arity = object
        .getattr("__text_signature__")
        .ok()
        .and_then(|s| s.extract::<String>().ok())
        .map_or(0, |s| parameters(&s));
    let name = Mfa { module: module.as_str().into(), function: function.as_str().into(), arity };
    let exported = function.split('.').all(|p| !p.starts_with('_') || p.ends_with("__"));
    Ok(Some(Found { key, code: object.unbind(), name: Arc::new(name), exported, foreign: true }))
}

/// The number of parameters in a text signature, without the bound ones (`$self`, `$module`).
fn parameters(signature: &str) -> u32 {
    let inner = signature.trim_start_matches('(').trim_end_matches(')');
    let real = |p: &&str| !p.is_empty() && !p.starts_with('$') && *p != "/" && *p != "*";
    inner.split(',').map(str::trim).filter(real).count() as u32
}

/// The key of a function written in C, however it is bound: the address of its definition.
#[inline]
pub fn key(callable: *mut ffi::PyObject) -> Option<usize> {
    // SAFETY: type checks of a live object, then fields of those types.
    unsafe {
        let class = ffi::Py_TYPE(callable);
        if ffi::PyCFunction_Check(callable) != 0 {
            return Some((*callable.cast::<ffi::PyCFunctionObject>()).m_ml as usize);
        }
        if class == &raw mut ffi::PyMethodDescr_Type || class == &raw mut ffi::PyClassMethodDescr_Type {
            return Some((*callable.cast::<ffi::PyMethodDescrObject>()).d_method as usize);
        }
        None
    }
}
