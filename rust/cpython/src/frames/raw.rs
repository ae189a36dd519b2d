//! The fields of frames, code objects and functions, read from the interpreter's memory: one to three loads each.
//! `public` has the same functions.
//!
//! A frame's word is the address of the interpreter's frame. All of it holds only while
//! [`layout::raw_ok`](crate::layout::raw_ok) is true. Each function is unsafe for that reason; its object stands.

use pyo3::ffi::{self, PyObject, PyThreadState};

use crate::layout::{self, at as read, code as co, frame as at, function as fun};
use crate::object::{
    held::{locked, Held},
    interned::Interned,
};

/// The frame that `tstate` runs, or null.
#[inline(always)]
pub unsafe fn current(tstate: *mut PyThreadState) -> *mut u8 {
    // SAFETY: the offsets are this version's. `cframe` (before 3.13) always points to a record on the C stack or in the
    // thread state itself; the word there is a frame or null.
    unsafe {
        #[cfg(not(Py_3_13))]
        let base: *mut u8 = read(tstate.cast(), layout::thread::CFRAME);
        #[cfg(Py_3_13)]
        let base: *mut u8 = tstate.cast();
        read(base, layout::thread::CURRENT_FRAME)
    }
}

/// The frame of an event, which is there.
#[inline(always)]
pub unsafe fn certain(frame: Option<super::frame::Frame>) -> super::frame::Frame {
    // SAFETY: the caller promises an event.
    unsafe { frame.unwrap_unchecked() }
}

/// Whether the frame is the mark of C code that called Python.
#[inline(always)]
pub unsafe fn is_shim(frame: *mut u8) -> bool {
    // SAFETY: a byte inside the frame.
    unsafe { read::<i8>(frame, at::OWNER) >= layout::OWNER_SHIM }
}

/// The code object, borrowed.
#[inline(always)]
pub unsafe fn code(frame: *mut u8) -> *mut PyObject {
    // SAFETY: the word holds an object, tagged from 3.14 on.
    unsafe { object(read(frame, at::CODE)) }
}

/// The function object, borrowed; null or `None` if the frame has none.
#[inline(always)]
pub unsafe fn function(frame: *mut u8) -> *mut PyObject {
    // SAFETY: the word holds an object or null, tagged from 3.14 on.
    unsafe { object(read(frame, at::FUNCTION)) }
}

/// Whether the frame is that of a call of this function.
#[inline(always)]
pub unsafe fn runs(frame: *mut u8, wanted: *mut PyObject) -> bool {
    // SAFETY: the caller promises a frame that stands.
    unsafe { function(frame) == wanted }
}

/// Null: a function's own cells have its captured variables.
#[inline(always)]
pub unsafe fn free(_frame: *mut u8, _name: &Interned) -> Held {
    Held::borrowed(std::ptr::null_mut())
}

/// The globals, borrowed.
#[inline(always)]
pub unsafe fn globals(frame: *mut u8) -> *mut PyObject {
    // SAFETY: a plain object pointer on every version.
    unsafe { read(frame, at::GLOBALS) }
}

/// The next outer frame, or null.
#[inline(always)]
pub unsafe fn below(frame: *mut u8) -> *mut u8 {
    // SAFETY: the chain of a running frame ends with null.
    unsafe { read(frame, at::PREVIOUS) }
}

/// Whether the frame lies inside a generator.
#[inline(always)]
pub unsafe fn is_generator_frame(frame: *mut u8) -> bool {
    // SAFETY: a byte inside the frame.
    unsafe { read::<i8>(frame, at::OWNER) == layout::OWNER_GENERATOR }
}

/// The generator that a frame lies in, borrowed.
#[inline(always)]
pub unsafe fn generator(frame: *mut u8) -> *mut PyObject {
    // SAFETY: such a frame is the tail of its generator object, at a fixed distance.
    unsafe { frame.sub(layout::GENERATOR_FRAME).cast() }
}

/// The frame in a generator, coroutine or asynchronous generator. Of one that has ended only the address may be used.
#[inline(always)]
pub unsafe fn of_generator(generator: *mut PyObject) -> *mut u8 {
    // SAFETY: each of the three types has its frame at the same distance.
    unsafe { generator.cast::<u8>().add(layout::GENERATOR_FRAME) }
}

/// The frame that a frame object stands for, or null.
#[inline]
pub unsafe fn of_object(object: *mut PyObject) -> *mut u8 {
    // SAFETY: after its head a frame object has its caller, then its frame.
    unsafe { read(object.cast(), layout::HEAD + 8) }
}

/// Local variable `i` in the order of `co_localsplusnames`, borrowed; null if unbound; a cell for a captured one.
#[inline(always)]
pub unsafe fn local(frame: *mut u8, i: usize) -> *mut PyObject {
    // SAFETY: the slot lies inside the frame.
    unsafe { object(read(frame, at::LOCALS + i * size_of::<usize>())) }
}

/// The value of a captured variable: the contents of its cell, or what else is in its place.
#[inline]
pub unsafe fn captured(frame: *mut u8, i: usize) -> Held {
    // SAFETY: by the code's own table the variable is captured, so its slot holds null or, from the function's first
    // instruction on, a cell; the type is checked all the same.
    unsafe {
        let cell = local(frame, i);
        if cell.is_null() || ffi::Py_TYPE(cell) != &raw mut ffi::PyCell_Type {
            return Held::borrowed(cell);
        }
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::borrowed(read(cell.cast(), layout::CELL_CONTENTS));
        #[cfg(Py_GIL_DISABLED)]
        return Held::owned(ffi::PyCell_Get(cell));
    }
}

/// `co_argcount`, `co_posonlyargcount`, `co_kwonlyargcount`, `co_flags`.
#[inline(always)]
pub unsafe fn counts(code: *mut PyObject) -> [u32; 4] {
    let base: *mut u8 = code.cast();
    // SAFETY: plain integers.
    unsafe {
        [
            read(base, co::ARGCOUNT),
            read(base, co::POSONLYARGCOUNT),
            read(base, co::KWONLYARGCOUNT),
            read(base, co::FLAGS),
        ]
    }
}

/// The kinds of the local variables, a byte each, which the code owns and never changes.
#[inline(always)]
pub unsafe fn kinds(code: *mut PyObject) -> *const u8 {
    // SAFETY: a bytes object.
    unsafe { read::<*const u8>(code.cast(), co::LOCALSPLUSKINDS).add(layout::BYTES_DATA) }
}

/// Whether the slot of local variable `i` holds a cell.
#[inline(always)]
pub unsafe fn is_cell(kinds: *const u8, i: usize) -> bool {
    const CO_FAST_CELL: u8 = 0x40;
    // SAFETY: one kind for each local.
    unsafe { *kinds.add(i) & CO_FAST_CELL != 0 }
}

/// The names of the local variables, a tuple, borrowed.
#[inline(always)]
pub unsafe fn local_names(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: set when the code is made, never changed.
    unsafe { read(code.cast(), co::LOCALSPLUSNAMES) }
}

/// `co_qualname`, borrowed.
#[inline(always)]
pub unsafe fn code_qualname(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: set when the code is made, never changed.
    unsafe { read(code.cast(), co::QUALNAME) }
}

/// `co_filename`, borrowed.
#[inline(always)]
pub unsafe fn code_filename(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: a code object always has a file name.
    unsafe { read(code.cast(), co::FILENAME) }
}

/// `co_consts`, borrowed.
#[inline(always)]
pub unsafe fn code_constants(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: set when the code is made, never changed.
    unsafe { read(code.cast(), co::CONSTANTS) }
}

/// `co_firstlineno`.
#[inline(always)]
pub unsafe fn code_first_line(code: *mut PyObject) -> i32 {
    // SAFETY: a plain integer.
    unsafe { read(code.cast(), co::FIRSTLINENO) }
}

/// `__qualname__` of a function.
#[inline(always)]
pub unsafe fn function_qualname(function: *mut PyObject) -> Held {
    // SAFETY: a function always has a qualified name, a str.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::borrowed(read(function.cast(), fun::QUALNAME));
        #[cfg(Py_GIL_DISABLED)]
        return locked(function, || {
            let name: *mut PyObject = read(function.cast(), fun::QUALNAME);
            ffi::Py_XINCREF(name);
            Held::owned(name)
        });
    }
}

/// Whether the dict of a function has the key; a function may have no dict.
pub unsafe fn function_has(function: *mut PyObject, key: *mut PyObject) -> bool {
    // SAFETY: a function has a place for its dict.
    unsafe {
        locked(function, || {
            let dict: *mut PyObject = read(function.cast(), ffi::PyFunction_Type.tp_dictoffset as usize);
            !dict.is_null() && !crate::object::held::dict_get(dict, key).is_null()
        })
    }
}

/// The state of a generator or coroutine: it grows from its beginning to its end.
#[inline(always)]
pub unsafe fn generator_state(generator: *mut PyObject) -> i8 {
    // SAFETY: a byte inside a coroutine or generator, before its frame.
    unsafe { read(generator.cast(), layout::GENERATOR_STATE) }
}

/// The object of a word that may be tagged in its low bits (3.14 on).
#[inline(always)]
fn object(word: usize) -> *mut PyObject {
    (word & layout::OBJECT_MASK) as *mut PyObject
}
