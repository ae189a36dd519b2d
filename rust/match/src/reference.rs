//! A slow interpreter over the syntax and over terms. It shares only the parser with the compiled programs, which are compared
//! with it.
#![forbid(unsafe_code)]

use crate::{
    ast::{BinaryOp, Clause, Comparison, Expr, Function, Head, Pattern, Rest, Type, UnaryOp, Variable},
    host::Host,
    lint::Context,
    numbers::IMMEDIATE,
    parse::{joined, parse},
    terms::TermView,
    test::{Bench, Mode, TermHost, Tested, Untested},
};
use inviso_term::{
    order::{exact, loose},
    term::Term,
};
use num_bigint::BigInt;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};
use std::collections::BTreeMap;

/// A value could not be computed.
struct Failure;

type EvalResult = Result<Term, Failure>;

/// As [`crate::test::test_at`], but slow.
///
/// # Errors
/// [`Untested`].
pub fn test_at(bench: &Bench, subject: &Term, spec: &Term, mode: Mode) -> Result<Tested, Untested> {
    let arguments: Vec<&Term> = match (mode, subject) {
        (Mode::Table, _) => vec![subject],
        (Mode::Trace, Term::List(all) | Term::ImproperList(all, _)) => all.iter().collect(),
        (Mode::Trace, _) => return Err(Untested::Subject),
    };
    if let Term::List(clauses) = spec {
        if clauses.is_empty() {
            return crate::test::test_at(bench, subject, spec, mode);
        }
    }
    let context = if mode == Mode::Table { Context::Table } else { Context::Call };
    let clauses = parse(spec, context).map_err(Untested::Spec)?;
    let mut host = TermHost::new(bench, arguments.iter().copied());
    let all: Vec<Term> = arguments.into_iter().cloned().collect();
    for clause in &clauses {
        if let Some(tested) = run(clause, &all, &mut host, mode) {
            return Ok(tested);
        }
    }
    Ok(Tested { result: Term::atom("false"), return_trace: false, exception_trace: false, warnings: Vec::new() })
}

fn run(clause: &Clause, arguments: &[Term], host: &mut TermHost<'_>, mode: Mode) -> Option<Tested> {
    let mut bound = BTreeMap::new();
    let whole = match &clause.head {
        Head::Subject(pattern) => {
            let subject = arguments.first()?;
            if !matches(pattern, subject, &mut bound) {
                return None;
            }
            subject.clone()
        }
        Head::Arguments(patterns, rest) => {
            let (n, m) = (patterns.len(), arguments.len());
            if m < n || m > n && *rest == Rest::None {
                return None;
            }
            if !patterns.iter().zip(arguments).all(|(pattern, term)| matches(pattern, term, &mut bound)) {
                return None;
            }
            if let Rest::Variable(variable) = rest {
                let rest = Term::List(arguments[n..].to_vec());
                if !matches(&Pattern::Variable(*variable), &rest, &mut bound) {
                    return None;
                }
            }
            Term::List(arguments.to_vec())
        }
    };
    let mut state = State { bound, whole, host, said: None, return_trace: false, exception_trace: false, body: false };
    for guard in &clause.guards {
        if !matches!(state.eval(guard), Ok(term) if term == Term::atom("true")) {
            return None;
        }
    }
    state.body = true;
    let mut last = Term::atom("true");
    for expr in &clause.body {
        last = state.eval(expr).unwrap_or(Term::atom("EXIT"));
    }
    let result = if mode == Mode::Table { last } else { state.said.unwrap_or(Term::atom("true")) };
    let (return_trace, exception_trace) = (state.return_trace, state.exception_trace);
    Some(Tested { result, return_trace, exception_trace, warnings: Vec::new() })
}

fn matches(pattern: &Pattern, term: &Term, bound: &mut BTreeMap<Variable, Term>) -> bool {
    match (pattern, term) {
        (Pattern::Any, _) => true,
        (Pattern::Variable(variable), _) => match bound.get(variable) {
            Some(known) => known == term,
            None => {
                bound.insert(*variable, term.clone());
                true
            }
        },
        (Pattern::Const(wanted), _) => wanted == term,
        (Pattern::Tuple(patterns), Term::Tuple(parts)) => {
            patterns.len() == parts.len() && patterns.iter().zip(parts).all(|(p, part)| matches(p, part, bound))
        }
        (Pattern::List(patterns, tail), _) => {
            let mut left = term.clone();
            for pattern in patterns {
                let Some((head, rest)) = split(&left) else { return false };
                if !matches(pattern, &head, bound) {
                    return false;
                }
                left = rest;
            }
            match tail {
                Some(tail) => matches(tail, &left, bound),
                None => left == Term::List(Vec::new()),
            }
        }
        (Pattern::Map(wanted), Term::Map(pairs)) => wanted.iter().all(|(key, pattern)| {
            pairs.iter().find(|pair| pair.0 == *key).is_some_and(|pair| matches(pattern, &pair.1, bound))
        }),
        _ => false,
    }
}

/// The first element of a list, and the rest.
fn split(list: &Term) -> Option<(Term, Term)> {
    match list {
        Term::List(parts) => {
            let (head, rest) = parts.split_first()?;
            Some((head.clone(), Term::List(rest.to_vec())))
        }
        Term::ImproperList(parts, tail) => {
            let (head, rest) = parts.split_first()?;
            Some((head.clone(), joined(rest.to_vec(), (**tail).clone())))
        }
        _ => None,
    }
}

fn truth(is: bool) -> EvalResult {
    Ok(Term::atom(if is { "true" } else { "false" }))
}

fn boolean(term: &Term) -> Result<bool, Failure> {
    match term {
        Term::Atom(name) if &**name == "true" => Ok(true),
        Term::Atom(name) if &**name == "false" => Ok(false),
        _ => Err(Failure),
    }
}

fn size(n: usize) -> EvalResult {
    Ok(Term::Int(n.into()))
}

struct State<'h, 'a> {
    bound: BTreeMap<Variable, Term>,
    whole: Term,
    host: &'h mut TermHost<'a>,
    said: Option<Term>,
    return_trace: bool,
    exception_trace: bool,
    body: bool,
}

impl<'a> State<'_, 'a> {
    fn eval(&mut self, expr: &Expr) -> EvalResult {
        Ok(match expr {
            Expr::Const(term) => term.clone(),
            Expr::Variable(variable) => self.bound.get(variable).cloned().ok_or(Failure)?,
            Expr::Whole => self.whole.clone(),
            Expr::Bindings => Term::List(self.bound.values().cloned().collect()),
            Expr::Tuple(parts) => Term::Tuple(self.backwards(parts)?),
            Expr::List(parts, tail) => {
                let parts = parts.iter().map(|part| self.eval(part)).collect::<Result<_, _>>()?;
                match tail {
                    Some(tail) => joined(parts, self.eval(tail)?),
                    None => Term::List(parts),
                }
            }
            Expr::Map(pairs) => {
                let values: Vec<_> = pairs.iter().map(|pair| pair.1.clone()).collect();
                let keys: Vec<_> = pairs.iter().map(|pair| pair.0.clone()).collect();
                let values = self.backwards(&values)?;
                let keys = self.backwards(&keys)?;
                let mut map: Vec<(Term, Term)> = Vec::new();
                for (key, value) in keys.into_iter().zip(values) {
                    map.retain(|pair| pair.0 != key);
                    map.push((key, value));
                }
                Term::Map(map)
            }
            Expr::Call(function, parts) => match self.call(*function, parts) {
                Err(Failure) if self.body => Term::atom("EXIT"),
                made => made?,
            },
        })
    }

    fn backwards(&mut self, parts: &[Expr]) -> Result<Vec<Term>, Failure> {
        let mut made = parts.iter().rev().map(|part| self.eval(part)).collect::<Result<Vec<_>, _>>()?;
        made.reverse();
        Ok(made)
    }

    fn call(&mut self, function: Function, parts: &[Expr]) -> EvalResult {
        if let Function::AndAlso | Function::OrElse = function {
            let stop = function == Function::OrElse;
            let Some((last, first)) = parts.split_last() else { return Err(Failure) };
            for part in first {
                if boolean(&self.eval(part)?)? == stop {
                    return truth(stop);
                }
            }
            return self.eval(last);
        }
        let args = self.backwards(parts)?;
        for pure in [test, number, inspect] {
            if let Some(term) = pure(function, &args)? {
                return Ok(term);
            }
        }
        self.act(function, &args)
    }

    /// Functions that ask or change the host, and functions of the message.
    // more than 60 lines: one short arm for each function
    fn act(&mut self, function: Function, args: &[Term]) -> EvalResult {
        match (function, args) {
            (Function::Node, []) => Ok(self.host.node()),
            (Function::NodeOf, [Term::Pid(of) | Term::Port(of) | Term::Ref(of)]) => Ok(Term::Atom(of.node.clone())),
            (Function::Me, []) => Ok(self.host.me()),
            (Function::IsInstance, [a, Term::Str(name)]) => truth(crate::view::View::is_instance(TermView(a), name)),
            (Function::IsSeqTrace, []) => truth(self.host.is_seq_trace()),
            (Function::GetTcw, []) => Ok(Term::Int(self.host.control_word().into())),
            (Function::SetTcw, [Term::Int(n)]) => {
                let word = n.to_u32().ok_or(Failure)?;
                Ok(Term::Int(self.host.set_control_word(word.into()).into()))
            }
            (Function::Message, [a]) => {
                self.said = Some(a.clone());
                truth(true)
            }
            (Function::ReturnTrace, []) => {
                self.return_trace = true;
                truth(true)
            }
            (Function::ExceptionTrace, []) => {
                self.exception_trace = true;
                truth(true)
            }
            (Function::Caller, []) => Ok(self.host.caller()),
            (Function::CallerLine, []) => Ok(self.host.caller_line()),
            (Function::Stacktrace, []) => Ok(self.host.current_stacktrace(None)),
            (Function::Stacktrace, [Term::Int(n)]) => Ok(self.host.current_stacktrace(n.to_usize())),
            (Function::Display, [a]) => {
                self.host.display(a);
                truth(true)
            }
            (Function::Dump, []) => {
                self.host.dump();
                truth(true)
            }
            (Function::ProcessDump, []) => Ok(self.host.process_dump()),
            (Function::Silent, [_]) => truth(true),
            (Function::EnableTrace | Function::DisableTrace, args) => {
                let Some((flag, process)) = args.split_last() else { return Err(Failure) };
                let on = function == Function::EnableTrace;
                self.host.switch(process.first(), flag, on).map_err(|_| Failure)?;
                truth(true)
            }
            (Function::Trace, [disable, enable]) => truth(self.host.trace(None, disable, enable).map_err(|_| Failure)?),
            (Function::Trace, [process, disable, enable]) => {
                truth(self.host.trace(Some(process), disable, enable).map_err(|_| Failure)?)
            }
            (Function::GetSeqToken, []) => Ok(self.host.seq_token()),
            (Function::SetSeqToken, [what, value]) => self.host.set_seq_token(what, value).map_err(|_| Failure),
            _ => Err(Failure),
        }
    }
}

/// Tests and comparisons; `None` for another function.
fn test(function: Function, args: &[Term]) -> Result<Option<Term>, Failure> {
    let result = match (function, args) {
        (Function::And, all) => {
            let all = all.iter().map(boolean).collect::<Result<Vec<_>, _>>()?;
            truth(all.into_iter().all(|is| is))
        }
        (Function::Or, all) => {
            let all = all.iter().map(boolean).collect::<Result<Vec<_>, _>>()?;
            truth(all.into_iter().any(|is| is))
        }
        (Function::Xor, [a, b]) => truth(boolean(a)? != boolean(b)?),
        (Function::Not, [a]) => truth(!boolean(a)?),
        (Function::Is(of), [a]) => truth(is(of, a)),
        (Function::IsFunction2, [a, n]) => match n {
            Term::Int(n) if !n.is_negative() => truth(match a {
                Term::Fun(_, _, arity) => BigInt::from(*arity) == *n,
                Term::Closure(closure) => closure.arity().is_some_and(|arity| BigInt::from(arity) == *n),
                _ => false,
            }),
            _ => Err(Failure),
        },
        (Function::IsInteger3, [a, Term::Int(low), Term::Int(high)]) => {
            truth(matches!(a, Term::Int(n) if low <= n && n <= high))
        }
        (Function::IsRecord, [a, Term::Atom(tag), n]) => match n {
            Term::Int(n) if i64::try_from(n).is_ok_and(|n| IMMEDIATE.contains(&n)) => truth(match a {
                Term::Tuple(parts) => {
                    BigInt::from(parts.len()) == *n && matches!(parts.first(), Some(Term::Atom(first)) if first == tag)
                }
                _ => false,
            }),
            Term::Atom(_) => truth(false),
            _ => Err(Failure),
        },
        (Function::Compare(with), [a, b]) => truth(match with {
            Comparison::Less => loose(a, b).is_lt(),
            Comparison::LessOrEqual => loose(a, b).is_le(),
            Comparison::Greater => loose(a, b).is_gt(),
            Comparison::GreaterOrEqual => loose(a, b).is_ge(),
            Comparison::Equal => loose(a, b).is_eq(),
            Comparison::NotEqual => loose(a, b).is_ne(),
            Comparison::Same => exact(a, b).is_eq(),
            Comparison::NotSame => exact(a, b).is_ne(),
        }),
        _ => return Ok(None),
    };
    result.map(Some)
}

/// Functions of numbers and of two values in order; `None` for another function.
fn number(function: Function, args: &[Term]) -> Result<Option<Term>, Failure> {
    let result = match (function, args) {
        (Function::Min, [a, b]) => Ok(if loose(a, b).is_gt() { b } else { a }.clone()),
        (Function::Max, [a, b]) => Ok(if loose(a, b).is_lt() { b } else { a }.clone()),
        (Function::Unary(with), [a]) => unary(with, a),
        (Function::Binary(with), [a, b]) => binary(with, a, b),
        _ => return Ok(None),
    };
    result.map(Some)
}

/// Functions that inspect a value; `None` for another function.
fn inspect(function: Function, args: &[Term]) -> Result<Option<Term>, Failure> {
    let result = match (function, args) {
        (Function::Element, [Term::Int(n), Term::Tuple(parts)]) => {
            let n = n.to_usize().and_then(|n| n.checked_sub(1)).ok_or(Failure)?;
            parts.get(n).cloned().ok_or(Failure)
        }
        (Function::Hd, [list]) => split(list).map(|split| split.0).ok_or(Failure),
        (Function::Tl, [list]) => split(list).map(|split| split.1).ok_or(Failure),
        (Function::Length, [Term::List(parts)]) => size(parts.len()),
        (Function::TupleSize | Function::Size, [Term::Tuple(parts)]) => size(parts.len()),
        (Function::MapSize, [Term::Map(pairs)]) => size(pairs.len()),
        (Function::Size | Function::ByteSize | Function::BitSize, [a]) => {
            let (bytes, bits) = a.as_binary().ok_or(Failure)?;
            let bits = bytes.len() * 8 - if bytes.is_empty() { 0 } else { 8 - usize::from(bits) };
            size(match function {
                Function::Size => bits / 8,
                Function::ByteSize => bits.div_ceil(8),
                _ => bits,
            })
        }
        (Function::MapGet, [key, Term::Map(pairs)]) => {
            pairs.iter().find(|pair| pair.0 == *key).map(|pair| pair.1.clone()).ok_or(Failure)
        }
        (Function::IsMapKey, [key, Term::Map(pairs)]) => truth(pairs.iter().any(|pair| pair.0 == *key)),
        (Function::BinaryPart, [a, Term::Tuple(pair)]) => match &pair[..] {
            [start, len] => part(a, start, len),
            _ => Err(Failure),
        },
        (Function::BinaryPart, [a, start, len]) => part(a, start, len),
        _ => return Ok(None),
    };
    result.map(Some)
}

fn is(of: Type, term: &Term) -> bool {
    match (of, term) {
        (Type::Boolean, Term::Atom(name)) => matches!(&**name, "true" | "false"),
        (Type::Binary, Term::BitString(_, bits)) => *bits == 8,
        _ => matches!(
            (of, term),
            (Type::Atom, Term::Atom(_))
                | (Type::Float | Type::Number, Term::Float(_))
                | (Type::Integer | Type::Number, Term::Int(_))
                | (Type::List, Term::List(_) | Term::ImproperList(..))
                | (Type::Pid, Term::Pid(_))
                | (Type::Port, Term::Port(_))
                | (Type::Reference, Term::Ref(_))
                | (Type::Tuple, Term::Tuple(_))
                | (Type::Map, Term::Map(_))
                | (Type::Binary, Term::Str(_) | Term::Bytes(_))
                | (Type::Bitstring, Term::Str(_) | Term::Bytes(_) | Term::BitString(..))
                | (Type::Function, Term::Fun(..) | Term::Closure(_))
        ),
    }
}

fn part(whole: &Term, start: &Term, len: &Term) -> EvalResult {
    let (Some((bytes, 8)), Term::Int(start), Term::Int(len)) = (whole.as_binary(), start, len) else {
        return Err(Failure);
    };
    let end = start + len;
    let (from, to) = (start.min(&end).to_usize().ok_or(Failure)?, start.max(&end).to_usize().ok_or(Failure)?);
    bytes.get(from..to).map(|part| Term::Bytes(part.into())).ok_or(Failure)
}

fn limited(n: BigInt) -> EvalResult {
    if n.bits() > 1 << 22 {
        return Err(Failure);
    }
    Ok(Term::Int(n))
}

fn finite(f: f64) -> EvalResult {
    if f.is_finite() {
        Ok(Term::Float(f))
    } else {
        Err(Failure)
    }
}

fn float(term: &Term) -> Result<f64, Failure> {
    let float = match term {
        Term::Int(n) => n.to_f64().ok_or(Failure)?,
        Term::Float(f) => *f,
        _ => return Err(Failure),
    };
    if float.is_finite() {
        Ok(float)
    } else {
        Err(Failure)
    }
}

fn unary(with: UnaryOp, a: &Term) -> EvalResult {
    let whole = |f: f64| BigInt::from_f64(f).ok_or(Failure).and_then(limited);
    match (with, a) {
        (UnaryOp::Plus, Term::Int(_) | Term::Float(_)) => Ok(a.clone()),
        (UnaryOp::Minus, Term::Int(n)) => limited(-n),
        (UnaryOp::Minus, Term::Float(f)) => Ok(Term::Float(-f)),
        (UnaryOp::Bnot, Term::Int(n)) => limited(-n - 1),
        (UnaryOp::Abs, Term::Int(n)) => limited(n.abs()),
        (UnaryOp::Abs, Term::Float(f)) => Ok(Term::Float(f.abs())),
        (UnaryOp::Float, a) => float(a).map(Term::Float),
        (UnaryOp::Round | UnaryOp::Trunc | UnaryOp::Floor | UnaryOp::Ceil, Term::Int(_)) => Ok(a.clone()),
        (UnaryOp::Round, Term::Float(f)) => whole(f.round()),
        (UnaryOp::Trunc, Term::Float(f)) => whole(f.trunc()),
        (UnaryOp::Floor, Term::Float(f)) => whole(f.floor()),
        (UnaryOp::Ceil, Term::Float(f)) => whole(f.ceil()),
        _ => Err(Failure),
    }
}

fn binary(with: BinaryOp, a: &Term, b: &Term) -> EvalResult {
    let (Term::Int(m), Term::Int(n)) = (a, b) else {
        let (a, b) = (float(a)?, float(b)?);
        return match with {
            BinaryOp::Add => finite(a + b),
            BinaryOp::Subtract => finite(a - b),
            BinaryOp::Multiply => finite(a * b),
            BinaryOp::Divide if b != 0.0 => finite(a / b),
            _ => Err(Failure),
        };
    };
    match with {
        BinaryOp::Divide if n.is_zero() => Err(Failure),
        BinaryOp::Divide => finite(float(a)? / float(b)?),
        BinaryOp::Add => limited(m + n),
        BinaryOp::Subtract => limited(m - n),
        BinaryOp::Multiply if m.bits() + n.bits() > (1 << 22) + 1 => Err(Failure),
        BinaryOp::Multiply => limited(m * n),
        BinaryOp::Div | BinaryOp::Rem if n.is_zero() => Err(Failure),
        BinaryOp::Div => limited(m / n),
        BinaryOp::Rem => limited(m % n),
        BinaryOp::Band => limited(m & n),
        BinaryOp::Bor => limited(m | n),
        BinaryOp::Bxor => limited(m ^ n),
        BinaryOp::Bsl => shift(m, n),
        BinaryOp::Bsr => shift(m, &-n),
    }
}

fn shift(n: &BigInt, by: &BigInt) -> EvalResult {
    if n.is_zero() {
        return Ok(Term::from(0));
    }
    match by.to_i64() {
        Some(by @ 0..) if by as u64 + n.bits() <= 1 << 22 => limited(n << by),
        Some(by @ ..0) if by.unsigned_abs() <= n.bits() => limited(n >> by.unsigned_abs()),
        _ if by.is_negative() => Ok(Term::from(if n.is_negative() { -1 } else { 0 })),
        _ => Err(Failure),
    }
}
