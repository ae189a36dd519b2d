//! Exceptions: their classes, texts and arguments.

use super::{encode, names::type_name, Limits};
use crate::object::held::Held;
use inviso_term::etf::{Encoder, Full};
use pyo3::ffi::{self, PyObject, PyTypeObject};

#[cfg(Py_3_12)]
extern "C" {
    fn PyException_GetArgs(error: *mut PyObject) -> *mut PyObject;
}

/// An exception, which may be set but not made yet (3.11): its class, and the instance or its future arguments.
/// Borrowed.
#[derive(Clone, Copy)]
pub struct Raised {
    kind: *mut PyObject,
    value: *mut PyObject,
}

impl Raised {
    /// An exception that has been made.
    ///
    /// # Safety
    /// `error` stands.
    pub unsafe fn made(error: *mut PyObject) -> Raised {
        // SAFETY: the caller promises that `error` stands.
        Raised { kind: unsafe { ffi::Py_TYPE(error).cast() }, value: error }
    }

    /// An exception that is set: `kind` is a class, `value` an instance, the future arguments, or null.
    #[cfg(not(Py_3_12))]
    pub fn set(kind: *mut PyObject, value: *mut PyObject) -> Raised {
        Raised { kind, value }
    }
}

impl Raised {
    /// The exception, or its class if it has not been made yet.
    ///
    /// # Safety
    /// The parts stand.
    pub unsafe fn object(self) -> *mut PyObject {
        // SAFETY: the caller promises that the parts stand.
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
    /// The parts and `class` stand, and the calling thread is attached.
    pub unsafe fn is_a(self, class: *mut PyObject) -> bool {
        // SAFETY: the caller promises that the parts and `class` stand; both are types.
        unsafe { ffi::PyType_Check(self.kind) != 0 && ffi::PyType_IsSubtype(self.kind.cast(), class.cast()) != 0 }
    }
}

impl Raised {
    /// The name of its class, as [`type_name`] has it.
    ///
    /// # Safety
    /// As [`Raised::is_a`].
    pub unsafe fn type_name(self, buffer: &mut [u8; 256]) -> &str {
        // SAFETY: the caller promises that the parts stand; the type is checked.
        unsafe {
            if ffi::PyType_Check(self.kind) == 0 {
                return "";
            }
            type_name(self.kind.cast(), buffer)
        }
    }
}

/// Erlang's class of an exception: `error` for an `Exception`, `exit` for one that ends a program, a thread or a task,
/// `throw` for any other.
///
/// # Safety
/// As [`Raised::is_a`].
pub unsafe fn exception_class(error: Raised) -> &'static str {
    // SAFETY: the caller promises that the parts stand; the mro of a ready type is a tuple of types.
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

/// Writes an exception as `(type, args)`: the type's name as an atom, the arguments as a tuple. They are the arguments
/// with which it was, or will be, made; the class is not called.
///
/// # Safety
/// The parts of `error` stand, and the calling thread is attached and has no exception set.
///
/// # Errors
/// [`Full`].
pub unsafe fn exception(error: Raised, out: &mut Encoder<'_>, limits: &Limits) -> Result<(), Full> {
    let mut name = [0; 256];
    let Raised { kind, value } = error;
    // SAFETY: the types are checked; an exception's arguments are a tuple, or null if making it failed.
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
    // SAFETY: the caller promises an instance of an exception class, which has the base class's fields.
    unsafe {
        #[cfg(Py_3_12)]
        return Held::owned(PyException_GetArgs(error));
        #[cfg(not(Py_3_12))]
        return Held::borrowed((*error.cast::<ffi::PyBaseExceptionObject>()).args);
    }
}
