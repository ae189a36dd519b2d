//! Objects of this package's own classes for terms, read from their slots.
//!
//! # Roles
//! The package registers its classes once, attached. Any attached thread reads.
//!
//! # States
//! A class is null until it is registered, and then stays.
//!
//! # Orderings
//! The offsets are stored before the class, all `Release`; a reader loads the class first, with `Acquire`.
//!
//! # Checked by
//! `tests/python/test_otp_terms.py`, `tests/python/test_etf.py`.

use std::{
    ptr,
    sync::{
        atomic::{
            AtomicPtr, AtomicUsize,
            Ordering::{Acquire, Release},
        },
        OnceLock,
    },
};

use pyo3::ffi::{self, PyObject, PyTypeObject};

use super::class::attribute_of_class;
use crate::{layout, object::int};

/// A term for which Python has no type. Its parts are borrowed; their types were checked.
#[derive(Clone, Copy)]
pub enum SpecialType {
    /// `Map`: a list of pairs.
    Map(*mut PyObject),
    /// `BitString`: bytes, and how many bits of the last one count.
    Bits(*mut PyObject, u8),
    /// `ImproperList`: a list, and its tail.
    Improper(*mut PyObject, *mut PyObject),
    /// `Port` of this process: its number.
    Port(u64),
    /// `Ref`: its number.
    Reference(u64),
}

/// The slots of each of the classes: `Map`, `BitString`, `ImproperList`, `Port`, `Ref`.
const SLOTS: [&[&str]; 5] =
    [&["pairs"], &["data", "bits"], &["elements", "tail"], &["_number", "_origin"], &["_number"]];

/// The index of `Ref` among them.
const REFERENCE: usize = 4;

struct Known {
    class: AtomicPtr<PyTypeObject>,
    offsets: [AtomicUsize; 2],
}

static KNOWN: [Known; 5] =
    [const { Known { class: AtomicPtr::new(ptr::null_mut()), offsets: [const { AtomicUsize::new(0) }; 2] } }; 5];

/// Which origin the ports of this process have, by the host's answer.
static OWN_ORIGIN: OnceLock<fn() -> u64> = OnceLock::new();

fn own_origin() -> Option<u64> {
    OWN_ORIGIN.get().map(|own| own())
}

/// From now on instances of these classes, in the order of [`SLOTS`], are what their names say. `own_origin` answers
/// the origin of this process, as ports have it.
///
/// # Safety
/// The classes live as long as the process, each has the slots of its name, and the calling thread is attached.
pub unsafe fn register(classes: [*mut PyTypeObject; 5], own_origin: fn() -> u64) {
    let _set_before = OWN_ORIGIN.set(own_origin);
    for ((class, slots), known) in classes.into_iter().zip(SLOTS).zip(&KNOWN) {
        for (slot, offset) in slots.iter().zip(&known.offsets) {
            // SAFETY: the caller promises that the class stands and the thread is attached.
            match unsafe { offset_of(class, slot) } {
                Some(found) => offset.store(found, Release),
                None => return,
            }
        }
        known.class.store(class, Release);
    }
}

/// The offset of the slot `name` in a class's instances.
///
/// # Safety
/// `class` stands, and the calling thread is attached.
pub unsafe fn offset_of(class: *mut PyTypeObject, name: &str) -> Option<usize> {
    // SAFETY: the caller promises that the class stands; a member descriptor, whose exact type is checked, ends with a
    // pointer to its definition.
    unsafe {
        let found = attribute_of_class(class, name);
        if found.is_null() || ffi::Py_TYPE(found.as_ptr()) != &raw mut ffi::PyMemberDescr_Type {
            return None;
        }
        let place = found.as_ptr().cast::<u8>().add(layout::HEAD + 24);
        let definition: *const ffi::PyMemberDef = place.cast::<*const ffi::PyMemberDef>().read();
        let kept = (*definition).type_code == ffi::Py_T_OBJECT_EX;
        kept.then_some((*definition).offset as usize)
    }
}

/// The term of an object of one of the classes, or of one that derives from `Ref`.
///
/// # Safety
/// `object` stands and is of the type `class`; the calling thread is attached.
pub unsafe fn special_type(object: *mut PyObject, class: *mut PyTypeObject) -> Option<SpecialType> {
    let at = KNOWN.iter().position(|known| known.class.load(Acquire) == class);
    let at = match at {
        Some(at) => at,
        // SAFETY: the caller promises that `object` stands and is of the type `class`, and the calling thread is
        // attached.
        None => unsafe {
            let reference = KNOWN[REFERENCE].class.load(Acquire);
            if reference.is_null() || ffi::PyType_IsSubtype(class, reference) == 0 {
                return None;
            }
            REFERENCE
        },
    };
    // SAFETY: the offsets are those of the class's own slots, stored before the class; the values' types are checked.
    unsafe {
        let slot = |n: usize| {
            let place = object.cast::<u8>().add(KNOWN[at].offsets[n].load(Acquire));
            let held: *mut PyObject = place.cast::<*mut PyObject>().read();
            Some(held).filter(|held| !held.is_null())
        };
        let list = |held: &*mut PyObject| ffi::PyList_Check(*held) != 0;
        let int = |held: *mut PyObject| if ffi::PyLong_Check(held) != 0 { int::value(held).ok() } else { None };
        match at {
            0 => Some(SpecialType::Map(slot(0).filter(list)?)),
            1 => {
                let data = slot(0).filter(|held| ffi::PyBytes_Check(*held) != 0)?;
                let bits = u8::try_from(int(slot(1)?)?).ok().filter(|bits| (1..8).contains(bits))?;
                (ffi::Py_SIZE(data) > 0).then_some(SpecialType::Bits(data, bits))
            }
            2 => Some(SpecialType::Improper(
                slot(0).filter(list).filter(|list| ffi::PyList_GET_SIZE(*list) > 0)?,
                slot(1)?,
            )),
            3 => {
                let here = int(slot(1)?).is_some_and(|origin| Some(origin as u64) == own_origin());
                Some(SpecialType::Port(u64::try_from(int(slot(0)?)?).ok()?)).filter(|_| here)
            }
            _ => Some(SpecialType::Reference(u64::try_from(int(slot(0)?)?).ok()?)),
        }
    }
}
