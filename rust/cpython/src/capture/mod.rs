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
//! Items are held while they are read. Those of a dict or set, within the limit, are first taken: on a free-threaded
//! build under its lock. There a held item dies here if its last other owner releases it at that moment.
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
mod recent_names;
mod special_types;
mod taken;
mod walk;

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use inviso_term::etf::{Encoder, Full};
use inviso_term::term::Identifier;
use pyo3::ffi::{self, PyObject, PyTypeObject};

use walk::{Shape, Walk};

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
pub use taken::next_item;

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
#[inline]
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
