//! The walk through an object: each part is read by the layout of its type, and written as a term.

use super::{
    atom::atom_of_str, away_pid, big, is_atom, own_pid, special_type, taken::Taken, type_name, Limits, Noted,
    SpecialType,
};
use crate::object::{held::list_get, int, text};
use inviso_term::{
    etf::{Encoder, Full, Node},
    term::Identifier,
};
use pyo3::ffi::{self, PyObject, PyTypeObject};

/// The form in which a sequence is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Tuple,
    TupleAsList,
    List,
}

/// Writes objects one by one.
pub(super) struct Walk<'a, 'b> {
    pub out: &'a mut Encoder<'b>,
    pub limits: &'a Limits,
    pub noted: Option<&'a mut Noted>,
}

impl Walk<'_, '_> {
    /// # Safety
    /// As [`super::encode`].
    pub unsafe fn value(&mut self, object: *mut PyObject, depth: u32) -> Result<(), Full> {
        if object.is_null() {
            return self.out.cut("unbound");
        }
        // SAFETY: the object stands; each read follows the layout of the type that was just checked.
        unsafe {
            let class = ffi::Py_TYPE(object);
            if class == &raw mut ffi::PyLong_Type {
                self.int(object)
            } else if class == &raw mut ffi::PyUnicode_Type {
                self.text(object)
            } else if object == ffi::Py_None() {
                self.out.atom("undefined")
            } else if class == &raw mut ffi::PyBool_Type {
                self.out.atom(if object == ffi::Py_True() { "true" } else { "false" })
            } else {
                self.other(object, class, depth)
            }
        }
    }

    /// # Safety
    /// As [`super::encode`], with the object's type.
    unsafe fn other(&mut self, object: *mut PyObject, class: *mut PyTypeObject, depth: u32) -> Result<(), Full> {
        // SAFETY: the caller promises that the object stands; each read follows the layout of the type that was just
        // checked.
        unsafe {
            if ffi::PyTuple_Check(object) != 0 {
                self.nested(depth, |walk, depth| walk.items(object, Shape::Tuple, depth))
            } else if ffi::PyList_Check(object) != 0 {
                self.nested(depth, |walk, depth| walk.items(object, Shape::List, depth))
            } else if ffi::PyDict_Check(object) != 0 {
                self.nested(depth, |walk, depth| walk.map(object, depth))
            } else if ffi::PyUnicode_Check(object) != 0 {
                if is_atom(class) {
                    atom_of_str(object, self.out)
                } else {
                    self.text(object)
                }
            } else if ffi::PyFloat_Check(object) != 0 {
                self.out.float(ffi::PyFloat_AS_DOUBLE(object))
            } else if ffi::PyBytes_Check(object) != 0 {
                self.bytes(object)
            } else if ffi::PyLong_Check(object) != 0 {
                self.int(object)
            } else if ffi::PyAnySet_Check(object) != 0 {
                self.nested(depth, |walk, depth| walk.set(object, depth))
            } else if let Some(number) = own_pid(object) {
                self.out.pid(number)
            } else if let Some(Identifier { id, rest, node, creation }) = away_pid(object, class) {
                self.out.pid_of(Node { name: &node, id, rest, creation })
            } else if let Some(special) = special_type(object, class) {
                self.special_type(special, depth)
            } else {
                self.opaque(object, class)
            }
        }
    }

    /// # Safety
    /// `special` was read just now from an object that stands.
    unsafe fn special_type(&mut self, special: SpecialType, depth: u32) -> Result<(), Full> {
        // SAFETY: the object holds its parts, whose types were checked.
        unsafe {
            match special {
                SpecialType::Reference(number) => self.out.reference(number),
                SpecialType::Port(number) => self.out.port(number),
                SpecialType::Bits(data, bits) => {
                    let size = (ffi::Py_SIZE(data) as usize).min(self.limits.bytes.max(1));
                    let bytes = std::slice::from_raw_parts(ffi::PyBytes_AS_STRING(data).cast::<u8>(), size);
                    if size < ffi::Py_SIZE(data) as usize {
                        return self.out.cut("bytes");
                    }
                    self.out.bits(bytes, bits)
                }
                SpecialType::Map(pairs) => self.nested(depth, |walk, depth| walk.pairs(pairs, depth)),
                SpecialType::Improper(list, tail) => self.nested(depth, |walk, depth| {
                    let size = ffi::PyList_GET_SIZE(list) as usize;
                    let taken = size.min(walk.limits.items);
                    walk.out.list(taken + usize::from(taken < size))?;
                    for i in 0..taken as ffi::Py_ssize_t {
                        walk.list_item(list, i, depth)?;
                    }
                    if taken < size {
                        walk.out.cut("items")?;
                    }
                    walk.value(tail, depth)
                }),
            }
        }
    }

    /// # Safety
    /// `pairs` is a list.
    unsafe fn pairs(&mut self, pairs: *mut PyObject, depth: u32) -> Result<(), Full> {
        // SAFETY: an item of the list is held while it is read; a tuple holds its items.
        unsafe {
            let size = (ffi::PyList_GET_SIZE(pairs) as usize).min(self.limits.items);
            self.out.map(size)?;
            for i in 0..size as ffi::Py_ssize_t {
                let pair = list_get(pairs, i);
                let good = !pair.is_null()
                    && ffi::PyTuple_Check(pair.as_ptr()) != 0
                    && ffi::PyTuple_GET_SIZE(pair.as_ptr()) == 2;
                if !good {
                    self.out.cut("changed")?;
                    self.out.cut("changed")?;
                    continue;
                }
                self.value(ffi::PyTuple_GET_ITEM(pair.as_ptr(), 0), depth)?;
                self.value(ffi::PyTuple_GET_ITEM(pair.as_ptr(), 1), depth)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`super::encode`], with the object's type.
    unsafe fn opaque(&mut self, object: *mut PyObject, class: *mut PyTypeObject) -> Result<(), Full> {
        let mut name = [0; 256];
        let start = self.out.mark();
        // SAFETY: the caller promises that the object stands with its type, and, if it is noted, that `noted` is
        // dropped attached.
        unsafe {
            self.out.opaque(type_name(class, &mut name), object as u64, None)?;
            if let Some(noted) = &mut self.noted {
                noted.add(start, self.out.mark(), object);
            }
        }
        Ok(())
    }

    #[inline]
    fn nested(&mut self, depth: u32, inner: impl FnOnce(&mut Self, u32) -> Result<(), Full>) -> Result<(), Full> {
        match depth.checked_sub(1) {
            Some(depth) => inner(self, depth),
            None => self.out.cut("depth"),
        }
    }

    /// # Safety
    /// `object` is an int.
    #[inline]
    unsafe fn int(&mut self, object: *mut PyObject) -> Result<(), Full> {
        // SAFETY: the caller promises an int.
        unsafe {
            match int::value(object) {
                Ok(n) => self.out.int(n),
                Err(sign) => self.big(object, sign < 0),
            }
        }
    }

    /// An int beyond 64 bits.
    ///
    /// # Safety
    /// As [`super::magnitude`].
    #[cold]
    unsafe fn big(&mut self, object: *mut PyObject, negative: bool) -> Result<(), Full> {
        // SAFETY: the caller promises an int.
        match unsafe { big::magnitude(object, negative, self.limits.bytes) } {
            Some(magnitude) => self.out.big(negative, &magnitude),
            None => self.out.cut("bytes"),
        }
    }

    /// # Safety
    /// `object` is a str.
    #[inline]
    unsafe fn text(&mut self, object: *mut PyObject) -> Result<(), Full> {
        // SAFETY: the caller promises a str.
        unsafe {
            if let Some(text) = text::short_ascii(object, self.limits.bytes) {
                return self.out.str(text);
            }
            self.long_text(object)
        }
    }

    /// A str that is not ASCII, or too long.
    ///
    /// # Safety
    /// `object` is a str.
    #[inline(never)]
    unsafe fn long_text(&mut self, object: *mut PyObject) -> Result<(), Full> {
        // SAFETY: the caller promises a str.
        let (taken, cut) = unsafe { text::utf8(object, self.limits.bytes) };
        if cut {
            self.out.list(2)?;
        }
        match std::str::from_utf8(&taken) {
            Ok(text) => self.out.str(text)?,
            Err(_) => self.out.bytes(&taken)?,
        }
        if cut {
            self.cut_tail()
        } else {
            Ok(())
        }
    }

    /// # Safety
    /// `object` is a bytes.
    unsafe fn bytes(&mut self, object: *mut PyObject) -> Result<(), Full> {
        // SAFETY: the caller promises a bytes object, whose data has this size and never changes.
        let bytes = unsafe {
            std::slice::from_raw_parts(ffi::PyBytes_AS_STRING(object).cast::<u8>(), ffi::Py_SIZE(object) as usize)
        };
        match bytes.get(..self.limits.bytes) {
            Some(taken) if taken.len() < bytes.len() => {
                self.out.list(2)?;
                self.out.bytes(taken)?;
                self.cut_tail()
            }
            _ => self.out.bytes(bytes),
        }
    }

    /// The second item and the end of the list in which a cut str or bytes is written.
    fn cut_tail(&mut self) -> Result<(), Full> {
        self.out.cut("bytes")?;
        self.out.nil()
    }

    /// # Safety
    /// `object` is a tuple or a list, as `shape` says.
    pub unsafe fn items(&mut self, object: *mut PyObject, shape: Shape, depth: u32) -> Result<(), Full> {
        // SAFETY: the caller promises the type of `shape`. A tuple holds its items; a list's are held.
        unsafe {
            let size = match shape {
                Shape::List => ffi::PyList_GET_SIZE(object),
                _ => ffi::PyTuple_GET_SIZE(object),
            } as usize;
            let taken = size.min(self.limits.items);
            let written = taken + (taken < size) as usize;
            match shape {
                Shape::Tuple => self.out.tuple(written)?,
                _ if written == 0 => return self.out.nil(),
                _ => self.out.list(written)?,
            }
            for i in 0..taken as ffi::Py_ssize_t {
                match shape {
                    Shape::List => self.list_item(object, i, depth)?,
                    _ => self.value(ffi::PyTuple_GET_ITEM(object, i), depth)?,
                }
            }
            if taken < size {
                self.out.cut("items")?;
            }
            match shape {
                Shape::Tuple => Ok(()),
                _ => self.out.nil(),
            }
        }
    }

    /// Item `i` of a list, if it is still there.
    ///
    /// # Safety
    /// As [`super::encode`]; `list` is a list.
    #[inline]
    unsafe fn list_item(&mut self, list: *mut PyObject, i: ffi::Py_ssize_t, depth: u32) -> Result<(), Full> {
        // SAFETY: the item is held while it is read.
        unsafe {
            let item = list_get(list, i);
            if item.is_null() {
                return self.out.cut("changed");
            }
            self.value(item.as_ptr(), depth)
        }
    }

    /// The most items that are taken of a dict or set. Each needs a byte at least: more could not be written.
    fn most(&self) -> usize {
        self.limits.items.min(self.out.room())
    }

    /// # Safety
    /// `object` is a dict.
    unsafe fn map(&mut self, object: *mut PyObject, depth: u32) -> Result<(), Full> {
        // SAFETY: the caller promises a dict; the pairs are held.
        unsafe {
            let pairs = Taken::pairs(object, self.most());
            self.out.map(pairs.len() + (pairs.left > 0) as usize)?;
            pairs.each(|key, value| {
                self.value(key, depth)?;
                self.value(value, depth)
            })?;
            if pairs.left > 0 {
                self.out.cut("items")?;
                self.out.int(pairs.left as i64)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// `object` is a set or a frozenset.
    unsafe fn set(&mut self, object: *mut PyObject, depth: u32) -> Result<(), Full> {
        // SAFETY: the caller promises a set; the members are held.
        unsafe {
            let items = Taken::members(object, self.most());
            self.out.set(items.len() + (items.left > 0) as usize)?;
            items.each(|item, _| self.value(item, depth))?;
            if items.left > 0 {
                self.out.cut("items")?;
            }
        }
        self.out.nil()
    }
}
