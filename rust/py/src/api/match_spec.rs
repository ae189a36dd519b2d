//! `MatchProgram`: match specs from Python values, and back; running one on a subject.

use super::processes;
use crate::{
    convert::{
        errors,
        pid::Pid,
        terms,
        view::{looked_at, Kept, PyView},
    },
    state::start,
};
use inviso_core::host::{flags::Flags, node::Node};
use inviso_cpython::{interpreter::calling, object::held::Held};
use inviso_match::{host::Refused, Class, Context, Host, Message, Outcome, Problem, Program, Severity, View};
use inviso_term::{etf, term::Term};
use pyo3::{exceptions::PyTypeError, ffi, prelude::*, types::*};
use std::{cell::Cell, sync::Arc};

/// The deepest nesting of containers in a match spec.
const DEPTH: usize = 200;

/// The most terms in a match spec.
const TERMS: usize = 1 << 20;

/// The most terms in a snapshot.
const SNAPSHOT_TERMS: usize = 1 << 26;

/// A match spec, checked and compiled.
#[pyclass(frozen, name = "MatchProgram", module = "inviso._native.match_spec")]
pub struct MatchProgram {
    /// For the core.
    pub program: Arc<Program>,
}

/// Result, flags, problems.
type Tested = (Option<Py<PyAny>>, Vec<&'static str>, Problems);

/// A problem of a spec: `(severity, class, text)`.
type Problems = Vec<(String, String, String)>;

fn context(name: &str) -> PyResult<Context> {
    Ok(match name {
        "call" => Context::Call,
        "send" => Context::Send,
        "receive" => Context::Receive,
        "table" => Context::Table,
        _ => return Err(PyTypeError::new_err("context")),
    })
}

/// Checks and compiles a match spec for calls, sends, receives or tables. Returns the program, or the problems of the
/// spec.
///
/// # Errors
/// TypeError, naming the object, for an object that is not a term; `LimitReached` if the spec is nested too deep.
#[pyfunction]
pub fn compile(spec: &Bound<'_, PyAny>, context: &str) -> PyResult<(Option<MatchProgram>, Problems)> {
    let term = term_of(spec)?;
    match Program::compile(&term, self::context(context)?) {
        Ok(program) => Ok((Some(MatchProgram { program: Arc::new(program) }), Vec::new())),
        Err(problems) => Ok((None, problems.iter().map(row).collect())),
    }
}

#[pymethods]
impl MatchProgram {
    /// The spec as it was given, as new objects.
    #[getter]
    fn spec(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        object_of(py, self.program.spec())
    }

    /// Whether it may switch trace flags of processes.
    #[getter]
    fn switches(&self) -> bool {
        self.program.uses().switches
    }
}

/// Checks a match spec and runs it on a subject, which is a list of arguments (`trace`) or any value (`table`), without
/// copying it. Returns `(result, flags, problems)`; the problems are those of [`compile`]. If one of them is an
/// error, there is no result.
///
/// # Errors
/// As [`compile`]; TypeError if the arguments are not a list.
#[pyfunction]
pub fn test(py: Python<'_>, subject: &Bound<'_, PyAny>, spec: &Bound<'_, PyAny>, table: bool) -> PyResult<Tested> {
    let term = term_of(spec)?;
    if matches!(&term, Term::List(clauses) if clauses.is_empty()) {
        let text = "a match specification is a list of at least one clause (head, guards, body)";
        return Ok((None, Vec::new(), vec![("error".into(), Class::NotAList.name().into(), text.into())]));
    }
    let program = match Program::compile(&term, if table { Context::Table } else { Context::Call }) {
        Ok(program) => program,
        Err(problems) => return Ok((None, Vec::new(), problems.iter().map(row).collect())),
    };
    let arguments: Vec<Bound<'_, PyAny>> =
        if table { vec![subject.clone()] } else { subject.cast::<PyList>()?.iter().collect() };
    let kept = Kept::default();
    let mut bench = Bench { node: start::host(py)?.node.clone(), arguments: &arguments, kept: &kept };
    let mut flags = Vec::new();
    let no = || Term::atom("false");
    let result = match program.run(&mut bench) {
        Outcome::NoMatch => no(),
        Outcome::Match { return_trace, exception_trace, message } => {
            flags.extend(exception_trace.then_some("exception_trace"));
            flags.extend(return_trace.then_some("return_trace"));
            match message {
                Message::Plain => Term::atom("true"),
                Message::Suppressed => no(),
                Message::Value(value) => value.to_term(),
            }
        }
    };
    Ok((Some(object_of(py, &result)?), flags, Vec::new()))
}

fn row(problem: &Problem) -> (String, String, String) {
    let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
    (severity.to_owned(), problem.class.name().to_owned(), problem.to_string())
}

/// The term of a Python value. It is read by its layout, so that none of its own code runs.
///
/// # Errors
/// TypeError for an object that is not a term; `LimitReached` for one that is nested too deep, or too large.
pub fn term_of(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    Reader { left: Cell::new(TERMS), snapshots: false }.term(object, DEPTH)
}

/// As [`term_of`], with the objects that snapshots leave in place of others.
///
/// # Errors
/// As [`term_of`].
pub fn snapshot_of(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    snapshot_to(object, DEPTH)
}

/// As [`snapshot_of`], with a limit of its own for nesting.
///
/// # Errors
/// As [`term_of`].
pub fn snapshot_to(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Term> {
    Reader { left: Cell::new(SNAPSHOT_TERMS), snapshots: true }.term(object, depth)
}

/// Makes one term.
struct Reader {
    /// How many more terms it may have.
    left: Cell<usize>,
    /// Whether the objects that a snapshot leaves in place of others are terms.
    snapshots: bool,
}

impl Reader {
    fn term(&self, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Term> {
        let py = object.py();
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(errors::raise(inviso_core::host::error::Error::Limit("too large")));
        };
        self.left.set(left);
        if object.is_none() {
            return Ok(Term::atom("undefined"));
        }
        if let Ok(truth) = object.cast::<PyBool>() {
            return Ok(Term::atom(if truth.is_true() { "true" } else { "false" }));
        }
        if let Ok(text) = object.cast::<PyString>() {
            if object.get_type().is(terms::classes(py)?.atom.bind(py)) {
                return Ok(Term::atom(&text.to_string_lossy()));
            }
            return match text.to_str() {
                Ok(text) => Ok(Term::str(text)),
                Err(_) => with_surrogates(text),
            };
        }
        if object.is_instance_of::<PyInt>() {
            return Ok(Term::Int(looked_at(object, |view| Ok(view.big()))?));
        }
        if let Ok(number) = object.cast::<PyFloat>() {
            return Ok(Term::Float(number.value()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Term::Bytes(bytes.as_bytes().into()));
        }
        if let Ok(pid) = object.cast::<Pid>() {
            let pid = pid.get();
            return Ok(Term::Pid(pid.identifier()));
        }
        let Some(inner) = depth.checked_sub(1) else {
            return Err(errors::raise(inviso_core::host::error::Error::Limit("nested too deep")));
        };
        self.container(object, inner)
    }

    /// The term of an object that may contain others, which may nest `inner` deep.
    fn container(&self, object: &Bound<'_, PyAny>, inner: usize) -> PyResult<Term> {
        let py = object.py();
        let all = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| -> PyResult<Vec<Term>> {
            items.map(|item| self.term(&item, inner)).collect()
        };
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return Ok(Term::Tuple(all(&mut tuple.iter())?));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Term::List(all(&mut list.iter())?));
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                Ok((self.term(&key, inner)?, self.term(&value, inner)?))
            };
            return Ok(Term::Map(dict.iter().map(pair).collect::<PyResult<_>>()?));
        }
        if object.cast::<PySet>().is_ok() || object.cast::<PyFrozenSet>().is_ok() {
            return Ok(Term::Set(all(&mut members(object)?.into_iter())?));
        }
        if let Some(term) = terms::classes(py)?.left_over(object).filter(|_| self.snapshots) {
            return Ok(term);
        }
        if let Some(who) = identity(object).filter(|_| !self.snapshots) {
            return self.term(who.bind(py), inner);
        }
        terms::classes(py)?.special_type(object, &mut |item| self.term(item, inner))
    }
}

/// The Pid or Port of a thread, task, queue, socket or subprocess.
fn identity(object: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
    let py = object.py();
    if let Some(pid) = processes::pid_of(py, object).ok().flatten() {
        return Some(Py::new(py, pid).ok()?.into_any());
    }
    crate::library::ports::functions::port_of(py, object).ok().flatten()
}

fn members<'py>(set: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    looked_at(set, |view| {
        let mut at = 0;
        // SAFETY: the viewed member stands, and is held from then on.
        let held = |member: PyView<'_>| unsafe { Bound::from_borrowed_ptr(set.py(), member.as_ptr()) };
        Ok(std::iter::from_fn(|| view.member(&mut at).map(held)).collect())
    })
}

/// A text with lone surrogates, as bytes.
fn with_surrogates(text: &Bound<'_, PyString>) -> PyResult<Term> {
    // SAFETY: a str; the codec and its error handler are the interpreter's own.
    let bytes = unsafe {
        let bytes = ffi::PyUnicode_AsEncodedString(text.as_ptr(), c"utf-8".as_ptr(), c"surrogatepass".as_ptr());
        Bound::from_owned_ptr_or_err(text.py(), bytes)?
    };
    Ok(Term::Bytes(bytes.cast::<PyBytes>()?.as_bytes().into()))
}

/// The Python value of a term.
///
/// # Errors
/// The error of making it.
pub fn object_of(py: Python<'_>, term: &Term) -> PyResult<Py<PyAny>> {
    terms::object(py, &etf::encode(term))
}

/// A trace point for running a program on a subject. It checks actions and switches nothing.
struct Bench<'a, 'py> {
    node: Arc<Node>,
    arguments: &'a [Bound<'py, PyAny>],
    kept: &'a Kept,
}

impl Bench<'_, '_> {
    fn check(&self, process: Option<&Term>, flags: &[&Term]) -> Result<(), Refused> {
        let known = |flag: &&Term| {
            matches!(flag, Term::Atom(name) if Flags::named(name).is_some())
                || matches!(flag, Term::Str(name) if Flags::named(name).is_some())
        };
        let lives = match process {
            None => true,
            Some(Term::Pid(pid)) => self.node.tracee(pid.id).is_some_and(|tracee| tracee.is_alive()),
            Some(Term::Atom(name)) => self.node.whereis(name).is_some(),
            Some(Term::Str(name)) => self.node.whereis(name).is_some(),
            Some(_) => false,
        };
        (lives && flags.iter().all(known)).then_some(()).ok_or(Refused)
    }
}

impl<'a> Host<'a> for Bench<'a, '_> {
    type View = PyView<'a>;

    fn count(&self) -> usize {
        self.arguments.len()
    }

    fn argument(&self, n: usize) -> Option<PyView<'a>> {
        // SAFETY: the list of arguments holds it as long as this runs; the thread is attached.
        unsafe { PyView::new(Held::borrowed(self.arguments.get(n)?.as_ptr()), self.kept) }
    }

    fn named(&self, _name: &str) -> Option<PyView<'a>> {
        None
    }

    fn me(&self) -> Term {
        calling::attach(processes::self_pid).map_or_else(|_| Term::atom("undefined"), |pid| Term::Pid(pid.identifier()))
    }

    fn node(&self) -> Term {
        Term::atom(&inviso_port::node::name())
    }

    fn caller(&mut self) -> Term {
        Term::atom("undefined")
    }

    fn caller_line(&mut self) -> Term {
        Term::atom("undefined")
    }

    fn current_stacktrace(&mut self, _depth: Option<usize>) -> Term {
        Term::List(Vec::new())
    }

    fn display(&mut self, _term: &Term) {}

    fn process_dump(&mut self) -> Term {
        Term::str("")
    }

    fn control_word(&mut self) -> u64 {
        self.node.control_word().into()
    }

    fn set_control_word(&mut self, _word: u64) -> u64 {
        self.node.control_word().into()
    }

    fn silent(&mut self, _on: bool) {}

    fn switch(&mut self, process: Option<&Term>, flag: &Term, _on: bool) -> Result<(), Refused> {
        self.check(process, &[flag])
    }

    fn trace(&mut self, process: Option<&Term>, disable: &Term, enable: &Term) -> Result<bool, Refused> {
        for flags in [disable, enable] {
            let Term::List(flags) = flags else { return Err(Refused) };
            self.check(process, &flags.iter().collect::<Vec<_>>())?;
        }
        Ok(false)
    }

    fn is_seq_trace(&mut self) -> bool {
        false
    }

    fn seq_token(&mut self) -> Term {
        Term::List(Vec::new())
    }

    /// The value of the component without a token (gold README 8).
    fn set_seq_token(&mut self, component: &Term, _: &Term) -> Result<Term, Refused> {
        const FLAGS: [&str; 6] =
            ["send", "receive", "print", "timestamp", "monotonic_timestamp", "strict_monotonic_timestamp"];
        let Term::Atom(name) = component else { return Err(Refused) };
        match &**name {
            "label" | "serial" => Ok(Term::List(Vec::new())),
            name if FLAGS.contains(&name) => Ok(Term::Tuple(vec![component.clone(), Term::atom("false")])),
            _ => Err(Refused),
        }
    }
}

/// The trace control word.
#[pyfunction]
pub fn control_word(py: Python<'_>) -> PyResult<u32> {
    Ok(start::host(py)?.node.control_word())
}

/// Sets the trace control word; returns the old one.
#[pyfunction]
pub fn set_control_word(py: Python<'_>, value: u32) -> PyResult<u32> {
    Ok(start::host(py)?.node.set_control_word(value))
}
