//! Compiles clauses to a flat list of instructions.
//!
//! A program is for a register machine. Each expression has a register of its own, so the elements of a tuple are already in
//! their places: nothing is moved or allocated. Arguments and constants need no register, because an operand names them. Guards
//! become tests that jump to the next clause. Only other expressions are computed first.
#![forbid(unsafe_code)]

use crate::{
    ast::{Clause, Comparison, Expr, Function, Head, Pattern, Rest, Variable},
    instructions::{Op, Pat, Src},
    lint::{Class, Context, Place, Problem, Severity},
    parse,
};
use inviso_term::term::Term;

/// The largest number of registers of a program.
const MAX_REGISTERS: u32 = 1 << 20;

/// The possible effects and needs of a program, for a tracer to prepare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// It always matches, and requests nothing but `return_trace` and `exception_trace`.
    pub unconditional: bool,
    /// It needs the arguments or their number.
    pub arguments: bool,
    /// It may request `return_trace`.
    pub return_trace: bool,
    /// It may request `exception_trace`.
    pub exception_trace: bool,
    /// It may change or suppress the message.
    pub message: bool,
    /// It may request the caller, with or without the line.
    pub caller: bool,
    /// It may request the running calls.
    pub stacktrace: bool,
    /// It may change flags of processes.
    pub switches: bool,
    /// It may change silence.
    pub silent: bool,
    /// It may read the trace control word.
    pub reads_control_word: bool,
    /// It may set the trace control word.
    pub sets_control_word: bool,
    /// It may set the sequential trace token.
    pub sets_token: bool,
    /// It may request a description of the process, or display a term.
    pub reports: bool,
    /// It requests a parameter by name.
    pub named: bool,
}

/// A checked and compiled match specification.
#[derive(Clone, Debug)]
pub struct Program {
    spec: Term,
    context: Context,
    uses: Uses,
    pub(crate) ops: Box<[Op]>,
    pub(crate) operands: Box<[Src]>,
    pub(crate) constants: Box<[Term]>,
    pub(crate) patterns: Box<[Pat]>,
    pub(crate) registers: u32,
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Program>();
};

impl Program {
    /// Checks a specification and compiles it. For events, `[]` is a valid specification that always matches.
    ///
    /// # Errors
    /// All problems of the first clause that has any, in Erlang's order.
    pub fn compile(spec: &Term, context: Context) -> Result<Program, Vec<Problem>> {
        let clauses = parse::parse(spec, context)?;
        let is_empty = clauses.is_empty();
        if is_empty && context == Context::Table {
            let text = "a table program needs at least one clause".to_string();
            return Err(vec![error(Class::NotAList, text)]);
        }
        let mut compiler = Compiler {
            uses: Uses { unconditional: is_unconditional(&clauses), ..Uses::default() },
            ..Compiler::default()
        };
        for clause in &clauses {
            compiler.clause(clause, context);
        }
        if compiler.most >= MAX_REGISTERS {
            return Err(vec![error(Class::SystemLimit, "the match specification is too large; split it".to_string())]);
        }
        compiler.ops.push(if is_empty { Op::Done } else { Op::NoMatch });
        Ok(Program {
            spec: spec.clone(),
            context,
            uses: compiler.uses,
            ops: compiler.ops.into(),
            operands: compiler.operands.into(),
            constants: compiler.constants.into(),
            patterns: compiler.patterns.into(),
            registers: compiler.most,
        })
    }

    /// The original specification.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn spec(&self) -> &Term {
        &self.spec
    }

    /// The context that it was compiled for.
    #[must_use]
    pub fn context(&self) -> Context {
        self.context
    }

    /// Its possible effects and needs.
    #[must_use]
    pub fn uses(&self) -> Uses {
        self.uses
    }
}

fn error(class: Class, text: String) -> Problem {
    Problem { severity: Severity::Error, class, text, clause: None, place: Place::Clause }
}

fn is_unconditional(clauses: &[Clause]) -> bool {
    let [only] = clauses else { return clauses.is_empty() };
    let is_true = |guard: &Expr| matches!(guard, Expr::Const(Term::Atom(name)) if &**name == "true");
    matches!(&only.head, Head::Arguments(patterns, rest) if patterns.is_empty() && *rest != Rest::None)
        && only.guards.iter().all(is_true)
        && only.body.iter().all(|expr| match expr {
            Expr::Const(_) | Expr::Variable(_) | Expr::Whole | Expr::Bindings => true,
            Expr::Call(function, _) => matches!(function, Function::ReturnTrace | Function::ExceptionTrace),
            _ => false,
        })
}

#[derive(Default)]
struct Compiler {
    ops: Vec<Op>,
    operands: Vec<Src>,
    constants: Vec<Term>,
    patterns: Vec<Pat>,
    uses: Uses,
    next: u32,
    most: u32,
    /// The place of each variable, sorted by number.
    variables: Vec<(Variable, Option<Src>)>,
    whole: Option<Src>,
}

impl Compiler {
    fn clause(&mut self, clause: &Clause, context: Context) {
        self.next = 0;
        self.variables = clause.variables.iter().map(|variable| (*variable, None)).collect();
        let start = self.ops.len();
        self.ops.push(Op::Fail);
        self.head(&clause.head);
        for guard in &clause.guards {
            self.test(guard);
        }
        if !clause.body.is_empty() {
            self.ops.push(Op::Body);
        }
        let last = clause.body.len().saturating_sub(1);
        for (n, expr) in clause.body.iter().enumerate() {
            let is_result = context == Context::Table && n == last;
            if is_result || matches!(expr, Expr::Call(..)) || has_call(expr) {
                let src = self.value(expr);
                if is_result {
                    self.ops.push(Op::Result { src });
                }
            }
        }
        self.ops.push(Op::Done);
        self.most = self.most.max(self.next);
        let (least, most) = match &clause.head {
            Head::Arguments(patterns, Rest::None) => (patterns.len() as u32, patterns.len() as u32),
            Head::Arguments(patterns, _) => (patterns.len() as u32, u32::MAX),
            Head::Subject(_) => (0, u32::MAX),
        };
        self.ops[start] = Op::Clause { next: self.next_op(), least, most };
    }

    fn next_op(&self) -> u32 {
        self.ops.len() as u32
    }

    /// Allocates registers.
    fn take_registers(&mut self, n: usize) -> u32 {
        let at = self.next;
        self.next = self.next.saturating_add(n as u32);
        at
    }

    fn head(&mut self, head: &Head) {
        match head {
            Head::Subject(pattern) => {
                self.uses.arguments = true;
                self.whole = Some(Src::Arg(0));
                self.argument(0, pattern);
            }
            Head::Arguments(patterns, rest) => {
                self.whole = Some(Src::Args(0));
                let n = patterns.len() as u32;
                self.uses.arguments |= n > 0 || *rest == Rest::None;
                for (at, pattern) in patterns.iter().enumerate() {
                    self.argument(at as u32, pattern);
                }
                if let Rest::Variable(variable) = rest {
                    match self.variable(*variable) {
                        Some(seen) => {
                            self.ops.push(Op::TestCompare { with: Comparison::Same, a: Src::Args(n), b: seen })
                        }
                        None => self.bind(*variable, Src::Args(n)),
                    }
                }
            }
        }
    }

    fn variable(&self, variable: Variable) -> Option<Src> {
        let at = self.variables.binary_search_by_key(&variable, |known| known.0).ok()?;
        self.variables[at].1
    }

    fn bind(&mut self, variable: Variable, src: Src) {
        if let Ok(at) = self.variables.binary_search_by_key(&variable, |known| known.0) {
            self.variables[at].1 = Some(src);
        }
    }

    fn argument(&mut self, arg: u32, pattern: &Pattern) {
        match pattern {
            Pattern::Any => {}
            Pattern::Variable(variable) => match self.variable(*variable) {
                Some(seen) => self.ops.push(Op::TestCompare { with: Comparison::Same, a: Src::Arg(arg), b: seen }),
                None => self.bind(*variable, Src::Arg(arg)),
            },
            Pattern::Const(term) => match (term, small(term)) {
                (_, Some(value)) => self.ops.push(Op::IsInt { arg, value }),
                (Term::Atom(_), _) => {
                    let konst = self.constant(term);
                    self.ops.push(Op::IsAtom { arg, konst });
                }
                _ => self.matching(arg, pattern),
            },
            _ => self.matching(arg, pattern),
        }
    }

    fn matching(&mut self, arg: u32, pattern: &Pattern) {
        let at = self.patterns.len();
        self.patterns.push(Pat::Any);
        let made = self.pattern(pattern);
        self.patterns[at] = made;
        self.ops.push(Op::Match { arg, pattern: at as u32 });
    }

    /// Reserves places for the parts, and compiles them. Variables are bound in the order of matching.
    fn pattern(&mut self, pattern: &Pattern) -> Pat {
        match pattern {
            Pattern::Any => Pat::Any,
            Pattern::Variable(variable) => match self.variable(*variable) {
                Some(seen) => Pat::Same(seen),
                None => {
                    let register = self.take_registers(1);
                    self.bind(*variable, Src::Reg(register));
                    Pat::Bind(register)
                }
            },
            Pattern::Const(term) => match small(term) {
                Some(value) => Pat::Int(value),
                None => Pat::Const(self.constant(term)),
            },
            Pattern::Tuple(parts) => {
                let at = self.room(parts.len());
                self.parts(at, parts);
                Pat::Tuple { at: at as u32, len: parts.len() as u32 }
            }
            Pattern::List(parts, tail) => {
                let at = self.room(parts.len() + usize::from(tail.is_some()));
                self.parts(at, parts);
                if let Some(tail) = tail {
                    self.patterns[at + parts.len()] = self.pattern(tail);
                }
                Pat::List { at: at as u32, len: parts.len() as u32, has_tail: tail.is_some() }
            }
            Pattern::Map(pairs) => {
                let at = self.room(pairs.len() * 2);
                for (n, (key, value)) in pairs.iter().enumerate() {
                    self.patterns[at + n * 2] = Pat::Const(self.constant(key));
                    self.patterns[at + n * 2 + 1] = self.pattern(value);
                }
                Pat::Map { at: at as u32, len: pairs.len() as u32 }
            }
        }
    }

    fn room(&mut self, n: usize) -> usize {
        let at = self.patterns.len();
        self.patterns.resize(at + n, Pat::Any);
        at
    }

    fn parts(&mut self, at: usize, parts: &[Pattern]) {
        for (n, part) in parts.iter().enumerate() {
            self.patterns[at + n] = self.pattern(part);
        }
    }

    fn constant(&mut self, term: &Term) -> u32 {
        // names repeat often. Large constants are not compared with each other
        if let Term::Atom(_) = term {
            let recent = self.constants.iter().rev().take(16).position(|known| known == term);
            if let Some(back) = recent {
                return (self.constants.len() - 1 - back) as u32;
            }
        }
        self.constants.push(term.clone());
        (self.constants.len() - 1) as u32
    }

    /// Compiles a guard.
    fn test(&mut self, guard: &Expr) {
        match guard {
            Expr::Const(Term::Atom(name)) if &**name == "true" => {}
            Expr::Const(_) | Expr::Tuple(_) | Expr::List(..) | Expr::Map(_) | Expr::Bindings => self.ops.push(Op::Fail),
            Expr::Call(Function::Is(of), parts) => {
                let src = self.value(&parts[0]);
                self.ops.push(match src {
                    Src::Arg(arg) => Op::ArgType { of: *of, arg },
                    src => Op::TestType { of: *of, src },
                });
            }
            Expr::Call(Function::Compare(with), parts) => {
                let b = self.value(&parts[1]);
                let a = self.value(&parts[0]);
                self.ops.push(match (a, b) {
                    (Src::Arg(arg), Src::Int(value)) => Op::ArgInt { with: *with, arg, value },
                    (Src::Int(value), Src::Arg(arg)) => Op::ArgInt { with: swapped(*with), arg, value },
                    (src, Src::Int(value)) => Op::TestInt { with: *with, src, value },
                    (Src::Int(value), src) => Op::TestInt { with: swapped(*with), src, value },
                    (a, b) => Op::TestCompare { with: *with, a, b },
                });
            }
            // all must be true, and guards have no effects
            Expr::Call(Function::And | Function::AndAlso, parts) => parts.iter().for_each(|part| self.test(part)),
            other => {
                let src = self.value(other);
                self.ops.push(Op::TestTrue { src });
            }
        }
    }

    fn value(&mut self, expr: &Expr) -> Src {
        match expr {
            Expr::Const(term) => match small(term).and_then(|n| i32::try_from(n).ok()) {
                Some(n) => Src::Int(n),
                None => Src::Const(self.constant(term)),
            },
            Expr::Variable(variable) => {
                self.uses.arguments = true;
                // the parser has refused variables that are not in the head
                self.variable(*variable).unwrap_or(Src::Int(0))
            }
            Expr::Whole => {
                self.uses.arguments = true;
                self.whole.unwrap_or(Src::Int(0))
            }
            _ => {
                let to = self.take_registers(1);
                self.into(expr, to);
                Src::Reg(to)
            }
        }
    }

    fn into(&mut self, expr: &Expr, to: u32) {
        match expr {
            Expr::Const(_) | Expr::Variable(_) | Expr::Whole => {
                let src = self.value(expr);
                self.ops.push(Op::Move { to, src });
            }
            Expr::Bindings => {
                self.uses.arguments = true;
                let all: Vec<_> = self.variables.iter().filter_map(|known| known.1).collect();
                let at = self.take_registers(all.len());
                for (n, src) in (at..).zip(&all) {
                    self.ops.push(Op::Move { to: n, src: *src });
                }
                self.ops.push(Op::List { to, at, len: all.len() as u32 });
            }
            Expr::Tuple(parts) => {
                let at = self.backwards(parts);
                self.ops.push(Op::Tuple { to, at, len: parts.len() as u32 });
            }
            Expr::List(parts, tail) => {
                let at = self.take_registers(parts.len() + usize::from(tail.is_some()));
                for (n, part) in (at..).zip(parts) {
                    self.into(part, n);
                }
                let len = parts.len() as u32;
                match tail {
                    Some(tail) => {
                        self.into(tail, at + len);
                        self.ops.push(Op::Cons { to, at, len });
                    }
                    None => self.ops.push(Op::List { to, at, len }),
                }
            }
            Expr::Map(pairs) => {
                let at = self.take_registers(pairs.len() * 2);
                for (n, (_, value)) in pairs.iter().enumerate().rev() {
                    self.into(value, at + n as u32 * 2 + 1);
                }
                for (n, (key, _)) in pairs.iter().enumerate().rev() {
                    self.into(key, at + n as u32 * 2);
                }
                let distinct = pairs.len() < 2;
                self.ops.push(Op::Map { to, at, len: pairs.len() as u32, distinct });
            }
            Expr::Call(function, parts) => self.call(*function, parts, to),
        }
    }

    /// Compiles each part into a register of its own, the last one first.
    fn backwards(&mut self, parts: &[Expr]) -> u32 {
        let at = self.take_registers(parts.len());
        for (n, part) in parts.iter().enumerate().rev() {
            self.into(part, at + n as u32);
        }
        at
    }

    fn call(&mut self, function: Function, parts: &[Expr], to: u32) {
        match function {
            Function::And | Function::Or => {
                let at = self.backwards(parts);
                self.ops.push(Op::All { to, at, len: parts.len() as u32, or: function == Function::Or });
                return;
            }
            Function::AndAlso | Function::OrElse => return self.either(parts, to, function == Function::OrElse),
            _ => self.note(function),
        }
        // the binary of a part needs a register that stays
        let keep = if function == Function::BinaryPart { Some(self.take_registers(1)) } else { None };
        let mut operands = [Src::Int(0); 4];
        for (n, part) in parts.iter().enumerate().rev() {
            operands[n] = match (keep, n) {
                (Some(register), 0) => {
                    self.into(part, register);
                    Src::Reg(register)
                }
                _ => self.value(part),
            };
        }
        let at = self.operands.len() as u32;
        self.operands.extend_from_slice(&operands[..parts.len()]);
        // functions with a varying number of arguments get that number
        if matches!(
            function,
            Function::BinaryPart
                | Function::Stacktrace
                | Function::EnableTrace
                | Function::DisableTrace
                | Function::Trace
        ) {
            self.operands.insert(at as usize, Src::Int(parts.len() as i32));
        }
        self.ops.push(Op::Call { function, to, at });
    }

    fn either(&mut self, parts: &[Expr], to: u32, or: bool) {
        let Some((last, others)) = parts.split_last() else { return };
        let mut ends = Vec::with_capacity(others.len());
        for part in others {
            let src = self.value(part);
            ends.push(self.ops.len());
            self.ops.push(Op::Either { to, src, or, end: 0 });
        }
        self.into(last, to);
        let here = self.next_op();
        for at in ends {
            if let Op::Either { end, .. } = &mut self.ops[at] {
                *end = here;
            }
        }
    }

    fn note(&mut self, function: Function) {
        let uses = &mut self.uses;
        match function {
            Function::ReturnTrace => uses.return_trace = true,
            Function::ExceptionTrace => uses.exception_trace = true,
            Function::Message => uses.message = true,
            Function::Caller | Function::CallerLine => uses.caller = true,
            Function::Stacktrace => uses.stacktrace = true,
            Function::EnableTrace | Function::DisableTrace | Function::Trace => uses.switches = true,
            Function::Silent => uses.silent = true,
            Function::GetTcw => uses.reads_control_word = true,
            Function::SetTcw => uses.sets_control_word = true,
            Function::SetSeqToken => uses.sets_token = true,
            Function::Display | Function::ProcessDump | Function::Dump => uses.reports = true,
            Function::Arg => uses.named = true,
            _ => {}
        }
    }
}

fn has_call(expr: &Expr) -> bool {
    match expr {
        Expr::Call(..) => true,
        Expr::Tuple(parts) => parts.iter().any(has_call),
        Expr::List(parts, tail) => parts.iter().chain(tail.as_deref()).any(has_call),
        Expr::Map(pairs) => pairs.iter().any(|(k, v)| has_call(k) || has_call(v)),
        Expr::Const(_) | Expr::Variable(_) | Expr::Whole | Expr::Bindings => false,
    }
}

fn small(term: &Term) -> Option<i64> {
    match term {
        Term::Int(n) => i64::try_from(n).ok(),
        _ => None,
    }
}

/// The comparison with its sides exchanged.
fn swapped(with: Comparison) -> Comparison {
    match with {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}
