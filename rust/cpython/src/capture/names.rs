//! The names of types, exceptions and callables, read without running code of the program.

use super::{
    class::{attribute, dict_of, lookup},
    recent_names,
};
use std::{ffi::CStr, ptr};

use inviso_term::etf::{Encoder, Full};
use pyo3::ffi::{self, PyObject, PyTypeObject};

use crate::{
    frames::frame,
    object::{
        held::{dict_get, Held},
        interned::Interned,
        text::{short_ascii, utf8},
    },
};

extern "C" {
    static mut PyMethod_Type: PyTypeObject;
    fn PyMethod_Function(method: *mut PyObject) -> *mut PyObject;
    fn PyMethod_Self(method: *mut PyObject) -> *mut PyObject;
}

/// `"module.qualname"` of a class, or `tp_name` of a type written in C (`"int"`, `"collections.deque"`), cut to fit. A
/// built-in type has no module, even if it is made at run time (`"ExceptionGroup"`).
///
/// # Safety
/// `class` stands, and the calling thread is attached.
pub unsafe fn type_name(class: *mut PyTypeObject, buffer: &mut [u8; 256]) -> &str {
    let mut name = NameBuffer { buffer, length: 0 };
    // SAFETY: a type that is ready has a name.
    unsafe {
        if ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0 {
            name.push(CStr::from_ptr((*class).tp_name).to_bytes());
            return name.finish();
        }
        let qualname = Held::owned(ffi::PyType_GetQualName(class));
        if qualname.is_null() {
            ffi::PyErr_Clear();
        } else if let Some(length) = recent_names::find(class, qualname.as_ptr(), name.buffer) {
            // SAFETY: `find` has copied the bytes of a str to the buffer's start.
            return std::str::from_utf8_unchecked(&name.buffer[..length]);
        }
        let module = module_of_class(class);
        if !module.is_null() && !super::is_text(module.as_ptr(), "builtins") {
            name.push_text(module.as_ptr());
            name.push(b".");
        }
        let at = name.length;
        if !qualname.is_null() {
            name.push_text(qualname.as_ptr());
        }
        let name = name.finish();
        recent_names::keep(class, name, at);
        name
    }
}

/// Whether an object is a bound method of a Python function.
///
/// # Safety
/// `object` stands.
pub unsafe fn is_method(object: *mut PyObject) -> bool {
    // SAFETY: the caller promises that `object` stands.
    unsafe { ffi::Py_TYPE(object) == &raw mut PyMethod_Type }
}

/// The object that a bound method is bound to, and its function; both borrowed from the method.
///
/// # Safety
/// `object` stands.
pub unsafe fn parts_of_method(object: *mut PyObject) -> Option<(*mut PyObject, *mut PyObject)> {
    // SAFETY: the type is checked.
    unsafe { is_method(object).then(|| (PyMethod_Self(object), PyMethod_Function(object))) }
}

/// Writes the module and the qualified name of the code that a call of `callable` runs, as two atoms, as in messages of
/// calls. Methods, partials, static methods and `__call__` methods are looked through. A class is named itself; a
/// method written in C by the class that has it; a function of Cython's by its own attributes; any other object by its
/// type's `__call__`.
///
/// # Errors
/// [`Full`].
///
/// # Safety
/// `callable` stands, and the calling thread is attached and has no exception set.
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

/// The class of a bound method that is written in C: the nearest one with this very definition under the name. `None`
/// for a module's function.
///
/// # Safety
/// The function stands, and the calling thread is attached.
unsafe fn class_of_method(function: *mut ffi::PyCFunctionObject, name: &str) -> Option<*mut PyTypeObject> {
    // SAFETY: the caller promises that the function stands; types are checked, and the mro of a ready type is a tuple
    // of types.
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

/// Whether it is a method of a type written in C, unbound, or a special method of such a type, bound (`[].__len__`),
/// whose type has no public name.
///
/// # Safety
/// The object stands.
unsafe fn is_method_of_c(object: *mut PyObject) -> bool {
    // SAFETY: the caller promises that the object stands; a ready type has a name.
    unsafe {
        let class = ffi::Py_TYPE(object);
        class == &raw mut ffi::PyMethodDescr_Type
            || class == &raw mut ffi::PyClassMethodDescr_Type
            || class == &raw mut ffi::PyWrapperDescr_Type
            || ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0
                && CStr::from_ptr((*class).tp_name) == c"method-wrapper"
    }
}

/// Writes the module and the qualified name of an object that acts as a coroutine and has no Python frame, as two
/// atoms: its own if it has them, else those of its class.
///
/// # Errors
/// [`Full`].
///
/// # Safety
/// `object` stands, and the calling thread is attached and has no exception set.
pub unsafe fn name_of_coroutine(object: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the caller promises that `object` stands, and the calling thread is attached and has no exception set.
    unsafe {
        match own_names(object) {
            Some(names) => names.iter().try_for_each(|name| atom_or(name, "undefined", out)),
            None => class_atoms(ffi::Py_TYPE(object), "", out),
        }
    }
}

/// The module and the qualified name that a type written in C keeps with each object, as Cython's coroutines and
/// functions do.
///
/// # Safety
/// As [`name_of_coroutine`].
unsafe fn own_names(object: *mut PyObject) -> Option<[Held; 2]> {
    // SAFETY: the caller promises that the object stands; the class's attribute is held while its type is checked.
    // Classes written in Python have strings there.
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

/// Writes `(module, function, arity)` of the code that a call of `callable` runs, named as by [`name_of_callable`]. The
/// call has `arguments` positional arguments; `named` says that it has keyword arguments, too. If no code shows the
/// number of parameters, the arity is the number of arguments. Those of partials count, and all keyword arguments count
/// as one, as in the list of a call's arguments.
///
/// # Errors
/// [`Full`].
///
/// # Safety
/// As [`name_of_callable`].
pub unsafe fn place_of_callable(
    callable: *mut PyObject, mut arguments: usize, mut named: bool, out: &mut Encoder<'_>,
) -> Result<(), Full> {
    // SAFETY: the caller promises that the callable stands; a function holds its code, a partial its arguments, whose
    // types are checked.
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
    // SAFETY: the caller promises that the object stands, and the calling thread is attached.
    unsafe { type_name(ffi::Py_TYPE(object), &mut [0; 256]) == "functools.partial" }
}

/// Writes module and qualified name of the `run` method of a thread object, as two atoms.
///
/// # Errors
/// [`Full`].
///
/// # Safety
/// As [`name_of_callable`].
pub unsafe fn name_of_run(thread: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: an instance holds its type; the method is held.
    unsafe {
        let run = lookup(ffi::Py_TYPE(thread), c"run");
        if run.is_null() {
            return class_atoms(ffi::Py_TYPE(thread), ".run", out);
        }
        name_of_callable(run.as_ptr(), out)
    }
}

/// Writes `(module, function, arity)` of the `run` method of a thread object.
///
/// # Errors
/// [`Full`].
///
/// # Safety
/// As [`name_of_callable`].
pub unsafe fn place_of_run(thread: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: an instance holds its type; the method is held.
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
struct NameBuffer<'a> {
    buffer: &'a mut [u8; 256],
    length: usize,
}

impl<'a> NameBuffer<'a> {
    fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(self.buffer.len() - self.length);
        self.buffer[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
    }

    /// # Safety
    /// `text` is a str.
    unsafe fn push_text(&mut self, text: *mut PyObject) {
        let room = self.buffer.len() - self.length;
        // SAFETY: the caller promises a str.
        unsafe {
            match short_ascii(text, room) {
                Some(text) => self.push(text.as_bytes()),
                None => self.push(&utf8(text, room).0),
            }
        }
    }

    /// The valid part: the last character may have been cut, and a lone surrogate ends it.
    fn finish(self) -> &'a str {
        let bytes = &self.buffer[..self.length];
        match std::str::from_utf8(bytes) {
            Ok(name) => name,
            Err(e) => std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or(""),
        }
    }
}

/// Writes the module and the qualified name of a class, followed by `method`, as two atoms.
///
/// # Safety
/// `class` stands, and the calling thread is attached and has no exception set.
unsafe fn class_atoms(class: *mut PyTypeObject, method: &str, out: &mut Encoder<'_>) -> Result<(), Full> {
    let mut buffer = [0; 256];
    // SAFETY: the caller promises that the class stands.
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

/// Writes a str as an atom; `other` for any other object.
///
/// # Safety
/// `text` is null or holds an object; the calling thread is attached.
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
/// `class` stands throughout, and the calling thread is attached.
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

/// The object that a call of an object calls in turn, and the first argument that it adds, or null: the function of a
/// bound method, of a static method, of a partial, of a cache; the `__call__` of a class written in Python.
///
/// # Safety
/// `object` stands throughout, and the calling thread is attached.
pub unsafe fn wrapped(object: *mut PyObject) -> Option<(Held, Held)> {
    let none = || Held::borrowed(ptr::null_mut());
    // SAFETY: the types are checked; exact ones, whose attributes are the type's own. The method holds both its parts.
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
