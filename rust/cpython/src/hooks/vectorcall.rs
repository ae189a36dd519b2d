//! Callable objects made from a bare function: an own type with a vectorcall slot.
//!
//! The interpreter calls such an object through one pointer in it, without the argument checks of a built-in method: 2 to 4
//! ns less an event. An object carries one word of the maker's, read back by [`data`].

use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

/// The function of a callable: the object itself, the positional arguments, their number with the vectorcall flag bit (see
/// [`nargs`]), the tuple of keyword names or null. Returns a new reference, or null with an exception set.
pub type Function = unsafe extern "C" fn(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// An instance as the interpreter sees it.
#[repr(C)]
struct Callable {
    head: ffi::PyObject,
    function: Function,
    data: *mut c_void,
}

const NAME: &CStr = c"inviso._native.Callback";

/// The type, made at the first use and kept for the life of the process.
static TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// Makes a callable object that runs `function`, with `data` for it to read back by [`data`].
///
/// # Safety
/// `function` must keep to [`Function`]'s contract, and `data` must be what it expects for as long as the object lives.
///
/// # Errors
/// What making the type or the object raises (no memory).
pub unsafe fn callable(py: Python<'_>, function: Function, data: *mut c_void) -> PyResult<Py<PyAny>> {
    let class = class(py)?;
    // SAFETY: `class` is a ready type whose basic size is `Callable`'s, so the new object has room for all its fields; the
    // head is filled by the allocation and the rest here, before anyone else sees the object.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class, 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        let callable: *mut Callable = object.as_ptr().cast();
        (*callable).function = function;
        (*callable).data = data;
        Ok(object.unbind())
    }
}

/// Whether an object was made by [`callable`].
///
/// # Errors
/// As there.
pub fn is_callable(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: the type of an object that stands.
    Ok(unsafe { ffi::Py_TYPE(object.as_ptr()) } == class(py)?)
}

/// Whether an object was made by [`callable`] for this function.
///
/// # Safety
/// Attached; the object stands.
pub unsafe fn runs(object: *mut ffi::PyObject, function: Function) -> bool {
    // SAFETY: the caller's promise; the exact type is looked at before the field is read.
    unsafe {
        ffi::Py_TYPE(object) == TYPE.load(Ordering::Acquire)
            && (*object.cast::<Callable>()).function as usize == function as usize
    }
}

/// Exchanges the word that the callable's maker gave it.
///
/// # Safety
/// `this` was made by [`callable`], and its function may find either word; attached.
pub unsafe fn exchange(this: *mut ffi::PyObject, data: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise; one word of an object that stands.
    unsafe { AtomicPtr::from_ptr(&raw mut (*this.cast::<Callable>()).data) }.swap(data, Ordering::AcqRel)
}

/// The word that the callable's maker gave it.
///
/// # Safety
/// `this` must be an object made by [`callable`]: the first argument of its function.
#[inline]
pub unsafe fn data(this: *mut ffi::PyObject) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { (*this.cast::<Callable>()).data }
}

/// The number of positional arguments in `nargsf`.
#[inline]
pub const fn nargs(nargsf: usize) -> usize {
    nargsf & !(1 << (usize::BITS - 1))
}

/// `None` as a new reference: what a callback returns to let things go on.
#[inline(always)]
pub fn none() -> *mut ffi::PyObject {
    // SAFETY: None lives as long as the interpreter; where it is not immortal (3.11) its count is raised, as a callback
    // holds the GIL.
    unsafe {
        let none = ffi::Py_None();
        #[cfg(not(Py_3_12))]
        ffi::Py_INCREF(none);
        none
    }
}

fn class(py: Python<'_>) -> PyResult<*mut ffi::PyTypeObject> {
    let known = TYPE.load(Ordering::Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    let mut members = [
        ffi::PyMemberDef {
            name: c"__vectorcalloffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: offset_of!(Callable, function) as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null::<c_char>(),
        },
        // SAFETY: an entry of zeros ends the list; each field is a number or a pointer that may be null.
        unsafe { std::mem::zeroed() },
    ];
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_tp_members, pfunc: members.as_mut_ptr().cast() },
        ffi::PyType_Slot { slot: ffi::Py_tp_call, pfunc: ffi::PyVectorcall_Call as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: NAME.as_ptr(),
        basicsize: size_of::<Callable>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT
            | ffi::Py_TPFLAGS_HAVE_VECTORCALL
            | ffi::Py_TPFLAGS_IMMUTABLETYPE
            | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: name is static, slots and members outlive the call, which copies them (the members into the type).
    let made = unsafe { ffi::PyType_FromSpec(&raw mut spec) };
    if made.is_null() {
        return Err(PyErr::fetch(py));
    }
    match TYPE.compare_exchange(ptr::null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(made.cast()),
        Err(first) => {
            // SAFETY: another thread was first; ours is a reference that nobody else has.
            unsafe { ffi::Py_DECREF(made) };
            Ok(first)
        }
    }
}
