//! Exceptions: their classes, texts and arguments.

use super::{encode, names::type_name, Limits};
use crate::object::held::Held;
use inviso_term::etf::{Encoder, Full};
use pyo3::ffi::{self, PyObject, PyTypeObject};

#[cfg(Py_3_12)]
extern "C" {
    fn PyException_GetArgs(error: *mut PyObject) -> *mut PyObject;
}

/// An exception, which may be set but not made yet (3.11): its class, and itself or what it will be made of. Borrowed.
#[derive(Clone, Copy)]
pub struct Raised {
    kind: *mut PyObject,
    value: *mut PyObject,
}

impl Raised {
    /// One that has been made.
    ///
    /// # Safety
    /// `error` stands.
    pub unsafe fn made(error: *mut PyObject) -> Raised {
        // SAFETY: the caller's promise.
        Raised { kind: unsafe { ffi::Py_TYPE(error).cast() }, value: error }
    }

    /// One that is set: `kind` a class, `value` an instance, what one is to be made of, or null.
    #[cfg(not(Py_3_12))]
    pub fn set(kind: *mut PyObject, value: *mut PyObject) -> Raised {
        Raised { kind, value }
    }
}

impl Raised {
    /// The exception, or its class if it has not been made yet.
    ///
    /// # Safety
    /// What it holds stands.
    pub unsafe fn object(self) -> *mut PyObject {
        // SAFETY: the caller's promise.
        let made = !self.value.is_null() && unsafe { ffi::PyExceptionInstance_Check(self.value) } != 0;
        if made {
            self.value
        } else {
            self.kind
        }
    }

    /// Whether it is an instance of an exception class.
    ///
    /// # Safety
    /// What it holds and `class` stand, and the calling thread is attached.
    pub unsafe fn is_a(self, class: *mut PyObject) -> bool {
        // SAFETY: the caller's promise; both are types.
        unsafe { ffi::PyType_Check(self.kind) != 0 && ffi::PyType_IsSubtype(self.kind.cast(), class.cast()) != 0 }
    }
}

impl Raised {
    /// The name of its class, as [`type_name`] has it.
    ///
    /// # Safety
    /// As [`Raised::is_a`].
    pub unsafe fn type_name(self, buffer: &mut [u8; 256]) -> &str {
        // SAFETY: the caller's promise; the type is checked.
        unsafe {
            if ffi::PyType_Check(self.kind) == 0 {
                return "";
            }
            type_name(self.kind.cast(), buffer)
        }
    }
}

/// Erlang's class of an exception: `error` of an `Exception`, `exit` of what ends a program, a thread or a task, `throw` of any
/// other.
///
/// # Safety
/// As [`Raised::is_a`].
pub unsafe fn exception_class(error: Raised) -> &'static str {
    // SAFETY: the caller's promise; the order of a ready type is a tuple of types.
    unsafe {
        if error.is_a(ffi::PyExc_Exception) {
            return "error";
        }
        if [ffi::PyExc_SystemExit, ffi::PyExc_KeyboardInterrupt, ffi::PyExc_GeneratorExit]
            .iter()
            .any(|c| error.is_a(*c))
        {
            return "exit";
        }
        let order = (*error.kind.cast::<PyTypeObject>()).tp_mro;
        let mut buffer = [0; 256];
        let cancelled = !order.is_null()
            && (0..ffi::PyTuple_GET_SIZE(order)).any(|i| {
                type_name(ffi::PyTuple_GET_ITEM(order, i).cast(), &mut buffer) == "asyncio.exceptions.CancelledError"
            });
        if cancelled {
            "exit"
        } else {
            "throw"
        }
    }
}

/// Writes an exception as `(type, args)`: the type's name as an atom, the arguments as a tuple. They are what it was made
/// of, also if it hasn't been yet; the class is not called.
///
/// # Safety
/// What `error` holds stands, and the calling thread is attached and has no exception set.
///
/// # Errors
/// [`Full`].
pub unsafe fn exception(error: Raised, out: &mut Encoder<'_>, limits: &Limits) -> Result<(), Full> {
    let mut name = [0; 256];
    let Raised { kind, value } = error;
    // SAFETY: the types are checked; an exception's arguments are a tuple, or null if its making went wrong.
    unsafe {
        out.tuple(2)?;
        if !value.is_null() && ffi::PyExceptionInstance_Check(value) != 0 {
            out.atom(type_name(ffi::Py_TYPE(value), &mut name))?;
            let args = arguments(value);
            if args.is_null() {
                return out.tuple(0);
            }
            return encode(args.as_ptr(), out, limits);
        }
        out.atom(type_name(kind.cast(), &mut name))?;
        if value.is_null() || value == ffi::Py_None() {
            return out.tuple(0);
        }
        if ffi::PyTuple_Check(value) == 0 {
            out.tuple(1)?;
        }
        encode(value, out, limits)
    }
}

/// The exception's arguments: a tuple, or null.
///
/// # Safety
/// `error` is an instance of an exception class, which stands; and the calling thread is attached.
pub unsafe fn arguments(error: *mut PyObject) -> Held {
    // SAFETY: an exception instance (the callers'), so that it has the base class's fields.
    unsafe {
        #[cfg(Py_3_12)]
        return Held::owned(PyException_GetArgs(error));
        #[cfg(not(Py_3_12))]
        return Held::borrowed((*error.cast::<ffi::PyBaseExceptionObject>()).args);
    }
}
