//! Reading terms from any bytes: never a panic, never more memory than the bytes justify.

use super::{mark, tag, VERSION};
use crate::term::{Identifier, Term};
use num_bigint::{BigInt, Sign};
use thiserror::Error;

/// Why bytes are no term.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end in the middle of a term.
    #[error("the bytes end in the middle of a term")]
    Short,
    /// A tag that is not known, or not allowed where it stands.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// Compressed terms are not read.
    #[error("a compressed term")]
    Compressed,
    /// Terms in terms, too deep.
    #[error("nested too deeply")]
    Deep,
    /// Bytes follow the term.
    #[error("bytes after the term")]
    Trailing,
    /// Text that is no text, a float that is no float, a bit count over 8.
    #[error("a malformed {0}")]
    Malformed(&'static str),
    /// The visitor refused a value.
    #[error("{0}")]
    Refused(String),
}

/// How much is read at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Terms in terms.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { depth: 200 }
    }
}

/// The node, number and creation of an identifier as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The number on it.
    pub id: u64,
    /// Which start of the node.
    pub creation: u32,
}

/// What makes values of terms: [`Term`]s, or another language's objects.
#[allow(missing_docs)]
pub trait Visit {
    type Value;
    type Error: From<DecodeError>;
    fn int(&mut self, n: i64) -> Result<Self::Value, Self::Error>;
    fn big(&mut self, negative: bool, magnitude: &[u8]) -> Result<Self::Value, Self::Error>;
    fn float(&mut self, value: f64) -> Result<Self::Value, Self::Error>;
    fn atom(&mut self, name: &str) -> Result<Self::Value, Self::Error>;
    /// A binary; text if it is UTF-8.
    fn str(&mut self, text: &str) -> Result<Self::Value, Self::Error>;
    fn bytes(&mut self, bytes: &[u8]) -> Result<Self::Value, Self::Error>;
    fn bits(&mut self, bytes: &[u8], bits: u8) -> Result<Self::Value, Self::Error>;
    fn tuple(&mut self, elements: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    fn list(&mut self, elements: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    fn improper(
        &mut self,
        elements: Vec<Self::Value>,
        tail: Self::Value,
    ) -> Result<Self::Value, Self::Error>;
    fn map(&mut self, pairs: Vec<(Self::Value, Self::Value)>) -> Result<Self::Value, Self::Error>;
    fn set(&mut self, elements: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;
    fn pid(&mut self, of: Node<'_>) -> Result<Self::Value, Self::Error>;
    fn port(&mut self, of: Node<'_>) -> Result<Self::Value, Self::Error>;
    fn reference(&mut self, of: Node<'_>) -> Result<Self::Value, Self::Error>;
    fn fun(&mut self, module: &str, name: &str, arity: u8) -> Result<Self::Value, Self::Error>;
    fn opaque(
        &mut self,
        type_name: &str,
        id: u64,
        text: Option<&str>,
    ) -> Result<Self::Value, Self::Error>;
    fn cut(&mut self, what: &str) -> Result<Self::Value, Self::Error>;
}

/// Reads one term, which may begin with the version byte, and hands its parts to a visitor.
///
/// # Errors
/// A [`DecodeError`], or what the visitor answers.
pub fn walk<V: Visit>(bytes: &[u8], limits: Limits, visitor: &mut V) -> Result<V::Value, V::Error> {
    let bytes = bytes.strip_prefix(&[VERSION]).unwrap_or(bytes);
    let mut reader = Reader {
        bytes,
        depth: limits.depth,
    };
    let value = reader.term(visitor)?;
    if reader.bytes.is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::Trailing.into())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        if n > self.bytes.len() {
            return Err(DecodeError::Short);
        }
        let (head, rest) = self.bytes.split_at(n);
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| DecodeError::Short)
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A number of elements: each takes at least `least` bytes, so more than the rest has can't be.
    fn count(&mut self, n: usize, least: usize) -> Result<usize, DecodeError> {
        if n.checked_mul(least)
            .is_none_or(|needed| needed > self.bytes.len())
        {
            Err(DecodeError::Short)
        } else {
            Ok(n)
        }
    }

    fn sized(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    fn latin(bytes: &[u8]) -> String {
        bytes.iter().map(|b| char::from(*b)).collect()
    }

    /// An atom where one is needed.
    fn name(&mut self) -> Result<String, DecodeError> {
        let tag = self.u8()?;
        self.name_of(tag)
    }

    fn name_of(&mut self, tag: u8) -> Result<String, DecodeError> {
        let len = match tag {
            tag::SMALL_ATOM_UTF8 | tag::SMALL_ATOM => usize::from(self.u8()?),
            tag::ATOM_UTF8 | tag::ATOM => usize::from(u16::from_be_bytes(self.array()?)),
            other => return Err(DecodeError::Tag(other)),
        };
        let bytes = self.take(len)?;
        if matches!(tag, tag::ATOM | tag::SMALL_ATOM) {
            return Ok(Self::latin(bytes));
        }
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| DecodeError::Malformed("atom"))
    }

    fn elements<V: Visit>(&mut self, n: usize, visitor: &mut V) -> Result<Vec<V::Value>, V::Error> {
        let n = self.count(n, 1)?;
        let mut all = Vec::with_capacity(n);
        for _ in 0..n {
            all.push(self.term(visitor)?);
        }
        Ok(all)
    }

    fn term<V: Visit>(&mut self, visitor: &mut V) -> Result<V::Value, V::Error> {
        if self.depth == 0 {
            return Err(DecodeError::Deep.into());
        }
        self.depth -= 1;
        let value = self.shallow(visitor);
        self.depth += 1;
        value
    }

    fn shallow<V: Visit>(&mut self, v: &mut V) -> Result<V::Value, V::Error> {
        match self.u8()? {
            tag::SMALL_INTEGER => v.int(i64::from(self.u8()?)),
            tag::INTEGER => v.int(i64::from(i32::from_be_bytes(self.array()?))),
            tag @ (tag::SMALL_BIG | tag::LARGE_BIG) => {
                let n = if tag == tag::SMALL_BIG {
                    usize::from(self.u8()?)
                } else {
                    self.u32()? as usize
                };
                let sign = self.u8()?;
                let magnitude = self.take(n)?;
                match small(sign != 0, magnitude) {
                    Some(n) => v.int(n),
                    None => v.big(sign != 0, magnitude),
                }
            }
            tag::NEW_FLOAT => v.float(f64::from_be_bytes(self.array()?)),
            tag::FLOAT => {
                let text = Self::latin(self.take(31)?);
                let value = text
                    .trim_end_matches('\0')
                    .trim()
                    .parse::<f64>()
                    .ok()
                    .filter(|f| f.is_finite());
                v.float(value.ok_or(DecodeError::Malformed("float"))?)
            }
            tag @ (tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8) => {
                let name = self.name_of(tag)?;
                v.atom(if mark::looks_like(&name) {
                    &name[1..]
                } else {
                    &name
                })
            }
            tag::BINARY => {
                let bytes = self.sized()?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => v.str(text),
                    Err(_) => v.bytes(bytes),
                }
            }
            tag::BIT_BINARY => {
                let n = self.u32()? as usize;
                let bits = self.u8()?;
                let bytes = self.take(n)?;
                match bits {
                    0 if n == 0 => v.bytes(bytes),
                    8 if n > 0 => v.bytes(bytes),
                    1..=7 if n > 0 => v.bits(bytes, bits),
                    _ => Err(DecodeError::Malformed("bit string").into()),
                }
            }
            tag @ (tag::SMALL_TUPLE | tag::LARGE_TUPLE) => {
                let n = if tag == tag::SMALL_TUPLE {
                    usize::from(self.u8()?)
                } else {
                    self.u32()? as usize
                };
                self.tuple(n, v)
            }
            tag::NIL => v.list(Vec::new()),
            tag::STRING => {
                let n = usize::from(u16::from_be_bytes(self.array()?));
                let numbers = self
                    .take(n)?
                    .iter()
                    .map(|b| v.int(i64::from(*b)))
                    .collect::<Result<_, _>>()?;
                v.list(numbers)
            }
            tag::LIST => {
                let n = self.u32()? as usize;
                let elements = self.elements(n, v)?;
                if self.bytes.first() == Some(&tag::NIL) {
                    self.u8()?;
                    return v.list(elements);
                }
                let tail = self.term(v)?;
                if elements.is_empty() {
                    Ok(tail)
                } else {
                    v.improper(elements, tail)
                }
            }
            tag::MAP => {
                let n = self.u32()? as usize;
                let n = self.count(n, 2)?;
                let mut pairs = Vec::with_capacity(n);
                for _ in 0..n {
                    let key = self.term(v)?;
                    pairs.push((key, self.term(v)?));
                }
                v.map(pairs)
            }
            tag @ (tag::NEW_PID | tag::PID) => {
                let name = self.name()?;
                let (low, high) = (self.u32()?, self.u32()?);
                let creation = if tag == tag::NEW_PID {
                    self.u32()?
                } else {
                    u32::from(self.u8()?)
                };
                v.pid(Node {
                    name: &name,
                    id: u64::from(high) << 32 | u64::from(low),
                    creation,
                })
            }
            tag @ (tag::V4_PORT | tag::NEW_PORT | tag::PORT) => {
                let name = self.name()?;
                let id = if tag == tag::V4_PORT {
                    u64::from_be_bytes(self.array()?)
                } else {
                    u64::from(self.u32()?)
                };
                let creation = if tag == tag::PORT {
                    u32::from(self.u8()?)
                } else {
                    self.u32()?
                };
                v.port(Node {
                    name: &name,
                    id,
                    creation,
                })
            }
            tag @ (tag::NEWER_REFERENCE | tag::NEW_REFERENCE) => {
                let n = usize::from(u16::from_be_bytes(self.array()?));
                let name = self.name()?;
                let creation = if tag == tag::NEWER_REFERENCE {
                    self.u32()?
                } else {
                    u32::from(self.u8()?)
                };
                let n = self.count(n, 4)?;
                let mut id = 0u64;
                for at in 0..n {
                    let word = u64::from(self.u32()?);
                    id |= if at < 2 { word << (32 * at) } else { 0 };
                }
                v.reference(Node {
                    name: &name,
                    id,
                    creation,
                })
            }
            tag::EXPORT => {
                let (module, name) = (self.name()?, self.name()?);
                match self.array::<2>()? {
                    [tag::SMALL_INTEGER, arity] => v.fun(&module, &name, arity),
                    [other, _] => Err(DecodeError::Tag(other).into()),
                }
            }
            tag::COMPRESSED => Err(DecodeError::Compressed.into()),
            other => Err(DecodeError::Tag(other).into()),
        }
    }

    fn tuple<V: Visit>(&mut self, n: usize, v: &mut V) -> Result<V::Value, V::Error> {
        let before = self.bytes;
        if matches!(n, 2 | 4) && self.bytes.first() == Some(&tag::SMALL_ATOM_UTF8) {
            match (self.name()?.as_str(), n) {
                (mark::SET, 2) => {
                    let n = match self.u8()? {
                        tag::NIL => return v.set(Vec::new()),
                        tag::LIST => self.u32()? as usize,
                        other => return Err(DecodeError::Tag(other).into()),
                    };
                    let elements = self.elements(n, v)?;
                    return match self.u8()? {
                        tag::NIL => v.set(elements),
                        other => Err(DecodeError::Tag(other).into()),
                    };
                }
                (mark::CUT, 2) => {
                    let what = self.text()?;
                    return v.cut(what);
                }
                (mark::OPAQUE, 4) => {
                    let type_name = self.text()?;
                    let id = self.id()?;
                    if self.bytes.first() == Some(&tag::BINARY) {
                        let text = self.text()?;
                        return v.opaque(type_name, id, Some(text));
                    }
                    self.name()?;
                    return v.opaque(type_name, id, None);
                }
                _ => self.bytes = before,
            }
        }
        let elements = self.elements(n, v)?;
        v.tuple(elements)
    }

    fn text(&mut self) -> Result<&'a str, DecodeError> {
        match self.u8()? {
            tag::BINARY => {
                std::str::from_utf8(self.sized()?).map_err(|_| DecodeError::Malformed("text"))
            }
            other => Err(DecodeError::Tag(other)),
        }
    }

    fn id(&mut self) -> Result<u64, DecodeError> {
        match self.u8()? {
            tag::SMALL_INTEGER => Ok(u64::from(self.u8()?)),
            tag::INTEGER => Ok(u64::from(self.u32()?)),
            tag::SMALL_BIG => {
                let n = usize::from(self.u8()?);
                let _sign = self.u8()?;
                let bytes = self.take(n)?;
                let mut word = [0; 8];
                word.get_mut(..n)
                    .ok_or(DecodeError::Malformed("identity"))?
                    .copy_from_slice(bytes);
                Ok(u64::from_le_bytes(word))
            }
            other => Err(DecodeError::Tag(other)),
        }
    }
}

/// The integer, if it fits 64 bits.
fn small(negative: bool, magnitude: &[u8]) -> Option<i64> {
    let len = magnitude
        .iter()
        .rposition(|b| *b != 0)
        .map_or(0, |at| at + 1);
    let mut word = [0; 8];
    word.get_mut(..len)?.copy_from_slice(&magnitude[..len]);
    let value = i128::from(u64::from_le_bytes(word));
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Reads one term from any bytes.
///
/// # Errors
/// A [`DecodeError`].
pub fn decode(bytes: &[u8]) -> Result<Term, DecodeError> {
    walk(bytes, Limits::default(), &mut Terms)
}

/// Makes [`Term`]s.
struct Terms;

impl From<Node<'_>> for Identifier {
    fn from(of: Node<'_>) -> Identifier {
        Identifier {
            id: of.id,
            node: of.name.into(),
            creation: of.creation,
        }
    }
}

impl Visit for Terms {
    type Value = Term;
    type Error = DecodeError;
    fn int(&mut self, n: i64) -> Result<Term, DecodeError> {
        Ok(Term::from(n))
    }
    fn big(&mut self, negative: bool, magnitude: &[u8]) -> Result<Term, DecodeError> {
        Ok(Term::Int(BigInt::from_bytes_le(
            if negative { Sign::Minus } else { Sign::Plus },
            magnitude,
        )))
    }
    fn float(&mut self, value: f64) -> Result<Term, DecodeError> {
        Ok(Term::Float(value))
    }
    fn atom(&mut self, name: &str) -> Result<Term, DecodeError> {
        Ok(Term::atom(name))
    }
    fn str(&mut self, text: &str) -> Result<Term, DecodeError> {
        Ok(Term::str(text))
    }
    fn bytes(&mut self, bytes: &[u8]) -> Result<Term, DecodeError> {
        Ok(Term::Bytes(bytes.into()))
    }
    fn bits(&mut self, bytes: &[u8], bits: u8) -> Result<Term, DecodeError> {
        Ok(Term::BitString(bytes.into(), bits))
    }
    fn tuple(&mut self, elements: Vec<Term>) -> Result<Term, DecodeError> {
        Ok(Term::Tuple(elements))
    }
    fn list(&mut self, elements: Vec<Term>) -> Result<Term, DecodeError> {
        Ok(Term::List(elements))
    }
    fn improper(&mut self, elements: Vec<Term>, tail: Term) -> Result<Term, DecodeError> {
        Ok(match tail {
            Term::List(more) => Term::List(elements.into_iter().chain(more).collect()),
            tail => Term::ImproperList(elements, Box::new(tail)),
        })
    }
    fn map(&mut self, pairs: Vec<(Term, Term)>) -> Result<Term, DecodeError> {
        Ok(Term::Map(pairs))
    }
    fn set(&mut self, elements: Vec<Term>) -> Result<Term, DecodeError> {
        Ok(Term::Set(elements))
    }
    fn pid(&mut self, of: Node<'_>) -> Result<Term, DecodeError> {
        Ok(Term::Pid(of.into()))
    }
    fn port(&mut self, of: Node<'_>) -> Result<Term, DecodeError> {
        Ok(Term::Port(of.into()))
    }
    fn reference(&mut self, of: Node<'_>) -> Result<Term, DecodeError> {
        Ok(Term::Ref(of.into()))
    }
    fn fun(&mut self, module: &str, name: &str, arity: u8) -> Result<Term, DecodeError> {
        Ok(Term::Fun(module.into(), name.into(), arity))
    }
    fn opaque(
        &mut self,
        type_name: &str,
        id: u64,
        text: Option<&str>,
    ) -> Result<Term, DecodeError> {
        Ok(Term::Opaque(type_name.into(), id, text.map(Into::into)))
    }
    fn cut(&mut self, what: &str) -> Result<Term, DecodeError> {
        Ok(Term::Cut(what.into()))
    }
}
