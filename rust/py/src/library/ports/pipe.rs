//! The files of a subprocess's pipes: what Python reads from and writes to them, buffered or as text, comes to the C methods of
//! `io.FileIO` in the end.

use super::{bytes_of, lock, read, runs, written};
use crate::{entry::door, thread::here::Here};
use inviso_core::tracee::Tracee;
use inviso_cpython::{
    hooks::method::{Method, Wrapper},
    interpreter::calling,
};
use inviso_term::record;
use pyo3::{ffi, prelude::*};
use rustc_hash::FxHashMap;
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc, Mutex,
};

/// What a method does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Answers bytes.
    Read,
    /// Reads into its argument.
    ReadInto,
    /// Writes its argument.
    Write,
    /// Closes the file.
    Close,
}

struct Hook {
    name: &'static str,
    method: Method,
    does: Does,
}

const fn hook(name: &'static str, does: Does) -> Hook {
    Hook { name, method: Method::new(), does }
}

/// All of them; a wrapper's number is its place.
static HOOKS: [Hook; 5] = [
    hook("read", Does::Read),
    hook("readall", Does::Read),
    hook("readinto", Does::ReadInto),
    hook("write", Does::Write),
    hook("close", Does::Close),
];

macro_rules! wrappers {
    ($($number:literal)*) => {
        [$([
            Wrapper::Plain(plain::<$number>),
            Wrapper::Positional(positional::<$number>),
            Wrapper::OfClass(of_class::<$number>),
        ]),*]
    };
}

static WRAPPERS: [[Wrapper; 3]; HOOKS.len()] = wrappers!(0 1 2 3 4);

/// Ports by the address of the file of one of their pipes. A file is taken out when it is closed, which comes before its end.
static PIPES: Mutex<Option<FxHashMap<usize, Arc<Tracee>>>> = Mutex::new(None);

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Watches from now on.
///
/// # Errors
/// RuntimeError where the class is not CPython's.
pub fn begin(py: Python<'_>) -> PyResult<()> {
    let class = py.import("_io")?.getattr("FileIO")?;
    for (hook, wrappers) in HOOKS.iter().zip(&WRAPPERS) {
        // SAFETY: the wrappers call the original on, whatever else they do.
        unsafe { hook.method.take(&class, hook.name, wrappers)? };
    }
    Ok(())
}

/// Nobody asks any more.
pub fn end() {
    for (hook, wrappers) in HOOKS.iter().zip(&WRAPPERS) {
        hook.method.give_back(wrappers);
    }
    COUNT.store(0, Ordering::Relaxed);
    // in a forked child somebody may hold it who is no more
    if let Ok(mut pipes) = PIPES.try_lock() {
        drop(pipes.take());
    }
}

/// A file is one of the pipes of a port.
pub fn add(file: &Bound<'_, PyAny>, port: &Arc<Tracee>) {
    let mut pipes = lock(&PIPES);
    let pipes = pipes.get_or_insert_default();
    pipes.insert(file.as_ptr() as usize, port.clone());
    COUNT.store(pipes.len(), Ordering::Relaxed);
}

/// A port is closed.
pub fn forget(port: &Tracee) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        if let Some(pipes) = lock(&PIPES).as_mut() {
            pipes.retain(|_, known| known.pid != port.pid);
            COUNT.store(pipes.len(), Ordering::Relaxed);
        }
    }
}

fn find(file: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    lock(&PIPES).as_ref()?.get(&(file as usize)).cloned()
}

type PlainCall = unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;
type PositionalCall =
    unsafe extern "C-unwind" fn(*mut ffi::PyObject, *const *mut ffi::PyObject, ffi::Py_ssize_t) -> *mut ffi::PyObject;
type OfClassCall = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyTypeObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// A method without or with one argument.
///
/// # Safety
/// To be called by the interpreter only, for the method that it was put into.
unsafe extern "C" fn plain<const N: usize>(this: *mut ffi::PyObject, arg: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the wrapper of this method, which is called so; the interpreter's arguments are handed on.
    unsafe {
        let original = HOOKS[N].method.original::<PlainCall>();
        around(HOOKS[N].does, this, arg, || original(this, arg))
    }
}

/// A method with several arguments.
///
/// # Safety
/// As [`plain`].
unsafe extern "C" fn positional<const N: usize>(
    this: *mut ffi::PyObject, args: *const *mut ffi::PyObject, count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: as in `plain`.
    unsafe {
        let original = HOOKS[N].method.original::<PositionalCall>();
        let first = if count > 0 { *args } else { std::ptr::null_mut() };
        around(HOOKS[N].does, this, first, || original(this, args, count))
    }
}

/// A method that is told the class that defines it.
///
/// # Safety
/// As [`plain`].
unsafe extern "C" fn of_class<const N: usize>(
    this: *mut ffi::PyObject, class: *mut ffi::PyTypeObject, args: *const *mut ffi::PyObject, count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as in `plain`.
    unsafe {
        let original = HOOKS[N].method.original::<OfClassCall>();
        let first = if count > 0 { *args } else { std::ptr::null_mut() };
        around(HOOKS[N].does, this, first, || original(this, class, args, count, keywords))
    }
}

/// A call of a method: before it, itself, after it.
///
/// # Safety
/// `this` lives throughout, as does `first` unless it is null, and the calling thread is attached to the interpreter.
#[inline(always)]
unsafe fn around(
    does: Does, this: *mut ffi::PyObject, first: *mut ffi::PyObject, call: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let Some(port) = find(this) else { return calling::on_guard(call) };
    if does == Does::Close {
        if let Some(pipes) = lock(&PIPES).as_mut() {
            pipes.remove(&(this as usize));
            COUNT.store(pipes.len(), Ordering::Relaxed);
        }
        return calling::on_guard(call);
    }
    let command = (does == Does::Write).then_some("command");
    let tell = |kind| {
        // SAFETY: attached.
        unsafe { door::enter(|here| runs(here.host, &mut here.thread, &port, kind, command)) };
    };
    tell(record::Kind::In);
    let result = calling::on_guard(call);
    // SAFETY: attached again; the interpreter holds the object and its arguments during the call.
    unsafe {
        if !result.is_null() {
            door::enter(|here| pass(here, does, &port, first, result));
        }
    }
    tell(record::Kind::Out);
    result
}

/// Tells of what has been written or read.
///
/// # Safety
/// `result` stands, as does `first` unless it is null; attached.
unsafe fn pass(here: &mut Here, does: Does, port: &Tracee, first: *mut ffi::PyObject, result: *mut ffi::PyObject) {
    // SAFETY: what a call was given and what it answered stand until it is over; attached.
    unsafe {
        let length = || {
            let length = (ffi::PyLong_Check(result) != 0).then(|| ffi::PyLong_AsLongLong(result));
            length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length > 0 && !first.is_null())
        };
        match does {
            Does::Read if ffi::PyBytes_Check(result) != 0 && ffi::Py_SIZE(result) > 0 => {
                read(here, port, |py| Some(Bound::from_borrowed_ptr(py, result)));
            }
            Does::ReadInto => {
                if let Some(length) = length() {
                    read(here, port, |py| Some(bytes_of(py, first, Some(length))));
                }
            }
            Does::Write => {
                if let Some(length) = length() {
                    written(here, port, |py| Some(bytes_of(py, first, Some(length))));
                }
            }
            _ => {}
        }
    }
}
