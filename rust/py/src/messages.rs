//! From a record in a ring to the tuple that a tracer gets, in the shapes of trace.md.

use crate::{
    ffi::calling::call,
    host::{objects::Arguments, outlet::Outlet},
    terms,
};
use inviso_core::{
    drain::{Event, Record, What},
    emit::stamp,
    message::tag,
    messages::with_receiver,
    node::Node,
    seq_event,
    session::Takes,
};
use inviso_term::record::Kind;
use pyo3::{prelude::*, sync::PyOnceLock, types::*};
use std::{collections::HashMap, sync::Mutex};

/// Module and function, as atoms, and the arity.
type Name = (Py<PyAny>, Py<PyAny>, u32);

/// The atoms that messages are made of.
pub struct Words {
    atom: Py<PyAny>,
    trace: Py<PyAny>,
    trace_ts: Py<PyAny>,
    monitor: Py<PyAny>,
    seq_trace: Py<PyAny>,
    tags: Vec<Py<PyAny>>,
    drop: Py<PyAny>,
    names: Mutex<HashMap<u32, Name>>,
}

static WORDS: PyOnceLock<Words> = PyOnceLock::new();

impl Words {
    /// The one set of words.
    ///
    /// # Errors
    /// What importing this package's own terms raises.
    pub fn get(py: Python<'_>) -> PyResult<&Words> {
        WORDS.get_or_try_init(py, || {
            let atom = terms::classes(py)?.atom.bind(py);
            let word = |text: &str| call(atom, (text,)).map(Bound::unbind);
            Ok(Words {
                trace: word("trace")?,
                trace_ts: word("trace_ts")?,
                tags: Kind::ALL.into_iter().map(|kind| word(tag(kind))).collect::<PyResult<_>>()?,
                monitor: word("monitor")?,
                seq_trace: word("seq_trace")?,
                drop: word("drop")?,
                atom: atom.clone().unbind(),
                names: Mutex::default(),
            })
        })
    }

    /// The atom of a kind's tag.
    fn tag(&self, py: Python<'_>, kind: Kind) -> PyResult<Py<PyAny>> {
        let at = Kind::ALL.iter().position(|known| *known == kind).ok_or_else(unknown)?;
        Ok(self.tags[at].clone_ref(py))
    }

    /// Module and function of a name, as atoms, and the arity.
    fn name(&self, py: Python<'_>, node: &Node, number: u32) -> PyResult<Name> {
        let copy = |(m, f, a): &Name| (m.clone_ref(py), f.clone_ref(py), *a);
        if let Some(known) = self.names.lock().unwrap_or_else(|e| e.into_inner()).get(&number) {
            return Ok(copy(known));
        }
        let name =
            node.name(number).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a record without a name"))?;
        let atom = self.atom.bind(py);
        let made = (call(atom, (&*name.module,))?.unbind(), call(atom, (&*name.function,))?.unbind(), name.arity);
        let answer = copy(&made);
        let _of_another_thread = self.names.lock().unwrap_or_else(|e| e.into_inner()).insert(number, made);
        Ok(answer)
    }
}

/// The message of a record of this outlet's session. `stale` gets objects that nobody waits for any more, to be let go of
/// outside every lock.
///
/// # Errors
/// What making Python objects raises (no memory).
pub fn message(
    py: Python<'_>, node: &Node, record: &Record, outlet: &Outlet, stale: &mut Vec<Arguments>,
) -> PyResult<Py<PyAny>> {
    let words = Words::get(py)?;
    let event = match &record.what {
        What::Event(event) => event,
        What::Lost(count) => return Ok((&words.drop, *count).into_pyobject(py)?.into_any().unbind()),
    };
    if event.kind == Kind::Monitor as u8 {
        // `{monitor, Pid, Event, Info}`
        let (name, info) = terms::object(py, &event.payload)?.extract::<(Py<PyAny>, Py<PyAny>)>(py)?;
        let message = (&words.monitor, terms::identity(py, event.tracee)?, name, info).into_pyobject(py)?;
        return Ok(message.into_any().unbind());
    }
    if event.kind == Kind::Seq as u8 {
        // `{seq_trace, Label, Info}`, and a time stamp perhaps
        let (label, info) = terms::object(py, &seq_event::pair(event))?.extract::<(Py<PyAny>, Py<PyAny>)>(py)?;
        let mut parts = vec![words.seq_trace.clone_ref(py), label, info];
        if event.stamps & stamp::MASK != stamp::NONE {
            parts.push(time(py, node, record.ticks, event)?);
        }
        return Ok(PyTuple::new(py, parts)?.into_any().unbind());
    }
    let stamped = event.stamps & stamp::MASK != stamp::NONE;
    let mut parts: Vec<Py<PyAny>> = Vec::with_capacity(7);
    parts.push(if stamped { &words.trace_ts } else { &words.trace }.clone_ref(py));
    parts.push(terms::identity(py, event.tracee)?);
    what(py, node, words, event, outlet, stale, &mut parts)?;
    if event.stamps & stamp::SCHEDULER != 0 {
        parts.push(event.scheduler.into_pyobject(py)?.into_any().unbind());
    }
    if stamped {
        parts.push(time(py, node, record.ticks, event)?);
    }
    Ok(PyTuple::new(py, parts)?.into_any().unbind())
}

/// The event's tag, its term, what there is besides, and what a match spec adds.
fn what(
    py: Python<'_>, node: &Node, words: &Words, event: &Event, outlet: &Outlet, stale: &mut Vec<Arguments>,
    parts: &mut Vec<Py<PyAny>>,
) -> PyResult<()> {
    let kind = Kind::from_u8(event.kind).ok_or_else(unknown)?;
    parts.push(words.tag(py, kind)?);
    let (term, more) = terms_of(py, node, kind, event, outlet, stale)?;
    parts.push(term);
    parts.extend(more);
    if !event.extra.is_empty() {
        parts.push(terms::object(py, &event.extra)?);
    }
    Ok(())
}

fn unknown() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("a record of an unknown kind")
}

/// The fourth element of an event's message, and the fifth, where there is one.
///
/// # Errors
/// What making Python objects raises (no memory).
pub fn terms_of(
    py: Python<'_>, node: &Node, kind: Kind, event: &Event, outlet: &Outlet, stale: &mut Vec<Arguments>,
) -> PyResult<(Py<PyAny>, Option<Py<PyAny>>)> {
    let words = Words::get(py)?;
    let payload = || terms::object(py, &event.payload);
    let name = || words.name(py, node, event.what as u32);
    let mfa = || Ok::<_, PyErr>(name()?.into_pyobject(py)?.into_any().unbind());
    Ok(match kind {
        // nothing in the arguments' place: the interpreter did not show any
        Kind::Call | Kind::CallArity if kind == Kind::CallArity || event.payload.is_empty() => (mfa()?, None),
        Kind::Call => {
            let (module, function, _) = name()?;
            let arguments = match objects(&event.payload, outlet) {
                Some(number) => match outlet.objects.take(event.scheduler, number, stale) {
                    Some(arguments) => arguments.list(py)?,
                    None => terms::cut(py, "objects")?.unbind(),
                },
                None => payload()?,
            };
            ((module, function, arguments).into_pyobject(py)?.into_any().unbind(), None)
        }
        Kind::ReturnTo if event.payload.is_empty() => (mfa()?, None),
        Kind::Spawn | Kind::Spawned | Kind::Open => (terms::identity(py, event.what)?, Some(payload()?)),
        Kind::ReturnFrom => (mfa()?, Some(value(py, event, &event.payload, outlet, stale)?)),
        Kind::ExceptionFrom => (mfa()?, Some(payload()?)),
        Kind::Send | Kind::SendToNonExisting if event.what == 0 => {
            let (message, receiver) = with_receiver(&event.payload);
            (value(py, event, message, outlet, stale)?, Some(terms::object(py, receiver)?))
        }
        Kind::Send | Kind::SendToNonExisting => {
            let message = value(py, event, &event.payload, outlet, stale)?;
            (message, Some(terms::identity(py, event.what)?))
        }
        Kind::Receive => (value(py, event, &event.payload, outlet, stale)?, None),
        Kind::Link | Kind::Unlink | Kind::GettingLinked | Kind::GettingUnlinked => {
            (terms::identity(py, event.what)?, None)
        }
        Kind::Monitor | Kind::Seq | Kind::Drop | Kind::Delivered => return Err(unknown()),
        _ => (payload()?, None),
    })
}

/// One value: a message, or what a call returned.
fn value(
    py: Python<'_>, event: &Event, bytes: &[u8], outlet: &Outlet, stale: &mut Vec<Arguments>,
) -> PyResult<Py<PyAny>> {
    match objects(bytes, outlet) {
        Some(number) => match outlet.objects.take(event.scheduler, number, stale) {
            Some(value) => value.one(py),
            None => Ok(terms::cut(py, "objects")?.unbind()),
        },
        None => terms::object(py, bytes),
    }
}

/// The number of the objects that these bytes stand for, if the session takes them so and they were kept.
fn objects(bytes: &[u8], outlet: &Outlet) -> Option<u64> {
    if outlet.session.options.capture.takes != Takes::Objects {
        return None;
    }
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// The time stamp that the record's flags ask for.
fn time(py: Python<'_>, node: &Node, ticks: u64, event: &Event) -> PyResult<Py<PyAny>> {
    let carried = (event.stamps & stamp::CARRIED != 0).then_some(event.carried);
    let monotonic = || carried.unwrap_or_else(|| node.clock.monotonic(ticks));
    Ok(match event.stamps & stamp::MASK {
        stamp::TIMESTAMP => {
            let micros = carried.unwrap_or_else(|| node.clock.wall(ticks)) / 1000;
            (micros / 1_000_000_000_000, micros / 1_000_000 % 1_000_000, micros % 1_000_000)
                .into_pyobject(py)?
                .into_any()
                .unbind()
        }
        stamp::STRICT => (monotonic(), event.unique).into_pyobject(py)?.into_any().unbind(),
        _ => monotonic().into_pyobject(py)?.into_any().unbind(),
    })
}
