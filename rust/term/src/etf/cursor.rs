//! Reads the parts of encoded terms: numbers, names, texts.

use super::{decode::DecodeError, encode::trimmed, mark, tag, MAX_ATOM, SMALL};
use std::borrow::Cow;

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    all: &'a [u8],
    /// The bytes that were not read yet.
    pub(super) left: &'a [u8],
}

/// The meaning of a tuple that may stand for another value.
pub(super) enum Marked<'a> {
    /// The tuple itself. Its elements were not read.
    No,
    /// A set. A list of any kind follows.
    Set,
    /// An object: type, identity and text.
    Opaque(&'a str, u64, Option<&'a str>),
    /// A cut.
    Cut(&'a str),
}

impl<'a> Cursor<'a> {
    pub(super) fn new(all: &'a [u8]) -> Cursor<'a> {
        Cursor { all, left: all }
    }

    /// How many bytes were read.
    pub(super) fn at(&self) -> usize {
        self.all.len() - self.left.len()
    }

    /// The bytes that were read since a position.
    pub(super) fn since(&self, at: usize) -> &'a [u8] {
        self.all.get(at..self.at()).unwrap_or_default()
    }

    /// Reads the next byte if it is this one. Answers whether it was.
    pub(super) fn skip(&mut self, byte: u8) -> bool {
        let rest = self.left.strip_prefix(&[byte]);
        self.left = rest.unwrap_or(self.left);
        rest.is_some()
    }

    /// The meaning of a tuple of `n` elements. A tuple that differs in any part is a tuple.
    pub(super) fn marked(&mut self, n: usize) -> Marked<'a> {
        if !matches!(n, 2 | 4) {
            return Marked::No;
        }
        let before = self.left;
        match (self.name().as_deref(), n) {
            (Ok(mark::SET), 2) => {
                if let Some(&(tag::NIL | tag::STRING | tag::LIST)) = self.left.first() {
                    return Marked::Set;
                }
            }
            (Ok(mark::OPAQUE), 4) => {
                if let Ok((type_name, id, text)) = self.object() {
                    return Marked::Opaque(type_name, id, text);
                }
            }
            (Ok(mark::CUT), 2) => {
                if let Ok(what) = self.text() {
                    return Marked::Cut(what);
                }
            }
            _ => {}
        }
        self.left = before;
        Marked::No
    }

    fn object(&mut self) -> Result<(&'a str, u64, Option<&'a str>), DecodeError> {
        let (type_name, id) = (self.text()?, self.integer()?);
        let id = u64::try_from(id).map_err(|_| DecodeError::Malformed("identity"))?;
        let text = match self.left.first() {
            Some(&tag::BINARY) => Some(self.text()?),
            _ if self.name()? == "undefined" => None,
            _ => return Err(DecodeError::Malformed("object")),
        };
        Ok((type_name, id, text))
    }

    pub(super) fn old_float(&mut self) -> Result<f64, DecodeError> {
        let text = self.take(31)?.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(text).ok().filter(|text| is_float(text));
        let value = text.and_then(|text| text.parse().ok()).filter(|value: &f64| value.is_finite());
        value.ok_or(DecodeError::Malformed("float"))
    }

    /// An integer of at most 64 bits and a sign.
    pub(super) fn integer(&mut self) -> Result<i128, DecodeError> {
        match self.u8()? {
            tag::SMALL_INTEGER => Ok(i128::from(self.u8()?)),
            tag::INTEGER => Ok(i128::from(i32::from_be_bytes(self.array()?))),
            tag @ (tag::SMALL_BIG | tag::LARGE_BIG) => {
                let (negative, magnitude) = self.big(tag)?;
                word(negative, magnitude).ok_or(DecodeError::Malformed("integer"))
            }
            other => Err(DecodeError::Tag(other)),
        }
    }

    /// An integer that Erlang keeps in one word.
    pub(super) fn small_integer(&mut self) -> Result<i64, DecodeError> {
        let small = i64::try_from(self.integer()?).ok().filter(|n| (-SMALL - 1..=SMALL).contains(n));
        small.ok_or(DecodeError::Malformed("integer"))
    }

    pub(super) fn big(&mut self, tag: u8) -> Result<(bool, &'a [u8]), DecodeError> {
        let n = if tag == tag::SMALL_BIG { usize::from(self.u8()?) } else { self.u32()? as usize };
        let sign = self.u8()?;
        Ok((sign != 0, trimmed(self.take(n)?)))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, DecodeError> {
        match self.u8()? {
            tag::BINARY => std::str::from_utf8(self.sized()?).map_err(|_| DecodeError::Malformed("text")),
            other => Err(DecodeError::Tag(other)),
        }
    }

    /// An atom, decoded but not unescaped.
    pub(super) fn name(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let tag = self.u8()?;
        self.name_of(tag)
    }

    pub(super) fn name_of(&mut self, tag: u8) -> Result<Cow<'a, str>, DecodeError> {
        let len = match tag {
            tag::SMALL_ATOM_UTF8 | tag::SMALL_ATOM => usize::from(self.u8()?),
            tag::ATOM_UTF8 | tag::ATOM => usize::from(self.u16()?),
            other => return Err(DecodeError::Tag(other)),
        };
        let bytes = self.take(len)?;
        let name = match std::str::from_utf8(bytes) {
            Ok(name) if name.is_ascii() || matches!(tag, tag::SMALL_ATOM_UTF8 | tag::ATOM_UTF8) => Cow::Borrowed(name),
            _ if matches!(tag, tag::SMALL_ATOM | tag::ATOM) => bytes.iter().map(|b| char::from(*b)).collect(),
            _ => return Err(DecodeError::Malformed("atom")),
        };
        if len > MAX_ATOM && name.chars().nth(MAX_ATOM).is_some() {
            return Err(DecodeError::Malformed("atom"));
        }
        Ok(name)
    }

    /// Checks a count of elements of at least `least` bytes each: the rest of the bytes must hold them.
    pub(super) fn count(&self, n: usize, least: usize) -> Result<usize, DecodeError> {
        if n > self.left.len() / least {
            return Err(DecodeError::Short);
        }
        Ok(n)
    }

    pub(super) fn creation(&mut self, is_long: bool) -> Result<u32, DecodeError> {
        if is_long {
            return self.u32();
        }
        // the one-byte form has two bits
        Some(self.u8()?).filter(|n| *n < 4).map(u32::from).ok_or(DecodeError::Malformed("creation"))
    }

    /// The first word of a reference, in an encoding with 18 bits for it.
    pub(super) fn short_word(&mut self) -> Result<u32, DecodeError> {
        Some(self.u32()?).filter(|word| *word < 1 << 18).ok_or(DecodeError::Malformed("reference"))
    }

    pub(super) fn sized(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    pub(super) fn string(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = usize::from(self.u16()?);
        self.take(n)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.left.split_first_chunk().ok_or(DecodeError::Short)?;
        self.left = rest;
        Ok(*array)
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.left.split_at_checked(n).ok_or(DecodeError::Short)?;
        self.left = rest;
        Ok(taken)
    }
}

/// Whether Erlang accepts the text as a float: an optional sign, digits on both sides of a point, an optional exponent.
fn is_float(text: &str) -> bool {
    let signed = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    digits(&signed(exponent)) && signed(mantissa).split_once('.').is_some_and(|(a, b)| digits(a) && digits(b))
}

fn word(negative: bool, magnitude: &[u8]) -> Option<i128> {
    if magnitude.len() > 8 {
        return None;
    }
    let value = magnitude.iter().rev().fold(0, |value, byte| value << 8 | i128::from(*byte));
    Some(if negative { -value } else { value })
}

/// The integer, if it fits in 64 bits.
pub(super) fn small(negative: bool, magnitude: &[u8]) -> Option<i64> {
    word(negative, magnitude).and_then(|value| i64::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_in_text_has_digits_on_both_sides_of_its_point() {
        for text in ["1.5", "+1.5", "-1.5", "1.5e3", "1.5E3", "1.5e+3", "1.5e-3", "00.10"] {
            assert!(is_float(text), "{text}");
        }
        for text in
            ["", ".", "1.", ".5", "15", "1.5e", "1e3", "1.5e+", "--1.5", "1.5e--3", "a.b", "1.5ex", "1.x", "x.1"]
        {
            assert!(!is_float(text), "{text}");
        }
    }
}
