//! What a body makes: a tree of constants, views and what was computed.
#![forbid(unsafe_code)]

use crate::{parse::joined, view::View};
use inviso_term::{
    etf::{Encoder, Full},
    term::Term,
};

/// A value, which borrows the constants of its program and the values that the program looked at.
#[derive(Clone, Debug)]
pub enum Value<'p, V> {
    /// A constant of the program.
    Const(&'p Term),
    /// A value that was looked at.
    View(V),
    /// Something computed.
    Term(Term),
    /// A tuple.
    Tuple(Vec<Value<'p, V>>),
    /// A list.
    List(Vec<Value<'p, V>>),
    /// A list, not empty, with a tail that is no list.
    ImproperList(Vec<Value<'p, V>>, Box<Value<'p, V>>),
    /// A map, with distinct keys.
    Map(Vec<(Value<'p, V>, Value<'p, V>)>),
}

impl<'p, V> Value<'p, V> {
    /// A copy. Views copy as much of themselves as they do.
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

    /// Writes it. A view is written by `view`.
    ///
    /// # Errors
    /// [`Full`] when there is no room. What was written before stays; see [`Encoder::truncate`].
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
