//! What types, exceptions and callables are called, read without running any of the program's code.

use std::ffi::CStr;
use std::ptr;

use inviso_term::etf::{Encoder, Full};
use pyo3::ffi::{self, PyObject, PyTypeObject};

use super::{encode, Limits};
use crate::frames::frame;
use crate::object::text::{short_ascii, utf8};
use crate::{
    interpreter::Uncollected,
    object::{
        held::{dict_get, Held},
        interned::Interned,
    },
};

extern "C" {
    static mut PyMethod_Type: PyTypeObject;
    fn PyMethod_Function(method: *mut PyObject) -> *mut PyObject;
    fn PyMethod_Self(method: *mut PyObject) -> *mut PyObject;
    #[cfg(Py_3_12)]
    fn PyException_GetArgs(error: *mut PyObject) -> *mut PyObject;
}

/// `"module.qualname"` of a class, or `tp_name` of a type written in C (`"int"`, `"collections.deque"`), cut to fit. What is
/// built in has no module, also where it is made at run time (`"ExceptionGroup"`).
///
/// # Safety
/// `class` stands, and the calling thread is attached.
pub unsafe fn type_name(class: *mut PyTypeObject, buffer: &mut [u8; 256]) -> &str {
    let mut name = Name { buffer, length: 0 };
    // SAFETY: a type that is ready has a name.
    unsafe {
        if ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0 {
            name.push(CStr::from_ptr((*class).tp_name).to_bytes());
        } else {
            let module = module_of_class(class);
            if !module.is_null() && !super::is_text(module.as_ptr(), "builtins") {
                name.push_text(module.as_ptr());
                name.push(b".");
            }
            let qualname = Held::owned(ffi::PyType_GetQualName(class));
            if qualname.is_null() {
                ffi::PyErr_Clear();
            } else {
                name.push_text(qualname.as_ptr());
            }
        }
    }
    name.finish()
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

/// The dict of an object's own fields, or null.
///
/// # Safety
/// `object` stands, and the calling thread is attached and has no exception set.
pub unsafe fn instance_dict(object: *mut PyObject) -> Held {
    // SAFETY: the caller's promise. The object keeps its dict, which nobody can replace while there is a GIL.
    unsafe {
        // it may be made only now
        let _uncollected = Uncollected::new();
        let dict = ffi::PyObject_GenericGetDict(object, ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
        }
        #[cfg(not(Py_GIL_DISABLED))]
        {
            ffi::Py_XDECREF(dict);
            Held::borrowed(dict)
        }
        #[cfg(Py_GIL_DISABLED)]
        Held::owned(dict)
    }
}

/// Whether an object is a bound method of a Python function.
///
/// # Safety
/// `object` stands.
pub unsafe fn is_method(object: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::Py_TYPE(object) == &raw mut PyMethod_Type }
}

/// What a bound method is bound to, and its function; both borrowed from it.
///
/// # Safety
/// `object` stands.
pub unsafe fn parts_of_method(object: *mut PyObject) -> Option<(*mut PyObject, *mut PyObject)> {
    // SAFETY: the type is checked.
    unsafe { is_method(object).then(|| (PyMethod_Self(object), PyMethod_Function(object))) }
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

/// Writes the module and the qualified name of what a call of `callable` runs, as two atoms: those of its code, as in messages of calls.
/// Methods, partials, static methods and `__call__` methods are looked through; a class stands for itself, a method written in C for
/// that of the class that has it, a function of Cython's for what it says, any other object for its type's `__call__`.
///
/// # Safety
/// `callable` stands, and the calling thread is attached and has no exception set.
///
/// # Errors
/// [`Full`].
pub unsafe fn name_of_callable(callable: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: each type is checked before its layout is read.
    unsafe {
        let mut callable = Held::borrowed(callable);
        for _ in 0..8 {
            match wrapped(callable.as_ptr()) {
                Some((inner, _)) => callable = inner,
                None => break,
            }
        }
        let object = callable.as_ptr();
        if ffi::PyFunction_Check(object) != 0 {
            let (code, mut module) =
                (ffi::PyFunction_GetCode(object), frame::module_of(ffi::PyFunction_GetGlobals(object)));
            if module.is_null() {
                module = Held::borrowed(frame::code_filename(code));
            }
            atom_or(&module, "undefined", out)?;
            return atom_or(&frame::name_of(object, code), "undefined", out);
        }
        if ffi::PyCFunction_Check(object) != 0 {
            let function: *mut ffi::PyCFunctionObject = object.cast();
            let name = CStr::from_ptr((*(*function).m_ml).ml_name).to_str().unwrap_or("undefined");
            if let Some(class) = class_of_method(function, name) {
                return class_atoms(class, &format!(".{name}"), out);
            }
            let module = (*function).m_module;
            if !module.is_null() && ffi::PyUnicode_Check(module) != 0 {
                super::atom_of_str(module, out)?;
            } else {
                out.atom("builtins")?;
            }
            return out.atom(name);
        }
        if is_method_of_c(object) {
            let class = Held::owned(attribute(object, c"__objclass__"));
            let name = Held::owned(attribute(object, c"__name__"));
            if !class.is_null() && !name.is_null() {
                let name = String::from_utf8_lossy(&utf8(name.as_ptr(), 240).0).into_owned();
                return class_atoms(class.as_ptr().cast(), &format!(".{name}"), out);
            }
        }
        let is_class = ffi::PyType_Check(object) != 0;
        if let Some(names) = own_names(object).filter(|_| !is_class) {
            return names.iter().try_for_each(|name| atom_or(name, "undefined", out));
        }
        let class: *mut PyTypeObject = if is_class { object.cast() } else { ffi::Py_TYPE(object) };
        class_atoms(class, if is_class { "" } else { ".__call__" }, out)
    }
}

/// The class that has a method written in C, which is bound: the nearest with this very definition under the name. `None` for a
/// module's function.
///
/// # Safety
/// The function stands, and the calling thread is attached.
unsafe fn class_of_method(function: *mut ffi::PyCFunctionObject, name: &str) -> Option<*mut PyTypeObject> {
    // SAFETY: the caller's promise; types are checked, and the order of a ready type is a tuple of types.
    unsafe {
        let (this, method) = ((*function).m_self, (*function).m_ml);
        if this.is_null() || ffi::PyModule_Check(this) != 0 {
            return None;
        }
        let own: *mut PyTypeObject = if ffi::PyType_Check(this) != 0 { this.cast() } else { ffi::Py_TYPE(this) };
        let of_class = (*method).ml_flags & ffi::METH_CLASS != 0;
        let order = (*if of_class { own } else { ffi::Py_TYPE(this) }).tp_mro;
        let key = Held::owned(ffi::PyUnicode_FromStringAndSize(name.as_ptr().cast(), name.len() as ffi::Py_ssize_t));
        if key.is_null() || order.is_null() {
            ffi::PyErr_Clear();
            return Some(own);
        }
        let kind = if of_class { &raw mut ffi::PyClassMethodDescr_Type } else { &raw mut ffi::PyMethodDescr_Type };
        for i in 0..ffi::PyTuple_GET_SIZE(order) {
            let class: *mut PyTypeObject = ffi::PyTuple_GET_ITEM(order, i).cast();
            let dict = dict_of(class);
            let found = if dict.is_null() { dict } else { dict_get(dict.as_ptr(), key.as_ptr()) };
            if !found.is_null()
                && ffi::Py_TYPE(found.as_ptr()) == kind
                && (*found.as_ptr().cast::<ffi::PyMethodDescrObject>()).d_method == method
            {
                return Some(class);
            }
        }
        Some(own)
    }
}

/// Whether it is a method of a type written in C as that type has it, or a special one of those bound (`[].__len__`), whose type
/// is nowhere to be had.
///
/// # Safety
/// The object stands.
unsafe fn is_method_of_c(object: *mut PyObject) -> bool {
    // SAFETY: the caller's promise; a type that is ready has a name.
    unsafe {
        let class = ffi::Py_TYPE(object);
        class == &raw mut ffi::PyMethodDescr_Type
            || class == &raw mut ffi::PyClassMethodDescr_Type
            || class == &raw mut ffi::PyWrapperDescr_Type
            || ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0
                && CStr::from_ptr((*class).tp_name) == c"method-wrapper"
    }
}

/// Writes the module and the qualified name of what stands for a coroutine and has no Python frame, as two atoms: its own where it has
/// some, else those of its class.
///
/// # Safety
/// `object` stands, and the calling thread is attached and has no exception set.
///
/// # Errors
/// [`Full`].
pub unsafe fn name_of_coroutine(object: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the caller's promise.
    unsafe {
        match own_names(object) {
            Some(names) => names.iter().try_for_each(|name| atom_or(name, "undefined", out)),
            None => class_atoms(ffi::Py_TYPE(object), "", out),
        }
    }
}

/// The module and the qualified name that a type written in C keeps with each object, as Cython's coroutines and functions do.
///
/// # Safety
/// As [`name_of_coroutine`].
unsafe fn own_names(object: *mut PyObject) -> Option<[Held; 2]> {
    // SAFETY: the caller's promise; what the class has is held while its type is looked at. Classes written in Python have strings there.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let is = |name, kinds: &[*mut PyTypeObject]| {
            let there = lookup(class, name);
            !there.is_null() && kinds.contains(&ffi::Py_TYPE(there.as_ptr()))
        };
        let computed = &raw mut ffi::PyGetSetDescr_Type;
        let own = is(c"__module__", &[&raw mut ffi::PyMemberDescr_Type, computed]) && is(c"__qualname__", &[computed]);
        own.then(|| [c"__module__", c"__qualname__"].map(|name| Held::owned(attribute(object, name))))
    }
}

/// Writes `(module, function, arity)` of what a call of `callable` with so many arguments, and perhaps some by name, runs, named as by
/// [`name_of_callable`]. Where no code says how many parameters there are, the arity is the number of arguments: those of partials
/// count, and all those by name as one, as they are one in the list of a call's arguments.
///
/// # Safety
/// As [`name_of_callable`].
///
/// # Errors
/// [`Full`].
pub unsafe fn place_of_callable(
    callable: *mut PyObject, mut arguments: usize, mut named: bool, out: &mut Encoder<'_>,
) -> Result<(), Full> {
    // SAFETY: the caller's promise; a function has its code as long as it stands, a partial its arguments, whose types are checked.
    unsafe {
        out.tuple(3)?;
        name_of_callable(callable, out)?;
        let mut callable = Held::borrowed(callable);
        for _ in 0..8 {
            let object = callable.as_ptr();
            match wrapped(object) {
                Some((inner, this)) => {
                    arguments += usize::from(!this.is_null());
                    if is_partial(object) {
                        let [args, keywords] = [c"args", c"keywords"].map(|name| Held::owned(attribute(object, name)));
                        if !args.is_null() && ffi::PyTuple_Check(args.as_ptr()) != 0 {
                            arguments += ffi::PyTuple_GET_SIZE(args.as_ptr()) as usize;
                        }
                        named |= !keywords.is_null()
                            && ffi::PyDict_Check(keywords.as_ptr()) != 0
                            && ffi::PyDict_Size(keywords.as_ptr()) > 0;
                    }
                    callable = inner;
                }
                None => break,
            }
        }
        let object = callable.as_ptr();
        let arity = match ffi::PyFunction_Check(object) {
            0 => arguments + usize::from(named),
            _ => frame::arity(ffi::PyFunction_GetCode(object)),
        };
        out.int(arity as i64)
    }
}

/// Whether it is a `functools.partial`, exactly.
///
/// # Safety
/// The object stands, and the calling thread is attached.
pub unsafe fn is_partial(object: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe { type_name(ffi::Py_TYPE(object), &mut [0; 256]) == "functools.partial" }
}

/// Writes module and qualified name of the `run` method that a thread object's start runs, as two atoms.
///
/// # Safety
/// As [`name_of_callable`].
///
/// # Errors
/// [`Full`].
pub unsafe fn name_of_run(thread: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the type stands while its instance does; what is found is held.
    unsafe {
        let run = lookup(ffi::Py_TYPE(thread), c"run");
        if run.is_null() {
            return class_atoms(ffi::Py_TYPE(thread), ".run", out);
        }
        name_of_callable(run.as_ptr(), out)
    }
}

/// Writes `(module, function, arity)` of the `run` method that a thread object's start runs.
///
/// # Safety
/// As [`name_of_callable`].
///
/// # Errors
/// [`Full`].
pub unsafe fn place_of_run(thread: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: as in `name_of_run`.
    unsafe {
        let run = lookup(ffi::Py_TYPE(thread), c"run");
        if !run.is_null() {
            return place_of_callable(run.as_ptr(), 1, false, out);
        }
        out.tuple(3)?;
        class_atoms(ffi::Py_TYPE(thread), ".run", out)?;
        out.int(1)
    }
}

/// A name in the making, cut at the buffer's end.
struct Name<'a> {
    buffer: &'a mut [u8; 256],
    length: usize,
}

impl<'a> Name<'a> {
    fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(self.buffer.len() - self.length);
        self.buffer[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
    }

    /// # Safety
    /// `text` is a str.
    unsafe fn push_text(&mut self, text: *mut PyObject) {
        let room = self.buffer.len() - self.length;
        // SAFETY: the caller's promise.
        unsafe {
            match short_ascii(text, room) {
                Some(text) => self.push(text.as_bytes()),
                None => self.push(&utf8(text, room).0),
            }
        }
    }

    /// What is valid of it: the last character may have been cut, a lone surrogate ends it.
    fn finish(self) -> &'a str {
        let bytes = &self.buffer[..self.length];
        match std::str::from_utf8(bytes) {
            Ok(name) => name,
            Err(e) => std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or(""),
        }
    }
}

/// Writes the module and the qualified name of a class, with `method` behind it, as two atoms.
///
/// # Safety
/// `class` stands, and the calling thread is attached and has no exception set.
unsafe fn class_atoms(class: *mut PyTypeObject, method: &str, out: &mut Encoder<'_>) -> Result<(), Full> {
    let mut buffer = [0; 256];
    // SAFETY: the callers' class stands.
    unsafe {
        if ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0 {
            let full = type_name(class, &mut buffer);
            let (module, name) = full.rsplit_once('.').unwrap_or(("builtins", full));
            out.atom(module)?;
            return out.atom(&format!("{name}{method}"));
        }
        atom_or(&module_of_class(class), "undefined", out)?;
        let qualname = Held::owned(ffi::PyType_GetQualName(class));
        if qualname.is_null() {
            ffi::PyErr_Clear();
            return out.atom("undefined");
        }
        if method.is_empty() {
            return super::atom_of_str(qualname.as_ptr(), out);
        }
        let (name, _) = utf8(qualname.as_ptr(), 240);
        out.atom(&format!("{}{method}", String::from_utf8_lossy(&name)))
    }
}

/// Writes a str as an atom; `other` if it is none.
///
/// # Safety
/// What `text` holds stands or is null, and the calling thread is attached.
unsafe fn atom_or(text: &Held, other: &str, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: a `Held` object stands while it is held.
    unsafe {
        if text.is_null() || ffi::PyUnicode_Check(text.as_ptr()) == 0 {
            out.atom(other)
        } else {
            super::atom_of_str(text.as_ptr(), out)
        }
    }
}

/// `class.__dict__["__module__"]`, if it is an exact str.
///
/// # Safety
/// `class` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn module_of_class(class: *mut PyTypeObject) -> Held {
    // SAFETY: a ready type has an exact dict; the key is a str.
    unsafe {
        let dict = dict_of(class);
        if dict.is_null() {
            return Held::borrowed(ptr::null_mut());
        }
        static MODULE: Interned = Interned::new(c"__module__");
        let module = dict_get(dict.as_ptr(), MODULE.get());
        if module.is_null() || ffi::PyUnicode_CheckExact(module.as_ptr()) == 0 {
            return Held::borrowed(ptr::null_mut());
        }
        module
    }
}

/// What a call of an object calls in its turn, and the first argument that it adds, or null: a bound method's function, a static
/// method's, a partial's, a cache's, the `__call__` of a class written in Python.
///
/// # Safety
/// `object` lives throughout, and the calling thread is attached to the interpreter.
pub unsafe fn wrapped(object: *mut PyObject) -> Option<(Held, Held)> {
    let none = || Held::borrowed(ptr::null_mut());
    // SAFETY: the types are checked; exact ones, whose attributes are the type's own. The method keeps both its parts.
    unsafe {
        let held = |object: *mut PyObject| {
            ffi::Py_INCREF(object);
            Held::owned(object)
        };
        if let Some((this, function)) = parts_of_method(object) {
            return Some((held(function), held(this)));
        }
        let class = ffi::Py_TYPE(object);
        let mut name = [0; 256];
        let field = match type_name(class, &mut name) {
            "functools.partial" => c"func",
            "staticmethod" | "functools._lru_cache_wrapper" => c"__wrapped__",
            _ => {
                if ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0 || ffi::PyType_Check(object) != 0 {
                    return None;
                }
                let call = lookup(class, c"__call__");
                if call.is_null() {
                    return None;
                }
                if ffi::PyFunction_Check(call.as_ptr()) != 0 {
                    return Some((call, held(object)));
                }
                return (ffi::Py_TYPE(call.as_ptr()) == &raw mut ffi::PyStaticMethod_Type).then(|| (call, none()));
            }
        };
        let inner = Held::owned(attribute(object, field));
        (!inner.is_null()).then(|| (inner, none()))
    }
}

/// An attribute by the generic rules, a new reference or null; no exception is left.
///
/// # Safety
/// `object` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn attribute(object: *mut PyObject, name: &CStr) -> *mut PyObject {
    // SAFETY: the object stands (the callers').
    unsafe {
        let name = Held::owned(ffi::PyUnicode_InternFromString(name.as_ptr()));
        let value = if name.is_null() { ptr::null_mut() } else { ffi::PyObject_GenericGetAttr(object, name.as_ptr()) };
        if value.is_null() {
            ffi::PyErr_Clear();
        }
        value
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

/// What the classes of `class`'s method resolution order have under `name`, unbound; null if nothing.
///
/// # Safety
/// `class` stands, and the calling thread is attached.
pub unsafe fn attribute_of_class(class: *mut PyTypeObject, name: &str) -> Held {
    // SAFETY: the caller's promise; the text is as long as it says.
    unsafe {
        let key = Held::owned(ffi::PyUnicode_FromStringAndSize(name.as_ptr().cast(), name.len() as ffi::Py_ssize_t));
        lookup_key(class, &key)
    }
}

/// As [`attribute_of_class`], by a C string.
///
/// # Safety
/// As [`attribute_of_class`].
unsafe fn lookup(class: *mut PyTypeObject, name: &CStr) -> Held {
    // SAFETY: a C string.
    unsafe { lookup_key(class, &Held::owned(ffi::PyUnicode_InternFromString(name.as_ptr()))) }
}

/// As [`attribute_of_class`], by a str.
///
/// # Safety
/// As [`attribute_of_class`]; what `key` holds is an exact str or null.
unsafe fn lookup_key(class: *mut PyTypeObject, key: &Held) -> Held {
    // SAFETY: the order of a ready type is a tuple of types.
    unsafe {
        let order = (*class).tp_mro;
        if key.is_null() || order.is_null() {
            ffi::PyErr_Clear();
            return Held::borrowed(ptr::null_mut());
        }
        for i in 0..ffi::PyTuple_GET_SIZE(order) {
            let dict = dict_of(ffi::PyTuple_GET_ITEM(order, i).cast());
            if dict.is_null() {
                continue;
            }
            let found = dict_get(dict.as_ptr(), key.as_ptr());
            if !found.is_null() {
                return found;
            }
        }
        Held::borrowed(ptr::null_mut())
    }
}

/// Shows what each class of `class`'s method resolution order has under a name of its own, unbound, until that says that it is enough.
/// Answers whether it was.
///
/// # Safety
/// `class` stands, `key` is an exact str or null, and the calling thread is attached.
pub unsafe fn each_definition(
    class: *mut PyTypeObject, key: *mut PyObject, mut is_enough: impl FnMut(*mut PyTypeObject, *mut PyObject) -> bool,
) -> bool {
    // SAFETY: the order of a ready type is a tuple of types.
    unsafe {
        let order = (*class).tp_mro;
        !order.is_null()
            && !key.is_null()
            && (0..ffi::PyTuple_GET_SIZE(order)).any(|i| {
                let class = ffi::PyTuple_GET_ITEM(order, i).cast();
                let dict = dict_of(class);
                let found = if dict.is_null() { Held::borrowed(ptr::null_mut()) } else { dict_get(dict.as_ptr(), key) };
                !found.is_null() && is_enough(class, found.as_ptr())
            })
    }
}

/// The class's own dict, exact; or null.
///
/// # Safety
/// `class` lives throughout, and the calling thread is attached to the interpreter.
unsafe fn dict_of(class: *mut PyTypeObject) -> Held {
    // SAFETY: a ready type (the callers').
    unsafe {
        #[cfg(Py_3_12)]
        return Held::owned(ffi::PyType_GetDict(class));
        #[cfg(not(Py_3_12))]
        return Held::borrowed((*class).tp_dict);
    }
}
