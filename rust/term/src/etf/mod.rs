//! Erlang's external term format: writing without allocation, reading any bytes without harm.
//!
//! Erlang reads everything that is written here, but NaN and infinities, which stay floats, and maps with a key that is text in one
//! place and the same bytes in another: who writes for Erlang makes something else of them first ([`portable`]). What Erlang writes is read, also what it has not written for long: compressed terms, and every
//! form of atoms, numbers, funs and identifiers. What only the node that wrote it can read (`local`, atoms of a distribution
//! channel) is refused. What Erlang has no type for is written so that both sides make the best of it, and this side
//! gets back what it gave even after Erlang had it in between:
//!
//! | here | written as |
//! | --- | --- |
//! | text | a binary |
//! | bytes | a bit string whose last byte has 8 bits: an equal binary for Erlang, told from text here |
//! | no bytes | a list of no elements with the empty binary as its tail: to Erlang that tail |
//! | set | `{'$inviso.set', [Element]}` |
//! | object | `{'$inviso.opaque', Type, Id, Text}`, text `undefined` if there is none |
//! | cut | `{'$inviso.cut', What}` |
//! | atom `'$inviso.…'` of the program, after any number of `$` | the same with one more `$` |
//!
//! Bytes that went through an Erlang node come back as binaries, so as text if they are UTF-8.
//!
//! ```
//! use inviso_term::{etf, term::Term};
//! let set = Term::Set(vec![Term::from(1)]);
//! assert_eq!(etf::decode(&etf::encode_versioned(&set)).unwrap(), set);
//!
//! // {'$inviso.set', [1]} by the program itself is no set
//! let tuple = Term::Tuple(vec![Term::atom("$inviso.set"), Term::List(vec![Term::from(1)])]);
//! assert_eq!(etf::decode(&etf::encode(&tuple)).unwrap(), tuple);
//! ```

mod cursor;
mod decode;
mod encode;
mod homed;
mod inflate;
mod measure;
mod portable;
mod terms;
mod visit;
mod write;

pub use decode::{decode, walk, DecodeError, Decoder, Limits};
pub use encode::{Encoder, Full};
pub use homed::{homed, renamed, NodeName};
pub use measure::{is_plain, is_whole, length, plain};
pub use portable::portable;
pub use visit::{ClosureRef, Node, RecordRef, Visit};
pub use write::{encode, encode_versioned};

/// The byte that begins a term on its own.
pub const VERSION: u8 = 131;

/// Terms in terms, at most: what is deeper is cut when a [`Term`](crate::term::Term) is written, and refused when read.
pub const MAX_DEPTH: usize = 200;

/// The largest integer that Erlang keeps in one word.
pub const SMALL: i64 = (1 << 59) - 1;

/// Characters of an atom, at most.
pub const MAX_ATOM: usize = 255;

mod tag {
    pub const RECORD: u8 = 67;
    pub const NEW_FLOAT: u8 = 70;
    pub const BIT_BINARY: u8 = 77;
    pub const COMPRESSED: u8 = 80;
    pub const NEW_PID: u8 = 88;
    pub const NEW_PORT: u8 = 89;
    pub const NEWER_REFERENCE: u8 = 90;
    pub const SMALL_INTEGER: u8 = 97;
    pub const INTEGER: u8 = 98;
    pub const FLOAT: u8 = 99;
    pub const ATOM: u8 = 100;
    pub const REFERENCE: u8 = 101;
    pub const PORT: u8 = 102;
    pub const PID: u8 = 103;
    pub const SMALL_TUPLE: u8 = 104;
    pub const LARGE_TUPLE: u8 = 105;
    pub const NIL: u8 = 106;
    pub const STRING: u8 = 107;
    pub const LIST: u8 = 108;
    pub const BINARY: u8 = 109;
    pub const SMALL_BIG: u8 = 110;
    pub const LARGE_BIG: u8 = 111;
    pub const NEW_FUN: u8 = 112;
    pub const EXPORT: u8 = 113;
    pub const NEW_REFERENCE: u8 = 114;
    pub const SMALL_ATOM: u8 = 115;
    pub const MAP: u8 = 116;
    pub const FUN: u8 = 117;
    pub const ATOM_UTF8: u8 = 118;
    pub const SMALL_ATOM_UTF8: u8 = 119;
    pub const V4_PORT: u8 = 120;
}

/// Atoms that mark what Erlang has no type for, and how a program's atoms are kept apart from them.
mod mark {
    pub const SET: &str = "$inviso.set";
    pub const OPAQUE: &str = "$inviso.opaque";
    pub const CUT: &str = "$inviso.cut";

    /// Whether a name is `$…$inviso.…`, so that it gets one more `$`.
    #[inline(always)]
    pub fn looks_like(name: &str) -> bool {
        name.as_bytes().first() == Some(&b'$') && is_after_dollars(name)
    }

    #[cold]
    fn is_after_dollars(name: &str) -> bool {
        name.trim_start_matches('$').starts_with("inviso.")
    }

    /// The program's atom of an atom that was written. Only what has a second `$` was given one.
    #[inline]
    pub fn unescaped(name: &str) -> &str {
        match name.strip_prefix('$') {
            Some(rest) if looks_like(rest) => rest,
            _ => name,
        }
    }
}

/// A reference's words as one number, the order of the numbers being Erlang's of the references: 18 bits of the first
/// word, the second, the third; and what is left over.
mod reference {
    /// Bits of the first word that Erlang's own references use.
    const FIRST: u32 = 18;

    pub fn of_words(words: [u32; 5]) -> (u64, u128) {
        let [a, b, c, d, e] = words.map(u128::from);
        let number = (a & ((1 << FIRST) - 1)) | b << FIRST | c << (FIRST + 32);
        let over = number >> 64 | d << FIRST | e << (FIRST + 32) | (a >> FIRST) << (FIRST + 64);
        (number as u64, over)
    }

    pub fn words(id: u64, rest: u128) -> [u32; 5] {
        let number = u128::from(id) | (rest & ((1 << FIRST) - 1)) << 64;
        let first = (number as u32) & ((1 << FIRST) - 1) | ((rest >> (FIRST + 64)) as u32) << FIRST;
        let word = |number: u128, shift: u32| (number >> shift) as u32;
        [first, word(number, FIRST), word(number, FIRST + 32), word(rest, FIRST), word(rest, FIRST + 32)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_escaped_name_comes_back_and_none_is_a_mark() {
        for name in ["$inviso.set", "$$inviso.set", "$$$inviso.", "$inviso.x", "inviso.set", "$a", "$", ""] {
            let written = if mark::looks_like(name) { format!("${name}") } else { name.to_owned() };
            assert_eq!(mark::unescaped(&written), name);
            assert!(![mark::SET, mark::OPAQUE, mark::CUT].contains(&&*written));
        }
    }

    #[test]
    fn reference_words_and_numbers_are_one_to_one() {
        for word in [0, 1, 0x3_ffff, 0x4_0000, 0x8000_0001, u32::MAX] {
            for at in 0..5 {
                let mut words = [3, 5, 7, 11, 13];
                words[at] = word;
                let (id, rest) = reference::of_words(words);
                assert_eq!(reference::words(id, rest), words);
            }
        }
        assert_eq!(reference::of_words([7, 0, 0, 0, 0]), (7, 0));
        assert_eq!(reference::of_words([0x3_ffff, u32::MAX, 0x3fff, 0, 0]), (u64::MAX, 0));
    }
}
