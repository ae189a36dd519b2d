//! The characters of a str, without the UTF-8 copy that CPython would keep in it.

use std::ffi::c_uint;

use pyo3::ffi::{self, PyObject};

/// Characters that [`text_is`] looks at.
const SHORT: usize = 255;

/// Whether `object` is a str with just these characters, all ASCII.
///
/// # Safety
/// `object` stands during the call, and the calling thread is attached.
pub unsafe fn is_text(object: *mut PyObject, text: &str) -> bool {
    // SAFETY: the type is checked first.
    unsafe {
        !object.is_null()
            && ffi::PyUnicode_Check(object) != 0
            && short_ascii(object, text.len()).is_some_and(|found| found == text)
    }
}

/// Whether `object` is a short str of ASCII characters for which `holds` is true.
///
/// # Safety
/// `object` stands during the call, and the calling thread is attached.
pub unsafe fn text_is(object: *mut PyObject, holds: impl FnOnce(&str) -> bool) -> bool {
    // SAFETY: the type is checked first.
    unsafe { ffi::PyUnicode_Check(object) != 0 && short_ascii(object, SHORT).is_some_and(holds) }
}

/// Whether `object` is a str with just these characters.
///
/// # Safety
/// `object` stands during the call, and the calling thread is attached.
pub unsafe fn is_text_of(object: *mut PyObject, text: &str) -> bool {
    if text.is_ascii() {
        // SAFETY: the caller's promise.
        return unsafe { is_text(object, text) };
    }
    // SAFETY: the type is checked first.
    unsafe { ffi::PyUnicode_Check(object) != 0 && utf8(object, text.len()) == (text.as_bytes().to_vec(), false) }
}

/// The characters of a str, lone surrogates replaced; `None` for any other object.
///
/// # Safety
/// `object` is null or stands during the call; the calling thread is attached.
pub unsafe fn text_of(object: *mut PyObject) -> Option<String> {
    // SAFETY: the type is checked first.
    unsafe {
        if object.is_null() || ffi::PyUnicode_Check(object) == 0 {
            return None;
        }
        Some(String::from_utf8_lossy(&utf8(object, 4096).0).into_owned())
    }
}

/// The characters, if they are ASCII and not more than `most`.
///
/// # Safety
/// `object` is a str, and stands (unchanged, as every str) while the result is used.
#[inline]
pub unsafe fn short_ascii<'a>(object: *mut PyObject, most: usize) -> Option<&'a str> {
    // SAFETY: the data of a str of kind 1 is as many bytes as it has characters.
    unsafe {
        let (length, kind) = measure(object)?;
        if kind != ffi::PyUnicode_1BYTE_KIND || length > most {
            return None;
        }
        let bytes = std::slice::from_raw_parts(ffi::PyUnicode_DATA(object).cast::<u8>(), length);
        bytes.is_ascii().then(|| std::str::from_utf8_unchecked(bytes))
    }
}

/// The UTF-8 of the first characters that fit `most` bytes, and whether that isn't all. A lone surrogate is encoded as if
/// it were a character, so that the result is no valid UTF-8 then.
///
/// # Safety
/// `object` is a str.
pub unsafe fn utf8(object: *mut PyObject, most: usize) -> (Vec<u8>, bool) {
    // SAFETY: the data is `length` units of the size that the kind says.
    unsafe {
        let Some((length, kind)) = measure(object) else { return (Vec::new(), false) };
        let data = ffi::PyUnicode_DATA(object);
        match kind {
            ffi::PyUnicode_1BYTE_KIND => encode(std::slice::from_raw_parts(data.cast::<u8>(), length), most),
            ffi::PyUnicode_2BYTE_KIND => encode(std::slice::from_raw_parts(data.cast::<u16>(), length), most),
            _ => encode(std::slice::from_raw_parts(data.cast::<u32>(), length), most),
        }
    }
}

/// The characters of a str, as it keeps them.
pub enum Units<'a> {
    /// U+0000 to U+00FF, a byte each.
    One(&'a [u8]),
    /// Two bytes each.
    Two(&'a [u16]),
    /// Four bytes each.
    Four(&'a [u32]),
}

/// The characters of a str; `None` if it isn't laid out yet (3.11).
///
/// # Safety
/// `object` is a str, and stands while the result is used.
#[inline]
pub unsafe fn units<'a>(object: *mut PyObject) -> Option<Units<'a>> {
    // SAFETY: the data is `length` units of the size that the kind says.
    unsafe {
        let (length, kind) = measure(object)?;
        let data = ffi::PyUnicode_DATA(object);
        Some(match kind {
            ffi::PyUnicode_1BYTE_KIND => Units::One(std::slice::from_raw_parts(data.cast(), length)),
            ffi::PyUnicode_2BYTE_KIND => Units::Two(std::slice::from_raw_parts(data.cast(), length)),
            _ => Units::Four(std::slice::from_raw_parts(data.cast(), length)),
        })
    }
}

/// Length and kind; `None` for a str of the old sort that isn't laid out yet (3.11).
///
/// # Safety
/// `object` is a str that lives throughout, and the calling thread is attached to the interpreter.
#[inline]
unsafe fn measure(object: *mut PyObject) -> Option<(usize, c_uint)> {
    // SAFETY: a str (the callers').
    unsafe {
        #[cfg(not(Py_3_12))]
        if ffi::PyUnicode_IS_READY(object) == 0 {
            return None;
        }
        Some((ffi::PyUnicode_GET_LENGTH(object) as usize, ffi::PyUnicode_KIND(object)))
    }
}

fn encode<T: Copy + Into<u32>>(units: &[T], most: usize) -> (Vec<u8>, bool) {
    let largest = 1 + size_of::<T>();
    let mut bytes = Vec::with_capacity((units.len() * largest).min(most) + 4);
    for &unit in units {
        let code: u32 = unit.into();
        if code < 0x80 && bytes.len() < most {
            bytes.push(code as u8);
            continue;
        }
        let before = bytes.len();
        match char::from_u32(code) {
            Some(character) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {
                bytes.extend([0xE0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3F) as u8, 0x80 | (code & 0x3F) as u8])
            }
        }
        if bytes.len() > most {
            bytes.truncate(before);
            return (bytes, true);
        }
    }
    (bytes, false)
}
