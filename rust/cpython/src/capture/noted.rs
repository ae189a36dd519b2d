//! Texts (`repr`) of objects that are not copied: put into a snapshot after it was taken.
//!
//! A snapshot is taken while nothing of the program runs, so that what is read can't change meanwhile; a `__repr__` may change
//! anything. So the walk notes where such objects stand and holds them, and their texts are made and put in afterwards. In the
//! external term format nothing but the strings themselves knows how long they are, so that a term may grow in its place.

use super::type_name;
use crate::{
    interpreter::{
        again::{self, Whose},
        calling, Aside,
    },
    object::{held::Held, text},
};
use inviso_term::etf::Encoder;
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
};

/// Stands at the end of a text that was cut.
const CUT: char = '…';

/// Bytes that an opaque term has beside its type's name and its text, and some more.
const AROUND: usize = 64;

/// Objects whose texts are wanted, in the order of their places.
#[derive(Default)]
pub struct Noted(Vec<Place>);

struct Place {
    start: usize,
    end: usize,
    object: Held,
}

impl Noted {
    /// An object was written from `start` to `end`, without its text.
    ///
    /// # Safety
    /// `object` stands, and the calling thread is attached, also when this is dropped.
    pub(super) unsafe fn add(&mut self, start: usize, end: usize, object: *mut PyObject) {
        // SAFETY: the caller's promise.
        unsafe { ffi::Py_INCREF(object) };
        self.0.push(Place { start, end, object: Held::owned(object) });
    }

    /// What was written from here on is taken back.
    pub(super) fn truncate(&mut self, mark: usize) {
        self.0.retain(|place| place.start < mark);
    }

    /// Makes the texts, of `most` bytes each, and puts them in as long as all does not take more than `total`.
    pub fn fill(self, py: Python<'_>, snapshot: &mut Vec<u8>, most: usize, total: usize) {
        let mut whole = Vec::with_capacity(total);
        let (mut copied, mut room) = (0, total.saturating_sub(snapshot.len()));
        for place in self.0 {
            whole.extend_from_slice(&snapshot[copied..place.start]);
            let old = &snapshot[place.start..place.end];
            // SAFETY: the object is held, and we are attached.
            let new = unsafe { with_text(py, place.object.as_ptr(), most, old.len() + room) };
            let new = new.as_deref().unwrap_or(old);
            room -= new.len().saturating_sub(old.len());
            whole.extend_from_slice(new);
            copied = place.end;
        }
        whole.extend_from_slice(&snapshot[copied..]);
        *snapshot = whole;
    }
}

/// The opaque term of an object with its text, in at most `room` bytes; `None` if that is too little.
///
/// # Safety
/// `object` stands, and the calling thread is attached.
unsafe fn with_text(py: Python<'_>, object: *mut PyObject, most: usize, room: usize) -> Option<Vec<u8>> {
    let mut buffer = [0; 256];
    // SAFETY: the caller's promise.
    let (name, text) = unsafe {
        let name = type_name(ffi::Py_TYPE(object), &mut buffer).to_owned();
        let most = most.min(room.checked_sub(name.len() + AROUND)?);
        (name, text_of(py, object, most))
    };
    let mut bytes = vec![0; room];
    let mut out = Encoder::new(&mut bytes);
    out.opaque(&name, object as u64, Some(&text)).ok()?;
    let len = out.len();
    bytes.truncate(len);
    Some(bytes)
}

/// # Safety
/// As [`with_text`].
unsafe fn text_of(py: Python<'_>, object: *mut PyObject, most: usize) -> String {
    // SAFETY: attached; the object stands, and the new str is held. What was raised is put aside and comes back.
    unsafe {
        let _aside = Aside::new();
        let text = calling::repr(object);
        if text.is_null() {
            return raised(py);
        }
        let (bytes, cut) = text::utf8(text.as_ptr(), most);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if cut {
            text.push(CUT);
        }
        text
    }
}

/// What stands in place of a text that could not be made. What a handler of a signal has raised is not lost with it: it comes again.
fn raised(py: Python<'_>) -> String {
    let Some(error) = PyErr::take(py) else { return String::new() };
    if again::whose(py, &error) != Whose::Callee {
        again::raise(py, &error);
    }
    let mut buffer = [0; 256];
    // SAFETY: the class of an exception.
    let name = unsafe { type_name(error.get_type(py).as_ptr().cast(), &mut buffer) };
    format!("<repr raised {name}>")
}
