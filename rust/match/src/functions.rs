//! The functions of specifications, over the values of a running program.
#![forbid(unsafe_code)]

use crate::{
    ast::{Function, Type},
    compare::OrderMode,
    compile::Program,
    host::Host,
    instructions::Src,
    machine::{binary, Exception, Machine, MachineVal, Val},
    numbers::{self, IMMEDIATE},
    terms::TermView,
    view::{Binary, Look, View},
};
use inviso_term::term::Term;
use num_traits::ToPrimitive;

/// The effects of the body so far.
pub(crate) struct Effects<'p, V> {
    pub(crate) return_trace: bool,
    pub(crate) exception_trace: bool,
    /// The value of the last `message`, or of a table program's last expression.
    pub(crate) message: Option<Val<'p, V>>,
}

impl<'p, 'a, 'h, H, R> Machine<'p, 'a, 'h, H, R>
where
    H: Host<'a>,
    R: AsRef<[Val<'p, H::View>]> + AsMut<[Val<'p, H::View>]>,
{
    pub(crate) fn boolean(&self, val: MachineVal<'p, 'a, H>) -> Result<bool, Exception> {
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

    /// Calls a function with the operands from `at` on.
    // more than 60 lines: one short arm for each function
    pub(crate) fn call(
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
            Function::Attr | Function::IsInstance | Function::Arg => self.object(function, at)?,
            Function::Me | Function::Node | Function::NodeOf | Function::GetTcw => self.place(function, at)?,
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

    /// Functions that inspect a live object.
    fn object(&mut self, function: Function, at: u32) -> Result<MachineVal<'p, 'a, H>, Exception> {
        Ok(match function {
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
            _ => Val::View(self.host.named(self.name(at)?).ok_or(Exception)?),
        })
    }

    /// The process, the node, the node of a value, or the trace control word.
    fn place(&mut self, function: Function, at: u32) -> Result<MachineVal<'p, 'a, H>, Exception> {
        let term = match function {
            Function::Me => self.host.me(),
            Function::Node => self.host.node(),
            Function::NodeOf => {
                let val = self.operand(at)?;
                self.node_of(val)?
            }
            _ => Term::Int(self.host.control_word().into()),
        };
        Ok(self.keep(term))
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
    // more than 60 lines: one short arm for each function
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

#[inline(always)]
pub(crate) fn truth<V>(is: bool) -> Val<'static, V> {
    Val::Atom(if is { "true" } else { "false" })
}

#[inline(always)]
pub(crate) fn is_type(of: Type, look: Look<'_>) -> bool {
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
