//! The interpreter frame, read raw: its code, function, globals, caller and arguments.
//!
//! Nothing here calls Python, makes a frame object or fails; a read is one to four loads. All of it holds only while
//! [`layout::raw_ok`](super::layout::raw_ok) is true, on the thread that runs the frame, and between the event that the
//! frame is looked at from and that event's return.
//!
//! Objects come *borrowed*: the frame keeps them alive while it stands. Where another thread could take an object away in
//! between (a closure cell on a free-threaded build) a [`Held`] owns it instead.

use std::ptr::NonNull;

use pyo3::ffi::{self, PyObject, PyThreadState};

use super::layout::{self, code as co, frame as at, function as fun, at as read};

/// A frame of CPython's evaluation loop that is on the stack of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(NonNull<u8>);

/// What an argument read needs to know of a code object, read once.
///
/// It borrows from the code object: whoever keeps it keeps the code alive.
#[derive(Clone, Copy, Debug)]
pub struct CodeLayout {
    /// `co_argcount`: positional parameters, positional-only ones among them.
    pub positional: u32,
    /// `co_posonlyargcount`.
    pub positional_only: u32,
    /// `co_kwonlyargcount`.
    pub keyword_only: u32,
    /// `co_flags`.
    pub flags: u32,
    kinds: *const u8,
}

// SAFETY: `kinds` points into an immutable bytes object that belongs to the code object.
unsafe impl Send for CodeLayout {}
// SAFETY: as above.
unsafe impl Sync for CodeLayout {}

/// An object that can be read until this is dropped: borrowed from a frame, or owned.
#[derive(Debug)]
pub struct Held {
    object: *mut PyObject,
    owned: bool,
}

impl Frame {
    /// The frame that `tstate` runs, shims of C code included (see [`Frame::is_shim`]). In an event's callback that is
    /// the event's frame. In a frame evaluation function (3.11), before it calls on, it is the *caller's*: the function is
    /// handed its own frame.
    ///
    /// # Safety
    /// `tstate` is the calling thread's, attached, and the offsets are checked ([`layout::raw_ok`]).
    #[inline(always)]
    pub unsafe fn current(tstate: *mut PyThreadState) -> Option<Frame> {
        // SAFETY: the offsets are this version's. `cframe` (before 3.13) always points to a record on the C stack or in the
        // thread state itself; the word read is a frame or null.
        unsafe {
            #[cfg(not(Py_3_13))]
            let base: *mut u8 = read(tstate.cast(), layout::thread::CFRAME);
            #[cfg(Py_3_13)]
            let base: *mut u8 = tstate.cast();
            Frame::from_ptr(read(base, layout::thread::CURRENT_FRAME))
        }
    }

    /// The innermost Python frame that `tstate` runs, shims skipped.
    ///
    /// # Safety
    /// As [`Frame::current`].
    #[inline]
    pub unsafe fn current_python(tstate: *mut PyThreadState) -> Option<Frame> {
        // SAFETY: the caller's promise.
        unsafe { Frame::current(tstate).and_then(|frame| frame.skip_shims()) }
    }

    /// The frame at `address`, as CPython hands it to a frame evaluation function; `None` for null.
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

    /// Whether this is no Python function's frame but the mark of C code that called Python.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn is_shim(self) -> bool {
        // SAFETY: a byte inside the frame.
        unsafe { read::<i8>(self.0.as_ptr(), at::OWNER) >= layout::OWNER_SHIM }
    }

    /// The code object, borrowed. Of a shim it may be `None` or a code of the interpreter's own.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn code(self) -> *mut PyObject {
        // SAFETY: the word holds an object, tagged from 3.14 on.
        unsafe { object(read(self.0.as_ptr(), at::CODE)) }
    }

    /// The function object, borrowed; null or `None` where the frame has none.
    ///
    /// # Safety
    /// The frame stands, is no shim, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn function(self) -> *mut PyObject {
        // SAFETY: as in `code`.
        unsafe { object(read(self.0.as_ptr(), at::FUNCTION)) }
    }

    /// The globals, borrowed: a dict, or what `exec` was given.
    ///
    /// # Safety
    /// The frame stands, is no shim, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn globals(self) -> *mut PyObject {
        // SAFETY: a plain object pointer on every version.
        unsafe { read(self.0.as_ptr(), at::GLOBALS) }
    }

    /// The Python frame that called this one, C functions in between skipped. Of a generator's frame: whoever resumed it.
    ///
    /// # Safety
    /// The frame *runs* (a suspended one has a stale caller), is linked (on 3.11 not before the frame evaluation function has
    /// called on: use [`Frame::current`] there), and the offsets are checked.
    #[inline]
    pub unsafe fn caller(self) -> Option<Frame> {
        // SAFETY: the chain of a running frame ends with null.
        unsafe { Frame::from_ptr(read(self.0.as_ptr(), at::PREVIOUS)).and_then(|frame| frame.skip_shims()) }
    }

    /// Whether the frame lies inside a generator, coroutine or asynchronous generator.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn is_generator_frame(self) -> bool {
        // SAFETY: a byte inside the frame.
        unsafe { read::<i8>(self.0.as_ptr(), at::OWNER) == layout::OWNER_GENERATOR }
    }

    /// The generator, coroutine or asynchronous generator that the frame lies in, borrowed; null for any other frame.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[inline]
    pub unsafe fn generator(self) -> *mut PyObject {
        // SAFETY: such a frame is the tail of its generator object, at a fixed distance.
        unsafe {
            if self.is_generator_frame() {
                self.0.as_ptr().sub(layout::GENERATOR_FRAME).cast()
            } else {
                std::ptr::null_mut()
            }
        }
    }

    /// The frame in a generator, coroutine or asynchronous generator, running or not; `None` for any other object. Of one
    /// that has ended nothing but the address and [`Frame::generator`] may be asked.
    ///
    /// # Safety
    /// `object` stands as long as the result is used.
    #[inline]
    pub unsafe fn of_generator(object: *mut PyObject) -> Option<Frame> {
        // SAFETY: the exact types are checked; each has its frame at the same distance.
        unsafe {
            let class = ffi::Py_TYPE(object);
            let known = [&raw mut ffi::PyCoro_Type, &raw mut ffi::PyGen_Type, &raw mut ffi::PyAsyncGen_Type];
            if !known.contains(&class) {
                return None;
            }
            Frame::from_ptr(object.cast::<u8>().add(layout::GENERATOR_FRAME))
        }
    }

    /// Whether a generator's frame that is about to run has run before: this is a resume, not the beginning.
    ///
    /// # Safety
    /// The frame stands, and the offsets are checked.
    #[cfg(not(Py_3_12))]
    #[inline]
    pub unsafe fn has_begun(self) -> bool {
        // SAFETY: the last instruction lies in the frame's own code; before the first of the function's own there is only
        // what makes the generator.
        unsafe {
            let code: *mut u8 = self.code().cast();
            let last: usize = read(self.0.as_ptr(), layout::eval::LAST_INSTRUCTION);
            let first: i32 = read(code, layout::eval::FIRST_TRACEABLE);
            last >= code as usize + layout::eval::INSTRUCTIONS + first as usize * 2
        }
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
    /// The frame stands, is no shim, `i` is below the code's `co_nlocalsplus`, and the offsets are checked.
    #[inline(always)]
    pub unsafe fn local(self, i: usize) -> *mut PyObject {
        // SAFETY: the slot lies inside the frame.
        unsafe { object(read(self.0.as_ptr(), at::LOCALS + i * size_of::<usize>())) }
    }

    /// Argument `s` in the order of the signature (`*args` before the keyword-only ones, `**kw` last), or null if its
    /// variable is unbound. At entry that is what the call passed, defaults filled in; later, what the variable holds now.
    ///
    /// # Safety
    /// The frame stands and runs `layout`'s code, `s` is below `layout.arity()`, the calling thread is attached, and the
    /// offsets are checked.
    #[inline]
    pub unsafe fn argument(self, layout: &CodeLayout, s: usize) -> Held {
        let i = layout.index(s);
        // SAFETY: the index is that of a parameter, so the slot and its kind exist.
        unsafe {
            let value = self.local(i);
            // Before 3.12 a frame evaluation function comes before the cells are made, but in a generator's frame.
            if layout.is_cell(i) && (cfg!(Py_3_12) || self.is_generator_frame()) {
                return cell_contents(value);
            }
            Held::borrowed(value)
        }
    }

    #[inline]
    unsafe fn skip_shims(self) -> Option<Frame> {
        let mut frame = self;
        // SAFETY: as in `caller`.
        unsafe {
            while frame.is_shim() {
                frame = Frame::from_ptr(read(frame.0.as_ptr(), at::PREVIOUS))?;
            }
        }
        Some(frame)
    }
}

impl CodeLayout {
    /// Reads the layout of `code`.
    ///
    /// # Safety
    /// `code` is a code object, alive while the result is used, and the offsets are checked.
    #[inline]
    pub unsafe fn read(code: *mut PyObject) -> CodeLayout {
        let base: *mut u8 = code.cast();
        // SAFETY: the fields are plain integers; the kinds are a bytes object that the code owns and never changes.
        unsafe {
            CodeLayout {
                positional: read(base, co::ARGCOUNT),
                positional_only: read(base, co::POSONLYARGCOUNT),
                keyword_only: read(base, co::KWONLYARGCOUNT),
                flags: read(base, co::FLAGS),
                kinds: read::<*const u8>(base, co::LOCALSPLUSKINDS).add(layout::BYTES_DATA),
            }
        }
    }

    /// The number of declared parameters: `self`, keyword-only ones, `*args` and `**kw` count one each.
    #[inline]
    pub fn arity(&self) -> usize {
        (self.positional + self.keyword_only) as usize + self.has_varargs() as usize + self.has_varkeywords() as usize
    }

    /// Whether there is a `*args` parameter.
    #[inline(always)]
    pub fn has_varargs(&self) -> bool {
        self.flags & ffi::CO_VARARGS as u32 != 0
    }

    /// Whether there is a `**kw` parameter.
    #[inline(always)]
    pub fn has_varkeywords(&self) -> bool {
        self.flags & ffi::CO_VARKEYWORDS as u32 != 0
    }

    /// Where argument `s` of the signature lies among the locals, whose order is positional, keyword-only, `*args`, `**kw`.
    #[inline]
    pub fn index(&self, s: usize) -> usize {
        let positional = self.positional as usize;
        let keyword_only = self.keyword_only as usize;
        let varargs = self.has_varargs() as usize;
        if s < positional {
            s
        } else if s - positional < varargs {
            positional + keyword_only
        } else if s < positional + varargs + keyword_only {
            s - varargs
        } else {
            s
        }
    }

    /// # Safety
    /// `i` is below the code's `co_nlocalsplus`, and the code is alive.
    #[inline(always)]
    unsafe fn is_cell(&self, i: usize) -> bool {
        const CO_FAST_CELL: u8 = 0x40;
        // SAFETY: one kind for each local.
        unsafe { *self.kinds.add(i) & CO_FAST_CELL != 0 }
    }
}

impl Held {
    /// What a frame, or a container that nobody else can change, keeps alive.
    #[inline(always)]
    pub fn borrowed(object: *mut PyObject) -> Held {
        Held { object, owned: false }
    }

    /// Takes over one reference (or null).
    #[inline(always)]
    pub fn owned(object: *mut PyObject) -> Held {
        Held { object, owned: true }
    }

    /// The object, or null; to be read while `self` lives and the calling thread stays attached.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut PyObject {
        self.object
    }

    /// Whether there is no object.
    #[inline(always)]
    pub fn is_null(&self) -> bool {
        self.object.is_null()
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the reference is ours, and whoever holds a `Held` is attached.
            unsafe { ffi::Py_XDECREF(self.object) }
        }
    }
}

/// The declared parameters of `code`, counted as [`CodeLayout::arity`] does.
///
/// # Safety
/// As [`CodeLayout::read`].
#[inline]
pub unsafe fn arity(code: *mut PyObject) -> usize {
    // SAFETY: the caller's promise.
    unsafe { CodeLayout::read(code).arity() }
}

/// `code.co_qualname`, an exact str, borrowed from the code.
///
/// # Safety
/// `code` is a code object, and the offsets are checked.
#[inline]
pub unsafe fn code_qualname(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: set when the code is made, never changed.
    unsafe { read(code.cast(), co::QUALNAME) }
}

/// `code.co_filename`, a str, borrowed from the code. (An import may put another in its place; not while code runs.)
///
/// # Safety
/// As [`code_qualname`].
#[inline]
pub unsafe fn code_filename(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: as above.
    unsafe { read(code.cast(), co::FILENAME) }
}

/// `code.co_firstlineno`.
///
/// # Safety
/// As [`code_qualname`].
#[inline]
pub unsafe fn code_first_line(code: *mut PyObject) -> i32 {
    // SAFETY: a plain integer.
    unsafe { read(code.cast(), co::FIRSTLINENO) }
}

/// `function.__qualname__`, or null if `function` is no Python function (a frame may have null or `None` there).
///
/// # Safety
/// `function` is null or an object that stands, the calling thread is attached, and the offsets are checked.
#[inline]
pub unsafe fn qualname_of(function: *mut PyObject) -> Held {
    // SAFETY: the type is checked before the field is read; a function always has a qualified name, a str.
    unsafe {
        if function.is_null() || ffi::Py_TYPE(function) != &raw mut ffi::PyFunction_Type {
            return Held::borrowed(std::ptr::null_mut());
        }
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

/// `globals["__name__"]` if `globals` is an exact dict and the value an exact str, else null. No Python code runs, no
/// exception is left or lost.
///
/// # Safety
/// `globals` is null or an object that stands, and the calling thread is attached.
#[inline]
pub unsafe fn module_of(globals: *mut PyObject) -> Held {
    // SAFETY: exact dict; the key's hash is kept in it, so that the look-up can't raise, and comparing interned names
    // doesn't go further than their addresses.
    unsafe {
        if globals.is_null() || ffi::Py_TYPE(globals) != &raw mut ffi::PyDict_Type {
            return Held::borrowed(std::ptr::null_mut());
        }
        let name = dict_get(globals, layout::dunder_name());
        if name.is_null() || ffi::Py_TYPE(name.as_ptr()) != &raw mut ffi::PyUnicode_Type {
            return Held::borrowed(std::ptr::null_mut());
        }
        name
    }
}

/// `dict[key]`, or null where it isn't there.
///
/// # Safety
/// `dict` is an exact dict, `key` an exact str that stands or null, and the calling thread is attached.
#[inline]
pub(crate) unsafe fn dict_get(dict: *mut PyObject, key: *mut PyObject) -> Held {
    if key.is_null() {
        return Held::borrowed(key);
    }
    // SAFETY: the caller's promise. With a GIL nobody can take the value out of the dict while it is looked at.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::borrowed(ffi::PyDict_GetItemWithError(dict, key));
        #[cfg(Py_GIL_DISABLED)]
        {
            let mut value = std::ptr::null_mut();
            ffi::PyDict_GetItemRef(dict, key, &raw mut value);
            Held::owned(value)
        }
    }
}

/// The object of a word that may be tagged in its low bits (3.14 on).
#[inline(always)]
fn object(word: usize) -> *mut PyObject {
    (word & layout::OBJECT_MASK) as *mut PyObject
}

#[inline]
unsafe fn cell_contents(cell: *mut PyObject) -> Held {
    // SAFETY: by the code's own table the variable is captured, so its slot holds null or, from the function's first
    // instruction on, a cell; the type is looked at all the same.
    unsafe {
        if cell.is_null() || ffi::Py_TYPE(cell) != &raw mut ffi::PyCell_Type {
            return Held::borrowed(cell);
        }
        #[cfg(not(Py_GIL_DISABLED))]
        return Held::borrowed(read(cell.cast(), layout::CELL_CONTENTS));
        #[cfg(Py_GIL_DISABLED)]
        return Held::owned(ffi::PyCell_Get(cell));
    }
}

/// Runs `read` while no other thread can be in a critical section of `object`.
#[cfg(Py_GIL_DISABLED)]
unsafe fn locked<T>(object: *mut PyObject, read: impl FnOnce() -> T) -> T {
    // SAFETY: begin and end enclose the closure, which doesn't panic, on one C stack.
    unsafe {
        let mut section = std::mem::zeroed();
        ffi::PyCriticalSection_Begin(&raw mut section, object);
        let result = read();
        ffi::PyCriticalSection_End(&raw mut section);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(positional: u32, keyword_only: u32, flags: i32) -> Vec<usize> {
        let layout = CodeLayout { positional, positional_only: 0, keyword_only, flags: flags as u32, kinds: std::ptr::null() };
        (0..layout.arity()).map(|s| layout.index(s)).collect()
    }

    #[test]
    fn signature_order_puts_varargs_before_keyword_only() {
        assert_eq!(signature(2, 0, 0), [0, 1]);
        assert_eq!(signature(2, 2, 0), [0, 1, 2, 3]);
        assert_eq!(signature(2, 2, ffi::CO_VARARGS), [0, 1, 4, 2, 3]);
        assert_eq!(signature(2, 2, ffi::CO_VARKEYWORDS), [0, 1, 2, 3, 4]);
        assert_eq!(signature(1, 2, ffi::CO_VARARGS | ffi::CO_VARKEYWORDS), [0, 3, 1, 2, 4]);
        assert_eq!(signature(0, 0, ffi::CO_VARARGS | ffi::CO_VARKEYWORDS), [0, 1]);
    }
}
