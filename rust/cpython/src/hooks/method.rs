//! Methods of built-in types and functions of built-in modules, replaced at their definition. Every call comes to a
//! wrapper, whatever code makes it, and the method object does not change.
//!
//! The function pointer in the method's `PyMethodDef` is replaced, which the interpreter reads at each call. It is
//! written as one word; wrappers are never unloaded, and neither are the original functions.
//!
//! # Roles
//! Attached threads replace methods and give them back. Any attached thread calls them.
//!
//! # States
//! `definition` is null (not replaced), or set (replaced). `original` is null, or the function that the wrapper calls,
//! and stays.
//!
//! # Orderings
//! Those of [`Original`].
//!
//! # Checked by
//! `tests/python/test_messages.py`, `tests/python/test_ports.py`.

use super::original::Original;
use crate::layout;
use pyo3::{ffi, prelude::*};
use std::{
    ffi::{c_int, CStr},
    sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
};

/// A method without or with one argument, by its flags METH_NOARGS or METH_O.
pub type Plain = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// A method by the flags METH_FASTCALL and METH_KEYWORDS.
pub type Fast = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// A method by the flag METH_FASTCALL alone.
pub type Positional =
    unsafe extern "C" fn(*mut ffi::PyObject, *const *mut ffi::PyObject, ffi::Py_ssize_t) -> *mut ffi::PyObject;

/// A method with the further flag METH_METHOD: it gets the class that defines it.
pub type OfClass = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *mut ffi::PyTypeObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// METH_VARARGS with METH_KEYWORDS.
pub type Keywords =
    unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// [`Plain`], of an original that waits: the interpreter may end its thread there by unwinding it.
pub type PlainCall = unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// [`Positional`], likewise.
pub type PositionalCall =
    unsafe extern "C-unwind" fn(*mut ffi::PyObject, *const *mut ffi::PyObject, ffi::Py_ssize_t) -> *mut ffi::PyObject;

/// [`Keywords`], likewise.
pub type KeywordsCall =
    unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// The calling convention of a method; its wrapper must have the same.
#[derive(Clone, Copy)]
pub enum Wrapper {
    /// METH_NOARGS or METH_O or METH_VARARGS.
    Plain(Plain),
    /// METH_FASTCALL.
    Positional(Positional),
    /// METH_FASTCALL | METH_KEYWORDS.
    Fast(Fast),
    /// METH_METHOD | METH_FASTCALL | METH_KEYWORDS.
    OfClass(OfClass),
    /// METH_VARARGS | METH_KEYWORDS.
    Keywords(Keywords),
}

impl Wrapper {
    fn fits(self, flags: c_int) -> bool {
        let fast = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
        match self {
            Wrapper::Plain(_) => [ffi::METH_NOARGS, ffi::METH_O, ffi::METH_VARARGS].contains(&flags),
            Wrapper::Positional(_) => flags == ffi::METH_FASTCALL,
            Wrapper::Fast(_) => flags == fast,
            Wrapper::OfClass(_) => flags == fast | METH_METHOD,
            Wrapper::Keywords(_) => flags == ffi::METH_VARARGS | ffi::METH_KEYWORDS,
        }
    }

    fn address(self) -> *mut () {
        match self {
            Wrapper::Plain(function) => function as *mut (),
            Wrapper::Positional(function) => function as *mut (),
            Wrapper::Fast(function) => function as *mut (),
            Wrapper::OfClass(function) => function as *mut (),
            Wrapper::Keywords(function) => function as *mut (),
        }
    }
}

/// Not in pyo3's bindings for all versions.
const METH_METHOD: c_int = 0x0200;

/// The function of a method of a built-in type, if it has exactly this calling convention, METH_NOARGS or METH_O.
pub fn plain(method: &Bound<'_, PyAny>, kind: c_int) -> Option<Plain> {
    // SAFETY: the definition lives as long as the class, a built-in one; the flags say what its function is.
    unsafe {
        let definition = definition(method)?;
        ((*definition).ml_flags == kind).then(|| (*definition).ml_meth.PyCFunction)
    }
}

/// The definition of a method of a built-in type, or of a function of a built-in module.
fn definition(method: &Bound<'_, PyAny>) -> Option<*mut ffi::PyMethodDef> {
    // SAFETY: a method descriptor, whose exact type is checked, has a pointer to its definition after the words that
    // all descriptors have.
    unsafe {
        if ffi::PyCFunction_CheckExact(method.as_ptr()) != 0 {
            return Some((*method.as_ptr().cast::<ffi::PyCFunctionObject>()).m_ml);
        }
        let is = ffi::Py_TYPE(method.as_ptr()) == &raw mut ffi::PyMethodDescr_Type;
        is.then(|| method.as_ptr().cast::<u8>().add(layout::HEAD + 24).cast::<*mut ffi::PyMethodDef>().read())
    }
}

/// A method that may be replaced. There is one for each method, a `static` that the wrapper names.
pub struct Method {
    definition: AtomicPtr<ffi::PyMethodDef>,
    original: Original,
}

impl Default for Method {
    fn default() -> Method {
        Method::new()
    }
}

impl Method {
    /// A method that is not replaced.
    pub const fn new() -> Method {
        Method { definition: AtomicPtr::new(std::ptr::null_mut()), original: Original::new() }
    }

    /// Replaces the method `name` of a class, or a function of a module. The wrapper is the first of `wrappers` that
    /// has the method's calling convention.
    ///
    /// # Errors
    /// KeyError if there is no such method; RuntimeError if it is not written in C, or no wrapper has its calling
    /// convention.
    ///
    /// # Safety
    /// Each wrapper has the contract of its kind and calls the original.
    pub unsafe fn take(&'static self, class: &Bound<'_, PyAny>, name: &str, wrappers: &[Wrapper]) -> PyResult<()> {
        let found = class.getattr("__dict__")?.get_item(name)?;
        let unknown = |what: &str| {
            let class = class.getattr("__qualname__").or_else(|_| class.getattr("__name__"));
            let class = class.map(|name| name.to_string()).unwrap_or_default();
            pyo3::exceptions::PyRuntimeError::new_err(format!("{class}.{name} {what}; its calls can't be seen here"))
        };
        let definition = definition(&found).ok_or_else(|| unknown("is not written in C as expected"))?;
        // SAFETY: the definition lives as long as the class, which the caller's users hold.
        unsafe {
            let named = CStr::from_ptr((*definition).ml_name).to_str() == Ok(name);
            let flags = (*definition).ml_flags & !(ffi::METH_COEXIST | ffi::METH_CLASS | ffi::METH_STATIC);
            let wrapper = wrappers.iter().find(|wrapper| wrapper.fits(flags)).filter(|_| named);
            let wrapper = wrapper.ok_or_else(|| unknown("is called in an unknown way"))?.address();
            let word = AtomicPtr::from_ptr((&raw mut (*definition).ml_meth).cast::<*mut ()>());
            let there = word.load(Acquire);
            if there != wrapper {
                self.original.set(there);
                self.definition.store(definition, Release);
                word.store(wrapper, Release);
            }
        }
        Ok(())
    }

    /// Gives the method back. A wrapper that another tool has installed since stays, and ours under it.
    pub fn give_back(&self, wrappers: &[Wrapper]) {
        let definition = self.definition.swap(std::ptr::null_mut(), AcqRel);
        if definition.is_null() {
            return;
        }
        // SAFETY: found by `take`; definitions live as long as their class, a built-in one.
        let word = unsafe { AtomicPtr::from_ptr((&raw mut (*definition).ml_meth).cast::<*mut ()>()) };
        let original = self.original.get();
        for wrapper in wrappers {
            let _ = word.compare_exchange(wrapper.address(), original, AcqRel, Acquire);
        }
    }

    /// The function that the wrapper stands before.
    ///
    /// # Safety
    /// `F` is the type of the wrapper; only the wrapper calls it.
    #[inline(always)]
    pub unsafe fn original<F: Copy>(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
        let function = self.original.behind();
        // SAFETY: the caller promises the wrapper's type; `take` has checked the flags.
        unsafe { std::mem::transmute_copy::<*mut (), F>(&function) }
    }
}
