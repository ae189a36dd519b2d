//! Functions of built-in modules, taken at their definition: the package is asked before each call and hears of its result, whoever
//! calls the function and by whichever name. The function object stays what it was, and no frame of ours stands in a traceback.
//!
//! The word that is changed is the function pointer in the function's `PyMethodDef`, as [`inviso_cpython::hooks::method`] does it for methods.
//!
//! # States
//! | hooks | original | a call |
//! | --- | --- | --- |
//! | null | null | doesn't come here |
//! | null | set | goes to the original: the function was given back |
//! | set | set | goes to the first hook, to the original with what that answered, to the second hook |

use crate::door;
use inviso_cpython::hooks::original::Original;
use pyo3::{exceptions::PyRuntimeError, ffi, prelude::*, types::*};
use std::{
    ffi::c_int,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
};

/// The most functions that can be replaced at once.
const PLACES: usize = 12;

struct Replacement {
    /// The definition of its function; never given to another function.
    definition: AtomicPtr<ffi::PyMethodDef>,
    /// A function object that calls the definition's former function.
    original: Original,
    /// A tuple of two.
    hooks: AtomicPtr<ffi::PyObject>,
}

static ALL: [Replacement; PLACES] = [const {
    Replacement { definition: AtomicPtr::new(null_mut()), original: Original::new(), hooks: AtomicPtr::new(null_mut()) }
}; PLACES];

const ROW: c_int = ffi::METH_FASTCALL;
const NAMED_ROW: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// Calls the original, with the hooks around it if there are any. A hook's exception is dropped.
///
/// # Safety
/// The thread is attached and has no exception set; the tuple is valid, the dict too or null.
unsafe fn go(place: &Replacement, arguments: *mut ffi::PyObject, named: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller promises valid arguments and no exception; hooks and originals are never freed.
    unsafe {
        let (hooks, original) = (place.hooks.load(Acquire), place.original.behind().cast());
        if hooks.is_null() {
            return ffi::PyObject_Call(original, arguments, named);
        }
        let (before, after) = (ffi::PyTuple_GET_ITEM(hooks, 0), ffi::PyTuple_GET_ITEM(hooks, 1));
        let given = if named.is_null() { ffi::Py_None() } else { named };
        let ask = || ffi::PyObject_CallFunctionObjArgs(before, arguments, given, null_mut::<ffi::PyObject>());
        let changed = door::guard(ask).unwrap_or(null_mut());
        if changed.is_null() {
            ffi::PyErr_Clear();
        }
        let is_tuple = !changed.is_null() && ffi::PyTuple_CheckExact(changed) != 0;
        let result = ffi::PyObject_Call(original, if is_tuple { changed } else { arguments }, named);
        let raised = if result.is_null() { PyErr::take(Python::assume_attached()) } else { None };
        let shown = if result.is_null() { ffi::Py_None() } else { result };
        let show = || ffi::PyObject_CallFunctionObjArgs(after, arguments, shown, null_mut::<ffi::PyObject>());
        let answer = door::guard(show).unwrap_or(null_mut());
        if answer.is_null() {
            ffi::PyErr_Clear();
        }
        ffi::Py_XDECREF(answer);
        ffi::Py_XDECREF(changed);
        if let Some(raised) = raised {
            raised.restore(Python::assume_attached());
        }
        result
    }
}

/// Called as METH_FASTCALL with METH_KEYWORDS.
unsafe extern "C" fn on_named_row<const AT: usize>(
    _module: *mut ffi::PyObject, items: *const *mut ffi::PyObject, count: ffi::Py_ssize_t, names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter's arguments: `count` objects, then one for each name of the tuple, all of which stand.
    unsafe {
        let arguments = ffi::PyTuple_New(count);
        if arguments.is_null() {
            return null_mut();
        }
        for at in 0..count {
            let item = *items.offset(at);
            ffi::Py_INCREF(item);
            ffi::PyTuple_SET_ITEM(arguments, at, item);
        }
        let mut named = null_mut();
        if !names.is_null() && ffi::PyTuple_GET_SIZE(names) > 0 {
            named = ffi::PyDict_New();
            for at in 0..ffi::PyTuple_GET_SIZE(names) {
                let set = !named.is_null()
                    && ffi::PyDict_SetItem(named, ffi::PyTuple_GET_ITEM(names, at), *items.offset(count + at)) == 0;
                if !set {
                    ffi::Py_DECREF(arguments);
                    ffi::Py_XDECREF(named);
                    return null_mut();
                }
            }
        }
        let result = go(&ALL[AT], arguments, named);
        ffi::Py_DECREF(arguments);
        ffi::Py_XDECREF(named);
        result
    }
}

/// Called as METH_FASTCALL.
unsafe extern "C" fn on_row<const AT: usize>(
    module: *mut ffi::PyObject, items: *const *mut ffi::PyObject, count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls it attached, with `count` arguments that stand, and no names.
    unsafe { on_named_row::<AT>(module, items, count, null_mut()) }
}

/// Called as METH_VARARGS.
unsafe extern "C" fn on_tuple<const AT: usize>(
    _module: *mut ffi::PyObject, arguments: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter's argument, a tuple.
    unsafe { go(&ALL[AT], arguments, null_mut()) }
}

/// The function in a definition's word for the place `AT`, by the calling convention.
fn wrapper<const AT: usize>(flags: c_int) -> Option<*mut ()> {
    match flags {
        NAMED_ROW => Some(on_named_row::<AT> as *mut ()),
        ROW => Some(on_row::<AT> as *mut ()),
        ffi::METH_VARARGS => Some(on_tuple::<AT> as *mut ()),
        _ => None,
    }
}

type Choice = fn(c_int) -> Option<*mut ()>;

const WRAPPERS: [Choice; PLACES] = [
    wrapper::<0>,
    wrapper::<1>,
    wrapper::<2>,
    wrapper::<3>,
    wrapper::<4>,
    wrapper::<5>,
    wrapper::<6>,
    wrapper::<7>,
    wrapper::<8>,
    wrapper::<9>,
    wrapper::<10>,
    wrapper::<11>,
];

/// Has `before(arguments, named)` called before each call of a function of a built-in module; it may return other
/// arguments. Has `after(arguments, result)` called after it; the result is None if the call raised. With None as
/// `before`, gives the function back.
#[pyfunction]
pub fn take_builtin(function: &Bound<'_, PyAny>, before: &Bound<'_, PyAny>, after: &Bound<'_, PyAny>) -> PyResult<()> {
    let unknown = || PyRuntimeError::new_err(format!("{function} is not a function that can be taken"));
    // SAFETY: the type is checked before the fields are read; definitions of modules are never freed.
    let (definition, module, flags) = unsafe {
        if ffi::PyCFunction_CheckExact(function.as_ptr()) == 0 {
            return Err(unknown());
        }
        let object = function.as_ptr().cast::<ffi::PyCFunctionObject>();
        ((*object).m_ml, (*object).m_self, (*(*object).m_ml).ml_flags)
    };
    let known = ALL.iter().position(|place| place.definition.load(Acquire) == definition);
    if before.is_none() {
        if let Some(at) = known {
            ALL[at].hooks.store(null_mut(), Release);
        }
        return Ok(());
    }
    let free = |place: &Replacement| place.definition.compare_exchange(null_mut(), definition, AcqRel, Acquire).is_ok();
    let at = known.or_else(|| ALL.iter().position(free)).ok_or_else(unknown)?;
    let wrapper = WRAPPERS[at](flags).ok_or_else(unknown)?;
    // SAFETY: one word of a structure that stays, which the interpreter reads at each call; the copy of the definition
    // and the objects are never freed.
    unsafe {
        let word = AtomicPtr::from_ptr((&raw mut (*definition).ml_meth).cast::<*mut ()>());
        if ALL[at].original.get().is_null() {
            let copy = Box::leak(Box::new(std::ptr::read(definition)));
            let original = ffi::PyCFunction_NewEx(copy, module, null_mut());
            if original.is_null() {
                return Err(PyErr::fetch(function.py()));
            }
            ALL[at].original.set(original.cast());
        }
        let hooks = PyTuple::new(function.py(), [before, after])?;
        ALL[at].hooks.store(hooks.into_ptr(), Release);
        if word.load(Acquire) != wrapper {
            word.store(wrapper, Release);
        }
    }
    Ok(())
}
