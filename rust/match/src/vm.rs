//! Runs a program.
//!
//! No memory is allocated until a clause matches, with five exceptions: numbers of more than 64 bits, parts of text that is not
//! ASCII, requests of a guard to the host, comparisons of maps of more than sixteen pairs, and the registers of a program with
//! more than 64.
#![forbid(unsafe_code)]

use crate::{
    ast::Comparison,
    compare::holds,
    compile::Program,
    functions::{is_type, truth, Effects},
    host::Host,
    instructions::{Op, Pat, Src},
    lint::Context,
    machine::{Exception, Machine, MachineVal, Val},
    value::Value,
    view::{Look, View},
};
use inviso_term::term::Term;

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

impl<'p, 'a, 'h, H, R> Machine<'p, 'a, 'h, H, R>
where
    H: Host<'a>,
    R: AsRef<[Val<'p, H::View>]> + AsMut<[Val<'p, H::View>]>,
{
    // more than 60 lines: one short arm for each instruction
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
}

fn plain<V>() -> Outcome<'static, V> {
    Outcome::Match { return_trace: false, exception_trace: false, message: Message::Plain }
}
