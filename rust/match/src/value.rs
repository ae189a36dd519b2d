//! The result of a body: a tree of constants, views and computed terms.
#![forbid(unsafe_code)]

use crate::{parse::joined, view::View};
use inviso_term::{
    etf::{Encoder, Full},
    term::Term,
};

/// A value. It borrows the constants of its program and the inspected values.
#[derive(Clone, Debug)]
pub enum Value<'p, V> {
    /// A constant of the program.
    Const(&'p Term),
    /// An inspected value.
    View(V),
    /// A computed term.
    Term(Term),
    /// A tuple.
    Tuple(Vec<Value<'p, V>>),
    /// A list.
    List(Vec<Value<'p, V>>),
    /// A non-empty list whose tail is not a list.
    ImproperList(Vec<Value<'p, V>>, Box<Value<'p, V>>),
    /// A map, with distinct keys.
    Map(Vec<(Value<'p, V>, Value<'p, V>)>),
}

impl<'p, V> Value<'p, V> {
    /// A copy. Each view decides how much of itself it copies.
    #[must_use]
    pub fn to_term<'a>(&self) -> Term
    where
        V: View<'a>,
    {
        let all = |values: &[Self]| values.iter().map(Value::to_term).collect::<Vec<_>>();
        match self {
            Value::Const(term) => (*term).clone(),
            Value::View(view) => view.to_term(),
            Value::Term(term) => term.clone(),
            Value::Tuple(values) => Term::Tuple(all(values)),
            Value::List(values) => Term::List(all(values)),
            Value::ImproperList(values, tail) => joined(all(values), tail.to_term()),
            Value::Map(pairs) => Term::Map(pairs.iter().map(|(k, v)| (k.to_term(), v.to_term())).collect()),
        }
    }

    /// Writes the value. `view` writes views.
    ///
    /// # Errors
    /// [`Full`] without space. Earlier parts stay: see [`Encoder::truncate`].
    pub fn write<F>(&self, out: &mut Encoder<'_>, view: &mut F) -> Result<(), Full>
    where
        V: Copy,
        F: FnMut(V, &mut Encoder<'_>) -> Result<(), Full>,
    {
        match self {
            Value::Const(term) => out.term(term),
            Value::View(it) => view(*it, out),
            Value::Term(term) => out.term(term),
            Value::Tuple(values) => {
                out.tuple(values.len())?;
                values.iter().try_for_each(|value| value.write(out, view))
            }
            Value::List(values) if values.is_empty() => out.nil(),
            Value::List(values) => {
                out.list(values.len())?;
                values.iter().try_for_each(|value| value.write(out, view))?;
                out.nil()
            }
            Value::ImproperList(values, tail) => {
                out.list(values.len())?;
                values.iter().try_for_each(|value| value.write(out, view))?;
                tail.write(out, view)
            }
            Value::Map(pairs) => {
                out.map(pairs.len())?;
                pairs.iter().try_for_each(|(k, v)| k.write(out, view).and_then(|()| v.write(out, view)))
            }
        }
    }
}
