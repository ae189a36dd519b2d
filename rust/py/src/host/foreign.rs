//! Functions written in C: found by name, seen where Python code calls them (CALL, C_RETURN, C_RAISE).
//!
//! While a pattern names one, every call of C by Python costs an event. Calls that C code makes of C code are not seen.

use super::{
    call::{write_name, PyCall},
    codes::{Found, Pattern},
    here::Running,
    Host,
};
use crate::{capture, ffi::frame::Frame};
use inviso_core::{event::Activation, plan::Mfa, thread::Thread};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*, types::PyString};
use std::sync::Arc;

/// The function written in C that a pattern names, if it names one: a module, a name, and `_` as the arity.
///
/// # Errors
/// On 3.11, where such functions can't be traced.
pub fn find(py: Python<'_>, pattern: &Pattern) -> PyResult<Option<Found>> {
    let (Some(module), Some(function), None) = (&pattern.module, &pattern.function, pattern.arity) else {
        return Ok(None);
    };
    let modules = py.import("sys")?.getattr("modules")?;
    let Ok(mut object) = modules.get_item(module) else { return Ok(None) };
    for part in function.split('.') {
        // SAFETY: attached; generic access to modules and types only, so that none of the program's code runs.
        let next = unsafe {
            if ffi::PyModule_Check(object.as_ptr()) == 0 && ffi::PyType_Check(object.as_ptr()) == 0 {
                return Ok(None);
            }
            let name = PyString::new(py, part);
            let dict = object.getattr("__dict__")?;
            match dict.get_item(name) {
                Ok(next) => next,
                Err(_) => return Ok(None),
            }
        };
        object = next;
    }
    let Some(key) = key(object.as_ptr()) else { return Ok(None) };
    if cfg!(not(Py_3_12)) {
        let text = "functions written in C can't be traced on Python 3.11; 3.12 and later can";
        return Err(pyo3::exceptions::PyNotImplementedError::new_err(text));
    }
    let arity = object
        .getattr("__text_signature__")
        .ok()
        .and_then(|s| s.extract::<String>().ok())
        .map_or(0, |s| parameters(&s));
    let name = Mfa { module: module.as_str().into(), function: function.as_str().into(), arity };
    let exported = function.split('.').all(|p| !p.starts_with('_') || p.ends_with("__"));
    Ok(Some(Found { key, code: object.unbind(), name: Arc::new(name), exported, foreign: true }))
}

/// The number of parameters that a text signature declares, without the bound ones (`$self`, `$module`).
fn parameters(signature: &str) -> u32 {
    let inner = signature.trim_start_matches('(').trim_end_matches(')');
    let real = |p: &&str| !p.is_empty() && !p.starts_with('$') && *p != "/" && *p != "*";
    inner.split(',').map(str::trim).filter(real).count() as u32
}

/// What tells one function written in C from another, however it is bound: the address of its definition.
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

/// A call of a function written in C, seen from its caller.
pub struct ForeignCall<'a> {
    /// The call that makes it.
    pub caller: PyCall<'a>,
    /// The first argument, or the mark for none.
    pub first: *mut ffi::PyObject,
    /// The mark for no argument.
    pub missing: *mut ffi::PyObject,
}

impl<'a> ForeignCall<'a> {
    /// The call in this callback.
    pub fn new(host: &'static Host, running: &'a Running, caller: Frame, first: *mut ffi::PyObject) -> Self {
        let _ = caller;
        #[cfg(Py_3_12)]
        let caller = PyCall { host, running };
        #[cfg(not(Py_3_12))]
        let caller = PyCall { host, running, frame: caller };
        ForeignCall { caller, first, missing: host.missing() }
    }
}

impl Activation for ForeignCall<'_> {
    fn address(&self) -> usize {
        self.caller.frame().address() | 1
    }
    fn is_generator(&self) -> bool {
        false
    }
    fn identify(&self, thread: &mut Thread) {
        self.caller.identify(thread);
    }
    fn allocated(&self) -> u64 {
        self.caller.allocated()
    }
    fn is_global(&self) -> bool {
        true
    }
    /// The interpreter shows the first argument only; that there may be more is marked.
    fn arguments(&self, out: &mut Encoder<'_>) -> Result<(), Full> {
        if self.first == self.missing {
            return out.nil();
        }
        out.list(2)?;
        // SAFETY: the argument lives as long as the call.
        unsafe { capture::encode(self.first, out, &capture::Limits::DEFAULT)? };
        out.cut("arguments")?;
        out.nil()
    }
    fn name(&self, _out: &mut Encoder<'_>) -> bool {
        false
    }
    fn caller_function(&self) -> (usize, usize) {
        let caller = self.caller.frame();
        // SAFETY: the caller's frame runs.
        (caller.address(), unsafe { caller.code() } as usize)
    }
    fn caller(&self, out: &mut Encoder<'_>) -> usize {
        let caller = self.caller.frame();
        if write_name(caller, out).is_ok() {
            caller.address()
        } else {
            0
        }
    }
}
