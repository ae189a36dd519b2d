//! The visitors of this crate: one builds [`Term`]s, two build nothing.

use super::{
    decode::DecodeError,
    visit::{ClosureRef, Node, RecordRef, Visit},
};
use crate::term::{Closure, Identifier, Record, Term};
use num_bigint::{BigInt, Sign};

/// Builds [`Term`]s.
pub(super) struct Terms;

/// Only checks terms.
pub(super) struct Skip;

/// Searches for parts that Erlang may refuse: floats that are not finite, maps of more than one pair.
pub(super) struct Unportable {
    pub(super) found: bool,
}

impl From<Node<'_>> for Identifier {
    fn from(of: Node<'_>) -> Identifier {
        Identifier { id: of.id, rest: of.rest, node: of.name.into(), creation: of.creation }
    }
}

type TermResult = Result<Term, DecodeError>;

impl Visit for Terms {
    type Value = Term;
    type Error = DecodeError;

    fn int(&mut self, n: i64) -> TermResult {
        Ok(Term::from(n))
    }

    fn big(&mut self, negative: bool, magnitude: &[u8]) -> TermResult {
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Ok(Term::Int(BigInt::from_bytes_le(sign, magnitude)))
    }

    fn float(&mut self, value: f64) -> TermResult {
        Ok(Term::Float(value))
    }

    fn atom(&mut self, name: &str) -> TermResult {
        Ok(Term::atom(name))
    }

    fn str(&mut self, text: &str) -> TermResult {
        Ok(Term::str(text))
    }

    fn bytes(&mut self, bytes: &[u8]) -> TermResult {
        Ok(Term::Bytes(bytes.into()))
    }

    fn bits(&mut self, bytes: &[u8], bits: u8) -> TermResult {
        Ok(Term::BitString(bytes.into(), bits))
    }

    fn tuple(&mut self, elements: Vec<Term>) -> TermResult {
        Ok(Term::Tuple(elements))
    }

    fn list(&mut self, elements: Vec<Term>) -> TermResult {
        Ok(Term::List(elements))
    }

    fn improper(&mut self, mut elements: Vec<Term>, tail: Term) -> TermResult {
        Ok(match tail {
            Term::List(more) => {
                elements.extend(more);
                Term::List(elements)
            }
            Term::ImproperList(more, tail) => {
                elements.extend(more);
                Term::ImproperList(elements, tail)
            }
            tail => Term::ImproperList(elements, Box::new(tail)),
        })
    }

    fn map(&mut self, pairs: Vec<(Term, Term)>) -> TermResult {
        Ok(Term::Map(pairs))
    }

    fn record(&mut self, of: RecordRef<'_>, values: Vec<Term>) -> TermResult {
        Ok(Term::Record(Box::new(Record {
            module: of.module.into(),
            name: of.name.into(),
            exported: of.exported,
            fields: of.fields.iter().map(|field| (&**field).into()).zip(values).collect(),
        })))
    }

    fn set(&mut self, elements: Vec<Term>) -> TermResult {
        Ok(Term::Set(elements))
    }

    fn pid(&mut self, of: Node<'_>) -> TermResult {
        Ok(Term::Pid(of.into()))
    }

    fn port(&mut self, of: Node<'_>) -> TermResult {
        Ok(Term::Port(of.into()))
    }

    fn reference(&mut self, of: Node<'_>) -> TermResult {
        Ok(Term::Ref(of.into()))
    }

    fn fun(&mut self, module: &str, name: &str, arity: u64) -> TermResult {
        Ok(Term::Fun(module.into(), name.into(), arity))
    }

    fn opaque(&mut self, type_name: &str, id: u64, text: Option<&str>) -> TermResult {
        Ok(Term::Opaque(type_name.into(), id, text.map(Into::into)))
    }

    fn cut(&mut self, what: &str) -> TermResult {
        Ok(Term::Cut(what.into()))
    }

    fn closure(&mut self, of: ClosureRef<'_>) -> TermResult {
        Ok(Term::Closure(Box::new(Closure {
            module: of.module.into(),
            arity: of.arity,
            index: of.index,
            unique: of.unique,
            encoded: of.encoded.into(),
        })))
    }
}

impl Visit for Skip {
    type Value = ();
    type Error = DecodeError;

    crate::alike! { Ok(()); int big float atom str bytes bits tuple list improper map record set pid port reference fun opaque cut closure }
}

impl Visit for Unportable {
    type Value = ();
    type Error = DecodeError;

    fn float(&mut self, value: f64) -> Result<(), DecodeError> {
        self.found |= !value.is_finite();
        Ok(())
    }

    fn map(&mut self, pairs: Vec<((), ())>) -> Result<(), DecodeError> {
        self.found |= pairs.len() > 1;
        Ok(())
    }

    crate::alike! {
        Ok(()); int big atom str bytes bits tuple list improper record set pid port reference fun opaque cut closure
    }
}
