//! Walks over terms in the external format without building them.
//!
//! Bytes are not trusted: missing ones give None. The parts of a term are checked only when they are read.

use inviso_term::etf::{tag, MAX_DEPTH};

/// A term's bytes, without a version byte.
pub type Bytes<'a> = &'a [u8];

/// The rest of the bytes of some terms.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a>(pub Bytes<'a>);

impl<'a> Scan<'a> {
    /// The next bytes.
    #[inline]
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (head, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn short(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(self.take(2)?.try_into().ok()?)))
    }

    #[inline]
    fn word(&mut self) -> Option<usize> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?) as usize)
    }

    /// The tag of the next term.
    #[inline]
    #[must_use]
    pub fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Enters a tuple. Answers how many elements come next.
    #[inline]
    pub fn tuple(&mut self) -> Option<usize> {
        let mut at = *self;
        let n = match at.byte()? {
            104 => usize::from(at.byte()?),
            105 => at.word()?,
            _ => return None,
        };
        *self = at;
        Some(n)
    }

    /// Enters a list. Answers how many elements come next, with the tail after them. An empty list, and text in the old encoding,
    /// have no elements here.
    #[inline]
    pub fn list(&mut self) -> Option<usize> {
        let mut at = *self;
        let n = match at.byte()? {
            108 => at.word()?,
            106 => 0,
            _ => return None,
        };
        *self = at;
        Some(n)
    }

    /// Enters a map. Answers how many pairs come next.
    pub(crate) fn counted(&mut self) -> Option<usize> {
        let mut at = *self;
        at.byte()?;
        let n = at.word()?;
        *self = at;
        Some(n)
    }

    /// The name of an atom, or a text in its place.
    #[inline]
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let mut at = *self;
        let length = match at.byte()? {
            tag::SMALL_ATOM_UTF8 | tag::SMALL_ATOM => usize::from(at.byte()?),
            tag::ATOM_UTF8 | tag::ATOM => at.short()?,
            tag::BINARY => at.word()?,
            _ => return None,
        };
        let name = at.take(length)?;
        *self = at;
        Some(name)
    }

    /// A 64-bit integer.
    #[inline]
    pub fn int(&mut self) -> Option<i64> {
        let mut at = *self;
        let n = match at.byte()? {
            97 => i64::from(at.byte()?),
            98 => i64::from(i32::from_be_bytes(at.take(4)?.try_into().ok()?)),
            110 => {
                let (length, sign) = (usize::from(at.byte()?), at.byte()?);
                let digits = at.take(length)?;
                let value = match digits.first_chunk() {
                    Some(all) if length == 8 => u64::from_le_bytes(*all),
                    _ => {
                        let mut value = [0; 8];
                        value.get_mut(..length)?.copy_from_slice(digits);
                        u64::from_le_bytes(value)
                    }
                };
                if sign == 0 {
                    i64::try_from(value).ok()?
                } else {
                    0i64.checked_sub_unsigned(value)?
                }
            }
            _ => return None,
        };
        *self = at;
        Some(n)
    }

    /// The bytes of the next term.
    #[inline]
    pub fn term(&mut self) -> Option<Bytes<'a>> {
        let all = self.0;
        self.skip()?;
        all.get(..all.len() - self.0.len())
    }

    /// Reads a pid or port and answers its bytes; None for another term.
    #[inline]
    pub fn process(&mut self) -> Option<Bytes<'a>> {
        // today's encoding
        if let [88, tag::SMALL_ATOM_UTF8, length, ..] = self.0 {
            return self.take(3 + usize::from(*length) + 12);
        }
        matches!(self.tag()?, 88 | 103 | 89 | 102 | 120).then(|| self.term())?
    }

    /// Skips the next term, however deep.
    pub fn skip(&mut self) -> Option<()> {
        let mut terms = 1_u64;
        while terms > 0 {
            terms -= 1;
            terms += self.head()?;
        }
        Some(())
    }

    /// Skips the bytes before a term's parts, or the whole term if it has none. Answers the number of parts.
    #[inline]
    fn head(&mut self) -> Option<u64> {
        let (bytes, parts) = match self.byte()? {
            97 => (1, 0),
            98 => (4, 0),
            70 => (8, 0),
            99 => (31, 0),
            tag::SMALL_ATOM_UTF8 | tag::SMALL_ATOM => (usize::from(self.byte()?), 0),
            tag::ATOM_UTF8 | tag::ATOM | 107 => (self.short()?, 0),
            tag::BINARY => (self.word()?, 0),
            77 => (self.word()?.checked_add(1)?, 0),
            104 => (0, u64::from(self.byte()?)),
            105 => (0, self.word()? as u64),
            106 => (0, 0),
            108 => (0, self.word()? as u64 + 1),
            116 => (0, self.word()? as u64 * 2),
            110 => (usize::from(self.byte()?) + 1, 0),
            111 => (self.word()?.checked_add(1)?, 0),
            // node name, then numbers
            88 => return self.identifier(12),
            103 => return self.identifier(9),
            89 => return self.identifier(8),
            102 => return self.identifier(5),
            120 => return self.identifier(12),
            101 => return self.identifier(5),
            114 => {
                let words = self.short()?;
                return self.identifier(1 + 4 * words);
            }
            90 => {
                let words = self.short()?;
                return self.identifier(4 + 4 * words);
            }
            113 => (0, 3),
            // module, name, fields, values
            67 => (1, 2 + 2 * self.word()? as u64),
            112 => (self.word()?.checked_sub(4)?, 0),
            117 => (0, 4 + self.word()? as u64),
            _ => return None,
        };
        self.take(bytes)?;
        Some(parts)
    }

    #[inline]
    fn identifier(&mut self, numbers: usize) -> Option<u64> {
        self.name()?;
        self.take(numbers)?;
        Some(0)
    }
}

/// The identity of a pid or port, small enough for keys and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity<'a> {
    /// Whether it is a port.
    pub is_port: bool,
    /// Its node's name.
    pub node: &'a [u8],
    /// Its number. Of a pid: Erlang's id in the low half and its serial in the high half.
    pub id: u64,
    /// The creation: one start of the node.
    pub creation: u32,
}

impl<'a> Identity<'a> {
    /// Parses the bytes of a pid or port.
    #[must_use]
    pub fn of(bytes: Bytes<'a>) -> Option<Identity<'a>> {
        let mut at = Scan(bytes);
        let tag = at.byte()?;
        let node = at.name()?;
        let mut word = || at.word().map(|word| word as u64);
        let (id, creation) = match tag {
            88 => (word()? | word()? << 32, word()? as u32),
            103 => (word()? | word()? << 32, u32::from(at.byte()?)),
            120 => (word()? << 32 | word()?, word()? as u32),
            89 => (word()?, word()? as u32),
            102 => (word()?, u32::from(at.byte()?)),
            _ => return None,
        };
        Some(Identity { is_port: !matches!(tag, 88 | 103), node, id, creation })
    }

    /// Whether it is of this node, or of a node without a name.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.creation == 0 && self.node == b"nonode@nohost"
    }

    /// As Erlang and Python show it: `<0.2.0>`, `#Port<0.2>`. The name of a named node replaces the 0.
    #[must_use]
    pub fn text(&self) -> String {
        let node = String::from_utf8_lossy(self.node);
        let place = if self.node == b"nonode@nohost" { "0" } else { &*node };
        if self.is_port {
            return format!("#Port<{place}.{}>", self.id);
        }
        format!("<{place}.{}.{}>", self.id & 0xffff_ffff, self.id >> 32)
    }
}

/// The deepest nesting that is shown.
pub(crate) const DEPTH: usize = MAX_DEPTH;
