//! The lengths of encoded terms, without decoding their parts.

use super::tag;

/// The length of an atom with its head.
fn atom(bytes: &[u8]) -> Option<usize> {
    Some(match *bytes {
        [tag::SMALL_ATOM_UTF8 | tag::SMALL_ATOM, n, ..] => 2 + usize::from(n),
        [tag::ATOM_UTF8 | tag::ATOM, a, b, ..] => 3 + usize::from(u16::from_be_bytes([a, b])),
        _ => return None,
    })
}

/// The length of a term's head, and the number of its parts after it.
pub(super) fn measure(bytes: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let short = |at: usize| Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    let byte = |at: usize| bytes.get(at).copied().map(usize::from);
    let after_atom = |at: usize, more: usize| Some(at + atom(bytes.get(at..)?)? + more);
    Some(match *bytes.first()? {
        tag::NIL => (1, 0),
        tag::SMALL_INTEGER => (2, 0),
        tag::INTEGER => (5, 0),
        tag::NEW_FLOAT => (9, 0),
        tag::FLOAT => (32, 0),
        tag::SMALL_ATOM | tag::SMALL_ATOM_UTF8 | tag::ATOM | tag::ATOM_UTF8 => (atom(bytes)?, 0),
        tag::STRING => (3 + short(1)?, 0),
        tag::BINARY => (5 + number(1)?, 0),
        tag::BIT_BINARY => (6 + number(1)?, 0),
        tag::SMALL_BIG => (3 + byte(1)?, 0),
        tag::LARGE_BIG => (6 + number(1)?, 0),
        tag::NEW_PID | tag::V4_PORT => (after_atom(1, 12)?, 0),
        tag::NEW_PORT => (after_atom(1, 8)?, 0),
        tag::PID => (after_atom(1, 9)?, 0),
        tag::PORT | tag::REFERENCE => (after_atom(1, 5)?, 0),
        tag::NEW_REFERENCE => (after_atom(3, 1 + 4 * short(1)?)?, 0),
        tag::NEWER_REFERENCE => (after_atom(3, 4 + 4 * short(1)?)?, 0),
        tag::SMALL_TUPLE => (2, byte(1)?),
        tag::LARGE_TUPLE => (5, number(1)?),
        tag::LIST => (5, number(1)? + 1),
        tag::MAP => (5, 2 * number(1)?),
        tag::EXPORT => (1, 3),
        // module, name, fields, values
        tag::RECORD => (6, 2 + 2 * number(1)?),
        tag::NEW_FUN => (1 + number(1)?, 0),
        _ => return None,
    })
}

/// Whether `bytes` begins with a term (without a version byte) of any depth that consists only of today's usual message parts. It
/// checks the whole term without recursion. Other terms need the decoder.
/// Only other crates of the workspace use it.
#[must_use]
pub fn is_plain(bytes: &[u8]) -> bool {
    plain(bytes, 1).is_some()
}

/// The length of this many terms at the beginning of `bytes`. As [`is_plain`]: None if one is cut off or has other parts.
///
/// ```
/// use inviso_term::etf;
/// assert_eq!(etf::plain(&[97, 1, 106, 106], 2), Some(3));
/// assert_eq!(etf::plain(&[97, 1, 106, 106], 4), None);
/// ```
#[inline]
#[must_use]
pub fn plain(bytes: &[u8], terms: usize) -> Option<usize> {
    let (mut at, mut left) = (0_usize, terms);
    let word = |at: &[u8]| Some(u32::from_be_bytes(*at.first_chunk()?) as usize);
    let atom = |at: &[u8]| {
        let (&length, name) = at.split_first()?;
        let length = usize::from(length);
        let name = name.get(..length)?;
        (name.is_ascii() || std::str::from_utf8(name).is_ok()).then_some(1 + length)
    };
    while left > 0 {
        let (&tag, rest) = bytes.get(at..)?.split_first()?;
        let of_node = |numbers: usize| match rest.split_first() {
            Some((&tag::SMALL_ATOM_UTF8, name)) => Some(1 + atom(name)? + numbers),
            _ => None,
        };
        let (length, parts) = match tag {
            tag::SMALL_INTEGER => (1, 0),
            tag::INTEGER => (4, 0),
            tag::NEW_FLOAT => (8, 0),
            tag::SMALL_ATOM_UTF8 => (atom(rest)?, 0),
            tag::BINARY => (4 + word(rest)?, 0),
            tag::BIT_BINARY if word(rest)? > 0 && matches!(rest.get(4)?, 1..=8) => (5 + word(rest)?, 0),
            tag::SMALL_BIG => (2 + usize::from(*rest.first()?), 0),
            tag::SMALL_TUPLE => (1, usize::from(*rest.first()?)),
            tag::NIL => (0, 0),
            tag::STRING => (2 + usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 0),
            tag::LIST => (4, word(rest)? + 1),
            tag::MAP => (4, 2 * word(rest)?),
            tag::NEW_PID | tag::V4_PORT => (of_node(12)?, 0),
            _ => return None,
        };
        at = at.checked_add(1 + length)?;
        left = left.checked_add(parts)? - 1;
    }
    (at <= bytes.len()).then_some(at)
}

/// Whether `bytes` begins with a term (without a version byte) of any depth, judged by the lengths of its parts only.
/// Only other crates of the workspace use it.
#[must_use]
pub fn is_whole(bytes: &[u8]) -> bool {
    length(bytes).is_some()
}

/// The length of the term at the beginning of `bytes` (without a version byte), of any depth; None if there is no term.
///
/// ```
/// assert_eq!(inviso_term::etf::length(&[104, 1, 97, 7, 9, 9]), Some(4));
/// ```
#[must_use]
pub fn length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut left) = (0, 1_usize);
    while left > 0 {
        let (length, parts) = bytes.get(at..).and_then(measure)?;
        at += length;
        left = left.saturating_add(parts) - 1;
    }
    (at <= bytes.len()).then_some(at)
}

/// Whether `is` holds for any part of a term (without a version byte), given the bytes from that part on; `None` for an invalid
/// term.
pub(super) fn any(bytes: &[u8], mut is: impl FnMut(&[u8]) -> bool) -> Option<bool> {
    let (mut at, mut left) = (0, 1_usize);
    while left > 0 {
        let rest = bytes.get(at..)?;
        if is(rest) {
            return Some(true);
        }
        let (length, parts) = measure(rest)?;
        at += length;
        left = left.checked_add(parts)? - 1;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{etf, term::Term};

    /// One more level around a term, for each kind with parts. The inner term is the first, the last or a middle part.
    type Level = fn(&[u8]) -> Vec<u8>;

    const LEVELS: [Level; 8] = [
        |inner| [&[tag::SMALL_TUPLE, 2, tag::NIL][..], inner].concat(),
        |inner| [&[tag::LARGE_TUPLE, 0, 0, 0, 3, tag::NIL][..], inner, &[tag::SMALL_INTEGER, 7]].concat(),
        |inner| [&[tag::LIST, 0, 0, 0, 1][..], inner, &[tag::NIL]].concat(),
        |inner| [&[tag::LIST, 0, 0, 0, 1, tag::NIL][..], inner].concat(),
        |inner| [&[tag::MAP, 0, 0, 0, 1][..], inner, &[tag::NIL]].concat(),
        |inner| [&[tag::MAP, 0, 0, 0, 2, tag::NIL, tag::NIL, tag::SMALL_INTEGER, 1][..], inner].concat(),
        |inner| [&[tag::EXPORT][..], inner, &[tag::NIL, tag::NIL]].concat(),
        // module, name, the name of one field, its value
        |inner| [&[tag::RECORD, 0, 0, 0, 1, 1, tag::NIL, tag::NIL, tag::NIL][..], inner].concat(),
    ];

    fn leaves() -> Vec<Vec<u8>> {
        let atom = [tag::SMALL_ATOM_UTF8, 1, b'a'];
        let of = |head: &[u8], after: usize| [head, &atom, &vec![9; after]].concat();
        vec![
            vec![tag::NIL],
            vec![tag::SMALL_INTEGER, 1],
            vec![tag::INTEGER, 1, 2, 3, 4],
            vec![tag::NEW_FLOAT; 9],
            vec![tag::FLOAT; 32],
            atom.to_vec(),
            vec![tag::SMALL_ATOM, 2, b'a', b'b'],
            vec![tag::ATOM_UTF8, 0, 2, b'a', b'b'],
            vec![tag::ATOM, 0, 1, b'a'],
            vec![tag::STRING, 0, 3, 1, 2, 3],
            vec![tag::BINARY, 0, 0, 0, 2, 1, 2],
            vec![tag::BIT_BINARY, 0, 0, 0, 2, 3, 1, 2],
            vec![tag::SMALL_BIG, 2, 0, 1, 2],
            vec![tag::LARGE_BIG, 0, 0, 0, 2, 0, 1, 2],
            of(&[tag::NEW_PID], 12),
            of(&[tag::V4_PORT], 12),
            of(&[tag::NEW_PORT], 8),
            of(&[tag::PID], 9),
            of(&[tag::PORT], 5),
            of(&[tag::REFERENCE], 5),
            of(&[tag::NEW_REFERENCE, 0, 2], 9),
            of(&[tag::NEWER_REFERENCE, 0, 2], 12),
            vec![tag::NEW_FUN, 0, 0, 0, 6, 1, 2],
        ]
    }

    /// Also much deeper than the decoder reads.
    #[test]
    fn a_deep_term_is_whole_at_its_very_end() {
        for depth in [0, 1, 2, 300] {
            for leaf in leaves() {
                for level in LEVELS {
                    let mut term = leaf.clone();
                    (0..depth).for_each(|_| term = level(&term));
                    let ends = (0..=term.len()).filter(|end| is_whole(&term[..*end])).collect::<Vec<_>>();
                    assert_eq!(ends, [term.len()], "{leaf:?} {depth} levels deep");
                    term.push(tag::NIL);
                    assert!(is_whole(&term), "bytes after the term are ignored");
                    assert_eq!(any(&term, |part| part == [tag::NIL]), Some(false), "they are not checked");
                }
                if depth == 300 {
                    break; // one leaf is enough there
                }
            }
        }
    }

    #[test]
    fn each_part_is_checked_at_any_depth() {
        let needle = etf::encode(&Term::atom("needle"));
        for level in LEVELS {
            let mut term = needle.clone();
            (0..300).for_each(|_| term = level(&term));
            let mut looked = 0;
            let found = any(&term, |part| {
                looked += 1;
                part.starts_with(&needle)
            });
            assert_eq!((found, looked > 300), (Some(true), true));
            assert_eq!(any(&term, |_| false), Some(false));
            assert_eq!(any(&term[..term.len() / 2], |_| false), None);
        }
    }

    #[test]
    fn a_deep_message_is_plain_at_its_very_end() {
        let plain = |leaf: &[u8]| {
            LEVELS[..6]
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != 1)
                .map(|(_, level)| {
                    let mut term = leaf.to_vec();
                    (0..300).for_each(|_| term = level(&term));
                    term
                })
                .collect::<Vec<_>>()
        };
        for term in plain(&etf::encode(&Term::str("end"))) {
            let ends = (0..=term.len()).filter(|end| is_plain(&term[..*end])).collect::<Vec<_>>();
            assert_eq!(ends, [term.len()]);
        }
        for term in plain(&[tag::SMALL_ATOM, 1, b'a']) {
            assert!(!is_plain(&term), "a leaf that is not a usual message part");
        }
    }

    #[test]
    fn only_usual_message_parts_are_plain() {
        let is_one = |tag| {
            let numbers = [tag::SMALL_INTEGER, tag::INTEGER, tag::NEW_FLOAT, tag::SMALL_BIG];
            let texts = [tag::SMALL_ATOM_UTF8, tag::BINARY, tag::BIT_BINARY, tag::NIL, tag::STRING];
            [&numbers[..], &texts, &[tag::NEW_PID, tag::V4_PORT]].concat().contains(&tag)
        };
        for leaf in leaves() {
            let whole = is_one(leaf[0]).then_some(leaf.len());
            let lengths: Vec<_> = (0..3).map(|n| plain(&leaf.repeat(n), n)).collect();
            assert_eq!(lengths, [Some(0), whole, whole.map(|length| 2 * length)], "{leaf:?}");
            assert!((0..leaf.len()).all(|end| plain(&leaf[..end], 1).is_none()), "{leaf:?}");
        }
        let bits = |bits, n: u8| plain(&[&[tag::BIT_BINARY, 0, 0, 0, n, bits][..], &vec![1; n.into()]].concat(), 1);
        assert_eq!([bits(0, 1), bits(1, 1), bits(8, 1), bits(9, 1), bits(8, 0)], [None, Some(7), Some(7), None, None]);
        let atom = |name: &[u8]| plain(&[&[tag::SMALL_ATOM_UTF8, name.len() as u8], name].concat(), 1);
        assert_eq!([atom("é".as_bytes()), atom(&[0xe9]), atom(b"")], [Some(4), None, Some(2)]);
    }
}
