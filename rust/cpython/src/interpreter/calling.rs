//! Calls from Rust of code that may be written in Python.
//!
//! When the interpreter ends before 3.14, a thread other than the main one that requests the lock again is ended on the
//! spot, by an unwinding that Rust's frames can't pass. So the process would abort. Python code requests the lock at
//! any time. So a call of it from Rust stands on a guard that holds such a thread for ever, as 3.14 does with all of
//! them.
//!
//! The functions are called by pointers of a type that may unwind, which the compiler can't see through. pyo3 declares
//! the same functions as ones that don't unwind; if the declarations were merged, the guard would be left out.

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

/// Holds a thread that would be unwound.
struct Hold;

impl Drop for Hold {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs `with`, which calls a function of the interpreter that may release its lock, by a pointer of the type
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
/// The exception of the call.
pub fn call<'py>(
    callable: &Bound<'py, PyAny>, args: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = callable.py();
    let args = args.into_pyobject(py).map_err(Into::into)?;
    let hold = Hold;
    // SAFETY: the thread is attached; both objects stand during the call, whose result is a new reference or null with
    // an exception.
    let result = unsafe {
        let call = black_box(call_unwinding as Calling);
        Bound::from_owned_ptr_or_err(py, call(callable.as_ptr(), args.as_ptr(), std::ptr::null_mut()))
    };
    std::mem::forget(hold);
    result
}

/// The text of an object as its class makes it; null with an exception set if that raises.
///
/// # Safety
/// `object` stands during the call, and the calling thread is attached.
pub unsafe fn repr(object: *mut ffi::PyObject) -> Held {
    let hold = Hold;
    // SAFETY: the caller promises that `object` stands and the thread is attached; a new reference or null.
    let text = Held::owned(unsafe { black_box(repr_unwinding as Showing)(object) });
    std::mem::forget(hold);
    text
}

/// Calls a method that may be written in Python.
///
/// # Errors
/// The exception of the call.
pub fn method<'py>(
    object: &Bound<'py, PyAny>, name: &str,
    args: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    call(&object.getattr(name)?, args)
}

/// A module. Its code runs when it is imported for the first time.
///
/// # Errors
/// The exception of the import.
pub fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    call(&super::standard::module(py, "importlib")?.getattr("import_module")?, (name,))
}

/// Runs statements.
///
/// # Errors
/// The exception of the statements.
pub fn run(py: Python<'_>, source: &CStr, globals: &Bound<'_, PyDict>) -> PyResult<()> {
    call(&py.import("builtins")?.getattr("exec")?, (source.to_bytes(), globals)).map(drop)
}

/// Whether modules can be imported here: a frame may have builtins of its own, as `namedtuple`'s have no `__import__`.
pub fn may_import(_py: Python<'_>) -> bool {
    // SAFETY: the thread is attached; borrowed from the frame, or from the interpreter without a frame.
    unsafe {
        let builtins = ffi::PyEval_GetBuiltins();
        !builtins.is_null() && !ffi::PyDict_GetItemString(builtins, c"__import__".as_ptr()).is_null()
    }
}

/// An attribute that may be a property.
///
/// # Errors
/// The exception of reading it.
pub fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    call(&object.py().import("builtins")?.getattr("getattr")?, (object, name))
}

/// Runs `with` on a thread that is attached. This works also when the interpreter is ending, or not yet initialised,
/// and `Python::attach` doesn't.
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

/// Runs `with` attached, whether or not the calling thread is. This works also before the interpreter is initialised,
/// when `Python::attach` doesn't: 3.15 runs `site` so early. After the interpreter's end it never returns: the
/// interpreter, too, stops a daemon thread that asks for it then.
pub fn attach<R>(with: impl FnOnce(Python<'_>) -> R) -> R {
    struct Ensured(ffi::PyGILState_STATE);

    impl Drop for Ensured {
        fn drop(&mut self) {
            // SAFETY: the state that `PyGILState_Ensure` returned, on its thread.
            unsafe { ffi::PyGILState_Release(self.0) };
        }
    }

    // SAFETY: plain questions; a thread whose state the interpreter knows may be attached by it, and stays so until
    // the guard is dropped.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            while ffi::PyGILState_GetThisThreadState().is_null() {
                std::thread::park(); // to make a new state of the thread would be a crash
            }
            let _ensured = Ensured(ffi::PyGILState_Ensure());
            return with(Python::assume_attached());
        }
    }
    Python::attach(with)
}

/// Lets attached threads use `Python::attach` also when the interpreter is ending: finalisers of the program run then,
/// and hooks of ours in them. A first use at that time would panic.
///
/// Does nothing before the interpreter is initialised: 3.15 runs `site` so early. Another session calls this again.
pub fn may_attach(py: Python<'_>) {
    // SAFETY: a plain question
    if unsafe { ffi::Py_IsInitialized() } != 0 {
        py.detach(|| Python::attach(|_| ()));
    }
}

/// Whether the interpreter is ending. Then no thread but its main one runs any more, and a lock that another thread
/// held when it was stopped stays locked. So nothing is changed after that.
#[cold]
pub fn is_ending(_: Python<'_>) -> bool {
    extern "C" {
        #[cfg_attr(not(Py_3_13), link_name = "_Py_IsFinalizing")]
        fn Py_IsFinalizing() -> c_int;
    }
    // SAFETY: reads one word.
    unsafe { Py_IsFinalizing() != 0 }
}
