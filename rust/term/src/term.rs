//! Erlang's terms and the values that only Python has: text as distinct from bytes, sets, and values that were not copied.
//!
//! ```
//! use inviso_term::term::Term;
//! assert_ne!(Term::from(1), Term::Float(1.0));
//! assert_ne!(Term::Float(0.0), Term::Float(-0.0));
//! assert_eq!(Term::str("a"), Term::Bytes((*b"a").into()));
//! ```

use crate::order;
use num_bigint::BigInt;
use std::sync::Arc;

/// Any value of a message.
///
/// Equality is exact, as Erlang's `=:=`: 1 is not 1.0, and 0.0 is not -0.0. Text equals bytes with the same contents, because
/// both are one binary for Erlang; only the constructor distinguishes them. The order of all terms is in [`crate::order`].
#[derive(Clone, Debug)]
pub enum Term {
    /// An integer of any size.
    Int(BigInt),
    /// A float.
    Float(f64),
    /// An atom.
    Atom(Arc<str>),
    /// Text. For Erlang a binary of its UTF-8.
    Str(Box<str>),
    /// Bytes. For Erlang a binary.
    Bytes(Box<[u8]>),
    /// A bit string. Its last byte has `bits` bits (1 to 7), the high ones.
    BitString(Box<[u8]>, u8),
    /// A tuple.
    Tuple(Vec<Term>),
    /// A proper list.
    List(Vec<Term>),
    /// A non-empty list whose tail is not a list.
    ImproperList(Vec<Term>, Box<Term>),
    /// A map: pairs with distinct keys, in any order.
    Map(Vec<(Term, Term)>),
    /// A set of distinct terms, in any order.
    Set(Vec<Term>),
    /// A process.
    Pid(Identifier),
    /// A port.
    Port(Identifier),
    /// A reference.
    Ref(Identifier),
    /// A native record.
    Record(Box<Record>),
    /// A function, by module, name and arity. The arity is a small integer of Erlang's ([`SMALL`](crate::etf::SMALL)).
    Fun(Box<str>, Box<str>, u64),
    /// A function that Erlang created at run time.
    Closure(Box<Closure>),
    /// An object that was not copied: the name of its type, its identity, and its text if that was requested.
    Opaque(Box<str>, u64, Option<Box<str>>),
    /// The place of a cut, and the limit that caused it.
    Cut(Box<str>),
}

/// The identifier of a process, port or reference: a number on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identifier {
    /// The number; for a pid, Erlang's id in the low half and its serial in the high half.
    pub id: u64,
    /// The bits above 64 in a reference of another node; 0 for all others.
    pub rest: u128,
    /// The node's name.
    pub node: Arc<str>,
    /// The creation: one start of the node.
    pub creation: u32,
}

impl Identifier {
    /// An identifier of this node, with the placeholder for its name.
    #[must_use]
    pub fn own(id: u64) -> Identifier {
        Identifier::new(id, "nonode@nohost", 0)
    }

    /// Whether it is of this node.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.creation == 0 && &*self.node == "nonode@nohost"
    }

    /// An identifier of at most 64 bits.
    #[must_use]
    pub fn new(id: u64, node: &str, creation: u32) -> Identifier {
        Identifier { id, rest: 0, node: node.into(), creation }
    }
}

/// A native record of Erlang: named values, in the order of its definition.
#[derive(Clone, Debug)]
pub struct Record {
    /// The module that defines it.
    pub module: Box<str>,
    /// Its name in the module.
    pub name: Box<str>,
    /// Whether other modules may read its fields.
    pub exported: bool,
    /// The fields, with distinct names.
    pub fields: Vec<(Box<str>, Term)>,
}

/// A function that Erlang created at run time. It can't run here; it goes back to Erlang unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Closure {
    pub(crate) module: Box<str>,
    pub(crate) arity: Option<u8>,
    pub(crate) index: u32,
    pub(crate) unique: u32,
    pub(crate) encoded: Box<[u8]>,
}

impl Closure {
    /// The module that created it.
    #[must_use]
    pub fn module(&self) -> &str {
        &self.module
    }

    /// The number of parameters; old nodes don't write it.
    #[must_use]
    pub fn arity(&self) -> Option<u8> {
        self.arity
    }

    /// Its index in the module and the hash of its code: the numbers in `#Fun<module.index.unique>`.
    #[must_use]
    pub fn numbers(&self) -> (u32, u32) {
        (self.index, self.unique)
    }
}

impl Term {
    /// An atom.
    #[must_use]
    pub fn atom(name: &str) -> Term {
        Term::Atom(name.into())
    }

    /// Text.
    #[must_use]
    pub fn str(text: &str) -> Term {
        Term::Str(text.into())
    }

    /// The contents of a binary, and the number of bits in the last byte (1 to 8; 8 for whole bytes).
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn as_binary(&self) -> Option<(&[u8], u8)> {
        match self {
            Term::Str(text) => Some((text.as_bytes(), 8)),
            Term::Bytes(bytes) => Some((bytes, 8)),
            Term::BitString(bytes, bits) => Some((bytes, (*bits).clamp(1, 8))),
            _ => None,
        }
    }
}

impl PartialEq for Term {
    fn eq(&self, other: &Term) -> bool {
        order::exact(self, other).is_eq()
    }
}

impl Eq for Term {}

impl From<i64> for Term {
    fn from(n: i64) -> Term {
        Term::Int(n.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_this_node_have_neither_a_name_nor_a_creation() {
        let is_own = |node, creation| Identifier::new(7, node, creation).is_own();
        assert!(Identifier::own(7).is_own() && is_own("nonode@nohost", 0));
        assert!(!is_own("nonode@nohost", 1) && !is_own("a@b", 0) && !is_own("a@b", 1));
    }

    #[test]
    fn a_binary_has_bits_in_its_last_byte() {
        let bits = |n| Term::BitString([0xa0].into(), n);
        let of = |term: &Term| term.as_binary().map(|(bytes, bits)| (bytes.to_vec(), bits));
        assert_eq!(of(&Term::str("a")), Some((vec![b'a'], 8)));
        assert_eq!(of(&Term::Bytes([1, 2].into())), Some((vec![1, 2], 8)));
        assert_eq!([0, 1, 7, 8, 9].map(|n| of(&bits(n))), [1, 1, 7, 8, 8].map(|n| Some((vec![0xa0], n))));
        assert_eq!(of(&Term::List(vec![])), None);
    }
}
