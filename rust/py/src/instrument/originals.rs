//! The library's own functions, also where the program has put its own around them, as libraries that measure programs do.
//!
//! A wrapper leads to what it wraps by `__wrapped__`, by its closure, by a name of its module, as a method or a partial: all of that is
//! read as it stands, and no code of the program's runs. The library's function is told by its code's name and its module. The
//! wrappers are noted, for who calls a function is whoever calls its wrapper.

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

/// Objects that are looked at, at most, for one function.
const MOST: usize = 64;

/// Where classes are defined whose functions are watched.
const LIBRARY: [&str; 7] =
    ["asyncio.", "concurrent.futures.", "multiprocessing.", "queue.", "socket.", "subprocess.", "threading."];

/// The code of a function of the library's, and what the program has put around it.
type Wrapped = (usize, Vec<Py<PyAny>>);

static ANY: AtomicBool = AtomicBool::new(false);
/// Guards moves only.
static WRAPPED: Mutex<Vec<Wrapped>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Wrapped>> {
    WRAPPED.lock().unwrap_or_else(|e| e.into_inner())
}

/// The function at `path` of a module or class (`"Class.method"`): the library's own; else what is in its place, if its code is surely that
/// of no other function. `None` where that is something else.
///
/// # Errors
/// AttributeError if there is nothing.
pub fn function<'py>(owner: &Bound<'py, PyAny>, path: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (mut holder, mut name) = (owner.clone(), path);
    while let Some((first, rest)) = name.split_once('.') {
        (holder, name) = (holder.getattr(first)?, rest);
    }
    let Ok(class) = holder.cast::<PyType>() else {
        let there = holder.getattr(name)?;
        // SAFETY: a module's dict, or what has none.
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

/// The codes of those functions that are known.
///
/// # Errors
/// AttributeError if there is nothing.
pub fn codes<'py>(owner: &Bound<'py, PyAny>, paths: &[&str]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut codes = Vec::new();
    for path in paths {
        if let Some(function) = function(owner, path)? {
            codes.push(function.getattr("__code__")?);
        }
    }
    Ok(codes)
}

/// What the classes that a class derives from, and itself, have under a name, as it stands there, with the names of those classes.
fn definitions<'py>(class: &Bound<'py, PyType>, name: &str) -> Vec<(String, Bound<'py, PyAny>)> {
    let (py, mut all) = (class.py(), Vec::new());
    let key = PyString::intern(py, name);
    // SAFETY: the class stands, and so do what it derives from and what those have.
    unsafe {
        capture::each_definition(class.as_type_ptr(), key.as_ptr(), |class, there| {
            let name = capture::type_name(class, &mut [0; 256]).to_owned();
            all.push((name, Bound::from_borrowed_ptr(py, there)));
            false
        });
    }
    all
}

/// What is in the place of a library's function, if it is a function that was not made by another one, as a decorator's is.
fn plain(there: Bound<'_, PyAny>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the type is checked; its code stands with it.
    let own = unsafe {
        ffi::PyFunction_Check(there.as_ptr()) != 0
            && CodeLayout::read(ffi::PyFunction_GetCode(there.as_ptr())).flags & ffi::CO_NESTED as u32 == 0
    };
    own.then_some(there)
}

/// The function of this name, behind what is in its place. Notes what lies between.
fn behind<'py>(there: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyAny>> {
    let mut seen = vec![there.clone()];
    let mut at = 0;
    while let Some(next) = seen.get(at).cloned() {
        if is_called(&next, name) {
            // SAFETY: a function.
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

/// Whether it is the function of this module and name, whatever it calls itself.
fn is_called(object: &Bound<'_, PyAny>, name: &str) -> bool {
    // SAFETY: the type is checked; what is read stands with the function.
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

/// What an object may call on, or whose function it is.
fn parts<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    let (py, o) = (object.py(), object.as_ptr());
    let mut parts = Vec::new();
    let hold = |part: *mut ffi::PyObject| {
        // SAFETY: null or an object that stands.
        let part = unsafe { Bound::from_borrowed_ptr_or_opt(py, part) };
        part.filter(leads_on)
    };
    // SAFETY: the thread is attached and has no exception set; each type is looked at before its fields are.
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
                if ffi::PyDict_CheckExact(globals) != 0 {
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

/// Whether it is a function, or what makes a method or a part of one.
fn is_function(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: it stands; attached.
    unsafe {
        ffi::PyFunction_Check(object.as_ptr()) != 0
            || capture::is_method(object.as_ptr())
            || capture::is_partial(object.as_ptr())
    }
}

/// Whether an object is worth being looked at: it is no class, and can be called or bound.
fn leads_on(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: it stands; attached.
    unsafe {
        let class = ffi::Py_TYPE(object.as_ptr());
        ffi::PyType_Check(object.as_ptr()) == 0 && ((*class).tp_call.is_some() || (*class).tp_descr_get.is_some())
    }
}

/// What an exact dict has under a name; null if nothing.
///
/// # Safety
/// Null or a dict; attached.
unsafe fn named(dict: &Held, name: &str, py: Python<'_>) -> Held {
    // SAFETY: the caller's promise; the key is a str.
    unsafe {
        if dict.is_null() || ffi::PyDict_CheckExact(dict.as_ptr()) == 0 {
            return Held::borrowed(std::ptr::null_mut());
        }
        dict_get(dict.as_ptr(), PyString::intern(py, name).as_ptr())
    }
}

/// What an exact dict has.
///
/// # Safety
/// Null or a dict; attached.
unsafe fn values<'py>(dict: &Held, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
    // SAFETY: the caller's promise.
    let dict = unsafe { Bound::from_borrowed_ptr_or_opt(py, dict.as_ptr()) };
    let dict = dict.and_then(|dict| dict.cast_into_exact::<PyDict>().ok());
    dict.map_or_else(Vec::new, |dict| dict.values().iter().take(MOST).collect())
}

/// What an object has in a field that a type written in C describes, a new reference; null if there is none.
///
/// # Safety
/// It stands; attached, with no exception set.
unsafe fn field(object: *mut ffi::PyObject, name: &str, py: Python<'_>) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise; descriptors of exactly these types run no Python of their own.
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

/// From now on these functions are what the program has put around the function of this code.
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

/// Nothing is watched any more.
pub fn release() {
    ANY.store(false, Ordering::Release);
    let all = std::mem::take(&mut *lock());
    drop(all);
}

/// Who called a function of this code, `caller` by its frame's word: not a wrapper of the function, but who called that.
///
/// # Safety
/// The caller's frame runs; attached.
#[inline(always)]
pub unsafe fn past(code: *mut ffi::PyObject, caller: Option<Frame>) -> Option<Frame> {
    if !ANY.load(Ordering::Relaxed) {
        return caller;
    }
    // SAFETY: the caller's promise.
    unsafe { past_wrappers(code as usize, caller) }
}

#[cold]
#[inline(never)]
unsafe fn past_wrappers(code: usize, mut caller: Option<Frame>) -> Option<Frame> {
    // SAFETY: the caller's promise; whoever called a frame that runs does, too.
    unsafe {
        let all = lock();
        let Some((_, wrappers)) = all.iter().find(|(known, _)| *known == code) else { return caller };
        while let Some(wrapper) = caller {
            let function = wrapper.function();
            if !wrappers.iter().any(|known| known.as_ptr() == function) {
                break;
            }
            caller = wrapper.caller();
        }
        caller
    }
}

/// Whether a function is known to be around one of the library's.
#[inline(always)]
pub fn is_around(function: *mut ffi::PyObject) -> bool {
    ANY.load(Ordering::Relaxed) && lock().iter().flat_map(|(_, all)| all).any(|known| known.as_ptr() == function)
}

/// Who called a frame that runs, wrappers of its function left out.
///
/// # Safety
/// The frame runs, and is no shim; attached.
#[inline(always)]
pub unsafe fn caller(frame: Frame) -> Option<Frame> {
    // SAFETY: the caller's promise.
    unsafe { past(frame.code(), frame.caller()) }
}
