//! The characters of a str as an atom.

use crate::object::text::{short_ascii, utf8};
use inviso_term::etf::{Encoder, Full};
use pyo3::ffi::{self, PyObject};

/// Characters that an atom may have; the rest of a longer name is dropped.
const ATOM_CHARACTERS: usize = 255;

/// Writes the characters of a str as an atom; of any other object, the atom of its type's name.
///
/// # Safety
/// `object` stands during the call, and the calling thread is attached.
///
/// # Errors
/// [`Full`].
pub unsafe fn atom_of_str(object: *mut PyObject, out: &mut Encoder<'_>) -> Result<(), Full> {
    // SAFETY: the type is checked first.
    unsafe {
        if ffi::PyUnicode_Check(object) == 0 {
            let mut name = [0; 256];
            return out.atom(super::type_name(ffi::Py_TYPE(object), &mut name));
        }
        if let Some(text) = short_ascii(object, ATOM_CHARACTERS) {
            return out.atom(text);
        }
        let (bytes, _) = utf8(object, ATOM_CHARACTERS * 4);
        let text = String::from_utf8_lossy(&bytes);
        out.atom(first_characters(&text, ATOM_CHARACTERS))
    }
}

fn first_characters(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}
