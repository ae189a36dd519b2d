//! Terms as the values of a program.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::view::{Binary, Look, View};
use inviso_term::term::Term;
use num_bigint::BigInt;

/// The view of a term.
#[derive(Clone, Copy, Debug)]
pub struct TermView<'a>(pub &'a Term);

/// The type of a term.
#[must_use]
pub fn look(term: &Term) -> Look<'_> {
    match term {
        Term::Int(n) => i64::try_from(n).map_or(Look::Big, Look::Int),
        Term::Float(f) => Look::Float(*f),
        Term::Atom(name) => Look::Atom(name),
        Term::Str(text) => Look::Binary(Binary::Bytes(text.as_bytes())),
        Term::Bytes(bytes) => Look::Binary(Binary::Bytes(bytes)),
        Term::BitString(bytes, bits) if *bits < 8 => Look::Binary(Binary::Bits(bytes, *bits)),
        Term::BitString(bytes, _) => Look::Binary(Binary::Bytes(bytes)),
        Term::Tuple(elements) => Look::Tuple(elements.len()),
        Term::List(elements) => Look::List(elements.len()),
        // a tail may itself be a list
        Term::ImproperList(elements, tail) => longer(elements.len(), look(tail)),
        Term::Map(pairs) => Look::Map(pairs.len()),
        Term::Set(members) => Look::Set(members.len()),
        Term::Pid(_) => Look::Pid,
        Term::Port(_) => Look::Port,
        Term::Ref(_) => Look::Ref,
        Term::Fun(_, _, arity) => Look::Fun(Some(*arity)),
        Term::Closure(closure) => Look::Fun(closure.arity().map(u64::from)),
        Term::Record(_) | Term::Opaque(..) | Term::Cut(_) => Look::Other,
    }
}

/// The type of a list with this many elements before this tail.
pub(crate) fn longer(n: usize, tail: Look<'_>) -> Look<'_> {
    match tail {
        tail if n == 0 => tail,
        Look::List(more) => Look::List(n + more),
        Look::Improper(more) => Look::Improper(n + more),
        _ => Look::Improper(n),
    }
}

/// The element at `n` of a tuple, or of a list before its tail.
#[must_use]
pub fn element(term: &Term, n: usize) -> Option<&Term> {
    match term {
        Term::Tuple(elements) | Term::List(elements) => elements.get(n),
        Term::ImproperList(elements, tail) => match n.checked_sub(elements.len()) {
            None => elements.get(n),
            Some(n) => list_element(tail, n),
        },
        _ => None,
    }
}

fn list_element(tail: &Term, n: usize) -> Option<&Term> {
    match tail {
        Term::Tuple(_) => None,
        list => element(list, n),
    }
}

/// The tail of an improper list.
#[must_use]
pub fn tail(term: &Term) -> Option<&Term> {
    match term {
        Term::ImproperList(_, end) => match &**end {
            Term::ImproperList(..) => tail(end),
            end => Some(end),
        },
        _ => None,
    }
}

impl<'a> View<'a> for TermView<'a> {
    fn look(self) -> Look<'a> {
        look(self.0)
    }

    fn is(self, other: Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    fn big(self) -> BigInt {
        match self.0 {
            Term::Int(n) => n.clone(),
            _ => BigInt::ZERO,
        }
    }

    fn element(self, n: usize) -> Option<Self> {
        element(self.0, n).map(TermView)
    }

    fn tail(self) -> Option<Self> {
        tail(self.0).map(TermView)
    }

    fn pair(self, at: &mut usize) -> Option<(Self, Self)> {
        let Term::Map(pairs) = self.0 else { return None };
        let (key, value) = pairs.get(*at)?;
        *at += 1;
        Some((TermView(key), TermView(value)))
    }

    fn member(self, at: &mut usize) -> Option<Self> {
        let Term::Set(members) = self.0 else { return None };
        let member = members.get(*at)?;
        *at += 1;
        Some(TermView(member))
    }

    fn attribute(self, _: &str) -> Option<Self> {
        None
    }

    fn is_instance(self, name: &str) -> bool {
        matches!(self.0, Term::Opaque(type_name, ..) if **type_name == *name)
    }

    fn to_term(self) -> Term {
        self.0.clone()
    }
}
