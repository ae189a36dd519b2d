//! Erlang's external term format: written without allocation, read from any bytes.
//!
//! Erlang reads everything that this module writes, with two exceptions: NaN and infinities, which stay floats, and maps with one
//! key as text and as the same bytes. Writers for Erlang replace these first ([`portable`]). This module reads everything that
//! Erlang writes, also old forms: compressed terms, and all encodings of atoms, numbers, funs and identifiers. It refuses terms
//! that only their own node can read (`local`, atoms of a distribution channel). Values without a type in Erlang have encodings
//! that are useful there. They are read back unchanged here, also after Erlang had them in between:
//!
//! | here | encoded as |
//! | --- | --- |
//! | text | a binary |
//! | bytes | a bit string whose last byte has 8 bits: an equal binary for Erlang, but distinct from text here |
//! | no bytes | a list without elements whose tail is the empty binary: for Erlang only that tail |
//! | set | `{'$inviso.set', [Element]}` |
//! | object | `{'$inviso.opaque', Type, Id, Text}`; the text is `undefined` if there is none |
//! | cut | `{'$inviso.cut', What}` |
//! | the program's atom `'$inviso.…'`, after any number of `$` | the same with one more `$` |
//!
//! Bytes that went through an Erlang node are binaries then, so they are text if they are UTF-8.
//!
//! ```
//! use inviso_term::{etf, term::Term};
//! let set = Term::Set(vec![Term::from(1)]);
//! assert_eq!(etf::decode(&etf::encode_versioned(&set)).unwrap(), set);
//!
//! // the program's own {'$inviso.set', [1]} is not a set
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

/// The byte that begins a whole term.
pub const VERSION: u8 = 131;

/// The deepest nesting. Deeper parts are cut when a [`Term`](crate::term::Term) is written, and refused when one is read.
pub const MAX_DEPTH: usize = 200;

/// The largest integer that Erlang keeps in one word.
/// Only other crates of the workspace use it.
pub const SMALL: i64 = (1 << 59) - 1;

/// The largest number of characters in an atom.
pub const MAX_ATOM: usize = 255;

/// The tags of the format.
/// Only other crates of the workspace use it.
#[allow(missing_docs)] // each has its name in Erlang's documentation
pub mod tag {
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

/// Atoms that mark values without a type in Erlang, and the escape of a program's own atoms.
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

    /// The program's atom of an encoded one. Only an atom with a second `$` was escaped.
    #[inline]
    pub fn unescaped(name: &str) -> &str {
        match name.strip_prefix('$') {
            Some(rest) if looks_like(rest) => rest,
            _ => name,
        }
    }
}

/// The words of a reference as one number whose order is Erlang's order of references: 18 bits of the first word, the second
/// word, the third word; and the rest.
mod reference {
    /// The bits of the first word that Erlang's own references use.
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
    fn every_escaped_name_is_unescaped_and_none_is_a_mark() {
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
