//! What `raw` has, by CPython's public functions (3.12 on): for interpreters whose memory is not known.
//!
//! A frame's word is the address of its frame object, which is made at the first look and stays with the frame.
//! So objects that a function returns may be borrowed here too: the frame, code, or function holds each of them.
//!
//! | | differs |
//! | --- | --- |
//! | [`function`] | not known: null. [`runs`] goes by the code and the captured values, [`free`] reads them |
//! | [`local`] | a variable of `co_varnames`; of a captured one the value, not the cell |
//! | [`of_generator`] | null for one that has ended. Audit hooks see the attribute's read |
//!
//! Each function is unsafe: its object stands, and the calling thread is attached. No exception is left; one that is
//! set is kept.

use std::ptr::null_mut;

use pyo3::ffi::{self, PyFrameObject, PyObject, PyThreadState};

use crate::interpreter::Aside;
use crate::object::held::{dict_get, locked, Held};
use crate::object::int;
use crate::object::interned::Interned;

extern "C" {
    fn PyFrame_GetGenerator(frame: *mut PyFrameObject) -> *mut PyObject;
    fn PyFrame_GetVar(frame: *mut PyFrameObject, name: *mut PyObject) -> *mut PyObject;
    fn PyCode_GetVarnames(code: *mut PyObject) -> *mut PyObject;
    fn PyCode_GetFreevars(code: *mut PyObject) -> *mut PyObject;
}

/// The frame that `tstate` runs, or null.
pub unsafe fn current(tstate: *mut PyThreadState) -> *mut u8 {
    // SAFETY: the caller promises an attached thread. The frame holds its object.
    unsafe { quiet(|| kept(ffi::PyThreadState_GetFrame(tstate).cast()).cast()) }
}

/// The frame of an event, which is there unless there is no memory for its object. The door catches the panic.
pub unsafe fn certain(frame: Option<super::frame::Frame>) -> super::frame::Frame {
    frame.expect("no memory for a frame object")
}

/// No frame object is a mark of C code.
#[inline(always)]
pub unsafe fn is_shim(_frame: *mut u8) -> bool {
    false
}

/// The code object, borrowed.
pub unsafe fn code(frame: *mut u8) -> *mut PyObject {
    // SAFETY: the caller promises a frame that stands, which holds its code.
    unsafe { kept(ffi::PyFrame_GetCode(frame.cast()).cast()) }
}

/// Null: no public function has it.
#[inline(always)]
pub unsafe fn function(_frame: *mut u8) -> *mut PyObject {
    null_mut()
}

/// Whether the frame is that of a call of this function, or of another one with its code and the same captured values.
pub unsafe fn runs(frame: *mut u8, wanted: *mut PyObject) -> bool {
    // SAFETY: the type is checked. A function has a cell for each free variable of its code.
    unsafe {
        if wanted.is_null() || ffi::PyFunction_Check(wanted) == 0 || ffi::PyFunction_GetCode(wanted) != code(frame) {
            return false;
        }
        let cells = ffi::PyFunction_GetClosure(wanted);
        if cells.is_null() {
            return true;
        }
        let names = Held::owned(quiet(|| PyCode_GetFreevars(code(frame))));
        let count = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names.as_ptr()) };
        (0..count.min(ffi::PyTuple_GET_SIZE(cells))).all(|i| {
            let here = Held::owned(quiet(|| PyFrame_GetVar(frame.cast(), ffi::PyTuple_GET_ITEM(names.as_ptr(), i))));
            let there = Held::owned(ffi::PyCell_Get(ffi::PyTuple_GET_ITEM(cells, i)));
            here.as_ptr() == there.as_ptr()
        })
    }
}

/// The value of a captured variable of this name; null without one.
pub unsafe fn free(frame: *mut u8, name: &Interned) -> Held {
    // SAFETY: the caller promises a frame that stands.
    unsafe { Held::owned(quiet(|| PyFrame_GetVar(frame.cast(), name.get()))) }
}

/// The globals, borrowed.
pub unsafe fn globals(frame: *mut u8) -> *mut PyObject {
    // SAFETY: the caller promises a frame that stands, which holds its globals.
    unsafe { kept(ffi::PyFrame_GetGlobals(frame.cast())) }
}

/// The next outer frame, or null.
pub unsafe fn below(frame: *mut u8) -> *mut u8 {
    // SAFETY: the caller promises a frame that runs; so does its caller, which holds its object.
    unsafe { quiet(|| kept(ffi::PyFrame_GetBack(frame.cast()).cast()).cast()) }
}

/// Whether the frame lies inside a generator.
pub unsafe fn is_generator_frame(frame: *mut u8) -> bool {
    const GENERATORS: i32 = ffi::CO_GENERATOR | ffi::CO_COROUTINE | ffi::CO_ASYNC_GENERATOR;
    // SAFETY: the caller promises a frame that stands.
    unsafe { counts(code(frame))[3] & GENERATORS as u32 != 0 }
}

/// The generator that a frame lies in, borrowed; null if it has none.
pub unsafe fn generator(frame: *mut u8) -> *mut PyObject {
    // SAFETY: the caller promises a frame that stands; its generator holds it.
    unsafe { kept(PyFrame_GetGenerator(frame.cast())) }
}

/// The frame in a generator, coroutine or asynchronous generator; null if it has ended.
pub unsafe fn of_generator(generator: *mut PyObject) -> *mut u8 {
    // SAFETY: the caller promises one of the three types; the generator's frame holds its object.
    unsafe {
        let frame = kept(attribute(generator, &of_kind(generator).frame));
        if frame == ffi::Py_None() {
            return null_mut();
        }
        frame.cast()
    }
}

/// The frame that a frame object stands for.
#[inline(always)]
pub unsafe fn of_object(object: *mut PyObject) -> *mut u8 {
    object.cast()
}

/// Local variable `i` in the order of `co_varnames`, borrowed; null if unbound.
pub unsafe fn local(frame: *mut u8, i: usize) -> *mut PyObject {
    // SAFETY: the caller promises a frame that stands. It, or a cell of it, holds the value.
    unsafe { kept(captured(frame, i).into_ptr()) }
}

/// The same, with a reference: another thread may change a captured variable.
pub unsafe fn captured(frame: *mut u8, i: usize) -> Held {
    // SAFETY: the caller promises a frame that stands.
    unsafe {
        let names = local_names(code(frame));
        if names.is_null() || i as ffi::Py_ssize_t >= ffi::PyTuple_GET_SIZE(names) {
            return Held::borrowed(null_mut());
        }
        let name = ffi::PyTuple_GET_ITEM(names, i as ffi::Py_ssize_t);
        Held::owned(quiet(|| PyFrame_GetVar(frame.cast(), name)))
    }
}

/// `co_argcount`, `co_posonlyargcount`, `co_kwonlyargcount`, `co_flags`.
pub unsafe fn counts(code: *mut PyObject) -> [u32; 4] {
    static NAMES: [Interned; 4] = [
        Interned::new(c"co_argcount"),
        Interned::new(c"co_posonlyargcount"),
        Interned::new(c"co_kwonlyargcount"),
        Interned::new(c"co_flags"),
    ];
    // SAFETY: the caller promises a code object.
    unsafe { [0, 1, 2, 3].map(|n: usize| number(code, &NAMES[n])) }
}

/// Nothing: see [`is_cell`].
#[inline(always)]
pub unsafe fn kinds(_code: *mut PyObject) -> *const u8 {
    std::ptr::null()
}

/// Any variable may be captured: [`captured`] has the value of each.
#[inline(always)]
pub unsafe fn is_cell(_kinds: *const u8, _i: usize) -> bool {
    true
}

/// `co_varnames`, borrowed: the code keeps it after the first look.
pub unsafe fn local_names(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller promises a code object.
    unsafe { quiet(|| kept(PyCode_GetVarnames(code))) }
}

/// `co_qualname`, borrowed.
pub unsafe fn code_qualname(code: *mut PyObject) -> *mut PyObject {
    static NAME: Interned = Interned::new(c"co_qualname");
    // SAFETY: the caller promises a code object, which holds its attribute.
    unsafe { kept(attribute(code, &NAME)) }
}

/// `co_filename`, borrowed.
pub unsafe fn code_filename(code: *mut PyObject) -> *mut PyObject {
    static NAME: Interned = Interned::new(c"co_filename");
    // SAFETY: the caller promises a code object, which holds its attribute.
    unsafe { kept(attribute(code, &NAME)) }
}

/// `co_consts`, borrowed.
pub unsafe fn code_constants(code: *mut PyObject) -> *mut PyObject {
    static NAME: Interned = Interned::new(c"co_consts");
    // SAFETY: the caller promises a code object, which holds its attribute.
    unsafe { kept(attribute(code, &NAME)) }
}

/// `co_firstlineno`.
pub unsafe fn code_first_line(code: *mut PyObject) -> i32 {
    static NAME: Interned = Interned::new(c"co_firstlineno");
    // SAFETY: the caller promises a code object.
    unsafe { number(code, &NAME) as i32 }
}

/// `__qualname__` of a function.
pub unsafe fn function_qualname(function: *mut PyObject) -> Held {
    static NAME: Interned = Interned::new(c"__qualname__");
    // SAFETY: the caller promises an exact function: no code of the program runs.
    unsafe { Held::owned(attribute(function, &NAME)) }
}

/// Whether the dict of a function has the key.
pub unsafe fn function_has(function: *mut PyObject, key: *mut PyObject) -> bool {
    // SAFETY: the caller promises an exact function, whose dict is an exact one.
    unsafe {
        let dict = quiet(|| Held::owned(ffi::PyObject_GenericGetDict(function, null_mut())));
        !dict.is_null() && locked(function, || !dict_get(dict.as_ptr(), key).is_null())
    }
}

/// The state of a generator or coroutine, in the numbers of CPython 3.12: -2 at its beginning, -1 while it waits, 0 while
/// it runs, 1 at its end.
pub unsafe fn generator_state(generator: *mut PyObject) -> i8 {
    // SAFETY: the caller promises a generator or coroutine: its attributes run no code of the program.
    unsafe {
        let kind = of_kind(generator);
        let is = |name| Held::owned(attribute(generator, name)).as_ptr() == ffi::Py_True();
        if is(&kind.suspended) {
            -1
        } else if is(&kind.running) {
            0
        } else if of_generator(generator).is_null() {
            1
        } else {
            -2
        }
    }
}

/// The names of a generator's attributes.
struct Kind {
    frame: Interned,
    suspended: Interned,
    running: Interned,
}

/// # Safety
/// `generator` is a generator, coroutine or asynchronous generator.
unsafe fn of_kind(generator: *mut PyObject) -> &'static Kind {
    macro_rules! kind {
        ($frame:literal, $suspended:literal, $running:literal) => {
            Kind {
                frame: Interned::new($frame),
                suspended: Interned::new($suspended),
                running: Interned::new($running),
            }
        };
    }
    static KINDS: [Kind; 3] = [
        kind!(c"cr_frame", c"cr_suspended", c"cr_running"),
        kind!(c"gi_frame", c"gi_suspended", c"gi_running"),
        kind!(c"ag_frame", c"ag_suspended", c"ag_running"),
    ];
    // SAFETY: the caller promises an object that stands.
    let class = unsafe { ffi::Py_TYPE(generator) };
    if class == &raw mut ffi::PyCoro_Type {
        &KINDS[0]
    } else if class == &raw mut ffi::PyGen_Type {
        &KINDS[1]
    } else {
        &KINDS[2]
    }
}

/// An attribute of an object of a built-in type, a new reference; null if it can't be read.
unsafe fn attribute(object: *mut PyObject, name: &Interned) -> *mut PyObject {
    // SAFETY: the caller promises an object that stands, and an attached thread.
    unsafe { quiet(|| ffi::PyObject_GetAttr(object, name.get())) }
}

/// An attribute that is an int.
unsafe fn number(object: *mut PyObject, name: &Interned) -> u32 {
    // SAFETY: the caller promises an object that stands; the attribute's type is checked.
    unsafe {
        let value = Held::owned(attribute(object, name));
        if value.is_null() || ffi::PyLong_Check(value.as_ptr()) == 0 {
            return 0;
        }
        int::value(value.as_ptr()).unwrap_or(0) as u32
    }
}

/// Gives back a new reference to an object that another one holds.
unsafe fn kept(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller promises that another object holds it, so that it stands.
    unsafe { ffi::Py_XDECREF(object) };
    object
}

/// Calls a function that may raise, with the exception that is set put aside. Drops what it raises.
unsafe fn quiet<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the caller promises an attached thread.
    unsafe {
        let aside = Aside::new();
        let result = call();
        ffi::PyErr_Clear();
        drop(aside);
        result
    }
}
