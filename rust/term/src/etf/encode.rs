//! Writes terms into a buffer of the caller.

use super::{mark, reference, tag, visit::Node, MAX_ATOM};

/// The buffer has no space for a part. Nothing of the part was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Writes terms into a buffer, one after the other. It never allocates and never panics.
///
/// A compound term is a head and then its parts: `tuple(2)` and two terms; `list(n)`, n terms and the tail, which is `nil()` for
/// a proper list; `map(n)` and n pairs; `record(…)` and a value for each field; `set(n)`, n terms and `nil()`. Without space each
/// method answers [`Full`] and leaves the buffer unchanged. Earlier parts stay: see [`Encoder::truncate`].
///
/// ```
/// use inviso_term::{etf::{self, Encoder, Full}, term::Term};
/// let mut buffer = [0; 64];
/// let mut out = Encoder::new(&mut buffer);
/// let mark = out.mark();
/// let done: Result<(), Full> = (|| {
///     out.list(2)?;
///     out.int(7)?;
///     out.str("seven")?;
///     out.nil()
/// })();
/// if done.is_err() {
///     out.truncate(mark);
/// }
/// assert_eq!(etf::decode(out.written()).unwrap(), Term::List(vec![Term::from(7), Term::str("seven")]));
/// ```
#[derive(Debug)]
pub struct Encoder<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

/// The placeholder for the name of this node.
pub(super) const HERE: &[u8; 13] = b"nonode@nohost";

/// A pid or port of this node: `tag`, `HERE` as an atom, the rest.
#[inline(always)]
fn of_this_node<const N: usize>(tag: u8, rest: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    (bytes[0], bytes[1], bytes[2]) = (tag, tag::SMALL_ATOM_UTF8, HERE.len() as u8);
    bytes[3..16].copy_from_slice(HERE);
    bytes[16..16 + rest.len()].copy_from_slice(rest);
    bytes
}

impl<'a> Encoder<'a> {
    /// Begins at the start of the buffer.
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Encoder { buffer, len: 0 }
    }

    /// How many bytes were written.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes are free.
    /// Only other crates of the workspace use it.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// The written bytes.
    #[inline]
    #[must_use]
    pub fn written(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// The position for [`Encoder::truncate`].
    #[inline]
    #[must_use]
    pub fn mark(&self) -> usize {
        self.len
    }

    /// Removes everything after a mark.
    #[inline]
    pub fn truncate(&mut self, mark: usize) {
        self.len = self.len.min(mark);
    }

    /// Appends bytes unchanged: encoded terms, or bytes beside terms.
    /// Only other crates of the workspace use it.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.put_with([], bytes)
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Full> {
        let place = self.buffer.get_mut(self.len..).and_then(|left| left.first_chunk_mut()).ok_or(Full)?;
        *place = bytes;
        self.len += N;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn put_with<const N: usize>(&mut self, head: [u8; N], bytes: &[u8]) -> Result<(), Full> {
        let left = self.buffer.get_mut(self.len..).ok_or(Full)?;
        let (place, left) = left.split_first_chunk_mut().ok_or(Full)?;
        let rest = left.get_mut(..bytes.len()).ok_or(Full)?;
        *place = head;
        rest.copy_from_slice(bytes);
        self.len += N + bytes.len();
        Ok(())
    }

    #[inline(always)]
    fn put_sized(&mut self, tag: u8, n: usize) -> Result<(), Full> {
        let [a, b, c, d] = u32::try_from(n).map_err(|_| Full)?.to_be_bytes();
        self.put([tag, a, b, c, d])
    }

    /// Writes all of it or nothing.
    #[inline]
    pub(super) fn all_or_nothing(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Full>) -> Result<(), Full> {
        let at = self.len;
        let done = write(self);
        if done.is_err() {
            self.len = at;
        }
        done
    }

    /// An integer.
    ///
    /// # Errors
    /// [`Full`], like all methods.
    #[inline]
    pub fn int(&mut self, n: i64) -> Result<(), Full> {
        if let Ok(n) = u8::try_from(n) {
            return self.put([tag::SMALL_INTEGER, n]);
        }
        if let Ok(n) = i32::try_from(n) {
            let [a, b, c, d] = n.to_be_bytes();
            return self.put([tag::INTEGER, a, b, c, d]);
        }
        let magnitude = n.unsigned_abs();
        let len = 8 - magnitude.leading_zeros() / 8; // at least four
        self.put_with([tag::SMALL_BIG, len as u8, u8::from(n < 0)], &magnitude.to_le_bytes()[..len as usize])
    }

    /// An integer of any size, by its sign and magnitude, lowest byte first. Zeros at the end are ignored.
    #[inline(never)]
    pub fn big(&mut self, negative: bool, magnitude: &[u8]) -> Result<(), Full> {
        let magnitude = trimmed(magnitude);
        if magnitude.len() <= 4 {
            let value = magnitude.iter().rev().fold(0, |value, byte| value << 8 | i64::from(*byte));
            let value = if negative { -value } else { value };
            if i32::try_from(value).is_ok() {
                return self.int(value);
            }
        }
        let sign = u8::from(negative);
        if let Ok(len) = u8::try_from(magnitude.len()) {
            return self.put_with([tag::SMALL_BIG, len, sign], magnitude);
        }
        let [a, b, c, d] = u32::try_from(magnitude.len()).map_err(|_| Full)?.to_be_bytes();
        self.put_with([tag::LARGE_BIG, a, b, c, d, sign], magnitude)
    }

    /// A float.
    #[inline]
    pub fn float(&mut self, value: f64) -> Result<(), Full> {
        let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
        self.put([tag::NEW_FLOAT, a, b, c, d, e, f, g, h])
    }

    /// An atom. Only the first 255 characters of the name are written (254 if it begins like `$inviso.`).
    #[inline]
    pub fn atom(&mut self, name: &str) -> Result<(), Full> {
        if mark::looks_like(name) {
            return self.escaped_atom(name);
        }
        self.plain_atom(name)
    }

    #[cold]
    fn escaped_atom(&mut self, name: &str) -> Result<(), Full> {
        let name = first_characters(name, MAX_ATOM - 1);
        let [a, b] = (name.len() as u16 + 1).to_be_bytes();
        self.put_with([tag::ATOM_UTF8, a, b, b'$'], name.as_bytes())
    }

    #[inline]
    fn plain_atom(&mut self, name: &str) -> Result<(), Full> {
        if let Ok(len) = u8::try_from(name.len()) {
            return self.put_with([tag::SMALL_ATOM_UTF8, len], name.as_bytes());
        }
        self.long_atom(name)
    }

    #[cold]
    fn long_atom(&mut self, name: &str) -> Result<(), Full> {
        let name = first_characters(name, MAX_ATOM);
        if let Ok(len) = u8::try_from(name.len()) {
            return self.put_with([tag::SMALL_ATOM_UTF8, len], name.as_bytes());
        }
        let [a, b] = (name.len() as u16).to_be_bytes();
        self.put_with([tag::ATOM_UTF8, a, b], name.as_bytes())
    }

    /// Text.
    #[inline]
    pub fn str(&mut self, text: &str) -> Result<(), Full> {
        let [a, b, c, d] = u32::try_from(text.len()).map_err(|_| Full)?.to_be_bytes();
        self.put_with([tag::BINARY, a, b, c, d], text.as_bytes())
    }

    /// Bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.bits(bytes, 8)
    }

    /// A bit string. Its last byte has `bits` bits (1 to 8), the high ones.
    #[inline]
    pub fn bits(&mut self, bytes: &[u8], bits: u8) -> Result<(), Full> {
        let [a, b, c, d] = u32::try_from(bytes.len()).map_err(|_| Full)?.to_be_bytes();
        if bytes.is_empty() {
            // Erlang refuses an empty bit string
            return self.put([tag::LIST, 0, 0, 0, 0, tag::BINARY, 0, 0, 0, 0]);
        }
        self.put_with([tag::BIT_BINARY, a, b, c, d, bits.clamp(1, 8)], bytes)
    }

    /// The head of a tuple of `n` elements.
    #[inline]
    pub fn tuple(&mut self, n: usize) -> Result<(), Full> {
        match u8::try_from(n) {
            Ok(n) => self.put([tag::SMALL_TUPLE, n]),
            Err(_) => self.put_sized(tag::LARGE_TUPLE, n),
        }
    }

    /// The head of a list of `n` elements; the tail follows them. An empty list has no head, only its tail.
    #[inline]
    pub fn list(&mut self, n: usize) -> Result<(), Full> {
        if n == 0 {
            return Ok(());
        }
        self.put_sized(tag::LIST, n)
    }

    /// The empty list, and the end of every proper list.
    #[inline]
    pub fn nil(&mut self) -> Result<(), Full> {
        self.put([tag::NIL])
    }

    /// The head of a map of `n` pairs.
    #[inline]
    pub fn map(&mut self, n: usize) -> Result<(), Full> {
        self.put_sized(tag::MAP, n)
    }

    /// The head of a native record with these distinct fields. Their values follow.
    pub fn record<'f>(
        &mut self, module: &str, name: &str, exported: bool, mut fields: impl ExactSizeIterator<Item = &'f str>,
    ) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.put_sized(tag::RECORD, fields.len())?;
            out.put([u8::from(exported)])?;
            out.plain_atom(module)?;
            out.plain_atom(name)?;
            fields.try_for_each(|field| out.plain_atom(field))
        })
    }

    /// The head of a set of `n` elements. `nil()` follows them.
    #[inline]
    pub fn set(&mut self, n: usize) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.tuple(2)?;
            out.plain_atom(mark::SET)?;
            out.list(n)
        })
    }

    /// A process of this node, with the placeholder for its name.
    #[inline]
    pub fn pid(&mut self, id: u64) -> Result<(), Full> {
        // id and serial are the low and the high half; the creation is 0
        let halves = id.rotate_left(32).to_be_bytes();
        self.put(of_this_node::<28>(tag::NEW_PID, &halves))
    }

    /// A process of a node.
    pub fn pid_of(&mut self, of: Node<'_>) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.put([tag::NEW_PID])?;
            out.plain_atom(of.name)?;
            out.put(of.id.rotate_left(32).to_be_bytes())?;
            out.put(of.creation.to_be_bytes())
        })
    }

    /// A port of this node, with the placeholder for its name.
    #[inline]
    pub fn port(&mut self, id: u64) -> Result<(), Full> {
        self.put(of_this_node::<28>(tag::V4_PORT, &id.to_be_bytes()))
    }

    /// A port of a node.
    pub fn port_of(&mut self, of: Node<'_>) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.put([tag::V4_PORT])?;
            out.plain_atom(of.name)?;
            out.put(of.id.to_be_bytes())?;
            out.put(of.creation.to_be_bytes())
        })
    }

    /// A reference of this node, with the placeholder for its name.
    #[inline]
    pub fn reference(&mut self, id: u64) -> Result<(), Full> {
        self.reference_of(Node { name: "nonode@nohost", id, rest: 0, creation: 0 })
    }

    /// A reference of a node.
    pub fn reference_of(&mut self, of: Node<'_>) -> Result<(), Full> {
        let words = reference::words(of.id, of.rest);
        let words = if words[3..] == [0, 0] { &words[..3] } else { &words[..] };
        self.all_or_nothing(|out| {
            out.put([tag::NEWER_REFERENCE, 0, words.len() as u8])?;
            out.plain_atom(of.name)?;
            out.put(of.creation.to_be_bytes())?;
            words.iter().try_for_each(|word| out.put(word.to_be_bytes()))
        })
    }

    /// A function.
    pub fn fun(&mut self, module: &str, name: &str, arity: u64) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.put([tag::EXPORT])?;
            out.plain_atom(module)?;
            out.plain_atom(name)?;
            out.big(false, &arity.to_le_bytes())
        })
    }

    /// An object that was not copied: the name of its type, its identity, and its text if that was requested.
    pub fn opaque(&mut self, type_name: &str, id: u64, text: Option<&str>) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.tuple(4)?;
            out.plain_atom(mark::OPAQUE)?;
            out.str(type_name)?;
            match i64::try_from(id) {
                Ok(id) => out.int(id)?,
                Err(_) => out.big(false, &id.to_le_bytes())?,
            }
            match text {
                Some(text) => out.str(text),
                None => out.plain_atom("undefined"),
            }
        })
    }

    /// The place of a cut, and the limit that caused it.
    pub fn cut(&mut self, what: &str) -> Result<(), Full> {
        self.all_or_nothing(|out| {
            out.tuple(2)?;
            out.plain_atom(mark::CUT)?;
            out.str(what)
        })
    }
}

/// The magnitude without zeros at the high end.
pub(super) fn trimmed(magnitude: &[u8]) -> &[u8] {
    let len = magnitude.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    magnitude.get(..len).unwrap_or_default()
}

fn first_characters(name: &str, limit: usize) -> &str {
    name.char_indices().nth(limit).and_then(|(at, _)| name.get(..at)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        etf::{decode, encode},
        term::Term,
    };

    #[test]
    fn an_encoder_knows_its_length_and_its_space() {
        let mut buffer = [0; 5];
        let mut out = Encoder::new(&mut buffer);
        let seen = |out: &Encoder<'_>| (out.len(), out.room(), out.is_empty(), out.mark(), out.written().to_vec());
        assert_eq!(seen(&out), (0, 5, true, 0, vec![]));
        out.int(7).unwrap();
        let mark = out.mark();
        out.raw(&[1, 2, 3]).unwrap();
        assert_eq!(seen(&out), (5, 0, false, 5, vec![97, 7, 1, 2, 3]));
        assert_eq!((out.nil(), out.raw(&[4]), out.raw(&[])), (Err(Full), Err(Full), Ok(())));
        out.truncate(9);
        assert_eq!(out.len(), 5, "there is nothing more to remove");
        out.truncate(mark);
        assert_eq!(seen(&out), (2, 3, false, 2, vec![97, 7]));
        assert_eq!(out.set(1), Err(Full));
        assert_eq!(out.len(), 2, "all of it or nothing");
    }

    #[test]
    fn integers_have_the_shortest_encoding() {
        let written = |n: i64| encode(&Term::from(n));
        let small = |n: i64| written(n)[0] == tag::SMALL_INTEGER;
        let word = |n: i64| written(n)[0] == tag::INTEGER;
        assert!([0, 255].into_iter().all(small));
        assert!([-1, 256, i32::MAX.into(), i32::MIN.into()].into_iter().all(word));
        for n in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1, i64::MAX, i64::MIN] {
            assert_eq!(written(n)[0], tag::SMALL_BIG);
            assert_eq!(decode(&written(n)), Ok(Term::from(n)));
        }
        // by both methods
        for n in [0i64, 1, -1, 255, 256, i32::MAX.into(), i32::MIN.into(), 1 << 31, -(1 << 31) - 1, 1 << 40] {
            let mut buffer = [0; 20];
            let mut out = Encoder::new(&mut buffer);
            out.big(n < 0, &n.unsigned_abs().to_le_bytes()).unwrap();
            assert_eq!(out.written(), written(n), "{n}");
        }
    }

    #[test]
    fn the_first_characters_of_a_long_atom_are_written() {
        let kept = |name: &str| match decode(&encode(&Term::atom(name))) {
            Ok(Term::Atom(kept)) => {
                assert!(name.starts_with(&*kept));
                kept.chars().count()
            }
            other => panic!("{other:?}"),
        };
        for letter in ["a", "é", "日"] {
            for length in [1, 84, 85, 86, 127, 128, MAX_ATOM - 1, MAX_ATOM, MAX_ATOM + 1, 2 * MAX_ATOM] {
                assert_eq!(kept(&letter.repeat(length)), length.min(MAX_ATOM));
                let mark = format!("$inviso.{}", letter.repeat(length));
                assert_eq!(kept(&mark), (length + 8).min(MAX_ATOM - 1), "one more character goes before it");
            }
        }
    }
}
