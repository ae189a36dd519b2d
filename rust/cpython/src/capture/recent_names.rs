//! Names of classes that this thread needed recently.
//!
//! A name is valid as long as its class has the same version tag and the same qualified name. The interpreter changes the tag when
//! `__module__` is set, but not when `__qualname__` is. A class that the interpreter gives no tag is not kept.
//!
//! # Checked by
//! `tests/python/test_trace_options.py`.

use crate::object::text::short_ascii;
use pyo3::ffi::{PyObject, PyTypeObject};
use std::{
    cell::RefCell,
    ptr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// How many names a thread keeps: a power of two.
const PLACES: usize = 256;

struct Known {
    class: *mut PyTypeObject,
    tag: u32,
    /// Where the qualified name begins.
    qualname_at: usize,
    name: Box<str>,
}

thread_local! {
    static KNOWN: RefCell<Vec<Option<Known>>> = const { RefCell::new(Vec::new()) };
}

fn place(class: *mut PyTypeObject) -> usize {
    let address = class as usize;
    (address >> 4 ^ address >> 12) & (PLACES - 1)
}

/// The version tag of a class; 0 if it has none.
///
/// # Safety
/// `class` stands.
unsafe fn tag(class: *mut PyTypeObject) -> u32 {
    // SAFETY: the caller promises that the class stands; the field is aligned.
    unsafe {
        #[cfg(not(Py_3_12))]
        if pyo3::ffi::PyType_HasFeature(class, 1 << 19) == 0 {
            return 0; // not Py_TPFLAGS_VALID_VERSION_TAG
        }
        AtomicU32::from_ptr(&raw mut (*class).tp_version_tag).load(Relaxed)
    }
}

/// Copies the name of a class to the start of `buffer` and returns its length; `None` if the name is not known.
///
/// # Safety
/// `class` stands, `qualname` is its qualified name, and the calling thread is attached.
pub(super) unsafe fn find(class: *mut PyTypeObject, qualname: *mut PyObject, buffer: &mut [u8; 256]) -> Option<usize> {
    KNOWN
        .try_with(|known| {
            let known = known.borrow();
            let known = known.get(place(class))?.as_ref().filter(|known| ptr::eq(known.class, class))?;
            // SAFETY: the caller promises that the class and its qualified name stand.
            let is_valid =
                unsafe { known.tag == tag(class) && short_ascii(qualname, 256) == known.name.get(known.qualname_at..) };
            if !is_valid {
                return None;
            }
            buffer.get_mut(..known.name.len())?.copy_from_slice(known.name.as_bytes());
            Some(known.name.len())
        })
        .ok()?
}

/// Keeps the name of a class, in place of another one. The qualified name begins at `qualname_at`.
///
/// # Safety
/// `class` stands.
#[cold]
pub(super) unsafe fn keep(class: *mut PyTypeObject, name: &str, qualname_at: usize) {
    // SAFETY: the caller promises that the class stands.
    let tag = unsafe { tag(class) };
    if tag == 0 || name.len() < qualname_at {
        return;
    }
    // the thread's end may have dropped them
    let _ = KNOWN.try_with(|known| {
        let mut known = known.borrow_mut();
        if known.is_empty() {
            known.resize_with(PLACES, || None);
        }
        known[place(class)] = Some(Known { class, tag, qualname_at, name: name.into() });
    });
}
