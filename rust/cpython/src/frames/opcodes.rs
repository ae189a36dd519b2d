//! Facts about the instruction at a place in a code object that no event reports.
//!
//! Opcodes have other numbers in each version, so [`learn`] reads the needed ones from the interpreter. The examined
//! bytes are the code's as it was compiled (`co_code`), before instrumenting and specialising change them.
//!
//! # Roles
//! One thread learns the opcodes, before any event. Any attached thread reads them.
//!
//! # States
//! An opcode is 0, then its number for ever.
//!
//! # Orderings
//! All are `Relaxed`: an event is set only after [`learn`], and each byte is a whole fact.
//!
//! # Checked by
//! `tests/python/test_trace_returns.py`.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use crate::object::int;

extern "C" {
    /// `code.co_code`, a new reference.
    fn PyCode_GetCode(code: *mut PyObject) -> *mut PyObject;
}

/// An instruction's bytes: the opcode and its argument.
const UNIT: usize = 2;

static RESUME: AtomicU8 = AtomicU8::new(0);
static PUSH_EXC_INFO: AtomicU8 = AtomicU8::new(0);
static CLEANUP_THROW: AtomicU8 = AtomicU8::new(0);
static END_ASYNC_FOR: AtomicU8 = AtomicU8::new(0);

/// Learns the opcodes.
///
/// # Errors
/// The interpreter lacks one of the names.
pub fn learn(py: Python<'_>) -> PyResult<()> {
    let numbers = crate::interpreter::standard::module(py, "opcode")?.getattr("opmap")?;
    let needed = [
        ("RESUME", &RESUME),
        ("PUSH_EXC_INFO", &PUSH_EXC_INFO),
        ("CLEANUP_THROW", &CLEANUP_THROW),
        ("END_ASYNC_FOR", &END_ASYNC_FOR),
    ];
    for (name, place) in needed {
        place.store(numbers.get_item(name)?.extract()?, Relaxed);
    }
    Ok(())
}

/// Whether execution continues in the handler at `offset`: an `except`, a `finally`, the end of a `with`. The compiler
/// makes other handlers that raise the exception again: around a generator's code (PEP 479), a comprehension, a
/// handler. Those of `yield from`, `await` and `async for` do so except with the exception that ends the awaited
/// object.
///
/// # Safety
/// The thread is attached; `code` is a code object, `offset` an int and `exception` an exception, as an event passes
/// them.
pub unsafe fn goes_on_at(code: *mut PyObject, offset: *mut PyObject, exception: *mut PyObject) -> bool {
    // SAFETY: the caller promises the objects of an event and an attached thread; the two types are never freed.
    unsafe {
        with_bytes(code, offset, |bytes, at| {
            let is = |opcode: &AtomicU8| bytes.get(at) == Some(&opcode.load(Relaxed));
            is(&PUSH_EXC_INFO)
                || is(&CLEANUP_THROW) && ffi::PyErr_GivenExceptionMatches(exception, ffi::PyExc_StopIteration) != 0
                || is(&END_ASYNC_FOR) && ffi::PyErr_GivenExceptionMatches(exception, ffi::PyExc_StopAsyncIteration) != 0
        })
    }
}

/// Whether a generator or coroutine whose next instruction is at `offset` was ever resumed.
///
/// # Safety
/// As [`goes_on_at`].
pub unsafe fn has_begun(code: *mut PyObject, offset: *mut PyObject) -> bool {
    let resume = RESUME.load(Relaxed);
    // SAFETY: the caller promises that the thread is attached and `code` is a code object, `offset` an int and
    // `exception` an exception, as an event passes them.
    unsafe { with_bytes(code, offset, |bytes, at| bytes.chunks(UNIT).take(at / UNIT).any(|unit| unit[0] == resume)) }
}

/// # Safety
/// As [`goes_on_at`].
unsafe fn with_bytes(code: *mut PyObject, offset: *mut PyObject, look: impl FnOnce(&[u8], usize) -> bool) -> bool {
    // SAFETY: the caller promises the objects of an event and an attached thread. An exception that is set is put
    // aside, since the call may raise for lack of memory.
    unsafe {
        if ffi::PyCode_Check(code) == 0 {
            return false;
        }
        let Ok(at) = int::value(offset) else { return false };
        let aside = crate::interpreter::Aside::new();
        let bytes = PyCode_GetCode(code);
        if bytes.is_null() {
            ffi::PyErr_Clear();
            drop(aside);
            return false;
        }
        let slice =
            std::slice::from_raw_parts(ffi::PyBytes_AsString(bytes).cast::<u8>(), ffi::PyBytes_Size(bytes) as usize);
        let answer = look(slice, at as usize);
        ffi::Py_DECREF(bytes);
        drop(aside);
        answer
    }
}
