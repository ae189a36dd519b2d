//! The visitors of this crate: one makes [`Term`]s, two make nothing.

use super::{
    decode::DecodeError,
    visit::{ClosureRef, Node, RecordRef, Visit},
};
use crate::term::{Closure, Identifier, Record, Term};
use num_bigint::{BigInt, Sign};

/// Makes [`Term`]s.
pub(super) struct Terms;

/// Only looks whether there are terms.
pub(super) struct Skip;

/// Looks for what Erlang may refuse: floats that are not finite, maps of more than one pair.
pub(super) struct Odd {
    pub(super) found: bool,
}

impl From<Node<'_>> for Identifier {
    fn from(of: Node<'_>) -> Identifier {
        Identifier { id: of.id, rest: of.rest, node: of.name.into(), creation: of.creation }
    }
}

type Made = Result<Term, DecodeError>;

impl Visit for Terms {
    type Value = Term;
    type Error = DecodeError;

    fn int(&mut self, n: i64) -> Made {
        Ok(Term::from(n))
    }

    fn big(&mut self, negative: bool, magnitude: &[u8]) -> Made {
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Ok(Term::Int(BigInt::from_bytes_le(sign, magnitude)))
    }

    fn float(&mut self, value: f64) -> Made {
        Ok(Term::Float(value))
    }

    fn atom(&mut self, name: &str) -> Made {
        Ok(Term::atom(name))
    }

    fn str(&mut self, text: &str) -> Made {
        Ok(Term::str(text))
    }

    fn bytes(&mut self, bytes: &[u8]) -> Made {
        Ok(Term::Bytes(bytes.into()))
    }

    fn bits(&mut self, bytes: &[u8], bits: u8) -> Made {
        Ok(Term::BitString(bytes.into(), bits))
    }

    fn tuple(&mut self, elements: Vec<Term>) -> Made {
        Ok(Term::Tuple(elements))
    }

    fn list(&mut self, elements: Vec<Term>) -> Made {
        Ok(Term::List(elements))
    }

    fn improper(&mut self, mut elements: Vec<Term>, tail: Term) -> Made {
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

    fn map(&mut self, pairs: Vec<(Term, Term)>) -> Made {
        Ok(Term::Map(pairs))
    }

    fn record(&mut self, of: RecordRef<'_>, values: Vec<Term>) -> Made {
        Ok(Term::Record(Box::new(Record {
            module: of.module.into(),
            name: of.name.into(),
            exported: of.exported,
            fields: of.fields.iter().map(|field| (&**field).into()).zip(values).collect(),
        })))
    }

    fn set(&mut self, elements: Vec<Term>) -> Made {
        Ok(Term::Set(elements))
    }

    fn pid(&mut self, of: Node<'_>) -> Made {
        Ok(Term::Pid(of.into()))
    }

    fn port(&mut self, of: Node<'_>) -> Made {
        Ok(Term::Port(of.into()))
    }

    fn reference(&mut self, of: Node<'_>) -> Made {
        Ok(Term::Ref(of.into()))
    }

    fn fun(&mut self, module: &str, name: &str, arity: u64) -> Made {
        Ok(Term::Fun(module.into(), name.into(), arity))
    }

    fn opaque(&mut self, type_name: &str, id: u64, text: Option<&str>) -> Made {
        Ok(Term::Opaque(type_name.into(), id, text.map(Into::into)))
    }

    fn cut(&mut self, what: &str) -> Made {
        Ok(Term::Cut(what.into()))
    }

    fn closure(&mut self, of: ClosureRef<'_>) -> Made {
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

impl Visit for Odd {
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
