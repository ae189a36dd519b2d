//! Runs a program.
//!
//! No memory is allocated until a clause matches, with five exceptions: numbers of more than 64 bits, parts of text that is not
//! ASCII, requests of a guard to the host, comparisons of maps of more than sixteen pairs, and the registers of a program with
//! more than 64.
#![forbid(unsafe_code)]

use crate::{
    ast::{Comparison, Function, Type},
    compile::{Op, Pat, Program, Src},
    host::Host,
    lint::Context,
    machine::{binary, holds, Exception, Machine, OrderMode, Val},
    numbers::{self, IMMEDIATE},
    terms::TermView,
    value::Value,
    view::{Binary, Look, View},
};
use inviso_term::term::Term;
use num_traits::ToPrimitive;

/// The deepest nesting of patterns. The parser allows no more.
const MAX_DEPTH: u32 = 256;

/// The result of a run.
#[derive(Clone, Debug)]
pub enum Outcome<'p, V> {
    /// No clause matches.
    NoMatch,
    /// A clause matches.
    Match {
        /// Whether the return of the call is requested, too.
        return_trace: bool,
        /// Whether an exception that ends the call is requested, too.
        exception_trace: bool,
        /// The message.
        message: Message<'p, V>,
    },
}

/// The effect on the message.
#[derive(Clone, Debug)]
pub enum Message<'p, V> {
    /// It was not mentioned, or is `true`.
    Plain,
    /// It is not sent.
    Suppressed,
    /// It carries this value. For a table program: the value of the last expression.
    Value(Value<'p, V>),
}

impl Program {
    /// Runs the program.
    ///
    /// Tests of arguments run here. A machine with registers is created for the first instruction that needs one.
    #[inline]
    pub fn run<'p, 'a, H: Host<'a>>(&'p self, host: &mut H) -> Outcome<'p, H::View> {
        let count = host.count().min(u32::MAX as usize - 1) as u32;
        let (mut at, mut next) = (0, 0);
        let mut seen = None;
        while let Some(op) = self.ops.get(at) {
            let met = match *op {
                Op::Clause { next: other, least, most } => {
                    next = other as usize;
                    least <= count && count <= most
                }
                Op::IsInt { .. } | Op::IsAtom { .. } | Op::ArgInt { .. } | Op::ArgType { .. } => {
                    self.quick(op, host, &mut seen)
                }
                Op::Fail => false,
                Op::NoMatch => return Outcome::NoMatch,
                Op::Done => return plain(),
                _ => return self.run_from(host, at, next),
            };
            at = if met { at + 1 } else { next };
        }
        Outcome::NoMatch
    }

    /// A test that needs only an argument.
    #[inline(always)]
    fn quick<'a, H: Host<'a>>(&self, op: &Op, host: &mut H, seen: &mut Option<Seen<'a, H::View>>) -> bool {
        let (Op::IsInt { arg, .. } | Op::IsAtom { arg, .. } | Op::ArgInt { arg, .. } | Op::ArgType { arg, .. }) = *op
        else {
            return false;
        };
        let Some(Seen { view, look, .. }) = Seen::get(seen, host, arg) else { return false };
        match *op {
            Op::IsInt { value, .. } => matches!(look, Look::Int(n) if n == value),
            Op::IsAtom { konst, .. } => match (look, self.constants.get(konst as usize)) {
                (Look::Atom(name), Some(Term::Atom(wanted))) => *name == **wanted,
                _ => false,
            },
            Op::ArgInt { with, value, .. } => match look {
                Look::Int(n) => holds(with, n.cmp(&i64::from(value))),
                _ => self.compare_with(host, with, view, value),
            },
            Op::ArgType { of, .. } => is_type(of, look),
            _ => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn compare_with<'a, H: Host<'a>>(&self, host: &mut H, with: Comparison, view: H::View, value: i32) -> bool {
        let machine = Machine::new(self, host, []);
        machine.compare(with, Val::View(view), Val::Int(i64::from(value))).unwrap_or(false)
    }

    #[inline(never)]
    fn run_from<'p, 'a, H: Host<'a>>(&'p self, host: &mut H, at: usize, next: usize) -> Outcome<'p, H::View> {
        match self.registers {
            0..=8 => Machine::new(self, host, [Val::Int(0); 8]).run(at, next),
            9..=64 => self.run_in(host, [Val::Int(0); 64], at, next),
            n => self.run_in(host, vec![Val::Int(0); n as usize], at, next),
        }
    }

    #[inline(never)]
    fn run_in<'p, 'a, H, R>(&'p self, host: &mut H, registers: R, at: usize, next: usize) -> Outcome<'p, H::View>
    where
        H: Host<'a>,
        R: AsRef<[Val<'p, H::View>]> + AsMut<[Val<'p, H::View>]>,
    {
        Machine::new(self, host, registers).run(at, next)
    }
}

/// The argument that was inspected last. The next clause usually inspects the same one.
#[derive(Clone, Copy)]
struct Seen<'a, V> {
    arg: u32,
    view: V,
    look: Look<'a>,
}

impl<'a, V: View<'a>> Seen<'a, V> {
    #[inline(always)]
    fn get<H: Host<'a, View = V>>(seen: &mut Option<Self>, host: &H, arg: u32) -> Option<Self> {
        if let Some(known) = seen.filter(|known| known.arg == arg) {
            return Some(known);
        }
        let view = host.argument(arg as usize)?;
        *seen = Some(Seen { arg, view, look: view.look() });
        *seen
    }
}

type MachineVal<'p, 'a, H> = Val<'p, <H as Host<'a>>::View>;

/// The effects of the body so far.
struct Effects<'p, V> {
    return_trace: bool,
    exception_trace: bool,
    /// The value of the last `message`, or of a table program's last expression.
    message: Option<Val<'p, V>>,
}

impl<'p, 'a, 'h, H, R> Machine<'p, 'a, 'h, H, R>
where
    H: Host<'a>,
    R: AsRef<[Val<'p, H::View>]> + AsMut<[Val<'p, H::View>]>,
{
    #[inline(always)]
    fn run(&mut self, mut at: usize, mut next: usize) -> Outcome<'p, H::View> {
        let ops: &'p [Op] = &self.program.ops;
        let count = self.host.count().min(u32::MAX as usize - 1) as u32;
        let mut seen = None;
        let mut effects = Effects { return_trace: false, exception_trace: false, message: None };
        let mut in_body = false;
        while let Some(op) = ops.get(at) {
            at += 1;
            let met = match *op {
                Op::Clause { next: other, least, most } => {
                    next = other as usize;
                    least <= count && count <= most
                }
                Op::IsInt { .. } | Op::IsAtom { .. } | Op::ArgInt { .. } | Op::ArgType { .. } => {
                    self.program.quick(op, self.host, &mut seen)
                }
                Op::TestInt { with, src, value } => match self.load(src) {
                    Ok(val) => match self.look(val) {
                        Look::Int(n) => holds(with, n.cmp(&i64::from(value))),
                        _ => self.compare(with, val, Val::Int(i64::from(value))).unwrap_or(false),
                    },
                    Err(Exception) => false,
                },
                Op::TestType { of, src } => self.load(src).is_ok_and(|val| is_type(of, self.look(val))),
                Op::Match { arg, pattern } => match self.host.argument(arg as usize) {
                    Some(view) => self.matches(self.program.patterns[pattern as usize], Val::View(view), 0),
                    None => false,
                },
                Op::TestCompare { with, a, b } => self.test_compare(with, a, b),
                Op::TestTrue { src } => self.load(src).is_ok_and(|val| matches!(self.look(val), Look::Atom("true"))),
                Op::Fail => false,
                Op::Body => {
                    in_body = true;
                    true
                }
                Op::Done => return self.outcome(effects),
                Op::NoMatch => return Outcome::NoMatch,
                Op::Result { src } => {
                    effects.message = Some(self.load(src).unwrap_or(Val::Atom("EXIT")));
                    true
                }
                Op::Either { to, src, or, end } => match self.load(src).and_then(|val| self.boolean(val)) {
                    Ok(is) if is != or => true,
                    other => {
                        let val = other.map_or(Val::Atom("EXIT"), truth);
                        self.set(to, val);
                        at = end as usize;
                        in_body || other.is_ok()
                    }
                },
                ref other => {
                    let (to, made) = self.make(other, &mut effects);
                    match made {
                        Ok(val) => self.set(to, val),
                        Err(Exception) => self.set(to, Val::Atom("EXIT")),
                    }
                    in_body || made.is_ok()
                }
            };
            if !met {
                at = next;
            }
        }
        Outcome::NoMatch
    }

    #[inline(never)]
    fn test_compare(&mut self, with: Comparison, a: Src, b: Src) -> bool {
        match (self.load(a), self.load(b)) {
            (Ok(a), Ok(b)) => self.compare(with, a, b).unwrap_or(false),
            _ => false,
        }
    }

    #[inline(never)]
    fn outcome(&mut self, effects: Effects<'p, H::View>) -> Outcome<'p, H::View> {
        let Effects { return_trace, exception_trace, message } = effects;
        let message = match message {
            None => Message::Plain,
            Some(val) if self.program.context() == Context::Table => Message::Value(self.value(val)),
            Some(val) => match self.look(val) {
                Look::Atom("true") => Message::Plain,
                Look::Atom("false") => Message::Suppressed,
                _ => Message::Value(self.value(val)),
            },
        };
        Outcome::Match { return_trace, exception_trace, message }
    }

    /// Whether a value matches a pattern. Registers then have the bound variables.
    fn matches(&mut self, pattern: Pat, val: MachineVal<'p, 'a, H>, depth: u32) -> bool {
        if depth > MAX_DEPTH || self.count_work().is_err() {
            return false;
        }
        match pattern {
            Pat::Any => true,
            Pat::Bind(register) => {
                self.set(register, val);
                true
            }
            Pat::Same(src) => self.load(src).is_ok_and(|other| self.same(val, other, 0).unwrap_or(false)),
            Pat::Int(n) => matches!(self.look(val), Look::Int(m) if m == n),
            Pat::Const(n) => self.same(val, self.constant(n), 0).unwrap_or(false),
            Pat::Tuple { at, len } => {
                matches!(self.look(val), Look::Tuple(n) if n == len as usize) && self.all_match(at, len, val, depth)
            }
            Pat::List { at, len, has_tail } => {
                let n = len as usize;
                let look = self.look(val);
                let is_so = match look {
                    Look::List(m) => n == m || has_tail && n < m,
                    Look::Improper(m) => has_tail && n <= m,
                    _ => false,
                };
                if !is_so {
                    return false;
                }
                let rest = if has_tail { self.rest(val, look, n) } else { None };
                self.all_match(at, len, val, depth)
                    && match rest {
                        Some(rest) => self.matches(self.program.patterns[(at + len) as usize], rest, depth + 1),
                        None => !has_tail,
                    }
            }
            Pat::Map { at, len } => {
                if !matches!(self.look(val), Look::Map(_)) {
                    return false;
                }
                for n in 0..len {
                    let Pat::Const(key) = self.program.patterns[(at + n * 2) as usize] else { return false };
                    let Ok(Some(value)) = self.find(val, self.constant(key), 0) else { return false };
                    if !self.matches(self.program.patterns[(at + n * 2 + 1) as usize], value, depth + 1) {
                        return false;
                    }
                }
                true
            }
        }
    }

    fn all_match(&mut self, at: u32, len: u32, val: MachineVal<'p, 'a, H>, depth: u32) -> bool {
        (0..len).all(|n| match (self.program.patterns[(at + n) as usize], self.element(val, n as usize)) {
            (pattern, Some(part)) => self.matches(pattern, part, depth + 1),
            (_, None) => false,
        })
    }

    /// The value of an instruction, and its register.
    #[inline(never)]
    fn make(&mut self, op: &Op, effects: &mut Effects<'p, H::View>) -> (u32, Result<MachineVal<'p, 'a, H>, Exception>) {
        match *op {
            Op::Move { to, src } => (to, self.load(src)),
            Op::Tuple { to, at, len } => (to, Ok(Val::Tuple(at, len))),
            Op::List { to, at, len } => (to, Ok(Val::List(at, len))),
            Op::Cons { to, at, len } => (to, Ok(Val::Cons(at, len))),
            Op::Map { to, at, len, distinct } => {
                let len = if distinct { len } else { self.distinct(at, len) };
                (to, Ok(Val::Map(at, len)))
            }
            Op::All { to, at, len, or } => (to, self.all(at, len, or)),
            Op::Call { function, to, at } => (to, self.call(function, at, effects)),
            _ => (0, Err(Exception)),
        }
    }

    /// `and`, or `or`. All operands are evaluated.
    fn all(&self, at: u32, len: u32, or: bool) -> Result<MachineVal<'p, 'a, H>, Exception> {
        let mut is = !or;
        for n in at..at + len {
            let one = self.boolean(self.cell(n))?;
            is = if or { is || one } else { is && one };
        }
        Ok(truth(is))
    }

    /// Keeps the last value of each key. Answers how many pairs are left.
    fn distinct(&mut self, at: u32, len: u32) -> u32 {
        let mut kept = 0;
        for n in 0..len {
            let (key, value) = (self.cell(at + n * 2), self.cell(at + n * 2 + 1));
            let known = (0..kept).find(|k| self.same(self.cell(at + k * 2), key, 0).unwrap_or(false));
            let to = known.unwrap_or(kept);
            self.set(at + to * 2, key);
            self.set(at + to * 2 + 1, value);
            kept += u32::from(known.is_none());
        }
        kept
    }

    fn boolean(&self, val: MachineVal<'p, 'a, H>) -> Result<bool, Exception> {
        match self.look(val) {
            Look::Atom("true") => Ok(true),
            Look::Atom("false") => Ok(false),
            _ => Err(Exception),
        }
    }

    fn operand(&self, at: u32) -> Result<MachineVal<'p, 'a, H>, Exception> {
        self.load(*self.program.operands.get(at as usize).ok_or(Exception)?)
    }

    /// The number of operands of a function with a varying number.
    fn choice(&self, at: u32) -> usize {
        match self.program.operands.get(at as usize) {
            Some(Src::Int(n)) => *n as usize,
            _ => 0,
        }
    }

    fn name(&self, at: u32) -> Result<&'p str, Exception> {
        let program: &'p Program = self.program;
        match program.operands.get(at as usize) {
            Some(Src::Const(n)) => match program.constants.get(*n as usize) {
                Some(Term::Str(text)) => Ok(text),
                _ => Err(Exception),
            },
            _ => Err(Exception),
        }
    }

    fn call(
        &mut self, function: Function, at: u32, effects: &mut Effects<'p, H::View>,
    ) -> Result<MachineVal<'p, 'a, H>, Exception> {
        Ok(match function {
            Function::Is(of) => {
                let val = self.operand(at)?;
                truth(is_type(of, self.look(val)))
            }
            Function::Compare(with) => {
                let (a, b) = (self.operand(at)?, self.operand(at + 1)?);
                truth(self.compare(with, a, b)?)
            }
            Function::Unary(with) => {
                let a = self.operand(at)?;
                let number = numbers::unary(with, self.as_number(a)?).ok_or(Exception)?;
                self.number(number)
            }
            Function::Binary(with) => {
                let (a, b) = (self.operand(at)?, self.operand(at + 1)?);
                if let (Look::Int(a), Look::Int(b)) = (self.look(a), self.look(b)) {
                    if let Some(n) = numbers::small(with, a, b) {
                        return Ok(Val::Int(n));
                    }
                }
                let number = numbers::binary(with, self.as_number(a)?, self.as_number(b)?).ok_or(Exception)?;
                self.number(number)
            }
            Function::Not => {
                let val = self.operand(at)?;
                truth(!self.boolean(val)?)
            }
            Function::Xor => {
                let (a, b) = (self.operand(at)?, self.operand(at + 1)?);
                truth(self.boolean(a)? != self.boolean(b)?)
            }
            Function::Min | Function::Max => {
                let (a, b) = (self.operand(at)?, self.operand(at + 1)?);
                let order = self.order(a, b, OrderMode::Loose, 0)?;
                let second = if function == Function::Min { order.is_gt() } else { order.is_lt() };
                if second {
                    b
                } else {
                    a
                }
            }
            Function::Attr => match self.operand(at)? {
                Val::View(view) => Val::View(view.attribute(self.name(at + 1)?).ok_or(Exception)?),
                _ => return Err(Exception),
            },
            Function::IsInstance => {
                let val = self.operand(at)?;
                let name = self.name(at + 1)?;
                truth(match val {
                    Val::View(view) => view.is_instance(name),
                    Val::Const(term) => TermView(term).is_instance(name),
                    _ => false,
                })
            }
            Function::Arg => Val::View(self.host.named(self.name(at)?).ok_or(Exception)?),
            Function::Me => {
                let me = self.host.me();
                self.keep(me)
            }
            Function::Node => {
                let node = self.host.node();
                self.keep(node)
            }
            Function::NodeOf => {
                let val = self.operand(at)?;
                let node = self.node_of(val)?;
                self.keep(node)
            }
            Function::GetTcw => {
                let word = self.host.control_word();
                self.keep(Term::Int(word.into()))
            }
            Function::IsSeqTrace => truth(self.host.is_seq_trace()),
            Function::IsFunction2 | Function::IsInteger3 | Function::IsRecord => self.more_types(function, at)?,
            Function::BinaryPart => self.binary_part(at)?,
            Function::And | Function::Or | Function::AndAlso | Function::OrElse => return Err(Exception),
            Function::Element
            | Function::Hd
            | Function::Tl
            | Function::Length
            | Function::Size
            | Function::ByteSize
            | Function::BitSize
            | Function::TupleSize
            | Function::MapSize
            | Function::MapGet
            | Function::IsMapKey => self.part(function, at)?,
            _ => self.act(function, at, effects)?,
        })
    }

    /// Functions that inspect a value.
    fn part(&mut self, function: Function, at: u32) -> Result<MachineVal<'p, 'a, H>, Exception> {
        let val = self.operand(at)?;
        let size = |n: usize| Ok(Val::Int(n as i64));
        match (function, self.look(val)) {
            (Function::Element, Look::Int(n)) => {
                let tuple = self.operand(at + 1)?;
                let n = usize::try_from(n).ok().and_then(|n| n.checked_sub(1)).ok_or(Exception)?;
                match self.look(tuple) {
                    Look::Tuple(len) if n < len => self.element(tuple, n).ok_or(Exception),
                    _ => Err(Exception),
                }
            }
            (Function::Hd, Look::List(1..) | Look::Improper(_)) => self.element(val, 0).ok_or(Exception),
            (Function::Tl, look @ (Look::List(1..) | Look::Improper(_))) => self.rest(val, look, 1).ok_or(Exception),
            (Function::Length, Look::List(n))
            | (Function::TupleSize | Function::Size, Look::Tuple(n))
            | (Function::MapSize, Look::Map(n)) => size(n),
            (Function::Size, Look::Binary(binary)) => size(binary.bits() / 8),
            (Function::ByteSize, Look::Binary(binary)) => size(binary.bits().div_ceil(8)),
            (Function::BitSize, Look::Binary(binary)) => size(binary.bits()),
            (Function::MapGet | Function::IsMapKey, _) => {
                let map = self.operand(at + 1)?;
                if !matches!(self.look(map), Look::Map(_)) {
                    return Err(Exception);
                }
                let found = self.find(map, val, 0)?;
                if function == Function::IsMapKey {
                    return Ok(truth(found.is_some()));
                }
                found.ok_or(Exception)
            }
            _ => Err(Exception),
        }
    }

    fn more_types(&mut self, function: Function, at: u32) -> Result<MachineVal<'p, 'a, H>, Exception> {
        let (val, second) = (self.operand(at)?, self.operand(at + 1)?);
        let is_integer = |machine: &Self, val| matches!(machine.look(val), Look::Int(_) | Look::Big);
        Ok(truth(match function {
            Function::IsFunction2 => {
                let arity = match self.look(second) {
                    Look::Int(n) if n >= 0 => u64::try_from(n).ok(),
                    Look::Big if self.order(second, Val::Int(0), OrderMode::Exact, 0)?.is_gt() => None,
                    _ => return Err(Exception),
                };
                matches!(self.look(val), Look::Fun(Some(n)) if Some(n) == arity)
            }
            Function::IsInteger3 => {
                let high = self.operand(at + 2)?;
                if !is_integer(self, second) || !is_integer(self, high) {
                    return Err(Exception);
                }
                is_integer(self, val)
                    && self.order(second, val, OrderMode::Exact, 0)?.is_le()
                    && self.order(val, high, OrderMode::Exact, 0)?.is_le()
            }
            _ => {
                let size = self.operand(at + 2)?;
                let Look::Atom(_) = self.look(second) else { return Err(Exception) };
                let size = match self.look(size) {
                    Look::Int(n) if IMMEDIATE.contains(&n) => usize::try_from(n).ok(),
                    Look::Atom(_) => None,
                    _ => return Err(Exception),
                };
                match self.look(val) {
                    Look::Tuple(n) if n > 0 && Some(n) == size => {
                        let first = self.element(val, 0).ok_or(Exception)?;
                        self.same(first, second, 0)?
                    }
                    _ => false,
                }
            }
        }))
    }

    fn binary_part(&mut self, at: u32) -> Result<MachineVal<'p, 'a, H>, Exception> {
        let val = self.operand(at + 1)?;
        let (start, len) = if self.choice(at) == 3 {
            (self.operand(at + 2)?, self.operand(at + 3)?)
        } else {
            let pair = self.operand(at + 2)?;
            let Look::Tuple(2) = self.look(pair) else { return Err(Exception) };
            (self.element(pair, 0).ok_or(Exception)?, self.element(pair, 1).ok_or(Exception)?)
        };
        let (Look::Int(start), Look::Int(len)) = (self.look(start), self.look(len)) else { return Err(Exception) };
        let Look::Binary(whole) = self.look(val) else { return Err(Exception) };
        if matches!(whole, Binary::Bits(..)) {
            return Err(Exception);
        }
        let end = start.checked_add(len).ok_or(Exception)?;
        let size = whole.bits() / 8;
        let (from, to) = (start.min(end), start.max(end));
        let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) else { return Err(Exception) };
        if to > size {
            return Err(Exception);
        }
        let Some(Src::Reg(register)) = self.program.operands.get(at as usize + 1).copied() else {
            return Err(Exception);
        };
        if whole.plain().is_some() {
            // a part of a part is a part of the whole
            let (cell, before) = match val {
                Val::Part { cell, at, .. } => (cell, at as usize),
                _ => (register, 0),
            };
            let at = u32::try_from(before + from).map_err(|_| Exception)?;
            let len = u32::try_from(to - from).map_err(|_| Exception)?;
            return Ok(Val::Part { cell, at, len });
        }
        let bytes = whole.bytes().skip(from).take(to - from).collect();
        Ok(self.keep(binary(bytes, true)))
    }

    /// Functions that only bodies have: with effects or with high cost.
    #[cold]
    fn act(
        &mut self, function: Function, at: u32, effects: &mut Effects<'p, H::View>,
    ) -> Result<MachineVal<'p, 'a, H>, Exception> {
        let yes = Val::Atom("true");
        let term = |machine: &Self, at| machine.operand(at).map(|val| machine.term(val));
        let made = match function {
            Function::Message => {
                effects.message = Some(self.operand(at)?);
                return Ok(yes);
            }
            Function::ReturnTrace => {
                effects.return_trace = true;
                return Ok(yes);
            }
            Function::ExceptionTrace => {
                effects.exception_trace = true;
                return Ok(yes);
            }
            Function::Caller => self.host.caller(),
            Function::CallerLine => self.host.caller_line(),
            Function::Stacktrace => {
                let depth = if self.choice(at) == 0 {
                    None
                } else {
                    let depth = self.operand(at + 1)?;
                    self.as_number(depth)?.size()
                };
                self.host.current_stacktrace(depth)
            }
            Function::Display => {
                let term = term(self, at)?;
                self.host.display(&term);
                return Ok(yes);
            }
            Function::ProcessDump => self.host.process_dump(),
            Function::Dump => {
                self.host.dump();
                return Ok(yes);
            }
            Function::SetTcw => {
                let word = self.operand(at)?;
                let word = match self.look(word) {
                    Look::Int(n) => u32::try_from(n).map_err(|_| Exception)?,
                    _ => return Err(Exception),
                };
                Term::Int(self.host.set_control_word(u64::from(word)).into())
            }
            Function::Silent => {
                let on = self.operand(at)?;
                match self.look(on) {
                    Look::Atom("true") => self.host.silent(true),
                    Look::Atom("false") => self.host.silent(false),
                    _ => {}
                }
                return Ok(yes);
            }
            Function::EnableTrace | Function::DisableTrace => {
                let on = function == Function::EnableTrace;
                let (process, flag) = if self.choice(at) == 1 {
                    (None, term(self, at + 1)?)
                } else {
                    (Some(term(self, at + 1)?), term(self, at + 2)?)
                };
                self.host.switch(process.as_ref(), &flag, on).map_err(|_| Exception)?;
                return Ok(yes);
            }
            Function::Trace => {
                let (process, at) =
                    if self.choice(at) == 2 { (None, at + 1) } else { (Some(term(self, at + 1)?), at + 2) };
                let (disable, enable) = (term(self, at)?, term(self, at + 1)?);
                let changed = self.host.trace(process.as_ref(), &disable, &enable).map_err(|_| Exception)?;
                return Ok(truth(changed));
            }
            Function::GetSeqToken => self.host.seq_token(),
            Function::SetSeqToken => {
                let (component, value) = (term(self, at)?, term(self, at + 1)?);
                self.host.set_seq_token(&component, &value).map_err(|_| Exception)?
            }
            _ => return Err(Exception),
        };
        Ok(self.keep(made))
    }
}

impl numbers::Number {
    fn size(&self) -> Option<usize> {
        match self {
            numbers::Number::Int(n) => Some(usize::try_from(*n).unwrap_or(0)),
            numbers::Number::Big(n) => n.to_usize(),
            numbers::Number::Float(_) => None,
        }
    }
}

fn plain<V>() -> Outcome<'static, V> {
    Outcome::Match { return_trace: false, exception_trace: false, message: Message::Plain }
}

#[inline(always)]
fn truth<V>(is: bool) -> Val<'static, V> {
    Val::Atom(if is { "true" } else { "false" })
}

#[inline(always)]
fn is_type(of: Type, look: Look<'_>) -> bool {
    match of {
        Type::Atom => matches!(look, Look::Atom(_)),
        Type::Boolean => matches!(look, Look::Atom("true" | "false")),
        Type::Float => matches!(look, Look::Float(_)),
        Type::Integer => matches!(look, Look::Int(_) | Look::Big),
        Type::List => matches!(look, Look::List(_) | Look::Improper(_)),
        Type::Number => matches!(look, Look::Int(_) | Look::Big | Look::Float(_)),
        Type::Pid => matches!(look, Look::Pid),
        Type::Port => matches!(look, Look::Port),
        Type::Reference => matches!(look, Look::Ref),
        Type::Tuple => matches!(look, Look::Tuple(_)),
        Type::Map => matches!(look, Look::Map(_)),
        Type::Binary => matches!(look, Look::Binary(binary) if !matches!(binary, Binary::Bits(..))),
        Type::Bitstring => matches!(look, Look::Binary(_)),
        Type::Function => matches!(look, Look::Fun(_)),
    }
}
