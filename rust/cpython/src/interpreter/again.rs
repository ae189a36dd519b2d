//! Exceptions of signal handlers that run inside code of this package: they are raised again in the program.
//!
//! Python runs the handlers of signals in the main thread, between two instructions of any code that runs there, a
//! callback too. An exception that a handler raises then (`sys.exit`, the end of a time limit) is for the program; the
//! callback has not failed. An exception doesn't show which code raised it. But the interpreter calls a handler with
//! the number of the signal and the frame that it interrupts, which is the frame's own caller. So a frame of the
//! traceback with these arguments belongs to a handler. So does a frame whose code is that of an installed handler,
//! which may have deleted its arguments. A handler written in C has no frame: the exception of `default_int_handler`
//! looks like one of the callback's.

use super::calling;
use pyo3::{
    exceptions::PyKeyboardInterrupt,
    ffi::{self as api, PyObject},
    prelude::*,
    types::{PyFrame, PyFunction, PyString, PyTuple},
};
use std::{
    ffi::{c_int, c_ulong, c_void},
    sync::OnceLock,
};

/// `co_flags`: a parameter takes the other arguments.
const VARARGS: c_int = 4;

/// Whether the calling thread is inside the tracer, by the host's answer.
static IS_INSIDE: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that says whether the calling thread is inside the tracer: what a handler has raised waits until
/// it is not.
pub fn set_inside(is_inside: fn() -> bool) {
    let _set_before = IS_INSIDE.set(is_inside);
}

fn is_inside() -> bool {
    IS_INSIDE.get().is_some_and(|is_inside| is_inside())
}

/// The code that raised an exception.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The code that was called.
    Callee,
    /// A handler of the program.
    Handler,
    /// It can't be found out.
    Either,
}

/// The code that raised the exception of a call of Python code.
pub fn whose(py: Python<'_>, error: &PyErr) -> Whose {
    if !is_main(py).unwrap_or(true) {
        return Whose::Callee;
    }
    let handlers = in_place(py).unwrap_or_default();
    if is_handlers(py, error, &handlers).unwrap_or(false) {
        return Whose::Handler;
    }
    let in_c = |handler: &Bound<'_, PyAny>| {
        // SAFETY: a plain question about an object that stands.
        unsafe { api::PyCFunction_Check(handler.as_ptr()) != 0 }
    };
    let interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py) && handlers.iter().any(in_c);
    if interrupt && !is_raised_by_statement(py, error).unwrap_or(false) {
        return Whose::Either;
    }
    Whose::Callee
}

/// Has an exception raised in the program, where the main thread next looks for signals between two instructions. False
/// if it can't.
pub fn raise(py: Python<'_>, error: &PyErr) -> bool {
    // with its traceback, which an exception lacks before 3.12
    let value = error.clone_ref(py).into_value(py).into_ptr();
    let queued = queue(value.cast());
    if !queued {
        // SAFETY: the queue has not taken the reference.
        drop(unsafe { Bound::from_owned_ptr(py, value) });
    }
    queued
}

/// Handles an exception of this package's code that has no caller to raise in: a handler's is raised again, any other
/// is reported.
pub fn report(py: Python<'_>, error: PyErr) {
    if whose(py, &error) == Whose::Callee || !raise(py, &error) {
        error.write_unraisable(py, None);
    }
}

/// Whether a `raise` statement has raised it, and not the interpreter between two instructions.
fn is_raised_by_statement(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let Some(mut traceback) = error.traceback(py).map(Bound::into_any) else { return Ok(false) };
    loop {
        let next = traceback.getattr("tb_next")?;
        if next.is_none() {
            break;
        }
        traceback = next;
    }
    let code = traceback.getattr("tb_frame")?.getattr("f_code")?.getattr("co_code")?;
    let instruction = code.get_item(traceback.getattr("tb_lasti")?)?;
    super::standard::module(py, "opcode")?.getattr("opmap")?.get_item("RAISE_VARARGS")?.eq(instruction)
}

/// Takes the reference if it returns true.
fn queue(error: *mut c_void) -> bool {
    extern "C" fn call(error: *mut c_void) -> c_int {
        // a callback may run again by now, or still: it waits for the program
        if is_inside() && queue(error) {
            return 0;
        }
        calling::attached(|py| {
            // SAFETY: the reference that `queue` took.
            let error = unsafe { Bound::from_owned_ptr(py, error.cast::<PyObject>()) };
            PyErr::from_value(error).restore(py);
        });
        -1
    }
    // SAFETY: may be called at any time; `call` takes the reference.
    unsafe { api::Py_AddPendingCall(Some(call), error) == 0 }
}

/// Whether this is the thread that handles signals.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    let main: c_ulong =
        super::standard::module(py, "threading")?.getattr("_main_thread")?.getattr("_ident")?.extract()?;
    // SAFETY: may be called at any time.
    Ok(main == unsafe { api::PyThread_get_thread_ident() })
}

/// The installed handlers.
fn in_place(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let signals = py.import("_signal")?;
    let (handler, count) = (signals.getattr("getsignal")?, signals.getattr("NSIG")?.extract::<c_int>()?);
    let all = (1..count).filter_map(|number| handler.call1((number,)).ok());
    Ok(all.filter(|handler| handler.is_callable()).collect())
}

fn is_handlers(py: Python<'_>, error: &PyErr, handlers: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    let codes: Vec<_> = handlers.iter().filter_map(code_of).collect();
    let mut next = error.traceback(py).map(Bound::into_any);
    while let Some(traceback) = next {
        let frame = traceback.getattr("tb_frame")?;
        if codes.iter().any(|code| frame.getattr("f_code").is_ok_and(|its| its.is(code))) || is_called_so(&frame)? {
            return Ok(true);
        }
        next = Some(traceback.getattr("tb_next")?).filter(|next| !next.is_none());
    }
    Ok(false)
}

/// The code of a function, of a method, or of a `functools.partial` of one.
fn code_of<'py>(handler: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let class = |module: &str, name: &str| super::standard::module(handler.py(), module).ok()?.getattr(name).ok();
    let (method, partial) = (class("types", "MethodType")?, class("functools", "partial")?);
    let mut function = handler.clone();
    // exact classes only: an object of the program might run its code
    loop {
        let class = function.get_type();
        function = if class.is(&method) {
            function.getattr("__func__").ok()?
        } else if class.is(&partial) {
            function.getattr("func").ok()?
        } else {
            let function = function.cast::<PyFunction>().ok()?;
            return function.getattr("__code__").ok();
        };
    }
}

/// Whether a frame that has ended was called with a number and the frame that called it, one after the other.
fn is_called_so(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let back = frame.getattr("f_back")?;
    if back.cast::<PyFrame>().is_err() {
        return Ok(false);
    }
    let code = frame.getattr("f_code")?;
    let number = |name: &str| code.getattr(name)?.extract::<usize>();
    let (positional, keyword) = (number("co_argcount")?, number("co_kwonlyargcount")?);
    let has_more = code.getattr("co_flags")?.extract::<c_int>()? & VARARGS != 0;
    if positional < 2 && !has_more {
        return Ok(false);
    }
    let (names, locals) = (code.getattr("co_varnames")?, frame.getattr("f_locals")?);
    let value = |n: usize| locals.get_item(names.get_item(n)?.cast::<PyString>()?);
    // an argument that was deleted is missing
    let mut arguments: Vec<_> = (0..positional).map(|n| value(n).ok()).collect();
    if has_more {
        if let Ok(more) = value(positional + keyword) {
            arguments.extend(more.cast::<PyTuple>()?.iter().map(Some));
        }
    }
    Ok(arguments.windows(2).any(|pair| match pair {
        [Some(signal), Some(frame)] => frame.is(&back) && signal.extract::<c_int>().is_ok(),
        _ => false,
    }))
}
