//! The files of a subprocess's pipes. All reads and writes of Python, buffered or as text, come to the C methods of
//! `io.FileIO` in the end, which are replaced here.
//!
//! # Roles
//! Attached threads use files. The instrument replaces the methods and gives them back.
//!
//! # States
//! See `passages`.
//!
//! # Orderings
//! [`Method`]'s own.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

use super::{
    passages::{close_pipe, end_pipes, of_pipe},
    traffic::{read, runs, written},
};
use crate::{door, instrument::sent_values::bytes_of, state::thread::ThreadState};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::{
    hooks::method::{Method, PlainCall, PositionalCall, Wrapper},
    interpreter::calling,
};
use inviso_term::record;
use pyo3::{ffi, prelude::*};

/// The effect of a method.
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

struct PipeMethod {
    name: &'static str,
    method: Method,
    does: Does,
}

const fn hook(name: &'static str, does: Does) -> PipeMethod {
    PipeMethod { name, method: Method::new(), does }
}

/// All hooks. A wrapper's number is its hook's index.
static HOOKS: [PipeMethod; 5] = [
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

/// Begins to watch.
///
/// # Errors
/// RuntimeError if the class is not CPython's.
pub fn begin(py: Python<'_>) -> PyResult<()> {
    let class = py.import("_io")?.getattr("FileIO")?;
    for (hook, wrappers) in HOOKS.iter().zip(&WRAPPERS) {
        // SAFETY: the wrappers call the originals, whatever else they do.
        unsafe { hook.method.take(&class, hook.name, wrappers)? };
    }
    Ok(())
}

/// Gives the methods back.
pub fn end() {
    for (hook, wrappers) in HOOKS.iter().zip(&WRAPPERS) {
        hook.method.give_back(wrappers);
    }
    end_pipes();
}

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
/// Only the interpreter calls it, for the method that it was put into.
unsafe extern "C" fn plain<const N: usize>(this: *mut ffi::PyObject, arg: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the wrapper of this method, which is called so; the original gets the interpreter's arguments.
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
    // SAFETY: the wrapper of this method, which is called so; the original gets the interpreter's arguments.
    unsafe {
        let original = HOOKS[N].method.original::<PositionalCall>();
        let first = if count > 0 { *args } else { std::ptr::null_mut() };
        around(HOOKS[N].does, this, first, || original(this, args, count))
    }
}

/// A method that gets the class that defines it.
///
/// # Safety
/// As [`plain`].
unsafe extern "C" fn of_class<const N: usize>(
    this: *mut ffi::PyObject, class: *mut ffi::PyTypeObject, args: *const *mut ffi::PyObject, count: ffi::Py_ssize_t,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the wrapper of this method, which is called so; the original gets the interpreter's arguments.
    unsafe {
        let original = HOOKS[N].method.original::<OfClassCall>();
        let first = if count > 0 { *args } else { std::ptr::null_mut() };
        around(HOOKS[N].does, this, first, || original(this, class, args, count, keywords))
    }
}

/// A call of a method: the work before it, the call, the work after it.
///
/// # Safety
/// `this` stands throughout; `first` is null or stands throughout; the calling thread is attached.
#[inline(always)]
unsafe fn around(
    does: Does, this: *mut ffi::PyObject, first: *mut ffi::PyObject, call: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let Some(port) = of_pipe(this) else { return calling::on_guard(call) };
    if does == Does::Close {
        close_pipe(this as usize);
        return calling::on_guard(call);
    }
    let command = (does == Does::Write).then_some("command");
    let emit = |kind| {
        // SAFETY: the thread is attached.
        unsafe { door::enter(|state| runs(state.host, &mut state.thread, &port, kind, command)) };
    };
    emit(record::Kind::In);
    let result = calling::on_guard(call);
    // SAFETY: attached again; the interpreter holds the object and its arguments during the call.
    unsafe {
        if !result.is_null() {
            door::enter(|state| pass(state, does, &port, first, result));
        }
    }
    emit(record::Kind::Out);
    result
}

/// Emits the events of data that have been written or read.
///
/// # Safety
/// `result` stands; `first` is null or stands; the thread is attached.
unsafe fn pass(
    state: &mut ThreadState, does: Does, port: &Tracee, first: *mut ffi::PyObject, result: *mut ffi::PyObject,
) {
    // SAFETY: a call's arguments and result stand until it is over; the thread is attached.
    unsafe {
        let length = || {
            let length = (ffi::PyLong_Check(result) != 0).then(|| ffi::PyLong_AsLongLong(result));
            length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length > 0 && !first.is_null())
        };
        match does {
            Does::Read if ffi::PyBytes_Check(result) != 0 && ffi::Py_SIZE(result) > 0 => {
                read(state, port, |py| Some(Bound::from_borrowed_ptr(py, result)));
            }
            Does::ReadInto => {
                if let Some(length) = length() {
                    read(state, port, |py| Some(bytes_of(py, first, Some(length))));
                }
            }
            Does::Write => {
                if let Some(length) = length() {
                    written(state, port, |py| Some(bytes_of(py, first, Some(length))));
                }
            }
            _ => {}
        }
    }
}
