//! Sequential tracing for Python: the running process's token, printing, the system tracer.
//!
//! # Roles
//! Attached threads call the functions.
//!
//! # States
//! `DELIVERY` is set while a system tracer is set.
//!
//! # Orderings
//! The mutex orders `DELIVERY`. It is never locked while Python code runs.
//!
//! # Checked by
//! `tests/python/test_seq_trace.py`.

use super::{
    running::as_process,
    trace_port::LogPort,
    tracer::{make, ModuleParts},
};
use crate::{
    convert::{errors, pid::Pid, terms},
    host::{instruments, tokens_idle},
    instrument::{message_view, tokens},
    state::{mailbox::Delivery, process, start},
};
use inviso_core::host::{
    error::Error,
    seq::{self, Label, Token, TokenGuard, LABEL},
    session::{Options, Session, MODULE},
    sync::Unpoisoned,
    tracer::Answer,
};
use inviso_cpython::{capture, interpreter::calling};
use inviso_term::{etf, term::Term};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::sync::{atomic::Ordering, Arc, Mutex};

/// The outlet for events of sequential tracing, while a system tracer is set.
static DELIVERY: Mutex<Option<Arc<Delivery>>> = Mutex::new(None);

/// Prepares for tokens: the instruments that carry them are put in place. They stay as long as the result is kept,
/// unless a reset comes between.
pub fn begin(py: Python<'_>) -> PyResult<TokenGuard> {
    let host = start::host(py)?;
    let mut living = Some(host.node.seq_begin());
    if !instruments::carry_tokens() {
        tokens_idle::enter(py, host, || {
            living = None;
            host.node.seq_end();
        })?;
    }
    Ok(living.unwrap_or_else(|| host.node.seq_begin()))
}

/// The deepest nesting in a label: somewhat less than a token from another node may have.
const DEPTH: u32 = 60;

/// A label, whole; `None` for a value that is too long, or too deep.
fn label(value: &Bound<'_, PyAny>) -> Option<Label> {
    let limits = capture::Limits { depth: DEPTH, items: LABEL, bytes: LABEL };
    [256, LABEL].into_iter().find_map(|room| {
        let mut bytes = vec![0; room];
        let mut out = etf::Encoder::new(&mut bytes);
        // SAFETY: held; the thread is attached.
        unsafe { capture::encode(value.as_ptr(), &mut out, &limits) }.ok()?;
        let term = etf::decode(out.written()).ok().filter(|term| !is_cut(term))?;
        seq::label(term)
    })
}

fn is_cut(term: &Term) -> bool {
    match term {
        Term::Cut(_) => true,
        Term::Tuple(all) | Term::List(all) | Term::Set(all) => all.iter().any(is_cut),
        Term::ImproperList(all, tail) => all.iter().any(is_cut) || is_cut(tail),
        Term::Map(pairs) => pairs.iter().any(|(key, value)| is_cut(key) || is_cut(value)),
        _ => false,
    }
}

fn object(py: Python<'_>, token: &Token) -> PyResult<Py<PyAny>> {
    terms::object(py, &etf::encode(&token.term()))
}

/// The token of the running process, `(flags, label, serial, from, previous)`; None if it is empty.
#[pyfunction]
pub fn token(py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    as_process(py, |py, state| {
        state.host.node.seq_token(state.thread.current()).map(|token| object(py, &token)).transpose()
    })
}

/// Empties the token of the running process; returns the old one.
#[pyfunction]
pub fn clear(py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    as_process(py, |py, state| {
        state.host.node.seq_clear(state.thread.current()).map(|token| object(py, &token)).transpose()
    })
}

/// The most bytes of a label, and its deepest nesting.
#[pyfunction]
pub fn label_limits() -> (usize, u32) {
    (LABEL, DEPTH)
}

/// Sets the label; returns the old one, 0 for an empty token. `LimitReached` for a label that is too long, or too deep.
#[pyfunction]
pub fn set_label(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let label = label(value).ok_or_else(|| errors::raise(Error::Limit("label")))?;
    let _in_use = begin(py)?;
    as_process(py, |py, state| {
        let current = state.thread.current().clone();
        let was = state.host.node.seq_set_label(&current, label);
        terms::object(py, &was)
    })
}

/// Switches flags, a bit each, on or off; returns whether all of them were on.
#[pyfunction]
pub fn set_flags(py: Python<'_>, flags: u32, on: bool) -> PyResult<bool> {
    let _in_use = begin(py)?;
    as_process(py, |_, state| {
        let current = state.thread.current().clone();
        Ok(state.host.node.seq_change(&current, |token| {
            let was = token.flags & flags == flags;
            token.flags = if on { token.flags | flags } else { token.flags & !flags };
            was
        }))
    })
}

/// Sets the serial; returns the old one.
#[pyfunction]
pub fn set_serial(py: Python<'_>, previous: i64, current: i64) -> PyResult<(i64, i64)> {
    let _in_use = begin(py)?;
    as_process(py, |_, state| {
        let own = state.thread.current().clone();
        Ok(state.host.node.seq_set_serial(&own, (previous, current)))
    })
}

/// Prints into the sequential trace of the running process, whatever its label, or only under one: `(label,)`.
#[pyfunction]
pub fn print(py: Python<'_>, info: &Bound<'_, PyAny>, under: Option<(Bound<'_, PyAny>,)>) -> PyResult<()> {
    if !start::host(py)?.node.seq_in_use() {
        return Ok(());
    }
    let under = match under {
        Some((value,)) => match label(&value) {
            Some(label) => Some(label),
            None => return Ok(()), // no token has it
        },
        None => None,
    };
    as_process(py, |_, state| {
        // SAFETY: held; the thread is attached.
        let write = unsafe { tokens::writing(info.as_ptr()) };
        state.host.node.seq_print(&mut state.thread, under.as_deref(), write);
        Ok(())
    })
}

/// Empties all tokens and sets all serials to 0.
#[pyfunction]
pub fn reset(py: Python<'_>) -> PyResult<()> {
    let host = start::host(py)?;
    host.node.seq_reset();
    tokens_idle::leave(py, host)
}

/// The number of serials that have reached their limit.
#[pyfunction]
pub fn overflows(py: Python<'_>) -> PyResult<u64> {
    Ok(start::host(py)?.node.seq_overflows())
}

/// The system tracer of this session: a process, a trace port, or a tracer module and its state.
fn tracer_of(py: Python<'_>, session: Option<Arc<Session>>) -> PyResult<Option<Py<PyAny>>> {
    let Some(session) = session else { return Ok(None) };
    let port = DELIVERY.lock().unpoisoned().as_ref().and_then(|delivery| delivery.port.clone());
    if let Some(port) = port {
        return Ok(Some(Py::new(py, LogPort(port))?.into_any()));
    }
    let pid = session.tracer.load(Ordering::Acquire);
    if pid != MODULE {
        return Ok(Some(Py::new(py, Pid::new(pid))?.into_any()));
    }
    let pair = start::host(py)?.deliveries.of(session.id).and_then(|delivery| delivery.tracer.as_ref()?.pair(py));
    pair.map(|pair| Ok(pair.into_pyobject(py)?.into_any().unbind())).transpose()
}

/// The session of the system tracer. A task that is done is not one, even if nothing has seen its end.
fn session(py: Python<'_>) -> PyResult<Option<Arc<Session>>> {
    let host = start::host(py)?;
    let session = host.node.seq_tracer();
    if let Some(session) = &session {
        let _seen_to_end = host.directory.living(py, host, session.tracer.load(Ordering::Acquire));
    }
    Ok(session)
}

/// The system tracer, a Pid, or a tracer module and its state; None without one.
#[pyfunction]
pub fn tracer(py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    let session = session(py)?;
    if let Some(session) = session.as_ref().filter(|session| session.tracer.load(Ordering::Acquire) == MODULE) {
        as_process(py, |_, state| {
            if session.tracer_status(None) == Some(Answer::Remove) {
                state.host.node.lose_tracer(session);
            }
            Ok(())
        })?;
    }
    tracer_of(py, session.filter(|session| session.has_tracer()))
}

/// The most bytes of events of each thread that wait for the system tracer: a sequence with a gap is worth little.
const RING: usize = 16 << 20;

/// Sets the system tracer, a process or a tracer module, or with None removes it; returns the old one.
#[pyfunction]
#[pyo3(signature = (tracer, port=None, module=None))]
pub fn set_tracer(
    py: Python<'_>, tracer: Option<&Pid>, port: Option<&LogPort>, module: Option<ModuleParts<'_>>,
) -> PyResult<Option<Py<PyAny>>> {
    let host = start::host(py)?;
    if calling::is_ending(py) {
        return Err(PyRuntimeError::new_err("the interpreter is ending; set a system tracer before"));
    }
    let was = tracer_of(py, session(py)?.filter(|session| session.has_tracer()))?;
    let mut delivery = None;
    if let Some(given) = module {
        let made = make(py, given)?;
        let options = Options { is_inner: true, tracer: Some(made.module.clone()), ..Options::default() };
        let session = py.detach(|| host.node.session_create("seq_trace", 0, options)).map_err(errors::raise)?;
        delivery = Some(host.deliveries.open_to(session.clone(), made));
        if as_process(py, |_, _| Ok(session.tracer_status(None)))? != Some(Answer::Trace) {
            host.end_session(py, &session)?;
            return Err(errors::raise(Error::ProcessDead));
        }
    }
    if let Some(pid) = tracer {
        let tracee = pid.tracee(py).ok_or_else(|| errors::raise(Error::ProcessDead))?;
        let options = Options { is_inner: true, ring_bytes: RING, ..Options::default() };
        let session = py.detach(|| host.node.session_create("seq_trace", pid.id, options)).map_err(errors::raise)?;
        delivery = Some(host.deliveries.open(session, process::process(&tracee).mailbox.clone(), None));
    }
    if let Some(port) = port {
        let options = Options { is_inner: true, ring_bytes: RING, ..Options::default() };
        let session = py.detach(|| host.node.session_create("seq_trace", 0, options)).map_err(errors::raise)?;
        delivery = Some(py.detach(|| host.deliveries.open_port(&host.node, session, &port.0)));
    }
    let session = delivery.as_ref().map(|delivery| delivery.session.clone());
    let old = host.node.set_seq_tracer(session);
    let old_outlet = std::mem::replace(&mut *DELIVERY.lock().unpoisoned(), delivery);
    if let Some(old_outlet) = old_outlet {
        // it keeps the messages that it was sent
        old_outlet.pump_to_mark(py)?;
    }
    if let Some(old) = old {
        host.end_session(py, &old)?;
    }
    Ok(was)
}

/// Sets whether items of a queue carry tokens, whatever its kind.
#[pyfunction]
pub fn carrier(py: Python<'_>, queue: &Bound<'_, PyAny>, on: bool) -> PyResult<()> {
    as_process(py, |_, state| {
        // SAFETY: held; the thread is attached.
        let number = unsafe { message_view::queue(state, queue.as_ptr()) };
        if let Some(tracee) = state.host.node.tracee(number) {
            process::process(&tracee)
                .carrier
                .store(if on { tokens::carrier::SAID_YES } else { tokens::carrier::SAID_NO }, Ordering::Release);
        }
        Ok(())
    })
}

/// In a forked child: removes the system tracer.
pub fn forget() {
    if let Ok(mut delivery) = DELIVERY.try_lock() {
        std::mem::forget(delivery.take());
    }
}
