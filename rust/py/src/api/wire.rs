//! Terms and tokens that go to other nodes, or come from there.
//!
//! Within a node a process is a number. Outside, the number has its node's name and creation beside it, in terms as in
//! Erlang's own. A returning identifier gets its number again. Bytes from outside are read with limits, and nothing in
//! them is trusted.
//!
//! # Roles
//! Attached threads send and receive.
//!
//! # States
//! A sending is open until it is sent or taken back, once.
//!
//! # Orderings
//! The mutex lets one caller take the sending.
//!
//! # Checked by
//! `tests/python/test_seq_nodes.py`, `tests/python/test_etf.py`.

use super::{match_spec, running::as_process, seq};
use crate::{convert::terms, state::thread::ThreadState};
use inviso_core::host::{
    messages::About,
    node::Node,
    seq::{self as tokens, flags, Carried, Sending, Token, END},
    sync::Unpoisoned,
    tracee::Kind,
};
use inviso_port::origin::Origin;
use inviso_term::{
    etf::{self, Decoder, Limits},
    term::{Identifier, Term},
};
use num_bigint::BigInt;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use std::sync::{Arc, Mutex};

/// The tag of the message that the system tracer gets for headers: `{headers, Carrier}`.
const MESSAGE: &str = "headers";

/// The deepest nesting in a token from outside.
const DEPTH: usize = 64;

/// Maps the parts of a term that aren't made of terms.
fn mapped(term: Term, leaf: &mut impl FnMut(Term) -> Option<Term>) -> Option<Term> {
    let mut all = |terms: Vec<Term>| terms.into_iter().map(|term| mapped(term, leaf)).collect::<Option<Vec<_>>>();
    Some(match term {
        Term::Tuple(elements) => Term::Tuple(all(elements)?),
        Term::List(elements) => Term::List(all(elements)?),
        Term::Set(elements) => Term::Set(all(elements)?),
        Term::ImproperList(elements, tail) => Term::ImproperList(all(elements)?, Box::new(mapped(*tail, leaf)?)),
        Term::Map(pairs) => {
            let pair = |(key, value)| Some((mapped(key, leaf)?, mapped(value, leaf)?));
            Term::Map(pairs.into_iter().map(pair).collect::<Option<_>>()?)
        }
        Term::Record(mut record) => {
            let field = |(name, value)| Some((name, mapped(value, leaf)?));
            record.fields = record.fields.into_iter().map(field).collect::<Option<_>>()?;
            Term::Record(record)
        }
        other => leaf(other)?,
    })
}

fn identified(term: Term, with: impl FnOnce(Identifier) -> Option<Identifier>) -> Option<Term> {
    Some(match term {
        Term::Pid(of) => Term::Pid(with(of)?),
        Term::Port(of) => Term::Port(with(of)?),
        Term::Ref(of) => Term::Ref(with(of)?),
        other => other,
    })
}

/// The term as other nodes read it: identifiers of this node get its name.
pub fn outward(term: Term) -> Term {
    let (name, creation) = (Arc::<str>::from(inviso_port::node::name()), Origin::own().creation() as u32);
    let named = |of: Identifier| Some(if of.is_own() { Identifier { node: name.clone(), creation, ..of } } else { of });
    mapped(term, &mut |leaf| identified(leaf, named)).unwrap_or_else(|| Term::atom("undefined"))
}

/// The term as this node keeps it; `None` if an identifier in it has no node.
fn inward(term: Term, atom: impl Fn(Arc<str>) -> Term) -> Option<Term> {
    let own = |of: Identifier| match of.creation {
        0 => None,
        creation if Origin::is_own(creation) => Some(Identifier { rest: of.rest, ..Identifier::own(of.id) }),
        _ => Some(of),
    };
    mapped(term, &mut |leaf| match leaf {
        Term::Atom(name) => Some(atom(name)),
        other => identified(other, own),
    })
}

/// Reads one term and nothing else.
fn read(bytes: &[u8], limits: Limits) -> Result<Term, String> {
    let mut decoder = Decoder::new(bytes, limits).map_err(|e| e.to_string())?;
    let term = decoder.term().map_err(|e| e.to_string())?;
    if decoder.rest().is_empty() {
        Ok(term)
    } else {
        Err(etf::DecodeError::Trailing.to_string())
    }
}

/// A term in the external term format, for any node.
#[pyfunction]
pub fn term_to_binary<'py>(py: Python<'py>, term: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &etf::encode_versioned(&outward(match_spec::snapshot_of(term)?))))
}

/// The term of bytes in the external term format; ValueError if they are not a term, too many, or nested too deep.
#[pyfunction]
pub fn binary_to_term(py: Python<'_>, binary: &[u8], depth: usize, size: usize) -> PyResult<Py<PyAny>> {
    let term = read(binary, Limits { depth, bytes: size, inflated: size }).map_err(PyValueError::new_err)?;
    let term = inward(term, Term::Atom).ok_or_else(|| PyValueError::new_err("an identifier of no node"))?;
    terms::object(py, &etf::encode(&term))
}

/// A message that is being sent to another node, with the running process's token.
#[pyclass(frozen, module = "inviso._native.seq")]
pub struct SeqSending {
    sending: Mutex<Option<Sending>>,
    to: u64,
    message: Vec<u8>,
    /// The token, for any node.
    #[pyo3(get)]
    token: Py<PyBytes>,
}

impl SeqSending {
    /// The token, for any node.
    pub fn token(&self, py: Python<'_>) -> Py<PyBytes> {
        self.token.clone_ref(py)
    }

    fn take(&self) -> Option<Sending> {
        self.sending.lock().unpoisoned().take()
    }

    /// The running process begins to send; `None` if it has no token. `packed` makes the bytes that go along.
    pub fn begin(
        py: Python<'_>, state: &ThreadState, to: u64, message: Vec<u8>,
        packed: impl FnOnce(&Carried) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let sending = state.host.node.seq_begin_send(state.thread.current())?;
        let token = PyBytes::new(py, &packed(&sending.carried())?).unbind();
        state.host.node.seq_go_abroad();
        Some(Self { sending: Mutex::new(Some(sending)), to, message, token })
    }
}

#[pymethods]
impl SeqSending {
    /// The message is sent.
    fn sent(&self, py: Python<'_>) -> PyResult<()> {
        let Some(sending) = self.take() else { return Ok(()) };
        as_process(py, |_, state| {
            let write = |out: &mut etf::Encoder<'_>, _: &_| out.raw(&self.message);
            state.host.node.seq_sent(&mut state.thread, About::Current, self.to, sending, write);
            Ok(())
        })
    }

    /// The message is not sent.
    fn take_back(&self, py: Python<'_>) -> PyResult<()> {
        let Some(sending) = self.take() else { return Ok(()) };
        as_process(py, |_, state| {
            state.host.node.seq_take_back(state.thread.current(), sending);
            Ok(())
        })
    }
}

/// The running process sends headers, with its token, to a carrier that is not known yet; None if it has no token.
#[pyfunction]
pub fn inject(py: Python<'_>) -> PyResult<Option<SeqSending>> {
    as_process(py, |py, state| {
        let node = &state.host.node;
        if !node.seq_may_have(state.thread.current()) {
            return Ok(None);
        }
        let carrier = node.unused_number() << 2 | Kind::Queue as u64;
        let message = etf::encode(&message(Term::Pid(Identifier::own(carrier))));
        Ok(SeqSending::begin(py, state, carrier, message, |carried| packed(carried, carrier, false)))
    })
}

/// The token that goes to another node by this carrier, a queue or its substitute; `None` for a message without a
/// token. It has its era if it may come back to this node.
pub fn packed(carried: &Carried, carrier: u64, with_era: bool) -> Option<Vec<u8>> {
    let Carried::Token(token, era) = carried else { return None };
    let mut parts = match token.term() {
        Term::Tuple(parts) => parts,
        other => vec![other],
    };
    parts.push(Term::Pid(Identifier::own(carrier)));
    if with_era {
        parts.push(Term::Int((*era).into()));
    }
    Some(etf::encode(&outward(Term::Tuple(parts))))
}

/// The message that asks a child process to start, and that the child receives: `{spawn_request, Carrier}`.
pub fn spawn_request(carrier: u64) -> Vec<u8> {
    spawn_request_of(Term::Pid(Identifier::own(carrier)))
}

/// The same message with the carrier that has come from the parent.
pub fn spawn_request_of(carrier: Term) -> Vec<u8> {
    etf::encode(&Term::Tuple(vec![Term::atom("spawn_request"), carrier]))
}

/// A token that was put aside. A reset empties it.
#[pyclass(frozen, module = "inviso._native.seq")]
pub struct SeqAside(Carried);

/// Puts a token that was put aside back, or with None an empty one; returns the old token. Counters stay.
#[pyfunction]
pub fn exchange(py: Python<'_>, aside: Option<&SeqAside>) -> PyResult<Option<SeqAside>> {
    let carried = aside.map_or(Carried::Empty, |aside| aside.0.clone());
    as_process(py, |_, state| match state.host.node.seq_exchange(state.thread.current(), carried) {
        token @ Carried::Token(..) => Ok(Some(SeqAside(token))),
        Carried::Empty | Carried::Nothing => Ok(None),
    })
}

fn message(carrier: Term) -> Term {
    Term::Tuple(vec![Term::atom(MESSAGE), carrier])
}

/// The running process receives headers with the token of [`seq_inject`] in another node, or with None, without a
/// token. False, without an effect, if the bytes are not a token.
#[pyfunction]
pub fn extract(py: Python<'_>, token: Option<&[u8]>) -> PyResult<bool> {
    let Some(bytes) = token else {
        seq::clear(py)?;
        return Ok(true);
    };
    let Some(arrived) = arrived(py, bytes)? else { return Ok(false) };
    let message = etf::encode(&message(arrived.carrier.clone()));
    let _in_use = seq::begin(py)?;
    as_process(py, |_, state| {
        let carried = arrived.carried(&state.host.node);
        state.host.node.seq_receive(&mut state.thread, About::Current, carried, |out, _| out.raw(&message));
        Ok(true)
    })
}

/// A token from outside.
pub struct TokenFromOutside {
    token: Token,
    /// The carrier that it came in.
    pub carrier: Term,
    /// Its era, if that is one of this node.
    era: Option<u64>,
}

impl TokenFromOutside {
    /// What the message carries. A token that was on its way in this node during a reset is empty.
    pub fn carried(self, node: &Node) -> Carried {
        match self.era {
            Some(era) => node.seq_returned(self.token, era),
            None => node.seq_arrived(self.token),
        }
    }
}

/// A token from outside; `None` if the bytes are not one.
pub fn arrived(py: Python<'_>, bytes: &[u8]) -> PyResult<Option<TokenFromOutside>> {
    let classes = terms::classes(py)?;
    // Atoms stay for ever, so bytes from outside can't make one.
    let atom = |name: Arc<str>| match &*name {
        "true" | "false" | "undefined" => Term::Atom(name),
        known if classes.has_atom(py, known) => Term::Atom(name),
        unknown => Term::str(unknown),
    };
    let term =
        read(bytes, Limits { depth: DEPTH, bytes: bytes.len(), inflated: 0 }).ok().and_then(|term| inward(term, atom));
    let Some(Term::Tuple(mut parts)) = term else { return Ok(None) };
    let era = if parts.len() > 6 { parts.pop() } else { None };
    let Ok([Term::Int(bits), label, Term::Int(serial), Term::Pid(from), Term::Int(previous), carrier]) =
        <[Term; 6]>::try_from(parts)
    else {
        return Ok(None);
    };
    let within = |n: BigInt| i64::try_from(n).ok().filter(|n| (0..END).contains(n));
    let bits = u32::try_from(bits).ok().filter(|bits| bits & !flags::ALL == 0);
    let (Some(bits), Some(serial), Some(previous)) = (bits, within(serial), within(previous)) else { return Ok(None) };
    let Term::Pid(by) = &carrier else { return Ok(None) };
    if !Kind::of(from.id).is_process() || Kind::of(by.id) != Kind::Queue {
        return Ok(None);
    }
    let era = match era {
        None => None,
        Some(Term::Int(era)) => u64::try_from(era).ok().filter(|_| by.is_own()),
        Some(_) => return Ok(None),
    };
    let Some(label) = tokens::label(label) else { return Ok(None) };
    let (from, away) = if from.is_own() { (from.id, None) } else { (0, Some(Arc::new(from))) };
    let token = Token { flags: bits, label, serial: (previous, serial), from, away };
    Ok(Some(TokenFromOutside { token, carrier, era }))
}
