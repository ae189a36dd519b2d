//! Writing terms into a buffer that is given.

use super::{mark, tag, VERSION};
use crate::term::{Identifier, Term};
use num_bigint::Sign;

/// The buffer has no room for what was to be written; nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Writes terms one after the other into a buffer. Never allocates, never panics.
///
/// Compound terms are a head and then their parts: `tuple(2)` and two terms; `list(n)`, n terms and the tail, which is
/// `nil()` for a proper list; `map(n)` and n pairs; `set(n)`, n terms and `nil()`.
///
/// ```
/// use inviso_term::{etf::{self, Encoder}, term::Term};
/// let mut buffer = [0; 64];
/// let mut out = Encoder::new(&mut buffer);
/// out.list(1).and_then(|()| out.int(7)).and_then(|()| out.nil()).unwrap();
/// assert_eq!(etf::decode(out.written()).unwrap(), Term::List(vec![Term::from(7)]));
/// ```
pub struct Encoder<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

/// The name under which this node's processes are written.
const HERE: &str = "nonode@nohost";

impl<'a> Encoder<'a> {
    /// Begins at the start of the buffer.
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Encoder { buffer, len: 0 }
    }

    /// Bytes written.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that are left.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// What has been written.
    #[inline]
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The place up to which [`Encoder::truncate`] can go back.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> usize {
        self.len
    }

    /// Takes back what was written after a mark.
    #[inline]
    pub fn truncate(&mut self, mark: usize) {
        self.len = self.len.min(mark);
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Full> {
        let end = self.len + N;
        match self.buffer.get_mut(self.len..end) {
            Some(place) => {
                place.copy_from_slice(&bytes);
                self.len = end;
                Ok(())
            }
            None => Err(Full),
        }
    }

    #[inline]
    fn put_with(&mut self, head: &[u8], bytes: &[u8]) -> Result<(), Full> {
        let middle = self.len + head.len();
        let end = middle + bytes.len();
        if end > self.buffer.len() {
            return Err(Full);
        }
        self.buffer[self.len..middle].copy_from_slice(head);
        self.buffer[middle..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    #[inline(always)]
    fn put_sized(&mut self, tag: u8, n: usize) -> Result<(), Full> {
        let [a, b, c, d] = u32::try_from(n).map_err(|_| Full)?.to_be_bytes();
        self.put([tag, a, b, c, d])
    }

    /// An integer.
    ///
    /// # Errors
    /// [`Full`], as every method here.
    #[inline]
    pub fn int(&mut self, n: i64) -> Result<(), Full> {
        if let Ok(n) = u8::try_from(n) {
            return self.put([tag::SMALL_INTEGER, n]);
        }
        if let Ok(n) = i32::try_from(n) {
            let [a, b, c, d] = n.to_be_bytes();
            return self.put([tag::INTEGER, a, b, c, d]);
        }
        self.big(n < 0, &n.unsigned_abs().to_le_bytes())
    }

    /// An integer by its sign and magnitude, lowest byte first; zeroes at the end are left out.
    #[inline(never)]
    pub fn big(&mut self, negative: bool, magnitude: &[u8]) -> Result<(), Full> {
        let len = magnitude
            .iter()
            .rposition(|b| *b != 0)
            .map_or(0, |at| at + 1);
        let magnitude = &magnitude[..len];
        if len <= 4 {
            let mut word = [0; 4];
            word[..len].copy_from_slice(magnitude);
            let value = i64::from(u32::from_le_bytes(word));
            let value = if negative { -value } else { value };
            if i32::try_from(value).is_ok() {
                return self.int(value);
            }
        }
        let sign = u8::from(negative);
        if let Ok(len) = u8::try_from(len) {
            return self.put_with(&[tag::SMALL_BIG, len, sign], magnitude);
        }
        let [a, b, c, d] = u32::try_from(len).map_err(|_| Full)?.to_be_bytes();
        self.put_with(&[tag::LARGE_BIG, a, b, c, d, sign], magnitude)
    }

    /// A float.
    #[inline]
    pub fn float(&mut self, value: f64) -> Result<(), Full> {
        let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
        self.put([tag::NEW_FLOAT, a, b, c, d, e, f, g, h])
    }

    /// An atom; cut to 255 characters.
    #[inline]
    pub fn atom(&mut self, name: &str) -> Result<(), Full> {
        if mark::looks_like(name) {
            let at = self.len;
            let name = cut(name, 254);
            let [a, b] = (name.len() as u16 + 1).to_be_bytes();
            let done = self.put_with(&[tag::ATOM_UTF8, a, b, b'$'], name.as_bytes());
            if done.is_err() {
                self.len = at;
            }
            return done;
        }
        self.plain_atom(name)
    }

    #[inline]
    fn plain_atom(&mut self, name: &str) -> Result<(), Full> {
        let name = cut(name, 255);
        if let Ok(len) = u8::try_from(name.len()) {
            return self.put_with(&[tag::SMALL_ATOM_UTF8, len], name.as_bytes());
        }
        let [a, b] = (name.len() as u16).to_be_bytes();
        self.put_with(&[tag::ATOM_UTF8, a, b], name.as_bytes())
    }

    /// Text.
    #[inline]
    pub fn str(&mut self, text: &str) -> Result<(), Full> {
        let [a, b, c, d] = u32::try_from(text.len()).map_err(|_| Full)?.to_be_bytes();
        self.put_with(&[tag::BINARY, a, b, c, d], text.as_bytes())
    }

    /// Bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.bits(bytes, 8)
    }

    /// A bit string whose last byte has `bits` bits.
    pub fn bits(&mut self, bytes: &[u8], bits: u8) -> Result<(), Full> {
        let [a, b, c, d] = u32::try_from(bytes.len()).map_err(|_| Full)?.to_be_bytes();
        let bits = if bytes.is_empty() { 0 } else { bits };
        self.put_with(&[tag::BIT_BINARY, a, b, c, d, bits], bytes)
    }

    /// The head of a tuple of `n` elements.
    #[inline]
    pub fn tuple(&mut self, n: usize) -> Result<(), Full> {
        match u8::try_from(n) {
            Ok(n) => self.put([tag::SMALL_TUPLE, n]),
            Err(_) => self.put_sized(tag::LARGE_TUPLE, n),
        }
    }

    /// The head of a list of `n` elements (at least 1); the tail follows them.
    #[inline]
    pub fn list(&mut self, n: usize) -> Result<(), Full> {
        if n == 0 {
            return Ok(());
        }
        self.put_sized(tag::LIST, n)
    }

    /// The empty list, and the end of every proper one.
    #[inline]
    pub fn nil(&mut self) -> Result<(), Full> {
        self.put([tag::NIL])
    }

    /// The head of a map of `n` pairs.
    #[inline]
    pub fn map(&mut self, n: usize) -> Result<(), Full> {
        self.put_sized(tag::MAP, n)
    }

    /// The head of a set of `n` elements; `nil()` follows them.
    pub fn set(&mut self, n: usize) -> Result<(), Full> {
        self.whole(|out| {
            out.tuple(2)?;
            out.plain_atom(mark::SET)?;
            out.list(n)
        })
    }

    /// A process of this node.
    pub fn pid(&mut self, id: u64) -> Result<(), Full> {
        self.pid_of(&Identifier {
            id,
            node: HERE.into(),
            creation: 0,
        })
    }

    /// A process.
    pub fn pid_of(&mut self, of: &Identifier) -> Result<(), Full> {
        self.whole(|out| {
            out.put([tag::NEW_PID])?;
            out.plain_atom(&of.node)?;
            out.put((of.id as u32).to_be_bytes())?;
            out.put(((of.id >> 32) as u32).to_be_bytes())?;
            out.put(of.creation.to_be_bytes())
        })
    }

    /// A port.
    pub fn port_of(&mut self, of: &Identifier) -> Result<(), Full> {
        self.whole(|out| {
            out.put([tag::V4_PORT])?;
            out.plain_atom(&of.node)?;
            out.put(of.id.to_be_bytes())?;
            out.put(of.creation.to_be_bytes())
        })
    }

    /// A reference.
    pub fn reference_of(&mut self, of: &Identifier) -> Result<(), Full> {
        self.whole(|out| {
            out.put([tag::NEWER_REFERENCE, 0, 2])?;
            out.plain_atom(&of.node)?;
            out.put(of.creation.to_be_bytes())?;
            out.put((of.id as u32).to_be_bytes())?;
            out.put(((of.id >> 32) as u32).to_be_bytes())
        })
    }

    /// A function.
    pub fn fun(&mut self, module: &str, name: &str, arity: u8) -> Result<(), Full> {
        self.whole(|out| {
            out.put([tag::EXPORT])?;
            out.plain_atom(module)?;
            out.plain_atom(name)?;
            out.put([tag::SMALL_INTEGER, arity])
        })
    }

    /// An object that is not copied.
    pub fn opaque(&mut self, type_name: &str, id: u64, text: Option<&str>) -> Result<(), Full> {
        self.whole(|out| {
            out.tuple(4)?;
            out.plain_atom(mark::OPAQUE)?;
            out.str(type_name)?;
            out.big(false, &id.to_le_bytes())?;
            match text {
                Some(text) => out.str(text),
                None => out.plain_atom("undefined"),
            }
        })
    }

    /// Where a limit cut something off, and what.
    pub fn cut(&mut self, what: &str) -> Result<(), Full> {
        self.whole(|out| {
            out.tuple(2)?;
            out.plain_atom(mark::CUT)?;
            out.str(what)
        })
    }

    /// All of it or nothing.
    #[inline]
    fn whole(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Full>) -> Result<(), Full> {
        let at = self.len;
        let done = write(self);
        if done.is_err() {
            self.len = at;
        }
        done
    }

    /// Any term.
    pub fn term(&mut self, term: &Term) -> Result<(), Full> {
        match term {
            Term::Int(n) => {
                let (sign, magnitude) = n.to_bytes_le();
                self.big(sign == Sign::Minus, &magnitude)
            }
            Term::Float(f) => self.float(*f),
            Term::Atom(name) => self.atom(name),
            Term::Str(text) => self.str(text),
            Term::Bytes(bytes) => self.bytes(bytes),
            Term::BitString(bytes, bits) => self.bits(bytes, *bits),
            Term::Tuple(elements) => {
                self.tuple(elements.len())?;
                elements.iter().try_for_each(|e| self.term(e))
            }
            Term::List(elements) => {
                self.list(elements.len())?;
                elements.iter().try_for_each(|e| self.term(e))?;
                self.nil()
            }
            Term::ImproperList(elements, tail) => {
                self.list(elements.len())?;
                elements.iter().try_for_each(|e| self.term(e))?;
                self.term(tail)
            }
            Term::Map(pairs) => {
                self.map(pairs.len())?;
                pairs
                    .iter()
                    .try_for_each(|(k, v)| self.term(k).and_then(|()| self.term(v)))
            }
            Term::Set(elements) => {
                self.set(elements.len())?;
                elements.iter().try_for_each(|e| self.term(e))?;
                self.nil()
            }
            Term::Pid(of) => self.pid_of(of),
            Term::Port(of) => self.port_of(of),
            Term::Ref(of) => self.reference_of(of),
            Term::Fun(module, name, arity) => self.fun(module, name, *arity),
            Term::Opaque(type_name, id, text) => self.opaque(type_name, *id, text.as_deref()),
            Term::Cut(what) => self.cut(what),
        }
    }
}

/// The first `limit` characters.
fn cut(name: &str, limit: usize) -> &str {
    if name.len() <= limit {
        return name;
    }
    name.char_indices()
        .nth(limit)
        .map_or(name, |(at, _)| &name[..at])
}

/// A term on its own, without the version byte.
#[must_use]
pub fn encode(term: &Term) -> Vec<u8> {
    let mut buffer = vec![0; 64];
    loop {
        let mut out = Encoder::new(&mut buffer);
        if out.term(term).is_ok() {
            let len = out.len();
            buffer.truncate(len);
            return buffer;
        }
        buffer = vec![0; buffer.len() * 4];
    }
}

/// A term on its own, with the version byte.
#[must_use]
pub fn encode_versioned(term: &Term) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend(encode(term));
    bytes
}
