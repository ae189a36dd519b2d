//! Calls from Rust of what may be written in Python.
//!
//! When the interpreter ends, a thread that is not its main one and asks for the lock again is ended on the spot before 3.14: by an
//! unwinding that Rust's frames can't pass, so the process would abort. Python code asks for the lock at any time. So a
//! call of it from Rust stands on a guard that holds such a thread for ever, which is what 3.14 does with all of them.
//!
//! The functions are called by pointers of a type that may unwind, which the compiler can't see through: pyo3 declares the same
//! functions as ones that don't, and where the declarations are merged the guard would be left out.

use crate::object::held::Held;
use pyo3::{
    ffi,
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{
    ffi::{c_int, CStr},
    hint::black_box,
};

extern "C-unwind" {
    #[link_name = "PyObject_Call"]
    fn call_unwinding(
        callable: *mut ffi::PyObject, args: *mut ffi::PyObject, kwargs: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;

    #[link_name = "PyObject_Repr"]
    fn repr_unwinding(object: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

type Calling =
    unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;
type Showing = unsafe extern "C-unwind" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// Holds the thread that would be unwound.
struct Hold;

impl Drop for Hold {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs `with`, which calls a function of the interpreter that may let go of its lock, by a pointer of the type
/// `extern "C-unwind"`.
#[inline(always)]
pub fn on_guard<R>(with: impl FnOnce() -> R) -> R {
    let hold = Hold;
    let result = with();
    std::mem::forget(hold);
    result
}

/// Calls `callable` with positional arguments.
///
/// # Errors
/// What it raises.
pub fn call<'py>(
    callable: &Bound<'py, PyAny>, args: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = callable.py();
    let args = args.into_pyobject(py).map_err(Into::into)?;
    let hold = Hold;
    // SAFETY: attached; both objects stand during the call, whose result is a new reference or null with an exception.
    let result = unsafe {
        let call = black_box(call_unwinding as Calling);
        Bound::from_owned_ptr_or_err(py, call(callable.as_ptr(), args.as_ptr(), std::ptr::null_mut()))
    };
    std::mem::forget(hold);
    result
}

/// The text of an object as its class makes it; null with an exception set where that raises.
///
/// # Safety
/// `object` stands during the call, and the calling thread is attached.
pub unsafe fn repr(object: *mut ffi::PyObject) -> Held {
    let hold = Hold;
    // SAFETY: the caller's promise; a new reference or null.
    let text = Held::owned(unsafe { black_box(repr_unwinding as Showing)(object) });
    std::mem::forget(hold);
    text
}

/// Calls a method that may be written in Python.
///
/// # Errors
/// What it raises.
pub fn method<'py>(
    object: &Bound<'py, PyAny>, name: &str,
    args: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    call(&object.getattr(name)?, args)
}

/// A module, whose code runs where it is imported for the first time.
///
/// # Errors
/// What that raises.
pub fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    call(&super::standard::module(py, "importlib")?.getattr("import_module")?, (name,))
}

/// Runs statements.
///
/// # Errors
/// What they raise.
pub fn run(py: Python<'_>, source: &CStr, globals: &Bound<'_, PyDict>) -> PyResult<()> {
    call(&py.import("builtins")?.getattr("exec")?, (source.to_bytes(), globals)).map(drop)
}

/// The value of an expression.
///
/// # Errors
/// What it raises.
pub fn eval<'py>(py: Python<'py>, source: &CStr) -> PyResult<Bound<'py, PyAny>> {
    call(&py.import("builtins")?.getattr("eval")?, (source.to_bytes(), PyDict::new(py)))
}

/// Whether modules can be imported where Python stands now: a frame may have builtins of its own, as `namedtuple`'s have none.
pub fn may_import(_py: Python<'_>) -> bool {
    // SAFETY: attached; borrowed from the frame, or from the interpreter where there is none.
    unsafe {
        let builtins = ffi::PyEval_GetBuiltins();
        !builtins.is_null() && !ffi::PyDict_GetItemString(builtins, c"__import__".as_ptr()).is_null()
    }
}

/// An attribute that may be a property.
///
/// # Errors
/// What reading it raises.
pub fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    call(&object.py().import("builtins")?.getattr("getattr")?, (object, name))
}

/// Runs `with` on a thread that is attached, also when the interpreter is about to be no more, or not there in full yet, and nobody can
/// be attached.
#[inline(always)]
pub fn attached<R>(with: impl FnOnce(Python<'_>) -> R) -> R {
    // SAFETY: a plain question; the interpreter calls handlers, wrappers and callbacks attached.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return with(Python::assume_attached());
        }
    }
    Python::attach(with)
}

/// Runs `with` attached, whether or not the calling thread is; also where the interpreter is not there in full yet, and nobody can be
/// attached: 3.15 runs `site` so early.
pub fn attach<R>(with: impl FnOnce(Python<'_>) -> R) -> R {
    struct Ensured(ffi::PyGILState_STATE);

    impl Drop for Ensured {
        fn drop(&mut self) {
            // SAFETY: what `PyGILState_Ensure` gave, on its thread.
            unsafe { ffi::PyGILState_Release(self.0) };
        }
    }

    // SAFETY: a plain question; a thread whose state the interpreter knows may be attached by it, and is until the guard goes.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            let _ensured = Ensured(ffi::PyGILState_Ensure());
            return with(Python::assume_attached());
        }
    }
    Python::attach(with)
}

/// From now on a thread that is attached may say so (`Python::attach`) also when the interpreter is about to be no more: finalisers of
/// the program's run then, and hooks of ours in them. Who asks for the first time when it is too late panics.
///
/// Nothing yet where the interpreter is not there in full: 3.15 runs `site` so early. Another session asks again.
pub fn may_attach(py: Python<'_>) {
    // SAFETY: a plain question
    if unsafe { ffi::Py_IsInitialized() } != 0 {
        py.detach(|| Python::attach(|_| ()));
    }
}

/// Whether the interpreter is ending. Then no thread but its main one runs any more, and a lock that another one held when it
/// was stopped stays locked: nothing is changed any more.
#[cold]
pub fn is_ending(_: Python<'_>) -> bool {
    extern "C" {
        #[cfg_attr(not(Py_3_13), link_name = "_Py_IsFinalizing")]
        fn Py_IsFinalizing() -> c_int;
    }
    // SAFETY: reads one word.
    unsafe { Py_IsFinalizing() != 0 }
}
