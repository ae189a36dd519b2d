//! The names of places, `(module, function, arity)` as terms. They are needed again and again, so a thread caches some
//! of them.

use inviso_cpython::{
    capture::{self, frame_names},
    frames::frame::{self, Frame},
    object::held::Held,
};
use inviso_term::etf::{Encoder, Full};
use pyo3::{ffi, prelude::*};
use std::rc::Rc;

/// The name of a place, as a term.
pub type PlaceName = Rc<[u8]>;

/// The integer 0 as a term, for a missing place.
pub const NOWHERE: &[u8] = &[97, 0];

/// Bytes of a name: two atoms of 255 characters, and a number.
const LONGEST: usize = 2 * 4 * 255 + 64;

/// The number of names that a thread caches (a power of two).
const KEPT: usize = 64;

/// The slot of a name.
fn home(address: usize) -> usize {
    (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (usize::BITS - KEPT.trailing_zeros())
}

/// A cached name and the objects that it was made of. They are held, so that no other object gets their addresses.
struct CachedName {
    module: Py<PyAny>,
    function: Py<PyAny>,
    arity: usize,
    place: PlaceName,
}

/// The names that a thread caches.
#[derive(Default)]
pub struct CalleeNames {
    known: Vec<Option<CachedName>>,
    room: Vec<u8>,
}

impl CalleeNames {
    /// The name of a frame's function.
    ///
    /// # Safety
    /// The frame runs, waits in a generator, or is the caller of one that runs; the thread is attached.
    pub unsafe fn of(&mut self, frame: Frame) -> PlaceName {
        // SAFETY: the caller promises that the frame runs, waits in a generator, or is the caller of one that runs, and
        // the thread is attached; code, function and globals live as long as the frame.
        unsafe {
            let (module, function) = frame_names::module_and_function(frame);
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

    /// Makes the name and caches it.
    ///
    /// # Safety
    /// Both names stand; the thread is attached.
    #[cold]
    #[inline(never)]
    unsafe fn learn(&mut self, at: usize, module: &Held, function: &Held, arity: usize) -> PlaceName {
        let place: PlaceName = self
            .written(|out| {
                out.tuple(3)?;
                // SAFETY: the caller promises that both names stand and the thread is attached.
                unsafe {
                    capture::atom_of_str(module.as_ptr(), out)?;
                    capture::atom_of_str(function.as_ptr(), out)?;
                }
                out.int(arity as i64)
            })
            .into();
        // SAFETY: the thread is attached. An object that is not a str may have another text next time, so only strs are
        // cached.
        unsafe {
            let is_str = |held: &Held| ffi::Py_TYPE(held.as_ptr()) == &raw mut ffi::PyUnicode_Type;
            if is_str(module) && is_str(function) {
                let py = Python::assume_attached();
                let hold = |held: &Held| Bound::from_borrowed_ptr(py, held.as_ptr()).unbind();
                if self.known.is_empty() {
                    self.known.resize_with(KEPT, || None);
                }
                let known = CachedName { module: hold(module), function: hold(function), arity, place: place.clone() };
                // two names with the same slot are both cached
                let before = self.known[at].replace(known);
                if let Some(old) = before.and_then(|before| self.known[at ^ 1].replace(before)) {
                    drop((old.module.into_bound(py), old.function.into_bound(py)));
                }
            }
        }
        place
    }

    /// The bytes that `write` writes, or those of 0 if it fails.
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
