//! Live Python objects as a match spec sees them: read by the layouts of the built-in types alone, so that no code of
//! the program runs.
//!
//! An instance of a class that derives from int, float, str, bytes, tuple, list, dict or set counts as its base.

use std::{
    cell::{OnceCell, RefCell},
    marker::PhantomData,
};

use inviso_match::view::{Binary, Look, View};
use inviso_term::{
    etf::{self, Encoder},
    term::Term,
};
use num_bigint::{BigInt, Sign};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
};

use inviso_cpython::{
    capture::{self, Limits, SpecialType, Units},
    frames::frame,
    object::{
        held::{list_get, locked, Held},
        int,
    },
};

/// The objects that are held while one program runs. Most programs hold none, and most calls run no program: the list is made for the
/// first object.
#[derive(Default)]
pub struct Kept {
    objects: OnceCell<Box<RefCell<Vec<Held>>>>,
}

impl Drop for Kept {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(objects) = self.objects.take() {
            release(objects);
        }
    }
}

/// Drops the references.
#[cold]
#[inline(never)]
fn release(objects: Box<RefCell<Vec<Held>>>) {
    drop(objects);
}

impl Kept {
    /// Keeps an object for as long as this lives.
    #[inline(always)]
    fn keep(&self, held: Held) -> *mut PyObject {
        let object = held.as_ptr();
        if held.is_owned() {
            self.objects.get_or_init(Box::default).borrow_mut().push(held);
        }
        object
    }

    /// The nth object that is kept.
    #[cfg(Py_GIL_DISABLED)]
    fn at(&self, n: usize) -> *mut PyObject {
        self.objects.get().and_then(|kept| kept.borrow().get(n).map(Held::as_ptr)).unwrap_or(std::ptr::null_mut())
    }

    #[cfg(Py_GIL_DISABLED)]
    fn len(&self) -> usize {
        self.objects.get().map_or(0, |kept| kept.borrow().len())
    }
}

/// An object that stands at least as long as `'a`.
#[derive(Clone, Copy)]
pub struct PyView<'a> {
    object: *mut PyObject,
    kept: &'a Kept,
    stands: PhantomData<&'a PyObject>,
}

impl<'a> PyView<'a> {
    /// An object.
    ///
    /// # Safety
    /// The object stands as long as `'a`, or `held` owns it; the calling thread is attached all that time.
    #[inline(always)]
    pub unsafe fn new(held: Held, kept: &'a Kept) -> Option<PyView<'a>> {
        let object = kept.keep(held);
        (!object.is_null()).then_some(PyView { object, kept, stands: PhantomData })
    }

    /// The object, which stands as long as `'a`.
    pub fn as_ptr(self) -> *mut PyObject {
        self.object
    }

    #[inline(always)]
    fn of(self, held: Held) -> Option<PyView<'a>> {
        // SAFETY: a borrowed object stands as long as its container, which is `self` or a part of it.
        unsafe { PyView::new(held, self.kept) }
    }

    #[inline(always)]
    fn class(self) -> *mut ffi::PyTypeObject {
        // SAFETY: the object stands.
        unsafe { ffi::Py_TYPE(self.object) }
    }

    fn special_type(self) -> Option<SpecialType> {
        // SAFETY: the object stands; the thread is attached.
        unsafe { capture::special_type(self.object, self.class()) }
    }

    #[inline]
    fn int(self) -> Look<'a> {
        // SAFETY: the callers have checked that it is an int.
        unsafe {
            match int::value(self.object) {
                Ok(n) => Look::Int(n),
                Err(_) => Look::Big,
            }
        }
    }

    #[inline]
    fn text(self) -> Look<'a> {
        // SAFETY: the callers have checked that it is a str, which never changes.
        match unsafe { capture::units(self.object) } {
            Some(Units::One(units)) if units.is_ascii() => Look::Binary(Binary::Bytes(units)),
            Some(Units::One(units)) => Look::Binary(Binary::Latin1(units)),
            Some(Units::Two(units)) => Look::Binary(Binary::Ucs2(units)),
            Some(Units::Four(units)) => Look::Binary(Binary::Ucs4(units)),
            None => Look::Other,
        }
    }

    fn atom(self) -> Look<'a> {
        let mut size = 0;
        // SAFETY: the caller has checked that it is a str; the result lies in it, is UTF-8, and has this length.
        unsafe {
            if let Some(Units::One(units)) = capture::units(self.object) {
                if units.is_ascii() {
                    return Look::Atom(std::str::from_utf8_unchecked(units));
                }
            }
            let text = ffi::PyUnicode_AsUTF8AndSize(self.object, &raw mut size);
            if text.is_null() {
                ffi::PyErr_Clear();
                return Look::Other;
            }
            let bytes = std::slice::from_raw_parts(text.cast::<u8>(), size as usize);
            Look::Atom(std::str::from_utf8_unchecked(bytes))
        }
    }

    #[inline(never)]
    fn other(self) -> Look<'a> {
        let (object, class) = (self.object, self.class());
        // SAFETY: the object stands; each read follows the layout of the type that was just checked.
        unsafe {
            if ffi::PyTuple_Check(object) != 0 {
                return Look::Tuple(ffi::PyTuple_GET_SIZE(object) as usize);
            }
            if ffi::PyList_Check(object) != 0 {
                return Look::List(ffi::PyList_GET_SIZE(object) as usize);
            }
            if ffi::PyDict_Check(object) != 0 {
                return Look::Map(ffi::PyDict_Size(object) as usize);
            }
            if ffi::PyUnicode_Check(object) != 0 {
                return if capture::is_atom(class) { self.atom() } else { self.text() };
            }
            if ffi::PyFloat_Check(object) != 0 {
                return Look::Float(ffi::PyFloat_AS_DOUBLE(object));
            }
            if ffi::PyBytes_Check(object) != 0 {
                return Look::Binary(Binary::Bytes(bytes(object)));
            }
            if ffi::PyLong_Check(object) != 0 {
                return self.int();
            }
            if ffi::PyAnySet_Check(object) != 0 {
                return Look::Set(ffi::PySet_Size(object) as usize);
            }
            if capture::is_pid(class) {
                return Look::Pid;
            }
            if ffi::PyFunction_Check(object) != 0 {
                let arity = || frame::arity(ffi::PyFunction_GetCode(object)) as u64;
                return Look::Fun(inviso_cpython::layout::is_readable().then(arity));
            }
            if ffi::PyCFunction_Check(object) != 0 || capture::is_method(object) {
                return Look::Fun(None);
            }
            match self.special_type() {
                Some(SpecialType::Map(pairs)) => Look::Map(ffi::PyList_GET_SIZE(pairs) as usize),
                Some(SpecialType::Bits(data, bits)) => Look::Binary(Binary::Bits(bytes(data), bits)),
                Some(SpecialType::Improper(list, _)) => Look::Improper(ffi::PyList_GET_SIZE(list) as usize),
                Some(SpecialType::Reference(_)) => Look::Ref,
                Some(SpecialType::Port(_)) => Look::Port,
                None => Look::Other,
            }
        }
    }
}

/// # Safety
/// `object` is a bytes and stands as long as `'a`.
unsafe fn bytes<'a>(object: *mut PyObject) -> &'a [u8] {
    // SAFETY: the caller promises a bytes object, whose data has this size and never changes.
    unsafe { std::slice::from_raw_parts(ffi::PyBytes_AS_STRING(object).cast::<u8>(), ffi::Py_SIZE(object) as usize) }
}

impl<'a> View<'a> for PyView<'a> {
    #[inline(always)]
    fn look(self) -> Look<'a> {
        let (object, class) = (self.object, self.class());
        // SAFETY: the objects and types that are compared with live for ever.
        unsafe {
            if class == &raw mut ffi::PyLong_Type {
                self.int()
            } else if class == &raw mut ffi::PyUnicode_Type {
                self.text()
            } else if object == ffi::Py_None() {
                Look::Atom("undefined")
            } else if class == &raw mut ffi::PyBool_Type {
                Look::Atom(if object == ffi::Py_True() { "true" } else { "false" })
            } else {
                self.other()
            }
        }
    }

    #[inline(always)]
    fn is(self, other: Self) -> bool {
        self.object == other.object
    }

    fn big(self) -> BigInt {
        // SAFETY: called for an int only; it has that many bytes.
        unsafe {
            match int::value(self.object) {
                Ok(n) => BigInt::from(n),
                Err(sign) => {
                    let magnitude = capture::magnitude(self.object, sign < 0, usize::MAX).unwrap_or_default();
                    BigInt::from_bytes_le(if sign < 0 { Sign::Minus } else { Sign::Plus }, &magnitude)
                }
            }
        }
    }

    #[inline]
    fn element(self, n: usize) -> Option<Self> {
        // SAFETY: the type is checked; an index is checked before it is used.
        unsafe {
            if ffi::PyTuple_Check(self.object) != 0 {
                if n >= ffi::PyTuple_GET_SIZE(self.object) as usize {
                    return None;
                }
                return self.of(Held::borrowed(ffi::PyTuple_GET_ITEM(self.object, n as ffi::Py_ssize_t)));
            }
            if ffi::PyList_Check(self.object) != 0 {
                return self.of(list_get(self.object, n as ffi::Py_ssize_t));
            }
            match self.special_type()? {
                SpecialType::Improper(list, _) => self.of(list_get(list, n as ffi::Py_ssize_t)),
                _ => None,
            }
        }
    }

    fn tail(self) -> Option<Self> {
        match self.special_type()? {
            SpecialType::Improper(_, tail) => self.of(Held::borrowed(tail)),
            _ => None,
        }
    }

    fn pair(self, at: &mut usize) -> Option<(Self, Self)> {
        // SAFETY: the types are checked.
        unsafe {
            if ffi::PyDict_Check(self.object) != 0 {
                return self.dict_pair(at);
            }
            let SpecialType::Map(pairs) = self.special_type()? else { return None };
            let pair = self.of(list_get(pairs, *at as ffi::Py_ssize_t))?;
            *at += 1;
            Some((pair.element(0)?, pair.element(1)?))
        }
    }

    fn member(self, at: &mut usize) -> Option<Self> {
        // SAFETY: the type is checked.
        unsafe {
            if ffi::PyAnySet_Check(self.object) == 0 {
                return None;
            }
            self.set_member(at)
        }
    }

    fn attribute(self, name: &str) -> Option<Self> {
        // SAFETY: the object stands; the thread is attached.
        unsafe { self.own_field(name).or_else(|| self.slot(name)) }
    }

    fn is_instance(self, name: &str) -> bool {
        let mut buffer = [0; 256];
        // SAFETY: the mro of a ready type is a tuple of types.
        unsafe {
            let order = (*self.class()).tp_mro;
            if order.is_null() {
                return false;
            }
            (0..ffi::PyTuple_GET_SIZE(order)).any(|i| {
                let found = capture::type_name(ffi::PyTuple_GET_ITEM(order, i).cast(), &mut buffer);
                found == name || !found.contains('.') && name.strip_prefix("builtins.") == Some(found)
            })
        }
    }

    fn to_term(self) -> Term {
        const MOST: usize = 1 << 20;
        let mut room = 4096;
        loop {
            let mut buffer = vec![0; room];
            let mut out = Encoder::new(&mut buffer);
            // SAFETY: the object stands; the thread is attached.
            let written = unsafe { capture::encode(self.object, &mut out, &Limits::DEFAULT) };
            if written.is_ok() && out.room() > 64 || room >= MOST {
                return etf::decode(out.written()).unwrap_or_else(|_| Term::Cut("bytes".into()));
            }
            room *= 4;
        }
    }
}

impl PyView<'_> {
    /// The next key and value of a dict.
    ///
    /// # Safety
    /// The object is a dict.
    unsafe fn dict_pair(self, at: &mut usize) -> Option<(Self, Self)> {
        // SAFETY: the caller promises a dict.
        let (key, value) = unsafe { self.next_item(at, false) }?;
        Some((self.of(key)?, self.of(value)?))
    }

    /// The next member of a set.
    ///
    /// # Safety
    /// The object is a set or a frozenset.
    unsafe fn set_member(self, at: &mut usize) -> Option<Self> {
        // SAFETY: the caller promises a set.
        let (key, _) = unsafe { self.next_item(at, true) }?;
        self.of(key)
    }

    /// The next key and value (null in a set). With a GIL nothing changes the dict or set while a program runs.
    ///
    /// # Safety
    /// The object is a set or a frozenset if `is_set`, else a dict.
    #[cfg(not(Py_GIL_DISABLED))]
    unsafe fn next_item(self, at: &mut usize, is_set: bool) -> Option<(Held, Held)> {
        let mut position = *at as ffi::Py_ssize_t;
        // SAFETY: the caller promises the type.
        let (key, value) = unsafe { capture::next_item(self.object, is_set, &mut position) }?;
        *at = position as usize;
        Some((Held::borrowed(key), Held::borrowed(value)))
    }

    /// The next key and value (null in a set). Other threads may change a dict or set while it is walked. So all its
    /// items are taken under its lock at the first step. `at` is 0, or has the end and the next place among the objects
    /// that are kept.
    ///
    /// # Safety
    /// The object is a set or a frozenset if `is_set`, else a dict.
    #[cfg(Py_GIL_DISABLED)]
    unsafe fn next_item(self, at: &mut usize, is_set: bool) -> Option<(Held, Held)> {
        const BITS: usize = 31;
        const MASK: usize = (1 << BITS) - 1;
        const TAKEN: usize = 1 << 63;
        let step = if is_set { 1 } else { 2 };
        if *at == 0 {
            let first = self.kept.len();
            let most = (MASK - first) / step;
            // SAFETY: the caller promises a dict or set, which is locked: its items stand until they are held. No
            // Python code runs in here.
            unsafe {
                locked(self.object, || {
                    let mut position = 0;
                    for _ in 0..most {
                        let Some((key, value)) = capture::next_item(self.object, is_set, &mut position) else { break };
                        [key, value].into_iter().take(step).for_each(|object| _ = self.kept.keep(Held::new(object)));
                    }
                });
            }
            *at = TAKEN | self.kept.len() << BITS | first;
        }
        let (next, end) = (*at & MASK, *at >> BITS & MASK);
        if next + step > end {
            return None;
        }
        *at += step;
        let value = if is_set { std::ptr::null_mut() } else { self.kept.at(next + 1) };
        Some((Held::borrowed(self.kept.at(next)), Held::borrowed(value)))
    }
}

impl PyView<'_> {
    /// A field in the instance's own dict.
    ///
    /// # Safety
    /// The calling thread has no exception set.
    unsafe fn own_field(self, name: &str) -> Option<Self> {
        // SAFETY: the object stands; the thread is attached. The dict of a type object is not an instance dict.
        unsafe {
            if ffi::PyType_Check(self.object) != 0 {
                return None;
            }
            let dict = capture::instance_dict(self.object);
            if dict.is_null() || ffi::PyDict_Check(dict.as_ptr()) == 0 {
                return None;
            }
            // walked without a look-up: a key that is not a str may have its own hash and equality
            let dict = self.of(dict)?;
            let mut at = 0;
            while let Some((key, value)) = dict.dict_pair(&mut at) {
                if ffi::PyUnicode_CheckExact(key.object) != 0 && capture::is_text_of(key.object, name) {
                    return Some(value);
                }
            }
            None
        }
    }

    /// A slot of the object's class.
    ///
    /// # Safety
    /// Only the promises of [`PyView::new`].
    unsafe fn slot(self, name: &str) -> Option<Self> {
        // SAFETY: the object stands, and its class has a slot at this offset; the thread is attached.
        unsafe {
            let offset = capture::offset_of(self.class(), name)?;
            let place: *mut *mut PyObject = self.object.cast::<u8>().add(offset).cast();
            self.of(locked(self.object, || Held::new(place.read())))
        }
    }
}

/// Views an object.
///
/// # Errors
/// The error of `with`.
pub fn looked_at<T>(object: &Bound<'_, PyAny>, with: impl FnOnce(PyView<'_>) -> PyResult<T>) -> PyResult<T> {
    let kept = Kept::default();
    // SAFETY: the caller holds the object; the thread is attached.
    let view = unsafe { PyView::new(Held::borrowed(object.as_ptr()), &kept) };
    with(view.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("no object"))?)
}
