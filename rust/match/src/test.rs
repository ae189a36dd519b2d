//! Runs a specification over a term, as `erlang:match_spec_test/3` does.
#![forbid(unsafe_code)]

use crate::{
    compile::Program,
    host::{Host, Refused},
    lint::{Class, Context, Place, Problem, Severity},
    terms::{self, TermView},
    vm::{Message, Outcome},
};
use inviso_term::term::Term;

/// The meaning of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the arguments of a call: a list.
    Trace,
    /// As an object of a table.
    Table,
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// `true`, `false` or the message; for a table program the value of the last expression, or `false`.
    pub result: Term,
    /// Whether `return_trace` was requested.
    pub return_trace: bool,
    /// Whether `exception_trace` was requested.
    pub exception_trace: bool,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

/// Why a test has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untested {
    /// The specification is refused.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Spec(Vec<Problem>),
    /// The arguments of a call are not a list.
    #[error("the subject of a 'trace' test is a list of arguments")]
    Subject,
}

/// The surroundings of a test.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The running process.
    pub me: Term,
    /// The node's name.
    pub node: Term,
    /// The registered processes.
    pub names: Vec<(Box<str>, Term)>,
}

impl Default for Bench {
    fn default() -> Bench {
        Bench { me: Term::atom("undefined"), node: Term::atom("nonode@nohost"), names: Vec::new() }
    }
}

/// A [`Host`] over terms. It checks actions without doing them.
#[derive(Clone, Debug)]
pub struct TermHost<'a> {
    bench: &'a Bench,
    arguments: Vec<TermView<'a>>,
    /// The displayed terms.
    pub displayed: Vec<Term>,
}

impl<'a> TermHost<'a> {
    /// A host with the elements of a list as arguments, or with one subject.
    #[must_use]
    pub fn new(bench: &'a Bench, arguments: impl IntoIterator<Item = &'a Term>) -> TermHost<'a> {
        TermHost { bench, arguments: arguments.into_iter().map(TermView).collect(), displayed: Vec::new() }
    }
}

const FLAGS: &[&str] = &[
    "all",
    "send",
    "receive",
    "procs",
    "ports",
    "call",
    "arity",
    "return_to",
    "silent",
    "running",
    "exiting",
    "running_procs",
    "running_ports",
    "garbage_collection",
    "timestamp",
    "monotonic_timestamp",
    "strict_monotonic_timestamp",
    "cpu_timestamp",
    "set_on_spawn",
    "set_on_first_spawn",
    "set_on_link",
    "set_on_first_link",
];

fn is_flag(term: &Term) -> bool {
    matches!(term, Term::Atom(name) if FLAGS.contains(&&**name))
}

impl TermHost<'_> {
    fn is_process(&self, process: Option<&Term>) -> bool {
        match process {
            None | Some(Term::Pid(_)) => true,
            Some(Term::Atom(name)) => self.bench.names.iter().any(|known| known.0 == (**name).into()),
            Some(_) => false,
        }
    }
}

impl<'a> Host<'a> for TermHost<'a> {
    type View = TermView<'a>;

    fn count(&self) -> usize {
        self.arguments.len()
    }

    fn argument(&self, n: usize) -> Option<TermView<'a>> {
        self.arguments.get(n).copied()
    }

    fn named(&self, _: &str) -> Option<TermView<'a>> {
        None
    }

    fn me(&self) -> Term {
        self.bench.me.clone()
    }

    fn node(&self) -> Term {
        self.bench.node.clone()
    }

    fn caller(&mut self) -> Term {
        Term::atom("undefined")
    }

    fn caller_line(&mut self) -> Term {
        Term::atom("undefined")
    }

    fn current_stacktrace(&mut self, _: Option<usize>) -> Term {
        Term::List(Vec::new())
    }

    fn display(&mut self, term: &Term) {
        self.displayed.push(term.clone());
    }

    fn process_dump(&mut self) -> Term {
        Term::Bytes([].into())
    }

    fn control_word(&mut self) -> u64 {
        0
    }

    fn set_control_word(&mut self, _: u64) -> u64 {
        0
    }

    fn silent(&mut self, _: bool) {}

    fn switch(&mut self, process: Option<&Term>, flag: &Term, _: bool) -> Result<(), Refused> {
        if self.is_process(process) && is_flag(flag) {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    fn trace(&mut self, process: Option<&Term>, disable: &Term, enable: &Term) -> Result<bool, Refused> {
        let flags = |term: &Term| match term {
            Term::List(flags) => flags.iter().all(is_flag),
            _ => false,
        };
        if self.is_process(process) && flags(disable) && flags(enable) {
            Ok(false)
        } else {
            Err(Refused)
        }
    }

    fn is_seq_trace(&mut self) -> bool {
        false
    }

    fn seq_token(&mut self) -> Term {
        Term::List(Vec::new())
    }

    /// Sets nothing. Answers the present value.
    fn set_seq_token(&mut self, component: &Term, _: &Term) -> Result<Term, Refused> {
        let Term::Atom(name) = component else { return Err(Refused) };
        match &**name {
            "label" | "serial" => Ok(Term::List(Vec::new())),
            "send" | "receive" | "print" | "timestamp" | "monotonic_timestamp" | "strict_monotonic_timestamp" => {
                Ok(Term::Tuple(vec![component.clone(), Term::atom("false")]))
            }
            _ => Err(Refused),
        }
    }
}

/// Runs a specification over a subject, in a process without a name.
///
/// # Errors
/// [`Untested`].
pub fn test(subject: &Term, spec: &Term, mode: Mode) -> Result<Tested, Untested> {
    test_at(&Bench::default(), subject, spec, mode)
}

/// Runs a specification over a subject.
///
/// # Errors
/// [`Untested`].
pub fn test_at(bench: &Bench, subject: &Term, spec: &Term, mode: Mode) -> Result<Tested, Untested> {
    // the arguments are a list; its tail is ignored
    let arguments: Vec<&Term> = match (mode, subject) {
        (Mode::Table, _) => vec![subject],
        (Mode::Trace, Term::List(_) | Term::ImproperList(..)) => {
            (0..).map_while(|n| terms::element(subject, n)).collect()
        }
        (Mode::Trace, _) => return Err(Untested::Subject),
    };
    if matches!(spec, Term::List(clauses) if clauses.is_empty()) {
        let text = "a match specification is a list of at least one clause (head, guards, body)".to_string();
        let place = Place::Clause;
        let problem = Problem { severity: Severity::Error, class: Class::NotAList, text, clause: None, place };
        return Err(Untested::Spec(vec![problem]));
    }
    let context = if mode == Mode::Table { Context::Table } else { Context::Call };
    let program = Program::compile(spec, context).map_err(Untested::Spec)?;
    let mut host = TermHost::new(bench, arguments);
    let warnings = Vec::new();
    Ok(match program.run(&mut host) {
        Outcome::NoMatch => {
            Tested { result: Term::atom("false"), return_trace: false, exception_trace: false, warnings }
        }
        Outcome::Match { return_trace, exception_trace, message } => {
            let result = match message {
                Message::Plain => Term::atom("true"),
                Message::Suppressed => Term::atom("false"),
                Message::Value(value) => value.to_term(),
            };
            Tested { result, return_trace, exception_trace, warnings }
        }
    })
}
