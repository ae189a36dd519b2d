//! The names of places, `(module, function, arity)` as terms, which are asked for again and again: a thread keeps some of them.

use super::call;
use inviso_cpython::{
    capture,
    frames::frame::{self, Frame},
    object::held::Held,
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*};
use std::rc::Rc;

/// The name of a place, as a term.
pub type Place = Rc<[u8]>;

/// The integer 0 as a term: what is at no place.
pub const NOWHERE: &[u8] = &[97, 0];

/// Bytes of a name: two atoms of 255 characters, and a number.
const LONGEST: usize = 2 * 4 * 255 + 64;

/// How many names a thread keeps (a power of two).
const KEPT: usize = 64;

/// Where a name belongs.
fn home(address: usize) -> usize {
    (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (usize::BITS - KEPT.trailing_zeros())
}

/// A name that is kept, and what it was made of, held so that nothing else has its address.
struct Known {
    module: Py<PyAny>,
    function: Py<PyAny>,
    arity: usize,
    place: Place,
}

/// The names that a thread keeps.
#[derive(Default)]
pub struct Places {
    known: Vec<Option<Known>>,
    room: Vec<u8>,
}

impl Places {
    /// The name of a frame's function.
    ///
    /// # Safety
    /// The frame runs, waits in a generator, or is the caller of one that runs; attached.
    pub unsafe fn of(&mut self, frame: Frame) -> Place {
        // SAFETY: the caller's promise; code, function and globals live as long as the frame.
        unsafe {
            let (module, function) = call::module_and_function(frame);
            let arity = frame::arity(frame.code());
            let at = home(function.as_ptr() as usize ^ module.as_ptr() as usize);
            for at in [at, at ^ 1] {
                if let Some(Some(known)) = self.known.get(at) {
                    if known.function.as_ptr() == function.as_ptr()
                        && known.module.as_ptr() == module.as_ptr()
                        && known.arity == arity
                    {
                        return known.place.clone();
                    }
                }
            }
            self.learn(at, &module, &function, arity)
        }
    }

    /// # Safety
    /// Both are objects that stand; attached.
    #[cold]
    #[inline(never)]
    unsafe fn learn(&mut self, at: usize, module: &Held, function: &Held, arity: usize) -> Place {
        let place: Place = self
            .written(|out| {
                out.tuple(3)?;
                // SAFETY: the caller's promise.
                unsafe {
                    capture::atom_of_str(module.as_ptr(), out)?;
                    capture::atom_of_str(function.as_ptr(), out)?;
                }
                out.int(arity as i64)
            })
            .into();
        // SAFETY: attached; what is no str says another time something else, perhaps.
        unsafe {
            let is_str = |held: &Held| ffi::Py_TYPE(held.as_ptr()) == &raw mut ffi::PyUnicode_Type;
            if is_str(module) && is_str(function) {
                let py = Python::assume_attached();
                let hold = |held: &Held| Bound::from_borrowed_ptr(py, held.as_ptr()).unbind();
                if self.known.is_empty() {
                    self.known.resize_with(KEPT, || None);
                }
                let known = Known { module: hold(module), function: hold(function), arity, place: place.clone() };
                // two that belong in one place are both kept
                let before = self.known[at].replace(known);
                if let Some(old) = before.and_then(|before| self.known[at ^ 1].replace(before)) {
                    drop((old.module.into_bound(py), old.function.into_bound(py)));
                }
            }
        }
        place
    }

    /// What `write` writes, or 0 if it can't.
    pub fn written(&mut self, write: impl FnOnce(&mut Encoder<'_>) -> Result<(), Full>) -> &[u8] {
        self.room.resize(LONGEST, 0);
        let mut out = Encoder::new(&mut self.room);
        match write(&mut out) {
            Ok(()) => {
                let length = out.len();
                &self.room[..length]
            }
            Err(_) => NOWHERE,
        }
    }
}
