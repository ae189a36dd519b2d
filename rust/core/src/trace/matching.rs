//! A match specification at a trace point: its subject, its actions and its decision.
#![forbid(unsafe_code)]

use crate::{
    record::identity::Kind,
    state::{
        flags::Flags,
        node::Node,
        session::{Capture, Session, Switched},
        tracee::Tracee,
        tracer::identity,
    },
};
use inviso_match::{host::Refused, terms::TermView, Host, Message, Outcome, Program, Value, View};
use inviso_term::{
    etf::{self, Encoder, Full},
    term::Term,
};
use std::{io::Write, sync::Arc};

/// The subject of a match specification: a call, or a message. Each method runs only when it is needed.
pub trait Subject {
    /// A value, as a match specification sees it.
    type View<'a>: View<'a>
    where
        Self: 'a;

    /// Number of arguments.
    fn count(&self) -> usize;
    /// The argument at `n`, in the order of the signature; `None` if it is missing or unknown.
    fn argument(&self, n: usize) -> Option<Self::View<'_>>;
    /// The argument of the parameter `name`; `None` if there is no such parameter, or if names are unknown.
    fn named(&self, _name: &str) -> Option<Self::View<'_>> {
        None
    }
    /// Writes a snapshot of a value.
    ///
    /// # Errors
    /// [`Full`].
    fn write(&self, view: Self::View<'_>, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full>;
    /// The caller, `{M, F, A}` or with its line `{M, F, A, {File, Line}}`; `undefined` if there is no caller.
    fn caller_term(&self, _line: bool) -> Term {
        Term::atom("undefined")
    }
    /// The callers, innermost first and `depth` at most: `[{M, F, A, [{file, File}, {line, Line}]}]`.
    fn stacktrace(&self, _depth: usize) -> Term {
        Term::List(Vec::new())
    }
    /// A description of the process that runs, for people: a binary.
    fn describe(&self, current: &Tracee) -> Term {
        Term::str(&headline(current))
    }
    /// The node's name.
    fn node_name(&self) -> Term {
        Term::atom("nonode@nohost")
    }
}

/// The trace point at which a program runs.
struct TracePoint<'t, 'a, A> {
    node: &'t Node,
    current: &'t Tracee,
    session: &'t Session,
    call: &'a A,
    dumps: bool,
}

/// The decision of a program about a call that it matches.
#[derive(Clone, Copy)]
pub(crate) struct Decision {
    /// Whether return_from is wanted.
    pub returns: bool,
    /// Whether exception_from is wanted.
    pub raises: bool,
    /// How the message is sent.
    pub message: Disclosure,
    /// Whether a dump is wanted.
    pub dumps: bool,
}

impl Decision {
    /// Asks for a dump, after the message, so that the dump contains it.
    #[inline(always)]
    pub fn end(self, session: &Session) {
        if self.dumps {
            session.ask_dump();
        }
    }
}

/// How a message is sent.
#[derive(Clone, Copy)]
pub(crate) enum Disclosure {
    /// Unchanged.
    Plain,
    /// Not at all.
    Suppressed,
    /// With one more term, of this many bytes.
    Extra(usize),
}

/// Runs a program at a call of the process `current`; `None` if it does not match. The term that it adds to the message goes into
/// `extra`.
#[inline(always)]
pub(crate) fn decide<A: Subject>(
    node: &Node, current: &Tracee, session: &Session, program: &Program, call: &A, extra: &mut Vec<u8>,
) -> Option<Decision> {
    let mut point = TracePoint { node, current, session, call, dumps: false };
    match program.run(&mut point) {
        Outcome::NoMatch => None,
        Outcome::Match { return_trace, exception_trace, message } => {
            let message = match message {
                Message::Plain => Disclosure::Plain,
                Message::Suppressed => Disclosure::Suppressed,
                Message::Value(value) => Disclosure::Extra(write(&value, call, &session.options.capture, extra)),
            };
            Some(Decision {
                returns: return_trace || exception_trace,
                raises: exception_trace,
                message,
                dumps: point.dumps,
            })
        }
    }
}

/// The first line of a description of the process or port that runs.
#[must_use]
pub fn headline(current: &Tracee) -> String {
    let what = if current.kind == Kind::Port { "port" } else { "proc" };
    format!("={what}:{}\n", identity(current.pid))
}

/// Writes the term that a program adds to the message; answers its length.
#[inline(never)]
fn write<'a, A: Subject>(value: &Value<'_, A::View<'a>>, call: &'a A, capture: &Capture, extra: &mut Vec<u8>) -> usize {
    extra.resize(extra.len().max(capture.total), 0);
    let mut out = Encoder::new(&mut extra[..capture.total]);
    if value.write(&mut out, &mut |view, out: &mut Encoder<'_>| call.write(view, out, capture)).is_err() {
        out.truncate(0);
        let _ = out.cut("message");
    }
    out.len()
}

/// An exception as a program sees it: its class and value.
struct Exception(Vec<Term>);

impl Subject for Exception {
    type View<'a> = TermView<'a>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn argument(&self, n: usize) -> Option<TermView<'_>> {
        self.0.get(n).map(TermView)
    }

    fn write(&self, view: TermView<'_>, out: &mut Encoder<'_>, _capture: &Capture) -> Result<(), Full> {
        out.term(view.0)
    }
}

/// Whether a program takes an exception; `pair` has its class and value.
#[cold]
pub(crate) fn takes_exception(
    node: &Node, current: &Tracee, session: &Session, program: &Program, pair: &[u8],
) -> bool {
    let Ok(Term::Tuple(parts)) = etf::decode(pair) else { return false };
    decide(node, current, session, program, &Exception(parts), &mut Vec::new()).is_some()
}

impl<A> TracePoint<'_, '_, A> {
    /// The process or port that an action names, by its id or its name.
    fn process(&self, process: &Term) -> Result<Arc<Tracee>, Refused> {
        let found = match process {
            Term::Pid(pid) if pid.is_own() => self.node.tracee(pid.id),
            Term::Port(port) if port.is_own() => self.node.tracee(port.id << 2 | Kind::Port as u64),
            Term::Atom(name) => self.node.whereis(name),
            Term::Str(name) => self.node.whereis(name),
            _ => None,
        };
        found.filter(|tracee| tracee.is_alive()).ok_or(Refused)
    }

    /// The session whose flags actions switch. If it ends now, it waits for this section before it clears its flags.
    fn switched(&self) -> Option<&Session> {
        match &self.session.options.switched {
            None => Some(self.session),
            Some(Switched(other)) => other.is_alive().then_some(other),
        }
    }

    /// Switches flags; answers whether that changed any. Flags of another session change only in processes that it traces already,
    /// unless its tracer is named.
    fn change(&self, process: Option<&Term>, off: Flags, on: Flags, is_named: bool) -> Result<bool, Refused> {
        let other = process.map(|process| self.process(process)).transpose()?;
        let tracee = other.as_deref().unwrap_or(self.current);
        let Some(session) = self.switched().filter(|session| session.has_tracer()) else { return Ok(false) };
        let before = tracee.flags(session.index);
        if session.id != self.session.id && before == Flags::NONE && !is_named {
            return Ok(false);
        }
        if off != Flags::NONE {
            tracee.change(session.index, false, off);
        }
        if on != Flags::NONE {
            tracee.change(session.index, true, on);
        }
        Ok(before != tracee.flags(session.index))
    }

    /// The flags to be switched on, and whether the session's tracer is named among them: `{tracer, Id}`.
    fn enabled(&self, term: &Term) -> Result<(Flags, bool), Refused> {
        let Term::List(items) = term else { return Err(Refused) };
        let mut found = (Flags::NONE, false);
        for item in items {
            match item {
                Term::Tuple(pair) => found.1 |= self.is_tracer(pair)?,
                name => found.0 = found.0 | flag(name)?,
            }
        }
        Ok(found)
    }

    fn is_tracer(&self, pair: &[Term]) -> Result<bool, Refused> {
        let [word, Term::Int(id)] = pair else { return Err(Refused) };
        let is_it = self.switched().is_some_and(|session| u64::try_from(id) == Ok(session.id));
        let is_word = *word == Term::atom("tracer") || *word == Term::str("tracer");
        if is_word && is_it {
            Ok(true)
        } else {
            Err(Refused)
        }
    }
}

/// The flag of a name; flags of the whole node are refused.
fn flag(term: &Term) -> Result<Flags, Refused> {
    let name: &str = match term {
        Term::Atom(name) => name,
        Term::Str(name) => name,
        _ => return Err(Refused),
    };
    Flags::named(name).filter(|flag| *flag != Flags::CPU_TIMESTAMP).ok_or(Refused)
}

fn flags(term: &Term) -> Result<Flags, Refused> {
    let Term::List(names) = term else { return Err(Refused) };
    names.iter().try_fold(Flags::NONE, |all, name| Ok(all | flag(name)?))
}

impl<'a, A: Subject> Host<'a> for TracePoint<'_, 'a, A> {
    type View = A::View<'a>;

    #[inline(always)]
    fn count(&self) -> usize {
        self.call.count()
    }

    #[inline(always)]
    fn argument(&self, n: usize) -> Option<A::View<'a>> {
        self.call.argument(n)
    }

    fn named(&self, name: &str) -> Option<A::View<'a>> {
        self.call.named(name)
    }

    fn me(&self) -> Term {
        identity(self.current.pid)
    }

    fn node(&self) -> Term {
        self.call.node_name()
    }

    fn caller(&mut self) -> Term {
        self.call.caller_term(false)
    }

    fn caller_line(&mut self) -> Term {
        self.call.caller_term(true)
    }

    fn current_stacktrace(&mut self, depth: Option<usize>) -> Term {
        self.call.stacktrace(depth.unwrap_or(STACK))
    }

    fn display(&mut self, term: &Term) {
        let _ = writeln!(std::io::stderr().lock(), "{term}");
    }

    fn process_dump(&mut self) -> Term {
        self.call.describe(self.current)
    }

    fn dump(&mut self) {
        self.dumps = true;
    }

    fn control_word(&mut self) -> u64 {
        self.node.control_word().into()
    }

    fn set_control_word(&mut self, word: u64) -> u64 {
        self.node.set_control_word(word as u32).into()
    }

    fn silent(&mut self, on: bool) {
        if let Some(session) = self.switched() {
            self.current.silence(session.index, on);
        }
    }

    fn switch(&mut self, process: Option<&Term>, name: &Term, on: bool) -> Result<(), Refused> {
        let flag = flag(name)?;
        let (off, on) = if on { (Flags::NONE, flag) } else { (flag, Flags::NONE) };
        self.change(process, off, on, false).map(|_| ())
    }

    fn trace(&mut self, process: Option<&Term>, disable: &Term, enable: &Term) -> Result<bool, Refused> {
        let off = flags(disable)?;
        let (on, is_named) = self.enabled(enable)?;
        self.change(process, off, on, is_named)
    }

    fn is_seq_trace(&mut self) -> bool {
        self.node.seq_in_use() && self.node.seq_token(self.current).is_some()
    }

    fn seq_token(&mut self) -> Term {
        self.node.seq_token(self.current).map_or_else(|| Term::List(Vec::new()), |token| token.term())
    }

    fn set_seq_token(&mut self, component: &Term, value: &Term) -> Result<Term, Refused> {
        self.node.seq_set(self.current, component, value).ok_or(Refused)?;
        Ok(Term::atom("true"))
    }
}

/// Calls that `current_stacktrace` shows by default (OTP's `backtrace_depth`).
const STACK: usize = 8;
