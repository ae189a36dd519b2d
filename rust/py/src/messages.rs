//! From a record in a ring to the tuple that a tracer gets, in the shapes of trace.md.

use crate::{
    ffi::calling::call,
    host::{objects::Arguments, outlet::Outlet},
    pid::Pid,
    terms,
};
use inviso_core::{
    drain::{Event, Record, What},
    emit::stamp,
    node::Node,
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
    call: Py<PyAny>,
    return_to: Py<PyAny>,
    spawn: Py<PyAny>,
    spawned: Py<PyAny>,
    exit: Py<PyAny>,
    return_from: Py<PyAny>,
    exception_from: Py<PyAny>,
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
                call: word("call")?,
                return_to: word("return_to")?,
                spawn: word("spawn")?,
                spawned: word("spawned")?,
                exit: word("exit")?,
                return_from: word("return_from")?,
                exception_from: word("exception_from")?,
                drop: word("drop")?,
                atom: atom.clone().unbind(),
                names: Mutex::default(),
            })
        })
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
        self.names.lock().unwrap_or_else(|e| e.into_inner()).insert(number, made);
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
    let stamped = event.stamps & stamp::MASK != stamp::NONE;
    let mut parts: Vec<Py<PyAny>> = Vec::with_capacity(7);
    parts.push(if stamped { &words.trace_ts } else { &words.trace }.clone_ref(py));
    parts.push(Py::new(py, Pid::new(event.tracee))?.into_any());
    what(py, node, words, event, outlet, stale, &mut parts)?;
    if event.stamps & stamp::SCHEDULER != 0 {
        parts.push(event.scheduler.into_pyobject(py)?.into_any().unbind());
    }
    if stamped {
        parts.push(time(py, node, record.ticks, event)?);
    }
    Ok(PyTuple::new(py, parts)?.into_any().unbind())
}

fn what(
    py: Python<'_>, node: &Node, words: &Words, event: &Event, outlet: &Outlet, stale: &mut Vec<Arguments>,
    parts: &mut Vec<Py<PyAny>>,
) -> PyResult<()> {
    let payload = || terms::object(py, &event.payload);
    match Kind::from_u8(event.kind) {
        // nothing in the arguments' place: the interpreter did not show any
        Some(kind @ (Kind::Call | Kind::CallArity)) if kind == Kind::CallArity || event.payload.is_empty() => {
            let name = words.name(py, node, event.what as u32)?;
            parts.push(words.call.clone_ref(py));
            parts.push(name.into_pyobject(py)?.into_any().unbind());
        }
        Some(Kind::Call) => {
            let (module, function, _) = words.name(py, node, event.what as u32)?;
            parts.push(words.call.clone_ref(py));
            let arguments = match objects(event, outlet) {
                Some(number) => match outlet.objects.take(event.scheduler, number, stale) {
                    Some(arguments) => arguments.list(py)?,
                    None => terms::cut(py, "objects")?.unbind(),
                },
                None => payload()?,
            };
            parts.push((module, function, arguments).into_pyobject(py)?.into_any().unbind());
        }
        Some(Kind::ReturnTo) if event.payload.is_empty() => {
            parts.push(words.return_to.clone_ref(py));
            parts.push(words.name(py, node, event.what as u32)?.into_pyobject(py)?.into_any().unbind());
        }
        Some(Kind::ReturnTo) => parts.extend([words.return_to.clone_ref(py), payload()?]),
        Some(Kind::Spawn) => {
            parts.extend([words.spawn.clone_ref(py), Py::new(py, Pid::new(event.what))?.into_any(), payload()?]);
        }
        Some(Kind::Spawned) => {
            parts.extend([words.spawned.clone_ref(py), Py::new(py, Pid::new(event.what))?.into_any(), payload()?]);
        }
        Some(Kind::Exit) => parts.extend([words.exit.clone_ref(py), payload()?]),
        Some(Kind::ReturnFrom) => {
            let name = words.name(py, node, event.what as u32)?.into_pyobject(py)?.into_any().unbind();
            let value = match objects(event, outlet) {
                Some(number) => match outlet.objects.take(event.scheduler, number, stale) {
                    Some(value) => value.one(py)?,
                    None => terms::cut(py, "objects")?.unbind(),
                },
                None => payload()?,
            };
            parts.extend([words.return_from.clone_ref(py), name, value]);
        }
        Some(Kind::ExceptionFrom) => {
            let name = words.name(py, node, event.what as u32)?.into_pyobject(py)?.into_any().unbind();
            let error = payload()?;
            parts.extend([words.exception_from.clone_ref(py), name, error]);
        }
        _ => return Err(pyo3::exceptions::PyRuntimeError::new_err("a record of an unknown kind")),
    }
    if !event.extra.is_empty() {
        parts.push(terms::object(py, &event.extra)?);
    }
    Ok(())
}

/// The number of the objects that are a call's arguments, if the session takes them so and they were kept.
fn objects(event: &Event, outlet: &Outlet) -> Option<u64> {
    if outlet.session.options.capture.takes != Takes::Objects {
        return None;
    }
    Some(u64::from_ne_bytes(event.payload.as_slice().try_into().ok()?))
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
