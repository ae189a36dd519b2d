//! The values of a running program: their types and parts. Their order is in `compare.rs`.
#![forbid(unsafe_code)]

use crate::{
    compile::Program,
    host::Host,
    instructions::Src,
    numbers::Number,
    terms,
    value::Value,
    view::{Binary, Look, View},
};
use inviso_term::term::Term;
use std::{cell::Cell, marker::PhantomData};

/// How many values a run inspects in comparisons and searches.
const MAX_WORK: u32 = 1 << 20;

/// A value could not be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exception;

/// A value of a running program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Val<'p, V> {
    Int(i64),
    Float(f64),
    Atom(&'static str),
    Const(&'p Term),
    /// The rest of a constant list after this many elements.
    ConstRest(&'p Term, u32),
    View(V),
    /// The rest of a list after this many elements.
    Rest(V, u32),
    /// The arguments from this one on.
    Args(u32),
    /// The first cell and the number of cells.
    Tuple(u32, u32),
    List(u32, u32),
    /// At least one cell, and then the tail.
    Cons(u32, u32),
    /// Pairs of cells.
    Map(u32, u32),
    /// A computed term without parts.
    Own(u32),
    /// Bytes of the binary in a cell.
    Part {
        cell: u32,
        at: u32,
        len: u32,
    },
}

/// Computed terms. Most programs compute none, few compute more than two.
#[derive(Default)]
struct Own {
    first: [Option<Term>; 2],
    more: Vec<Term>,
}

impl Own {
    fn push(&mut self, term: Term) -> u32 {
        for (n, place) in self.first.iter_mut().enumerate() {
            if place.is_none() {
                *place = Some(term);
                return n as u32;
            }
        }
        self.more.push(term);
        (self.more.len() + 1) as u32
    }

    fn get(&self, at: u32) -> Option<&Term> {
        match at {
            0 | 1 => self.first[at as usize].as_ref(),
            at => self.more.get(at as usize - 2),
        }
    }
}

/// A running program.
pub(crate) struct Machine<'p, 'a, 'h, H: Host<'a>, R> {
    pub(crate) program: &'p Program,
    pub(crate) host: &'h mut H,
    pub(crate) registers: R,
    /// Cells after the registers: parts of the host's terms.
    more: Vec<Val<'p, H::View>>,
    own: Own,
    work: Cell<u32>,
    marker: PhantomData<&'a ()>,
}

pub(crate) type MachineVal<'p, 'a, H> = Val<'p, <H as Host<'a>>::View>;

impl<'p, 'a, 'h, H, R> Machine<'p, 'a, 'h, H, R>
where
    H: Host<'a>,
    R: AsRef<[Val<'p, H::View>]> + AsMut<[Val<'p, H::View>]>,
{
    #[inline(always)]
    pub(crate) fn new(program: &'p Program, host: &'h mut H, registers: R) -> Self {
        let own = Own::default();
        Machine { program, host, registers, more: Vec::new(), own, work: Cell::new(0), marker: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, register: u32, val: MachineVal<'p, 'a, H>) {
        if let Some(place) = self.registers.as_mut().get_mut(register as usize) {
            *place = val;
        }
    }

    #[inline(always)]
    pub(crate) fn load(&self, src: Src) -> Result<MachineVal<'p, 'a, H>, Exception> {
        Ok(match src {
            Src::Arg(n) => Val::View(self.host.argument(n as usize).ok_or(Exception)?),
            Src::Int(n) => Val::Int(i64::from(n)),
            Src::Reg(n) => self.cell(n),
            Src::Const(n) => self.constant(n),
            Src::Args(n) => Val::Args(n),
        })
    }

    pub(crate) fn constant(&self, n: u32) -> MachineVal<'p, 'a, H> {
        let program: &'p Program = self.program;
        program.constants.get(n as usize).map_or(Val::Int(0), Val::Const)
    }

    pub(crate) fn cell(&self, n: u32) -> MachineVal<'p, 'a, H> {
        let registers = self.registers.as_ref();
        match registers.get(n as usize) {
            Some(val) => *val,
            None => self.more.get(n as usize - registers.len()).copied().unwrap_or(Val::Int(0)),
        }
    }

    /// Counts an inspected value. Too many are an exception.
    pub(crate) fn count_work(&self) -> Result<(), Exception> {
        let work = self.work.get() + 1;
        self.work.set(work.min(MAX_WORK));
        if work < MAX_WORK {
            Ok(())
        } else {
            Err(Exception)
        }
    }

    /// Keeps a term of the host or a computed one, so that its parts can be values.
    pub(crate) fn keep(&mut self, term: Term) -> MachineVal<'p, 'a, H> {
        match term {
            Term::Int(n) => match i64::try_from(&n) {
                Ok(n) => Val::Int(n),
                Err(_) => Val::Own(self.own.push(Term::Int(n))),
            },
            Term::Float(f) => Val::Float(f),
            Term::Tuple(parts) => {
                let (at, len) = self.keep_all(parts);
                Val::Tuple(at, len)
            }
            Term::List(parts) => {
                let (at, len) = self.keep_all(parts);
                Val::List(at, len)
            }
            Term::ImproperList(mut parts, tail) => {
                if parts.is_empty() {
                    return self.keep(*tail);
                }
                parts.push(*tail);
                let (at, len) = self.keep_all(parts);
                Val::Cons(at, len - 1)
            }
            Term::Map(pairs) => {
                let parts = pairs.into_iter().flat_map(|(key, value)| [key, value]).collect();
                let (at, len) = self.keep_all(parts);
                Val::Map(at, len / 2)
            }
            leaf => Val::Own(self.own.push(leaf)),
        }
    }

    fn keep_all(&mut self, parts: Vec<Term>) -> (u32, u32) {
        let kept: Vec<_> = parts.into_iter().map(|part| self.keep(part)).collect();
        let at = self.registers.as_ref().len() + self.more.len();
        self.more.extend_from_slice(&kept);
        (at as u32, kept.len() as u32)
    }

    pub(crate) fn number(&mut self, number: Number) -> MachineVal<'p, 'a, H> {
        match number {
            Number::Int(n) => Val::Int(n),
            Number::Float(f) => Val::Float(f),
            Number::Big(n) => Val::Own(self.own.push(Term::Int(n))),
        }
    }

    pub(crate) fn look(&self, val: MachineVal<'p, 'a, H>) -> Look<'_> {
        match val {
            Val::View(view) => view.look(),
            Val::Int(n) => Look::Int(n),
            Val::Float(f) => Look::Float(f),
            Val::Atom(name) => Look::Atom(name),
            Val::Const(term) => terms::look(term),
            Val::ConstRest(term, n) => without(terms::look(term), n),
            Val::Rest(view, n) => without(view.look(), n),
            Val::Args(n) => Look::List(self.host.count().saturating_sub(n as usize)),
            Val::Tuple(_, len) => Look::Tuple(len as usize),
            Val::List(_, len) => Look::List(len as usize),
            Val::Cons(at, len) => terms::longer(len as usize, self.look(self.cell(at + len))),
            Val::Map(_, len) => Look::Map(len as usize),
            Val::Own(n) => self.own.get(n).map_or(Look::Other, terms::look),
            Val::Part { cell, at, len } => match self.look(self.cell(cell)) {
                Look::Binary(binary) => {
                    let bytes = binary.plain().unwrap_or_default();
                    Look::Binary(Binary::Bytes(bytes.get(at as usize..(at + len) as usize).unwrap_or_default()))
                }
                _ => Look::Other,
            },
        }
    }

    pub(crate) fn element(&self, val: MachineVal<'p, 'a, H>, n: usize) -> Option<MachineVal<'p, 'a, H>> {
        match val {
            Val::View(view) => view.element(n).map(Val::View),
            Val::Rest(view, from) => view.element(n + from as usize).map(Val::View),
            Val::Const(term) => terms::element(term, n).map(Val::Const),
            Val::ConstRest(term, from) => terms::element(term, n + from as usize).map(Val::Const),
            Val::Args(from) => self.host.argument(n + from as usize).map(Val::View),
            Val::Tuple(at, len) | Val::List(at, len) if n < len as usize => Some(self.cell(at + n as u32)),
            Val::Cons(at, len) => match n.checked_sub(len as usize) {
                None => Some(self.cell(at + n as u32)),
                Some(n) => self.element(self.cell(at + len), n),
            },
            _ => None,
        }
    }

    /// The tail of an improper list.
    pub(crate) fn tail(&self, val: MachineVal<'p, 'a, H>) -> Option<MachineVal<'p, 'a, H>> {
        match val {
            Val::View(view) | Val::Rest(view, _) => view.tail().map(Val::View),
            Val::Const(term) | Val::ConstRest(term, _) => terms::tail(term).map(Val::Const),
            Val::Cons(at, len) => {
                let end = self.cell(at + len);
                match self.look(end) {
                    Look::Improper(_) => self.tail(end),
                    _ => Some(end),
                }
            }
            _ => None,
        }
    }

    /// The rest of a list after `n` elements. The list has more elements, or `n` and a tail. `look` is its type.
    pub(crate) fn rest(&self, val: MachineVal<'p, 'a, H>, look: Look<'_>, n: usize) -> Option<MachineVal<'p, 'a, H>> {
        match look {
            Look::List(len) if n == len => return Some(Val::List(0, 0)),
            Look::Improper(len) if n == len => return self.tail(val),
            Look::List(len) | Look::Improper(len) if n < len => {}
            _ => return None,
        }
        let more = u32::try_from(n).ok()?;
        Some(match val {
            Val::View(view) => Val::Rest(view, more),
            Val::Rest(view, from) => Val::Rest(view, from + more),
            Val::Const(term) => Val::ConstRest(term, more),
            Val::ConstRest(term, from) => Val::ConstRest(term, from + more),
            Val::Args(from) => Val::Args(from + more),
            Val::List(at, len) => Val::List(at + more, len - more),
            Val::Cons(at, len) if more < len => Val::Cons(at + more, len - more),
            Val::Cons(at, len) => {
                let end = self.cell(at + len);
                return self.rest(end, self.look(end), n - len as usize);
            }
            _ => return None,
        })
    }

    pub(crate) fn pair(
        &self, val: MachineVal<'p, 'a, H>, at: &mut usize,
    ) -> Option<(MachineVal<'p, 'a, H>, MachineVal<'p, 'a, H>)> {
        match val {
            Val::View(view) => view.pair(at).map(|(key, value)| (Val::View(key), Val::View(value))),
            Val::Const(Term::Map(pairs)) => {
                let (key, value) = pairs.get(*at)?;
                *at += 1;
                Some((Val::Const(key), Val::Const(value)))
            }
            Val::Map(from, len) => {
                let n = u32::try_from(*at).ok().filter(|n| *n < len)?;
                *at += 1;
                Some((self.cell(from + n * 2), self.cell(from + n * 2 + 1)))
            }
            _ => None,
        }
    }

    pub(crate) fn member(&self, val: MachineVal<'p, 'a, H>, at: &mut usize) -> Option<MachineVal<'p, 'a, H>> {
        match val {
            Val::View(view) => view.member(at).map(Val::View),
            Val::Const(Term::Set(members)) => {
                let member = members.get(*at)?;
                *at += 1;
                Some(Val::Const(member))
            }
            _ => None,
        }
    }

    /// A value as a number.
    pub(crate) fn as_number(&self, val: MachineVal<'p, 'a, H>) -> Result<Number, Exception> {
        self.numeric(val, self.look(val)).ok_or(Exception)
    }

    fn numeric(&self, val: MachineVal<'p, 'a, H>, look: Look<'_>) -> Option<Number> {
        match (look, val) {
            (Look::Int(n), _) => Some(Number::Int(n)),
            (Look::Float(f), _) => Some(Number::Float(f)),
            (Look::Big, Val::View(view)) => Some(Number::Big(view.big())),
            (Look::Big, Val::Const(Term::Int(n))) => Some(Number::Big(n.clone())),
            (Look::Big, Val::Own(n)) => match self.own.get(n) {
                Some(Term::Int(n)) => Some(Number::Big(n.clone())),
                _ => None,
            },
            _ => None,
        }
    }

    /// A copy of a value without parts.
    pub(crate) fn copy(&self, val: MachineVal<'p, 'a, H>) -> Term {
        match val {
            Val::View(view) => view.to_term(),
            Val::Const(term) => term.clone(),
            Val::Own(n) => self.own.get(n).cloned().unwrap_or(Term::List(Vec::new())),
            _ => Term::List(Vec::new()),
        }
    }

    /// The node of a process, port or reference.
    pub(crate) fn node_of(&self, val: MachineVal<'p, 'a, H>) -> Result<Term, Exception> {
        if !matches!(self.look(val), Look::Pid | Look::Port | Look::Ref) {
            return Err(Exception);
        }
        match self.copy(val) {
            Term::Pid(of) | Term::Port(of) | Term::Ref(of) => Ok(Term::Atom(of.node)),
            _ => Err(Exception),
        }
    }

    pub(crate) fn term(&self, val: MachineVal<'p, 'a, H>) -> Term {
        self.value(val).to_term()
    }

    /// The value for the caller of the program.
    pub(crate) fn value(&self, val: MachineVal<'p, 'a, H>) -> Value<'p, H::View> {
        let list = |look| match look {
            Look::List(n) => Value::List(self.values(val, n)),
            Look::Improper(n) => {
                let tail = self.tail(val).map_or(Value::List(Vec::new()), |tail| self.value(tail));
                Value::ImproperList(self.values(val, n), Box::new(tail))
            }
            _ => Value::List(Vec::new()),
        };
        match val {
            Val::View(view) => Value::View(view),
            Val::Const(term) => Value::Const(term),
            Val::Int(n) => Value::Term(Term::from(n)),
            Val::Float(f) => Value::Term(Term::Float(f)),
            Val::Atom(name) => Value::Term(Term::atom(name)),
            Val::Own(_) => Value::Term(self.copy(val)),
            Val::Tuple(_, n) => Value::Tuple(self.values(val, n as usize)),
            Val::Rest(..) | Val::ConstRest(..) | Val::Args(_) | Val::List(..) | Val::Cons(..) => list(self.look(val)),
            Val::Map(..) => {
                let mut at = 0;
                let pairs = std::iter::from_fn(|| self.pair(val, &mut at));
                Value::Map(pairs.map(|(key, value)| (self.value(key), self.value(value))).collect())
            }
            Val::Part { cell, .. } => {
                let Look::Binary(Binary::Bytes(bytes)) = self.look(val) else { return Value::List(Vec::new()) };
                Value::Term(binary(bytes.to_vec(), self.is_text(self.cell(cell))))
            }
        }
    }

    fn values(&self, val: MachineVal<'p, 'a, H>, n: usize) -> Vec<Value<'p, H::View>> {
        (0..n).map_while(|n| self.element(val, n)).map(|part| self.value(part)).collect()
    }

    /// Whether a binary, or the binary of a part, is text.
    pub(crate) fn is_text(&self, val: MachineVal<'p, 'a, H>) -> bool {
        match val {
            Val::View(view) => matches!(view.to_term(), Term::Str(_)),
            Val::Const(term) => matches!(term, Term::Str(_)),
            Val::Own(n) => matches!(self.own.get(n), Some(Term::Str(_))),
            Val::Part { cell, .. } => self.is_text(self.cell(cell)),
            _ => false,
        }
    }
}

/// Bytes as a term. They are text if they were a part of a text and are still UTF-8.
pub(crate) fn binary(bytes: Vec<u8>, is_text: bool) -> Term {
    if !is_text {
        return Term::Bytes(bytes.into());
    }
    match String::from_utf8(bytes) {
        Ok(text) => Term::Str(text.into()),
        Err(error) => Term::Bytes(error.into_bytes().into()),
    }
}

fn without(look: Look<'_>, n: u32) -> Look<'_> {
    let n = n as usize;
    match look {
        Look::List(len) => Look::List(len.saturating_sub(n)),
        Look::Improper(len) => Look::Improper(len.saturating_sub(n)),
        other => other,
    }
}
