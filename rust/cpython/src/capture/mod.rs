//! Snapshots of live Python objects, as terms.
//!
//! At a trace point `None`, bools, ints, floats, str, bytes and tuples, lists, dicts and sets of these are copied. Any
//! other object becomes an opaque term: its type's name and its id. Instances of subclasses count as their base. The
//! objects are read by the layouts of the built-in types alone: no code of the program runs, Python allocates nothing,
//! and no exception is left or lost.
//!
//! A part that doesn't fit the [`Limits`] is cut, and a cut term gives the reason:
//!
//! | reason | where |
//! | --- | --- |
//! | `depth` | in place of a container that is nested too deep |
//! | `items` | after the last of a container's items that were taken; in a map as a key, with the number left as its value |
//! | `bytes` | after the taken part of a str or bytes, in a list with it; in place of an int, or of a whole value that the buffer has no space for |
//! | `changed` | in place of an item that another thread removed meanwhile |
//! | `unbound` | in place of a variable's value that isn't there |
//! | `arguments` | in place of all arguments, when there is no space for them; after the first one of a function written in C |
//! | `objects` | in place of all arguments, when too many objects wait for a tracer already (`capture="ref"`) |
//!
//! On a free-threaded build items are held while they are read, and dicts and sets are first copied under their lock. A
//! held item dies here if its last other owner releases it at that moment.
//!
//! # Roles
//! The package registers its classes once, attached. Any attached thread takes snapshots.
//!
//! # States
//! A class is null until it is registered, and then stays.
//!
//! # Orderings
//! The functions of a class are stored before the class, all `Release`; a reader loads the class first, with `Acquire`.
//!
//! # Checked by
//! `tests/python/test_trace_options.py`, `tests/python/test_differential.py`.

mod atom;
mod big;
mod class;
pub mod frame_names;
mod names;
mod noted;
mod raised;
mod special_types;
mod taken;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use inviso_term::etf::{Encoder, Full, Node};
use inviso_term::term::Identifier;
use pyo3::ffi::{self, PyObject, PyTypeObject};

use crate::{
    layout,
    object::{held::list_get, text},
};
use taken::Taken;

pub use crate::object::text::{is_text, is_text_of, text_is, text_of, units, Units};
pub use atom::atom_of_str;
pub use big::magnitude;
pub use class::{attribute_of_class, each_definition, instance_dict};
pub use names::{
    is_method, is_partial, name_of_callable, name_of_coroutine, name_of_run, parts_of_method, place_of_callable,
    place_of_run, type_name, wrapped,
};
pub use noted::Noted;
pub use raised::{arguments as exception_arguments, exception, exception_class, Raised};
pub use special_types::{offset_of, register as register_special_types, special_type, SpecialType};

/// The most of a value that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The deepest nesting of containers.
    pub depth: u32,
    /// The most items of one container.
    pub items: usize,
    /// The most bytes of one str, bytes or int.
    pub bytes: usize,
}

impl Limits {
    /// The limits of a session that gives none.
    pub const DEFAULT: Limits = Limits { depth: 8, items: 100, bytes: 1024 };

    /// The deepest nesting, whatever is asked for: the walk is recursive.
    pub const MAX_DEPTH: u32 = 64;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

/// Reads a process's number out of a Pid; `None` for a process of another node.
pub type PidOf = unsafe fn(*mut PyObject) -> Option<u64>;

/// Reads a process of another node out of a Pid.
pub type AwayOf = unsafe fn(*mut PyObject) -> Option<Identifier>;

static ATOM: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static PID: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static PID_OF: AtomicUsize = AtomicUsize::new(0);
static AWAY_OF: AtomicUsize = AtomicUsize::new(0);

/// From now on instances of `class`, a subclass of str, are atoms.
///
/// # Safety
/// `class` lives as long as the process.
pub unsafe fn register_atom(class: *mut PyTypeObject) {
    ATOM.store(class, Ordering::Release);
}

/// From now on instances of `class` are pids. `number` reads the number of one, `away` the process of one of another
/// node.
///
/// # Safety
/// `class` lives as long as the process; `number` and `away` may be called with any exact instance by any attached
/// thread, run no Python code and don't panic.
pub unsafe fn register_pid(class: *mut PyTypeObject, number: PidOf, away: AwayOf) {
    AWAY_OF.store(away as usize, Ordering::Release);
    PID_OF.store(number as usize, Ordering::Release);
    PID.store(class, Ordering::Release);
}

/// Whether instances of `class` are atoms.
pub fn is_atom(class: *mut PyTypeObject) -> bool {
    class == ATOM.load(Ordering::Acquire)
}

/// The number of a pid of this node; `None` for any other object.
///
/// # Safety
/// `object` stands, and the calling thread is attached.
pub unsafe fn own_pid(object: *mut PyObject) -> Option<u64> {
    // SAFETY: the caller promises that `object` stands, and the calling thread is attached.
    unsafe {
        if ffi::Py_TYPE(object) != PID.load(Ordering::Acquire) {
            return None;
        }
        let number = PID_OF.load(Ordering::Acquire);
        // Stored before the type, and always such a function.
        std::mem::transmute::<usize, PidOf>(number)(object)
    }
}

/// Whether a class is that of pids.
pub fn is_pid(class: *mut PyTypeObject) -> bool {
    !class.is_null() && class == PID.load(Ordering::Acquire)
}

/// The process of a pid of another node; `None` for any other object.
///
/// # Safety
/// As [`own_pid`].
unsafe fn away_pid(object: *mut PyObject, class: *mut PyTypeObject) -> Option<Identifier> {
    if class != PID.load(Ordering::Acquire) {
        return None;
    }
    let away = AWAY_OF.load(Ordering::Acquire);
    // SAFETY: the caller promises that `object` stands, and the calling thread is attached; `away` was stored before
    // the type, and is always such a function.
    unsafe { std::mem::transmute::<usize, AwayOf>(away)(object) }
}

/// Writes a snapshot of `object`; null is an unbound variable. A value that the buffer has no space for is cut as a
/// whole.
///
/// # Safety
/// `object` is null or stands during the call, and the calling thread is attached.
///
/// # Errors
/// [`Full`] if there isn't even space for the cut; the written part is taken back.
#[inline]
pub unsafe fn encode(object: *mut PyObject, out: &mut Encoder<'_>, limits: &Limits) -> Result<(), Full> {
    // the commonest values, without a call
    // SAFETY: the type is checked first.
    unsafe {
        if !object.is_null() && ffi::Py_TYPE(object) == &raw mut ffi::PyLong_Type {
            if let Some(n) = layout::small_int(object).and_then(|n| i32::try_from(n).ok()) {
                if out.int(n.into()).is_ok() {
                    return Ok(());
                }
            }
        }
    }
    let mark = out.mark();
    // SAFETY: the caller promises that `object` is null or stands during the call, and the calling thread is attached.
    let written = unsafe { Walk { out, limits, noted: None }.value(object, limits.depth.min(Limits::MAX_DEPTH)) };
    match written {
        Ok(()) => Ok(()),
        Err(full) => too_large(out, mark, full),
    }
}

/// As [`encode`]; records the objects that are not copied, for [`Noted::fill`].
///
/// # Safety
/// As [`encode`], and `noted` is dropped attached.
///
/// # Errors
/// As [`encode`].
pub unsafe fn encode_noting(
    object: *mut PyObject, out: &mut Encoder<'_>, limits: &Limits, noted: &mut Noted,
) -> Result<(), Full> {
    let mark = out.mark();
    let mut walk = Walk { out, limits, noted: Some(&mut *noted) };
    // SAFETY: the caller promises that `object` is null or stands during the call, and the calling thread is attached,
    // and `noted` is dropped attached.
    let written = unsafe { walk.value(object, limits.depth.min(Limits::MAX_DEPTH)) };
    match written {
        Ok(()) => Ok(()),
        Err(full) => {
            noted.truncate(mark);
            too_large(out, mark, full)
        }
    }
}

/// Writes the items of a tuple or list as a list; an empty list for any other object.
///
/// # Safety
/// As [`encode`], and `sequence` is not null.
///
/// # Errors
/// [`Full`]; the written part is taken back.
pub unsafe fn list_of(sequence: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    let mark = out.mark();
    let limits = &Limits::DEFAULT;
    let mut walk = Walk { out, limits, noted: None };
    // SAFETY: the caller promises that `object` is null or stands during the call, and the calling thread is attached,
    // and `sequence` is not null; the types are checked.
    let written = unsafe {
        if ffi::PyTuple_Check(sequence) != 0 {
            walk.items(sequence, Shape::TupleAsList, limits.depth)
        } else if ffi::PyList_Check(sequence) != 0 {
            walk.items(sequence, Shape::List, limits.depth)
        } else {
            walk.out.nil()
        }
    };
    if written.is_err() {
        out.truncate(mark);
    }
    written
}

#[cold]
fn too_large(out: &mut Encoder<'_>, mark: usize, full: Full) -> Result<(), Full> {
    out.truncate(mark);
    if out.cut("bytes").is_ok() {
        return Ok(());
    }
    out.truncate(mark);
    Err(full)
}

/// The form in which a sequence is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Tuple,
    TupleAsList,
    List,
}

struct Walk<'a, 'b> {
    out: &'a mut Encoder<'b>,
    limits: &'a Limits,
    noted: Option<&'a mut Noted>,
}

impl Walk<'_, '_> {
    /// # Safety
    /// As [`encode`].
    unsafe fn value(&mut self, object: *mut PyObject, depth: u32) -> Result<(), Full> {
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
    /// As [`encode`], with the object's type.
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
                if class == ATOM.load(Ordering::Acquire) {
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
        // SAFETY: items of a list are held or can't be removed meanwhile; a tuple holds its items.
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
    /// As [`encode`], with the object's type.
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
        if let Some(n) = unsafe { layout::small_int(object) } {
            return self.out.int(n);
        }
        let mut overflow: c_int = 0;
        // SAFETY: an int can only fail by overflow.
        let n = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
        if overflow == 0 {
            return self.out.int(n);
        }
        // SAFETY: the caller promises an int.
        unsafe { self.big(object, overflow < 0) }
    }

    /// An int beyond 64 bits.
    ///
    /// # Safety
    /// As [`magnitude`].
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
    unsafe fn items(&mut self, object: *mut PyObject, shape: Shape, depth: u32) -> Result<(), Full> {
        // SAFETY: the caller promises the type of `shape`. A tuple holds its items; a list's are held or can't be
        // removed meanwhile.
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

    /// Item `i` of a list.
    ///
    /// # Safety
    /// As [`encode`]; `list` is a list, and `i` is below its size.
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline]
    unsafe fn list_item(&mut self, list: *mut PyObject, i: ffi::Py_ssize_t, depth: u32) -> Result<(), Full> {
        // SAFETY: no code runs that could change the list while this thread holds the GIL, so `i` is below its size.
        unsafe { self.value(ffi::PyList_GET_ITEM(list, i), depth) }
    }

    /// Item `i` of a list, if it is still there.
    ///
    /// # Safety
    /// As [`encode`]; `list` is a list.
    #[cfg(Py_GIL_DISABLED)]
    #[inline]
    unsafe fn list_item(&mut self, list: *mut PyObject, i: ffi::Py_ssize_t, depth: u32) -> Result<(), Full> {
        // SAFETY: the item is held while it is read.
        unsafe {
            let item = ffi::PyList_GetItemRef(list, i);
            if item.is_null() {
                ffi::PyErr_Clear();
                return self.out.cut("changed");
            }
            let written = self.value(item, depth);
            ffi::Py_DECREF(item);
            written
        }
    }

    /// # Safety
    /// `object` is a dict.
    unsafe fn map(&mut self, object: *mut PyObject, depth: u32) -> Result<(), Full> {
        // SAFETY: the caller promises a dict; pairs are held or can't be removed meanwhile.
        unsafe {
            let pairs = Taken::pairs(object, self.limits.items);
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
        // SAFETY: the caller promises a set; members are held or can't be removed meanwhile.
        unsafe {
            let items = Taken::members(object, self.limits.items);
            self.out.set(items.len() + (items.left > 0) as usize)?;
            items.each(|item, _| self.value(item, depth))?;
            if items.left > 0 {
                self.out.cut("items")?;
            }
        }
        self.out.nil()
    }
}
