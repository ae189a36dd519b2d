//! Erlang's external term format: writing without allocation, reading any bytes without harm.
//!
//! Erlang reads everything that is written here. What it has no type for is written so that both sides make the best of
//! it and this side gets back what it gave:
//!
//! | here | written as |
//! | --- | --- |
//! | text | a binary |
//! | bytes | a bit string whose last byte has 8 bits: an equal binary for Erlang, told from text here |
//! | set | `{'$inviso.set', [Element]}` |
//! | object | `{'$inviso.opaque', Type, Id, Text}`, text `undefined` if there is none |
//! | cut | `{'$inviso.cut', What}` |
//! | atom `'$inviso.…'` of the program | the same with one more `$` |
//!
//! NaN and infinities stay floats here; who writes for Erlang makes atoms of them first.

mod decode;
mod encode;

pub use decode::{decode, walk, DecodeError, Limits, Node, Visit};
pub use encode::{encode, encode_versioned, Encoder, Full};

/// The byte that begins a term on its own.
pub const VERSION: u8 = 131;

mod tag {
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
    pub const EXPORT: u8 = 113;
    pub const NEW_REFERENCE: u8 = 114;
    pub const SMALL_ATOM: u8 = 115;
    pub const MAP: u8 = 116;
    pub const ATOM_UTF8: u8 = 118;
    pub const SMALL_ATOM_UTF8: u8 = 119;
    pub const V4_PORT: u8 = 120;
}

/// Atoms that mark what Erlang has no type for.
mod mark {
    pub const SET: &str = "$inviso.set";
    pub const OPAQUE: &str = "$inviso.opaque";
    pub const CUT: &str = "$inviso.cut";

    /// Whether a program's atom looks like a mark, however many `$` it begins with.
    pub fn looks_like(name: &str) -> bool {
        name.starts_with('$') && name.trim_start_matches('$').starts_with("inviso.")
    }
}
