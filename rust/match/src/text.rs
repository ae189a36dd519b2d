//! Binaries in any form, as bytes.
#![forbid(unsafe_code)]

use crate::view::Binary;
use std::cmp::Ordering;

impl<'a> Binary<'a> {
    /// The bytes, if they are stored as such: whole bytes, and UTF-8 for text.
    #[must_use]
    pub fn plain(self) -> Option<&'a [u8]> {
        match self {
            Binary::Bytes(bytes) => Some(bytes),
            Binary::Latin1(bytes) if bytes.is_ascii() => Some(bytes),
            _ => None,
        }
    }

    /// The number of bits.
    #[must_use]
    pub fn bits(self) -> usize {
        let bytes = match self {
            Binary::Bytes(bytes) => bytes.len(),
            Binary::Bits(bytes, bits) => {
                return (bytes.len() * 8).saturating_sub(8 - usize::from(bits.min(8)));
            }
            Binary::Latin1(bytes) => bytes.iter().map(|byte| width(u32::from(*byte))).sum(),
            Binary::Ucs2(units) => units.iter().map(|unit| width(u32::from(*unit))).sum(),
            Binary::Ucs4(units) => units.iter().map(|unit| width(*unit)).sum(),
        };
        bytes * 8
    }

    /// The bytes one by one.
    pub fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let (mut at, mut left): (usize, (u32, usize)) = (0, (0, 0));
        std::iter::from_fn(move || {
            if left.1 > 0 {
                left.1 -= 1;
                return Some(0x80 | (left.0 >> (6 * left.1)) as u8 & 0x3f);
            }
            let point = match self {
                Binary::Bytes(bytes) | Binary::Bits(bytes, _) => {
                    let byte = bytes.get(at).copied();
                    at += 1;
                    return byte;
                }
                Binary::Latin1(bytes) => u32::from(*bytes.get(at)?),
                Binary::Ucs2(units) => u32::from(*units.get(at)?),
                Binary::Ucs4(units) => *units.get(at)?,
            };
            at += 1;
            let more = width(point) - 1;
            left = (point, more);
            Some(match more {
                0 => point as u8,
                1 => 0xc0 | (point >> 6) as u8 & 0x1f,
                2 => 0xe0 | (point >> 12) as u8 & 0x0f,
                _ => 0xf0 | (point >> 18) as u8 & 0x07,
            })
        })
    }

    /// Bit by bit. Of two with the same beginning the shorter comes first.
    #[must_use]
    pub fn compare(self, other: Binary<'_>) -> Ordering {
        match (self, other) {
            (Binary::Bytes(a), Binary::Bytes(b)) | (Binary::Latin1(a), Binary::Latin1(b)) => return a.cmp(b),
            // the order of UTF-8 is the order of characters
            (Binary::Ucs2(a), Binary::Ucs2(b)) => return a.cmp(b),
            (Binary::Ucs4(a), Binary::Ucs4(b)) => return a.cmp(b),
            (Binary::Bits(..), _) | (_, Binary::Bits(..)) => {}
            (a, b) => {
                return match (a.plain(), b.plain()) {
                    (Some(a), Some(b)) => a.cmp(b),
                    _ => a.bytes().cmp(b.bytes()),
                };
            }
        }
        let (a_bits, b_bits) = (self.bits(), other.bits());
        let common = a_bits.min(b_bits);
        let (mut a, mut b) = (self.bytes(), other.bytes());
        for _ in 0..common / 8 {
            let different = a.next().cmp(&b.next());
            if different.is_ne() {
                return different;
            }
        }
        let last = |byte: Option<u8>| byte.map_or(0, |byte| u16::from(byte) >> (8 - common % 8));
        last(a.next()).cmp(&last(b.next())).then(a_bits.cmp(&b_bits))
    }
}

/// The length of a character in UTF-8, also of a lone surrogate.
fn width(point: u32) -> usize {
    match point {
        0..=0x7f => 1,
        0x80..=0x7ff => 2,
        0x800..=0xffff => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_its_utf8() {
        let text = "aé€\u{10ffff}";
        let ucs4: Vec<u32> = text.chars().map(u32::from).collect();
        let ucs2: Vec<u16> = text.chars().take(3).map(|c| c as u16).collect();
        let latin1 = [b'a', 0xe9];
        for (form, utf8) in [(Binary::Ucs4(&ucs4), text), (Binary::Ucs2(&ucs2), "aé€"), (Binary::Latin1(&latin1), "aé")]
        {
            assert_eq!(form.bytes().collect::<Vec<_>>(), utf8.as_bytes());
            assert_eq!(form.bits(), utf8.len() * 8);
            assert!(form.compare(Binary::Bytes(utf8.as_bytes())).is_eq());
            assert!(form.compare(Binary::Bytes(b"a")).is_gt());
            assert!(Binary::Bits(b"a\x80", 1).compare(form).is_lt());
        }
        assert_eq!(Binary::Ucs2(&[0xd800]).bytes().collect::<Vec<_>>(), [0xed, 0xa0, 0x80]);
    }
}
