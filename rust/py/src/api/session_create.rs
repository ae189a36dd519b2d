//! Makes sessions, and finds them.

use super::{
    match_spec::MatchProgram,
    session::{living, Mfa, Session},
    trace_port::LogPort,
    tracer::{self, ModuleParts},
};
use crate::{
    control::{codes, foreign_functions},
    convert::{errors, pid::Pid, terms},
    state::{pattern::Pattern as Names, start},
};
use inviso_core::host::{
    ring::Overflow,
    session::{Capture, Exceptions, Options, Session as Core, Stamps, Switched, Takes},
};
use inviso_cpython::interpreter::calling;
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyType};
use std::{sync::Arc, time::Duration};

/// Whether there is a clock of a thread's CPU time.
#[pyfunction]
pub fn has_cpu_clock(py: Python<'_>) -> PyResult<bool> {
    Ok(start::host(py)?.node.clock.cpu().is_some())
}

/// Makes a session. `overflow` is drop, overwrite or block (with `block_ms`). `capture` is depth, items, bytes of one
/// and bytes in all; it `takes` values, texts or objects. `clock` is fast or system. `module` is a tracer module. One
/// step of the tracer takes at most `step` records. Its match specifications switch the flags of `switched`, if that is
/// given.
#[pyfunction]
#[pyo3(signature = (name, tracer, ring_bytes, overflow, block_ms, ended_processes, capture, takes, clock, module=None, port=None, dumps=None, step=None, switched=None))]
#[allow(clippy::too_many_arguments)]
pub fn session_create(
    py: Python<'_>, name: &str, tracer: Option<&Pid>, ring_bytes: usize, overflow: &str, block_ms: u64,
    ended_processes: usize, capture: (u32, usize, usize, usize), takes: &str, clock: &str,
    module: Option<ModuleParts<'_>>, port: Option<&LogPort>, dumps: Option<(Option<Asks<'_>>, Option<f64>)>,
    step: Option<usize>, switched: Option<&Session>,
) -> PyResult<Session> {
    let host = start::host(py)?;
    start::readable(py)?;
    if calling::is_ending(py) {
        return Err(PyRuntimeError::new_err("the interpreter is ending; make sessions before"));
    }
    host.reap(py);
    let overflow = match overflow {
        "overwrite" => Overflow::Overwrite,
        "block" => Overflow::Block { limit: Duration::from_millis(block_ms) },
        _ => Overflow::Drop,
    };
    let takes = match takes {
        "texts" => Takes::Texts,
        "objects" => Takes::Objects,
        _ => Takes::Values,
    };
    let (depth, items, bytes, total) = capture;
    let capture = Capture { depth, items, bytes, total, takes };
    let clock = if clock == "system" { Stamps::System } else { Stamps::Ticks };
    let module = module.map(|given| tracer::make(py, given)).transpose()?;
    let told = module.as_ref().map(|made| made.module.clone());
    let switched = switched.map(|session| Switched(session.core.clone()));
    let options =
        Options { ring_bytes, overflow, ended_processes, capture, clock, tracer: told, switched, ..dumping(dumps) };
    let id = tracer.map_or(0, |t| t.id);
    let core = py.detach(|| host.node.session_create(name, id, options)).map_err(errors::raise)?;
    if let Some(made) = module {
        return Ok(Session { delivery: host.deliveries.open_to(core.clone(), made), core, strong: true });
    }
    if let Some(port) = port {
        let delivery = py.detach(|| host.deliveries.open_port(&host.node, core.clone(), &port.0));
        return Ok(Session { core, delivery, strong: true });
    }
    let mailbox = match tracer {
        Some(pid) => match pid.tracee(py) {
            Some(tracee) => host.mailbox(&tracee),
            None => {
                host.node.lose_tracer(&core);
                Arc::default()
            }
        },
        None => Arc::default(),
    };
    let delivery = host.deliveries.open(core.clone(), mailbox, step);
    Ok(Session { core, delivery, strong: true })
}

/// The exceptions that request a dump.
#[derive(FromPyObject)]
pub enum Asks<'py> {
    /// Exceptions that this spec accepts.
    Spec(Bound<'py, MatchProgram>),
    /// Instances of these classes, which the session's holder keeps.
    Classes(Vec<Bound<'py, PyType>>),
}

/// The options of a session whose dumps are written on request: by exceptions, and by a call's seconds.
fn dumping(dumps: Option<(Option<Asks<'_>>, Option<f64>)>) -> Options {
    let Some((exceptions, slower)) = dumps else { return Options::default() };
    Options {
        on_dump: Some(inviso_port::bell::ring),
        dump_on: exceptions.map(|asks| match asks {
            Asks::Spec(program) => Exceptions::Matching(program.get().program.clone()),
            Asks::Classes(classes) => Exceptions::Of(classes.iter().map(|class| class.as_ptr() as usize).collect()),
        }),
        dump_slower: slower.map(|seconds| (seconds * 1e9) as u64),
        ..Options::default()
    }
}

/// All living sessions, by weak handles, newest first.
#[pyfunction]
pub fn sessions(py: Python<'_>) -> PyResult<Vec<Session>> {
    let host = start::host(py)?;
    if calling::is_ending(py) {
        return Ok(Vec::new()); // they end with it
    }
    host.reap(py);
    let weak = |core: Arc<Core>| Some(Session { delivery: host.deliveries.of(core.id)?, core, strong: false });
    Ok(host.node.sessions().into_iter().rev().filter(|core| !core.is_inner).filter_map(weak).collect())
}

/// Whether there is an open port of this name.
#[pyfunction]
pub fn port_exists(py: Python<'_>, port: &Bound<'_, PyAny>) -> PyResult<bool> {
    let host = start::host(py)?;
    Ok(terms::local_number(port).is_some_and(|id| living(py, host, id).is_some()))
}

/// Whether there is a function of this name.
#[pyfunction]
pub fn function_exists(py: Python<'_>, mfa: Mfa) -> PyResult<bool> {
    let mut pattern = Names { module: mfa.0, function: mfa.1, arity: mfa.2 };
    if !codes::find(py, &pattern)?.is_empty() {
        return Ok(true);
    }
    pattern.arity = None;
    Ok(foreign_functions::find(py, &pattern)?.is_some())
}
