//! The library's own functions, also where the program has wrapped them, as libraries that measure programs do.
//!
//! A wrapper leads to its wrapped function by `__wrapped__`, by its closure, by a name of its module, as a method or as
//! a partial. All of that is read without running code of the program. The code's name and the module identify the
//! library's function. The wrappers are recorded: the caller of a wrapper counts as the caller of the library's
//! function.
//!
//! # Roles
//! Instruments record wrappers when they begin. Any traced thread reads them in an event. All of them are attached.
//!
//! # States
//! `ANY` is false: no function has a wrapper, and `WRAPPED` is empty or about to be emptied. `ANY` is true: `WRAPPED`
//! is searched.
//!
//! # Orderings
//! The mutex orders `WRAPPED`. `ANY` is a hint, read `Relaxed`: a thread that reads an old value takes a wrapper for a
//! caller, or searches an empty list.
//!
//! # Checked by
//! `tests/python/test_messages.py`, `tests/python/test_executors.py`.

use inviso_core::host::sync::Unpoisoned;
use inviso_cpython::{
    capture,
    frames::frame::{code_qualname, module_of, CodeLayout, Frame},
    object::held::{dict_get, Held},
};
use pyo3::{ffi, prelude::*, types::*};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Mutex, MutexGuard,
};

/// The most objects that are searched for one function.
const MOST: usize = 64;

/// Modules whose classes have watched functions.
const LIBRARY: [&str; 7] =
    ["asyncio.", "concurrent.futures.", "multiprocessing.", "queue.", "socket.", "subprocess.", "threading."];

/// The code of a function of the library, and the program's wrappers of it.
type Wrapped = (usize, Vec<Py<PyAny>>);

static ANY: AtomicBool = AtomicBool::new(false);
/// No object is dropped while it is locked.
static WRAPPED: Mutex<Vec<Wrapped>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Wrapped>> {
    WRAPPED.lock().unpoisoned()
}

/// The function at `path` of a module or class (`"Class.method"`). That is the library's own, or else the function in
/// its place if its code surely belongs to no other function. `None` if something else is there.
///
/// # Errors
/// AttributeError if the path leads nowhere.
pub fn function<'py>(owner: &Bound<'py, PyAny>, path: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (mut holder, mut name) = (owner.clone(), path);
    while let Some((first, rest)) = name.split_once('.') {
        (holder, name) = (holder.getattr(first)?, rest);
    }
    let Ok(class) = holder.cast::<PyType>() else {
        let there = holder.getattr(name)?;
        // SAFETY: the dict of a module, or null.
        let module = unsafe {
            let is_module = ffi::PyModule_Check(holder.as_ptr()) != 0;
            let dict = if is_module { ffi::PyModule_GetDict(holder.as_ptr()) } else { std::ptr::null_mut() };
            capture::text_of(module_of(dict).as_ptr()).unwrap_or_default()
        };
        return Ok(behind(&there, &format!("{module}.{name}")).or_else(|| plain(there)));
    };
    let mut first = None;
    for (name_of_class, there) in definitions(class, name) {
        if LIBRARY.iter().any(|library| name_of_class.starts_with(library)) {
            let found = behind(&there, &format!("{name_of_class}.{name}"));
            return Ok(found.or_else(|| plain(there)));
        }
        first = first.or(Some(there));
    }
    match first {
        Some(there) => Ok(plain(there)),
        None => holder.getattr(name).map(plain),
    }
}

/// The code of such a function.
///
/// # Errors
/// AttributeError if there is none.
pub fn code<'py>(owner: &Bound<'py, PyAny>, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let missing = || pyo3::exceptions::PyAttributeError::new_err(format!("{path} is another's"));
    function(owner, path)?.ok_or_else(missing)?.getattr("__code__")
}

/// The codes of those functions that are found.
///
/// # Errors
/// AttributeError if a path leads nowhere.
pub fn codes<'py>(owner: &Bound<'py, PyAny>, paths: &[&str]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut codes = Vec::new();
    for path in paths {
        if let Some(function) = function(owner, path)? {
            codes.push(function.getattr("__code__")?);
        }
    }
    Ok(codes)
}

/// The definitions of a name in a class and its bases, unbound, each with the name of its class.
fn definitions<'py>(class: &Bound<'py, PyType>, name: &str) -> Vec<(String, Bound<'py, PyAny>)> {
    let (py, mut all) = (class.py(), Vec::new());
    let key = PyString::intern(py, name);
    // SAFETY: the class is borrowed, and holds its bases and their definitions.
    unsafe {
        capture::each_definition(class.as_type_ptr(), key.as_ptr(), |class, there| {
            let name = capture::type_name(class, &mut [0; 256]).to_owned();
            all.push((name, Bound::from_borrowed_ptr(py, there)));
            false
        });
    }
    all
}

/// The object in the place of a library's function, if it is a function that no other function made (as a decorator
/// does).
fn plain(there: Bound<'_, PyAny>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the type is checked; a function holds its code.
    let own = unsafe {
        ffi::PyFunction_Check(there.as_ptr()) != 0
            && CodeLayout::read(ffi::PyFunction_GetCode(there.as_ptr())).flags & ffi::CO_NESTED as u32 == 0
    };
    own.then_some(there)
}

/// The function of this name, found by way of the object in its place. Records the wrappers between.
fn behind<'py>(there: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyAny>> {
    let mut seen = vec![there.clone()];
    let mut at = 0;
    while let Some(next) = seen.get(at).cloned() {
        if is_called(&next, name) {
            // SAFETY: `is_called` has checked that it is a function.
            let code = unsafe { ffi::PyFunction_GetCode(next.as_ptr()) } as usize;
            seen.retain(|seen| !seen.is(&next) && seen.is_instance_of::<PyFunction>());
            note(code, seen);
            return Some(next);
        }
        let room = MOST - seen.len();
        let fresh: Vec<_> = parts(&next).into_iter().filter(|part| !seen.iter().any(|seen| seen.is(part))).collect();
        seen.extend(fresh.into_iter().take(room));
        at += 1;
    }
    None
}

/// Whether it is the function of this module and name, whatever its `__name__` is.
fn is_called(object: &Bound<'_, PyAny>, name: &str) -> bool {
    // SAFETY: the type is checked; the function holds what is read.
    unsafe {
        if ffi::PyFunction_Check(object.as_ptr()) == 0 {
            return false;
        }
        let own = code_qualname(ffi::PyFunction_GetCode(object.as_ptr()));
        let module = module_of(ffi::PyFunction_GetGlobals(object.as_ptr()));
        let rest = |module: &str| name.strip_prefix(module)?.strip_prefix('.');
        !module.is_null()
            && capture::text_is(module.as_ptr(), |module| {
                rest(module).is_some_and(|rest| capture::text_is(own, |own| own == rest))
            })
    }
}

/// Objects that an object may call, or whose method it is.
fn parts<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    let (py, o) = (object.py(), object.as_ptr());
    let mut parts = Vec::new();
    let hold = |part: *mut ffi::PyObject| {
        // SAFETY: null or an object that stands.
        let part = unsafe { Bound::from_borrowed_ptr_or_opt(py, part) };
        part.filter(leads_on)
    };
    // SAFETY: the thread is attached and has no exception set; each type is checked before its fields are read.
    unsafe {
        let class = ffi::Py_TYPE(o);
        if ffi::PyFunction_Check(o) != 0 {
            parts.extend(hold(named(&capture::instance_dict(o), "__wrapped__", py).as_ptr()));
            let cells = Bound::from_borrowed_ptr_or_opt(py, ffi::PyFunction_GetClosure(o));
            for cell in cells.iter().filter_map(|cells| cells.cast::<PyTuple>().ok()).flatten() {
                if ffi::Py_TYPE(cell.as_ptr()) == &raw mut ffi::PyCell_Type {
                    let inside = Held::owned(ffi::PyCell_Get(cell.as_ptr()));
                    parts.extend(hold(inside.as_ptr()));
                }
            }
            let defaults = Bound::from_borrowed_ptr_or_opt(py, ffi::PyFunction_GetDefaults(o));
            for value in defaults.iter().filter_map(|defaults| defaults.cast::<PyTuple>().ok()).flatten() {
                parts.extend(hold(value.as_ptr()));
            }
            let defaults = Held::borrowed(ffi::PyFunction_GetKwDefaults(o));
            parts.extend(values(&defaults, py).iter().filter_map(|value| hold(value.as_ptr())));
            let globals = ffi::PyFunction_GetGlobals(o);
            let names = Bound::from_borrowed_ptr(py, ffi::PyFunction_GetCode(o)).getattr("co_names");
            for name in names.iter().filter_map(|names| names.cast::<PyTuple>().ok()).flatten() {
                // null if the collector has cleared the function
                if !globals.is_null() && ffi::PyDict_CheckExact(globals) != 0 {
                    let value = dict_get(globals, name.as_ptr());
                    parts.extend(hold(value.as_ptr()).filter(|value| is_function(value)));
                }
            }
        } else if let Some((of, function)) = capture::parts_of_method(o) {
            parts.extend([function, of].into_iter().filter_map(hold));
        } else {
            for name in ["__wrapped__", "_self_wrapper", "func"] {
                let field = Held::owned(field(o, name, py));
                parts.extend(hold(field.as_ptr()));
            }
            let own = capture::instance_dict(o);
            parts.extend(values(&own, py).iter().filter_map(|value| hold(value.as_ptr())));
            let call = capture::attribute_of_class(class, "__call__");
            parts.extend(hold(call.as_ptr()).filter(is_function));
        }
    }
    parts
}

/// Whether it is a function, a method or a partial.
fn is_function(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: it stands; the thread is attached.
    unsafe {
        ffi::PyFunction_Check(object.as_ptr()) != 0
            || capture::is_method(object.as_ptr())
            || capture::is_partial(object.as_ptr())
    }
}

/// Whether an object is worth a look: it is not a class, and can be called or bound.
fn leads_on(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: it stands; the thread is attached.
    unsafe {
        let class = ffi::Py_TYPE(object.as_ptr());
        ffi::PyType_Check(object.as_ptr()) == 0 && ((*class).tp_call.is_some() || (*class).tp_descr_get.is_some())
    }
}

/// The value of a name in an exact dict; null without one.
///
/// # Safety
/// `dict` is null or holds an object; the thread is attached.
unsafe fn named(dict: &Held, name: &str, py: Python<'_>) -> Held {
    // SAFETY: the caller promises that `dict` is null or holds an object and the thread is attached; the key is a str.
    unsafe {
        if dict.is_null() || ffi::PyDict_CheckExact(dict.as_ptr()) == 0 {
            return Held::borrowed(std::ptr::null_mut());
        }
        dict_get(dict.as_ptr(), PyString::intern(py, name).as_ptr())
    }
}

/// The values of an exact dict.
///
/// # Safety
/// `dict` is null or holds an object; the thread is attached.
unsafe fn values<'py>(dict: &Held, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
    // SAFETY: the caller promises that `dict` is null or holds an object and the thread is attached.
    let dict = unsafe { Bound::from_borrowed_ptr_or_opt(py, dict.as_ptr()) };
    let dict = dict.and_then(|dict| dict.cast_into_exact::<PyDict>().ok());
    dict.map_or_else(Vec::new, |dict| dict.values().iter().take(MOST).collect())
}

/// The value of a field that a type written in C describes, a new reference; null without one.
///
/// # Safety
/// The object stands; the thread is attached and has no exception set.
unsafe fn field(object: *mut ffi::PyObject, name: &str, py: Python<'_>) -> *mut ffi::PyObject {
    // SAFETY: the caller promises that the object stands and the thread is attached and has no exception set;
    // descriptors of exactly these types run no Python of their own.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let field = capture::attribute_of_class(class, name);
        let Some(field) = Bound::from_borrowed_ptr_or_opt(py, field.as_ptr()) else { return std::ptr::null_mut() };
        let kind = ffi::Py_TYPE(field.as_ptr());
        let known = [&raw mut ffi::PyMemberDescr_Type, &raw mut ffi::PyGetSetDescr_Type];
        match (*kind).tp_descr_get.filter(|_| known.contains(&kind)) {
            Some(get) => {
                let value = get(field.as_ptr(), object, class.cast());
                if value.is_null() {
                    ffi::PyErr_Clear();
                }
                value
            }
            None => std::ptr::null_mut(),
        }
    }
}

/// Records that these functions wrap the function of this code.
fn note(code: usize, wrappers: Vec<Bound<'_, PyAny>>) {
    if wrappers.is_empty() && !ANY.load(Ordering::Acquire) {
        return;
    }
    let mut wrappers: Vec<_> = wrappers.into_iter().map(Bound::unbind).collect();
    let mut all = lock();
    match all.iter_mut().find(|(known, _)| *known == code) {
        Some((_, known)) => std::mem::swap(known, &mut wrappers),
        None => all.push((code, std::mem::take(&mut wrappers))),
    }
    ANY.store(true, Ordering::Release);
    drop(all);
    drop(wrappers); // what was known, outside the lock
}

/// Forgets all wrappers, when nothing is watched any more.
pub fn release() {
    ANY.store(false, Ordering::Release);
    let all = std::mem::take(&mut *lock());
    drop(all);
}

/// The caller of a function of this code, given the frame below it: wrappers of the function are skipped.
///
/// # Safety
/// The caller's frame runs; the thread is attached.
#[inline(always)]
pub unsafe fn past(code: *mut ffi::PyObject, caller: Option<Frame>) -> Option<Frame> {
    if !ANY.load(Ordering::Relaxed) {
        return caller;
    }
    // SAFETY: the caller promises that the caller's frame runs and the thread is attached.
    unsafe { past_wrappers(code as usize, caller) }
}

#[cold]
#[inline(never)]
unsafe fn past_wrappers(code: usize, mut caller: Option<Frame>) -> Option<Frame> {
    // SAFETY: `past` has promised that the caller's frame runs and the thread is attached; its callers run, too.
    unsafe {
        let all = lock();
        let Some((_, wrappers)) = all.iter().find(|(known, _)| *known == code) else { return caller };
        while let Some(wrapper) = caller {
            if !wrappers.iter().any(|known| wrapper.runs(known.as_ptr())) {
                break;
            }
            caller = wrapper.caller();
        }
        caller
    }
}

/// Whether a frame is that of a known wrapper of one of the library's functions.
///
/// # Safety
/// The frame runs and is not a shim; the thread is attached.
#[inline(always)]
pub unsafe fn is_around(frame: Frame) -> bool {
    // SAFETY: the caller promises a frame that runs, and the list holds its functions.
    let is = |known: &Py<PyAny>| unsafe { frame.runs(known.as_ptr()) };
    ANY.load(Ordering::Relaxed) && lock().iter().flat_map(|(_, all)| all).any(is)
}

/// The caller of a running frame; wrappers of its function are skipped.
///
/// # Safety
/// The frame runs and is not a shim; the thread is attached.
#[inline(always)]
pub unsafe fn caller(frame: Frame) -> Option<Frame> {
    // SAFETY: the caller promises that the frame runs and is not a shim, and the thread is attached.
    unsafe { past(frame.code(), frame.caller()) }
}
