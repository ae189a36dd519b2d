//! Reads terms from any bytes, without panics and with memory in proportion to the bytes.

use super::{
    cursor::{self, Cursor, Marked},
    inflate::inflate,
    mark, reference, tag,
    terms::{Skip, Terms},
    visit::{ClosureRef, Node, RecordRef, Visit},
    MAX_DEPTH, VERSION,
};
use crate::term::Term;
use std::borrow::Cow;
use thiserror::Error;

/// The largest count for which memory is reserved at once. Above it, memory grows with the elements.
const TRUSTED: usize = 32;

/// Why bytes are not a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end in the middle of a term.
    #[error("the bytes end in the middle of a term")]
    Short,
    /// An unknown tag, or one that is not allowed in its place.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// A compressed term that is damaged or has another size than it claims.
    #[error("a damaged compressed term")]
    Compressed,
    /// Nesting deeper than [`Limits::depth`].
    #[error("nested too deeply")]
    Deep,
    /// More bytes than [`Limits::bytes`] or [`Limits::inflated`].
    #[error("too large")]
    Large,
    /// Bytes follow the term.
    #[error("bytes after the term")]
    Trailing,
    /// An atom that is not UTF-8, an invalid float, a bit count over 8, and the like.
    #[error("a malformed {0}")]
    Malformed(&'static str),
    /// The visitor refused a value.
    #[error("{0}")]
    Refused(&'static str),
}

/// The limits of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The deepest nesting, at most [`MAX_DEPTH`]: reading is recursive.
    pub depth: usize,
    /// The longest input, in bytes. A term's memory is in proportion to its bytes.
    pub bytes: usize,
    /// The longest compressed term after decompression, in bytes.
    pub inflated: usize,
}

impl Default for Limits {
    /// The largest depth, 256 MiB, and 64 MiB after decompression.
    fn default() -> Self {
        Limits { depth: MAX_DEPTH, bytes: 256 << 20, inflated: 64 << 20 }
    }
}

/// Reads one term, with or without a version byte, and passes its parts to a visitor.
///
/// It allocates only the lists of values for the visitor, and the bytes of a compressed term.
///
/// # Errors
/// A [`DecodeError`], or the visitor's error.
pub fn walk<V: Visit>(bytes: &[u8], limits: Limits, visitor: &mut V) -> Result<V::Value, V::Error> {
    let mut decoder = Decoder::new(bytes, limits)?;
    let value = decoder.read(visitor)?;
    if decoder.rest().is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::Trailing.into())
    }
}

/// Reads one term, with or without a version byte.
///
/// # Errors
/// A [`DecodeError`].
pub fn decode(bytes: &[u8]) -> Result<Term, DecodeError> {
    walk(bytes, Limits::default(), &mut Terms)
}

/// Reads several terms, one after the other.
///
/// ```
/// use inviso_term::{etf::{Decoder, Limits}, term::Term};
/// let mut two = Decoder::new(&[97, 1, 131, 97, 2], Limits::default()).unwrap();
/// assert_eq!(two.term(), Ok(Term::from(1)));
/// assert_eq!(two.term(), Ok(Term::from(2)));
/// assert!(two.rest().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: Cursor<'a>,
    depth: usize,
    inflated: usize,
}

impl<'a> Decoder<'a> {
    /// Begins at the start of the bytes.
    ///
    /// # Errors
    /// [`DecodeError::Large`].
    pub fn new(bytes: &'a [u8], limits: Limits) -> Result<Decoder<'a>, DecodeError> {
        if bytes.len() > limits.bytes {
            return Err(DecodeError::Large);
        }
        Ok(Decoder { bytes: Cursor::new(bytes), depth: limits.depth.min(MAX_DEPTH), inflated: limits.inflated })
    }

    /// The bytes that were not read yet. After an error they begin somewhere in a term.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.left
    }

    /// The next term, with or without a version byte, as a [`Term`].
    ///
    /// # Errors
    /// A [`DecodeError`].
    pub fn term(&mut self) -> Result<Term, DecodeError> {
        self.read(&mut Terms)
    }

    /// Skips the next term, with or without a version byte. It checks the same as [`Decoder::term`] and builds nothing.
    ///
    /// # Errors
    /// A [`DecodeError`].
    pub fn skip(&mut self) -> Result<(), DecodeError> {
        self.read(&mut Skip)
    }

    /// The next term, with or without a version byte, as the visitor's value.
    ///
    /// # Errors
    /// A [`DecodeError`], or the visitor's error.
    pub fn read<V: Visit>(&mut self, visitor: &mut V) -> Result<V::Value, V::Error> {
        if self.bytes.skip(VERSION) && self.bytes.skip(tag::COMPRESSED) {
            return self.compressed(visitor);
        }
        self.value(visitor)
    }

    /// Reads a compressed term. As in Erlang it is allowed only after a version byte, and bytes after the inner term are ignored.
    #[cold]
    fn compressed<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        let size = self.bytes.u32()? as usize;
        if size > self.inflated {
            return Err(DecodeError::Large.into());
        }
        let (term, length) = inflate(self.bytes.left, size)?;
        self.bytes.take(length)?;
        Decoder { bytes: Cursor::new(&term), depth: self.depth, inflated: 0 }.value(v)
    }

    fn value<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        self.depth = self.depth.checked_sub(1).ok_or(DecodeError::Deep)?;
        let value = self.tagged(v);
        self.depth += 1;
        value
    }

    fn tagged<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        match self.bytes.u8()? {
            tag::SMALL_INTEGER => v.int(i64::from(self.bytes.u8()?)),
            tag::INTEGER => v.int(i64::from(i32::from_be_bytes(self.bytes.array()?))),
            tag @ (tag::SMALL_ATOM_UTF8 | tag::ATOM_UTF8 | tag::SMALL_ATOM | tag::ATOM) => {
                let name = self.bytes.name_of(tag)?;
                v.atom(mark::unescaped(&name))
            }
            tag::NIL => v.list(Vec::new()),
            tag::LIST => self.list(v),
            tag::SMALL_TUPLE => {
                let n = usize::from(self.bytes.u8()?);
                self.tuple(n, v)
            }
            tag::LARGE_TUPLE => {
                let n = self.bytes.u32()? as usize;
                self.tuple(n, v)
            }
            tag::BINARY => {
                let bytes = self.bytes.sized()?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => v.str(text),
                    Err(_) => v.bytes(bytes),
                }
            }
            tag::BIT_BINARY => self.bits(v),
            tag::NEW_FLOAT => v.float(f64::from_be_bytes(self.bytes.array()?)),
            tag::MAP => self.map(v),
            tag::STRING => {
                let numbers = self.numbers(v)?;
                v.list(numbers)
            }
            other => self.rare(other, v),
        }
    }

    /// Reads a term that few messages have. It is a function of its own so that a level of nesting takes little stack.
    #[inline(never)]
    // more than 60 lines: one short arm for each tag
    fn rare<V: Visit>(&mut self, tag: u8, v: &mut V) -> Result<V::Value, V::Error> {
        match tag {
            tag::SMALL_BIG | tag::LARGE_BIG => {
                let (negative, magnitude) = self.bytes.big(tag)?;
                match cursor::small(negative, magnitude) {
                    Some(n) => v.int(n),
                    None => v.big(negative, magnitude),
                }
            }
            tag::FLOAT => v.float(self.bytes.old_float()?),
            tag::NEW_PID | tag::PID => {
                let name = self.bytes.name()?;
                let id = u64::from(self.bytes.u32()?) | u64::from(self.bytes.u32()?) << 32;
                let creation = self.bytes.creation(tag == tag::NEW_PID)?;
                v.pid(Node { name: &name, id, rest: 0, creation })
            }
            tag::V4_PORT | tag::NEW_PORT | tag::PORT => {
                let name = self.bytes.name()?;
                let id = match tag {
                    tag::V4_PORT => u64::from_be_bytes(self.bytes.array()?),
                    _ => u64::from(self.bytes.u32()?),
                };
                let creation = self.bytes.creation(tag != tag::PORT)?;
                v.port(Node { name: &name, id, rest: 0, creation })
            }
            tag::NEWER_REFERENCE | tag::NEW_REFERENCE => {
                let n = usize::from(self.bytes.u16()?);
                let name = self.bytes.name()?;
                let creation = self.bytes.creation(tag == tag::NEWER_REFERENCE)?;
                let mut words = [0; 5];
                let mut used = words.get_mut(..n).ok_or(DecodeError::Malformed("reference"))?;
                if tag == tag::NEW_REFERENCE {
                    let (first, rest) = used.split_first_mut().ok_or(DecodeError::Malformed("reference"))?;
                    *first = self.bytes.short_word()?;
                    used = rest;
                }
                for word in used {
                    *word = self.bytes.u32()?;
                }
                let (id, rest) = reference::of_words(words);
                v.reference(Node { name: &name, id, rest, creation })
            }
            tag::REFERENCE => {
                let name = self.bytes.name()?;
                let (id, rest) = reference::of_words([self.bytes.short_word()?, 0, 0, 0, 0]);
                let creation = self.bytes.creation(false)?;
                v.reference(Node { name: &name, id, rest, creation })
            }
            tag::EXPORT => {
                let (module, name) = (self.bytes.name()?, self.bytes.name()?);
                let arity = u64::try_from(self.bytes.small_integer()?).map_err(|_| DecodeError::Malformed("fun"))?;
                v.fun(&module, &name, arity)
            }
            tag::RECORD => self.record(v),
            tag::NEW_FUN | tag::FUN => {
                let from = self.bytes.at() - 1;
                let (module, arity, index, unique) = if tag == tag::FUN { self.old_fun()? } else { self.new_fun()? };
                let encoded = self.bytes.since(from);
                v.closure(ClosureRef { module: &module, arity, index, unique, encoded })
            }
            other => Err(DecodeError::Tag(other).into()),
        }
    }

    #[inline(never)]
    fn list<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        let elements = self.elements(v)?;
        if self.bytes.skip(tag::NIL) {
            return v.list(elements);
        }
        if elements.is_empty() {
            return match self.bytes.left {
                [tag::BINARY, 0, 0, 0, 0, ..] => {
                    self.bytes.take(5)?;
                    v.bytes(&[])
                }
                _ => self.value(v),
            };
        }
        let tail = self.value(v)?;
        v.improper(elements, tail)
    }

    /// The elements of a list, without its tail.
    fn elements<V: Visit>(&mut self, v: &mut V) -> Result<Vec<V::Value>, V::Error> {
        let n = self.bytes.u32()? as usize;
        self.values(n, v)
    }

    fn values<V: Visit>(&mut self, n: usize, v: &mut V) -> Result<Vec<V::Value>, V::Error> {
        let n = self.bytes.count(n, 1)?;
        let mut values = Vec::with_capacity(n.min(TRUSTED));
        for _ in 0..n {
            values.push(self.value(v)?);
        }
        Ok(values)
    }

    #[inline(never)]
    fn map<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        let n = self.bytes.u32()? as usize;
        let n = self.bytes.count(n, 2)?;
        let mut pairs = Vec::with_capacity(n.min(TRUSTED));
        for _ in 0..n {
            let key = self.value(v)?;
            pairs.push((key, self.value(v)?));
        }
        v.map(pairs)
    }

    /// Reads a native record. As in Erlang, its fields must be distinct.
    #[inline(never)]
    fn record<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        let n = self.bytes.u32()? as usize;
        let exported = match self.bytes.u8()? {
            flag @ (0 | 1) => flag == 1,
            _ => return Err(DecodeError::Malformed("record").into()),
        };
        let (module, name) = (self.bytes.name()?, self.bytes.name()?);
        let n = self.bytes.count(n, 3)?;
        let mut fields = Vec::with_capacity(n.min(TRUSTED));
        for _ in 0..n {
            fields.push(self.bytes.name()?);
        }
        let mut sorted: Vec<_> = fields.iter().collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|two| matches!(two, [a, b] if a == b)) {
            return Err(DecodeError::Malformed("record").into());
        }
        drop(sorted);
        let values = self.values(n, v)?;
        v.record(RecordRef { module: &module, name: &name, exported, fields: &fields }, values)
    }

    #[inline(never)]
    fn tuple<V: Visit>(&mut self, n: usize, v: &mut V) -> Result<V::Value, V::Error> {
        match self.bytes.marked(n) {
            Marked::No => {
                let elements = self.values(n, v)?;
                v.tuple(elements)
            }
            Marked::Set => self.set(v),
            Marked::Opaque(type_name, id, text) => v.opaque(type_name, id, text),
            Marked::Cut(what) => v.cut(what),
        }
    }

    /// Reads the list of a set. If the list is improper, the value is a tuple.
    #[inline(never)]
    fn set<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        let elements = match self.bytes.u8()? {
            tag::NIL => return v.set(Vec::new()),
            // Erlang's encoding of lists of small numbers
            tag::STRING => {
                let numbers = self.numbers(v)?;
                return v.set(numbers);
            }
            tag::LIST => self.elements(v)?,
            other => return Err(DecodeError::Tag(other).into()),
        };
        if self.bytes.skip(tag::NIL) {
            return v.set(elements);
        }
        let tail = self.value(v)?;
        let list = if elements.is_empty() { tail } else { v.improper(elements, tail)? };
        let name = v.atom(mark::SET)?;
        v.tuple(vec![name, list])
    }

    /// The bytes of a string as integers.
    #[inline(never)]
    fn numbers<V: Visit>(&mut self, v: &mut V) -> Result<Vec<V::Value>, V::Error> {
        self.bytes.string()?.iter().map(|byte| v.int(i64::from(*byte))).collect()
    }

    #[inline(never)]
    fn bits<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        let n = self.bytes.u32()? as usize;
        let bits = self.bytes.u8()?;
        let bytes = self.bytes.take(n)?;
        match bits {
            8 if n > 0 => v.bytes(bytes),
            1..=7 if n > 0 => v.bits(bytes, bits),
            _ => Err(DecodeError::Malformed("bit string").into()),
        }
    }

    fn new_fun(&mut self) -> Result<(Cow<'a, str>, Option<u8>, u32, u32), DecodeError> {
        let from = self.bytes.at();
        let size = self.bytes.u32()? as usize;
        let arity = self.bytes.u8()?;
        let _hash = self.bytes.array::<16>()?;
        let _index = self.bytes.u32()?;
        let free = self.bytes.u32()? as usize;
        let module = self.bytes.name()?;
        let (index, unique) = (self.bytes.small_integer()? as u32, self.bytes.small_integer()? as u32);
        self.skip_pid()?;
        self.values(free, &mut Skip)?;
        if self.bytes.at() - from != size {
            return Err(DecodeError::Malformed("fun"));
        }
        Ok((module, Some(arity), index, unique))
    }

    fn old_fun(&mut self) -> Result<(Cow<'a, str>, Option<u8>, u32, u32), DecodeError> {
        let free = self.bytes.u32()? as usize;
        self.skip_pid()?;
        let module = self.bytes.name()?;
        let (index, unique) = (self.bytes.integer()? as u32, self.bytes.integer()? as u32);
        self.values(free, &mut Skip)?;
        Ok((module, None, index, unique))
    }

    fn skip_pid(&mut self) -> Result<(), DecodeError> {
        match self.bytes.left.first() {
            Some(&(tag::NEW_PID | tag::PID)) => self.value(&mut Skip),
            Some(other) => Err(DecodeError::Tag(*other)),
            None => Err(DecodeError::Short),
        }
    }
}
