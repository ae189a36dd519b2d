//! The interpreter frame, read raw: its code, function, globals, caller and arguments.
//!
//! Nothing here calls Python, makes a frame object or fails; a read is one to four loads. All of it holds only while
//! [`layout::raw_ok`](crate::layout::raw_ok) is true, on the thread that runs the frame, and between the event that the
//! frame is looked at from and that event's return.
//!
//! Objects come *borrowed*: the frame keeps them alive while it stands. Where another thread could take an object away
//! in between (a closure cell on a free-threaded build) a [`Held`] owns it instead.

use std::ptr::NonNull;

use pyo3::ffi::{self, PyObject, PyThreadState};

use super::fields;
#[cfg(not(Py_3_12))]
use crate::layout::{self, at as read};
use crate::object::interned::Interned;

pub use super::code::{
    arity, code_constants, code_filename, code_first_line, code_qualname, module_of, name_of, qualname_of, CodeLayout,
};
pub use crate::object::held::Held;

/// A frame of CPython's evaluation loop that is on the stack of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(NonNull<u8>);

impl Frame {
    /// The frame that `tstate` runs, shims of C code included (see [`Frame::is_shim`]). In an event's callback that is
    /// the event's frame. In a frame evaluation function (3.11), before it calls the original, it is the *caller's*:
    /// the function gets its own frame as an argument.
    ///
    /// # Safety
    /// `tstate` is the calling thread's, attached, and the offsets are checked ([`layout::raw_ok`]).
    #[inline(always)]
    pub unsafe fn current(tstate: *mut PyThreadState) -> Option<Frame> {
        // SAFETY: the caller promises the calling thread's own state.
        unsafe { Frame::from_ptr(fields::current(tstate)) }
    }

    /// The frame that `tstate` runs, which is there: in an event's callback (3.12 on).
    ///
    /// # Safety
    /// As [`Frame::current`]; the thread runs a Python function.
    #[inline(always)]
    pub unsafe fn of_event(tstate: *mut PyThreadState) -> Frame {
        // SAFETY: the caller promises that there is a frame.
        unsafe { fields::certain(Frame::current(tstate)) }
    }

    /// The innermost Python frame that `tstate` runs, shims skipped.
    ///
    /// # Safety
    /// As [`Frame::current`].
    #[inline]
    pub unsafe fn current_python(tstate: *mut PyThreadState) -> Option<Frame> {
        // SAFETY: the caller promises that `tstate` is the calling thread's, attached, and the offsets are checked
        // ([`layout::raw_ok`]).
        unsafe { Frame::current(tstate).and_then(|frame| frame.skip_shims()) }
    }

    /// The frame at `address`, as CPython passes it to a frame evaluation function; `None` for null.
    ///
    /// # Safety
    /// `address` is null or a frame that stands for as long as the result is used.
    #[inline(always)]
    pub unsafe fn from_ptr(address: *mut u8) -> Option<Frame> {
        NonNull::new(address).map(Frame)
    }

    /// The frame's identity while it stands; a later frame may have the same.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Whether this is not a Python function's frame but the mark of C code that called Python.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn is_shim(self) -> bool {
        // SAFETY: the caller promises a frame that stands.
        unsafe { fields::is_shim(self.0.as_ptr()) }
    }

    /// The code object, borrowed. For a shim it may be `None` or a code of the interpreter's own.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn code(self) -> *mut PyObject {
        // SAFETY: the caller promises a frame that stands.
        unsafe { fields::code(self.0.as_ptr()) }
    }

    /// The function object, borrowed; null or `None` if the frame has none, and null where only public functions are
    /// used.
    ///
    /// # Safety
    /// The frame stands, is not a shim, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn function(self) -> *mut PyObject {
        // SAFETY: the caller promises a frame that stands.
        unsafe { fields::function(self.0.as_ptr()) }
    }

    /// Whether this is the frame of a call of `function`. Where only public functions are used, another function with
    /// its code and its captured values is taken for it.
    ///
    /// # Safety
    /// As [`Frame::function`]; `function` is null or stands.
    #[inline(always)]
    pub unsafe fn runs(self, function: *mut PyObject) -> bool {
        // SAFETY: the caller promises a frame and a function that stand.
        unsafe { fields::runs(self.0.as_ptr(), function) }
    }

    /// The value of a captured variable, where the frame has no function: where only public functions are used. Else
    /// null.
    ///
    /// # Safety
    /// As [`Frame::function`].
    pub unsafe fn free(self, name: &Interned) -> Held {
        // SAFETY: the caller promises a frame that stands.
        unsafe { fields::free(self.0.as_ptr(), name) }
    }

    /// The globals, borrowed: a dict, or the argument of `exec`.
    ///
    /// # Safety
    /// The frame stands, is not a shim, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn globals(self) -> *mut PyObject {
        // SAFETY: the caller promises a frame that stands.
        unsafe { fields::globals(self.0.as_ptr()) }
    }

    /// The Python frame that called this one, C functions in between skipped. For a generator's frame: the frame that
    /// resumed it.
    ///
    /// # Safety
    /// The frame *runs* (a suspended one has a stale caller), is linked (on 3.11 not before the frame evaluation
    /// function has called the original: use [`Frame::current`] there), and the offsets are checked.
    #[inline]
    pub unsafe fn caller(self) -> Option<Frame> {
        // SAFETY: the chain of a running frame ends with null.
        unsafe { Frame::from_ptr(fields::below(self.0.as_ptr())).and_then(|frame| frame.skip_shims()) }
    }

    /// The next outer frame, shims included; `None` at the end of the stack.
    ///
    /// # Safety
    /// As [`Frame::caller`].
    pub unsafe fn below(self) -> Option<Frame> {
        // SAFETY: the caller promises that the frame runs; the chain of a running frame ends with null.
        unsafe { Frame::from_ptr(fields::below(self.0.as_ptr())) }
    }

    /// Whether the frame lies inside a generator, coroutine or asynchronous generator.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn is_generator_frame(self) -> bool {
        // SAFETY: the caller promises a frame that stands.
        unsafe { fields::is_generator_frame(self.0.as_ptr()) }
    }

    /// The generator, coroutine or asynchronous generator that the frame lies in, borrowed; null for any other frame.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline]
    pub unsafe fn generator(self) -> *mut PyObject {
        // SAFETY: the caller promises a frame that stands.
        unsafe {
            if self.is_generator_frame() {
                fields::generator(self.0.as_ptr())
            } else {
                std::ptr::null_mut()
            }
        }
    }

    /// The frame in a generator, coroutine or asynchronous generator, running or not; `None` for any other object. Of
    /// one that has ended, only the address and [`Frame::generator`] may be used.
    ///
    /// # Safety
    /// `object` stands as long as the result is used.
    #[inline]
    pub unsafe fn of_generator(object: *mut PyObject) -> Option<Frame> {
        // SAFETY: the exact types are checked.
        unsafe {
            let class = ffi::Py_TYPE(object);
            let known = [&raw mut ffi::PyCoro_Type, &raw mut ffi::PyGen_Type, &raw mut ffi::PyAsyncGen_Type];
            if !known.contains(&class) {
                return None;
            }
            Frame::from_ptr(fields::of_generator(object))
        }
    }

    /// The frame that a frame object stands for.
    ///
    /// # Safety
    /// `object` is a frame object of a frame that runs or waits, and the offsets are checked.
    #[inline]
    pub unsafe fn of_object(object: *mut PyObject) -> Option<Frame> {
        // SAFETY: the caller promises a frame object.
        unsafe { Frame::from_ptr(fields::of_object(object)) }
    }

    /// The address of the instruction that ran last, or runs.
    ///
    /// # Safety
    /// The frame stands, is not a shim, and the offsets are checked.
    #[cfg(not(Py_3_12))]
    #[inline(always)]
    pub unsafe fn last_instruction(self) -> usize {
        // SAFETY: a word inside the frame.
        unsafe { read(self.0.as_ptr(), layout::eval::LAST_INSTRUCTION) }
    }

    /// Whether a generator's frame that is about to run has run before: this is a resume, not the beginning.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[cfg(not(Py_3_12))]
    #[inline]
    pub unsafe fn has_begun(self) -> bool {
        // SAFETY: the last instruction lies in the frame's own code; only instructions that make the generator come
        // before the first of the function's own.
        unsafe {
            let code: *mut u8 = self.code().cast();
            let last = self.last_instruction();
            let first: i32 = read(code, layout::eval::FIRST_TRACEABLE);
            last >= code as usize + layout::eval::INSTRUCTIONS + first as usize * 2
        }
    }

    /// The frame object, borrowed; null if none was made.
    ///
    /// # Safety
    /// The frame stands, is not a shim, and the offsets are checked.
    #[cfg(not(Py_3_12))]
    #[inline(always)]
    pub unsafe fn frame_object(self) -> *mut PyObject {
        // SAFETY: a plain object pointer.
        unsafe { read(self.0.as_ptr(), layout::eval::FRAME_OBJECT) }
    }

    /// Whether a generator's frame that has just been evaluated has yielded.
    ///
    /// # Safety
    /// The frame lies in a generator ([`Frame::is_generator_frame`]), stands, and the offsets are checked.
    #[cfg(not(Py_3_12))]
    #[inline]
    pub unsafe fn is_suspended(self) -> bool {
        // SAFETY: the state lies in the generator, before the frame.
        unsafe { read::<i8>(self.0.as_ptr().sub(layout::eval::STATE_BEFORE_FRAME), 0) == layout::eval::SUSPENDED }
    }

    /// Local variable `i` in the order of `co_localsplusnames`, borrowed; null if unbound; a cell for a captured one.
    ///
    /// # Safety
    /// The frame stands, is not a shim, `i` is below the code's `co_nlocalsplus`, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn local(self, i: usize) -> *mut PyObject {
        // SAFETY: the caller promises a frame with this variable.
        unsafe { fields::local(self.0.as_ptr(), i) }
    }

    /// Argument `s` in the order of the signature (`*args` before the keyword-only ones, `**kw` last), or null if its
    /// variable is unbound. At entry that is the call's argument, defaults filled in; later, the variable's present
    /// value.
    ///
    /// # Safety
    /// The frame stands and runs `layout`'s code, `s` is below `layout.arity()`, the calling thread is attached, and
    /// the offsets are checked.
    #[inline]
    pub unsafe fn argument(self, layout: &CodeLayout, s: usize) -> Held {
        let i = layout.index(s);
        // SAFETY: the index is that of a parameter, so the slot and its kind exist.
        unsafe {
            // Before 3.12 a frame evaluation function runs before the cells are made, except for a generator's frame.
            if layout.is_cell(i) && (cfg!(Py_3_12) || self.is_generator_frame()) {
                return fields::captured(self.0.as_ptr(), i);
            }
            Held::borrowed(self.local(i))
        }
    }

    /// The function's `n`th argument by position, also if a `*args` takes it; null if there is none, or if the variable
    /// was deleted.
    ///
    /// # Safety
    /// As [`Frame::argument`], for any code that the frame runs.
    pub unsafe fn given(self, n: usize) -> Held {
        // SAFETY: the caller promises that the frame stands and the thread is attached; a tuple holds its items.
        unsafe {
            let layout = CodeLayout::read(self.code());
            let positional = layout.positional as usize;
            if n < positional {
                return self.argument(&layout, n);
            }
            if layout.has_varargs() {
                let rest = self.argument(&layout, positional);
                let at = (n - positional) as ffi::Py_ssize_t;
                let is_tuple = !rest.is_null() && ffi::PyTuple_CheckExact(rest.as_ptr()) != 0;
                if is_tuple && at < ffi::PyTuple_GET_SIZE(rest.as_ptr()) {
                    return Held::borrowed(ffi::PyTuple_GET_ITEM(rest.as_ptr(), at));
                }
            }
            Held::borrowed(std::ptr::null_mut())
        }
    }

    /// Whether this is the interpreter's own code that calls an `__init__` (3.12 on): it has no function.
    ///
    /// # Safety
    /// The frame stands, is not a shim, and the offsets are checked.
    #[inline(always)]
    unsafe fn is_trampoline(self) -> bool {
        // SAFETY: the frame stands. `None` is never freed.
        cfg!(Py_3_12) && unsafe { self.function() == ffi::Py_None() }
    }

    /// This frame, or the next outer one of a Python function.
    ///
    /// # Safety
    /// As [`Frame::caller`].
    #[inline]
    unsafe fn skip_shims(self) -> Option<Frame> {
        let mut frame = self;
        // SAFETY: the caller promises that the frame runs; the chain of a running frame ends with null.
        unsafe {
            while frame.is_shim() || frame.is_trampoline() {
                frame = frame.below()?;
            }
        }
        Some(frame)
    }
}
