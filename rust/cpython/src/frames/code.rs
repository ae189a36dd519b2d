//! Facts about a code object and its function: parameters, names, module.
//!
//! As in [`super::frame`] the reads run no Python code and leave no exception.

use pyo3::ffi::{self, PyObject};

use super::fields;
use crate::layout;
use crate::object::held::{dict_get, Held};
use crate::object::interned::Interned;

/// Whether local variable `i` of a code object has the name `name`.
///
/// # Safety
/// `code` is a code object with more than `i` locals, and the offsets are checked.
pub unsafe fn is_parameter(code: *mut PyObject, i: usize, name: &str) -> bool {
    // SAFETY: the names are a tuple of strs that the code owns and never changes.
    unsafe {
        let names = fields::local_names(code);
        !names.is_null()
            && ffi::PyTuple_Check(names) != 0
            && (i as ffi::Py_ssize_t) < ffi::PyTuple_GET_SIZE(names)
            && crate::object::text::is_text_of(ffi::PyTuple_GET_ITEM(names, i as ffi::Py_ssize_t), name)
    }
}

/// The facts about a code object that reading an argument needs, read once.
///
/// It borrows from the code object, which its holder has to keep alive.
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
// SAFETY: as for `Send`: the bytes never change.
unsafe impl Sync for CodeLayout {}

impl CodeLayout {
    /// Reads the layout of `code`.
    ///
    /// # Safety
    /// `code` is a code object, alive while the result is used, and the offsets are checked.
    #[inline]
    pub unsafe fn read(code: *mut PyObject) -> CodeLayout {
        // SAFETY: the caller promises a code object.
        unsafe {
            let [positional, positional_only, keyword_only, flags] = fields::counts(code);
            CodeLayout { positional, positional_only, keyword_only, flags, kinds: fields::kinds(code) }
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

    /// Whether it is the code of a coroutine function, or of a generator function that `types.coroutine` has made into
    /// one.
    #[inline(always)]
    pub fn is_coroutine(&self) -> bool {
        self.flags & (ffi::CO_COROUTINE | ffi::CO_ITERABLE_COROUTINE) as u32 != 0
    }

    /// The index of argument `s` of the signature among the locals, whose order is positional, keyword-only, `*args`,
    /// `**kw`.
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
    pub(super) unsafe fn is_cell(&self, i: usize) -> bool {
        // SAFETY: the caller promises such a variable of the code.
        unsafe { fields::is_cell(self.kinds, i) }
    }
}

/// The declared parameters of `code`, counted as [`CodeLayout::arity`] does.
///
/// # Safety
/// As [`CodeLayout::read`].
#[inline]
pub unsafe fn arity(code: *mut PyObject) -> usize {
    // SAFETY: the caller promises that `code` is a code object, alive while the result is used, and the offsets are
    // checked.
    unsafe { CodeLayout::read(code).arity() }
}

/// `code.co_qualname`, an exact str, borrowed from the code.
///
/// # Safety
/// `code` is a code object, and the offsets are checked.
#[inline]
pub unsafe fn code_qualname(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller promises a code object.
    unsafe { fields::code_qualname(code) }
}

/// `code.co_filename`, a str, borrowed from the code. (An import may replace it, but not while the code runs.)
///
/// # Safety
/// As [`code_qualname`].
#[inline]
pub unsafe fn code_filename(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller promises a code object and checked offsets; its file name stands while the code does.
    unsafe { fields::code_filename(code) }
}

/// `code.co_consts`, a tuple, borrowed from the code.
///
/// # Safety
/// As [`code_qualname`].
#[inline]
pub unsafe fn code_constants(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller promises a code object and checked offsets; its constants never change.
    unsafe { fields::code_constants(code) }
}

/// `code.co_firstlineno`.
///
/// # Safety
/// As [`code_qualname`].
#[inline]
pub unsafe fn code_first_line(code: *mut PyObject) -> i32 {
    // SAFETY: the caller promises a code object.
    unsafe { fields::code_first_line(code) }
}

/// `function.__qualname__`; null if `function` is not a Python function (a frame may have null or `None` there).
///
/// # Safety
/// `function` is null or an object that stands, the calling thread is attached, and the offsets are checked.
#[inline]
pub unsafe fn qualname_of(function: *mut PyObject) -> Held {
    // SAFETY: the type is checked first.
    unsafe {
        if function.is_null() || ffi::Py_TYPE(function) != &raw mut ffi::PyFunction_Type {
            return Held::borrowed(std::ptr::null_mut());
        }
        fields::function_qualname(function)
    }
}

/// The name of a function: that of its code, or its own if it was renamed without being wrapped. That of the code if
/// `function` is not a function.
///
/// # Safety
/// As [`qualname_of`]; `code` is its code, and no exception is set.
pub unsafe fn name_of(function: *mut PyObject, code: *mut PyObject) -> Held {
    static WRAPPED: Interned = Interned::new(c"__wrapped__");
    // SAFETY: the caller promises that the objects stand and no exception is set.
    unsafe {
        let (own, name) = (code_qualname(code), qualname_of(function));
        if name.is_null() || name.as_ptr() == own {
            return Held::borrowed(own);
        }
        if fields::function_has(function, WRAPPED.get()) {
            Held::borrowed(own)
        } else {
            name
        }
    }
}

/// The value of a key that is the first one in most dicts that have it.
///
/// # Safety
/// As [`dict_get`].
#[inline(always)]
unsafe fn first_or(dict: *mut PyObject, key: *mut PyObject) -> Held {
    // SAFETY: an exact dict, which nothing changes meanwhile.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        {
            let (mut at, mut found, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
            if ffi::PyDict_Next(dict, &mut at, &mut found, &mut value) != 0 && found == key {
                return Held::borrowed(value);
            }
        }
        dict_get(dict, key)
    }
}

/// `globals["__name__"]` if `globals` is an exact dict and the value an exact str, else null. No Python code runs, no
/// exception is left or lost.
///
/// # Safety
/// `globals` is null or an object that stands, and the calling thread is attached.
#[inline]
pub unsafe fn module_of(globals: *mut PyObject) -> Held {
    // SAFETY: an exact dict; the key's hash is stored in it, so that the look-up can't raise, and interned names are
    // compared by their addresses only.
    unsafe {
        if globals.is_null() || ffi::Py_TYPE(globals) != &raw mut ffi::PyDict_Type {
            return Held::borrowed(std::ptr::null_mut());
        }
        let name = first_or(globals, layout::dunder_name());
        if name.is_null() || ffi::Py_TYPE(name.as_ptr()) != &raw mut ffi::PyUnicode_Type {
            return Held::borrowed(std::ptr::null_mut());
        }
        name
    }
}
