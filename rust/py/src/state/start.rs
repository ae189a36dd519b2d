//! The host is made at first use.

use super::{
    above::above,
    deliveries::Deliveries,
    directory::Directory,
    host::{self, try_host, Host},
    loading::Loading,
    spawning::Spawning,
    waiting,
};
use inviso_core::host::{clock::Clock, node::Node, sync::Unpoisoned};
use pyo3::{prelude::*, sync::MutexExt};
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// The host of this process; made at first use.
pub fn host(py: Python<'_>) -> PyResult<&'static Host> {
    match try_host() {
        Some(host) => Ok(host),
        None => start(py),
    }
}

/// Reads Python's monotonic clock, and the moment of the reading. A thread may lose the processor between the two
/// readings, so the fastest of four pairs counts.
pub fn moment(monotonic_ns: &Bound<'_, PyAny>) -> PyResult<(Instant, u64)> {
    let mut best: Option<(Duration, Instant, u64)> = None;
    for _ in 0..4 {
        let before = Instant::now();
        let monotonic = monotonic_ns.call0()?.extract()?;
        let took = before.elapsed();
        if best.is_none_or(|(least, ..)| took < least) {
            best = Some((took, before + took / 2, monotonic));
        }
    }
    let (_, moment, monotonic) = best.expect("four readings");
    Ok((moment, monotonic))
}

#[cold]
pub fn start(py: Python<'_>) -> PyResult<&'static Host> {
    static STARTING: Mutex<()> = Mutex::new(());
    // without frames there are processes and mailboxes, but no sessions
    let _readable = inviso_cpython::calibrate::result(py);
    crate::convert::terms::classes(py)?;
    #[cfg(Py_3_12)]
    inviso_cpython::frames::opcodes::learn(py)?;
    inviso_cpython::interpreter::calling::may_attach(py);
    let monotonic_ns = py.import("time")?.getattr("monotonic_ns")?;
    let _one = STARTING.lock_py_attached(py).unpoisoned();
    if let Some(host) = try_host() {
        return Ok(host);
    }
    let (started, monotonic) = moment(&monotonic_ns)?;
    let clock = Clock::lined_up(started, monotonic);
    let host = Box::leak(Box::new(Host {
        process: std::process::id(),
        node: Node::waiting_by(clock.with_cpu(inviso_cpython::platform::cpu_clock()), waiting::detached),
        arming: Mutex::default(),
        loading: Loading::default(),
        directory: Directory::default(),
        deliveries: Deliveries::default(),
        spawning: Spawning::default(),
        #[cfg(Py_3_12)]
        missing: missing(py)?,
        pending_ends: Mutex::default(),
        deferred_drops: Mutex::default(),
    }));
    host.node.seq_on_last(above().tokens_idle);
    inviso_port::origin::begin();
    host::begin(host);
    Ok(host)
}

/// Makes sure that frames can be read, before anything is traced.
///
/// # Errors
/// RuntimeError with the reason and the remedy, for an interpreter that keeps its frames in another way than is known.
pub fn readable(py: Python<'_>) -> PyResult<()> {
    inviso_cpython::calibrate::result(py).map_err(|why| {
        let version = Python::version_str().split_whitespace().next().unwrap_or_default();
        pyo3::exceptions::PyRuntimeError::new_err(format!(
            "inviso can't trace here: it does not know how this interpreter, CPython {version}, keeps its frames \
             ({why}). It knows CPython 3.11 to 3.15 on x86-64 Linux: use one of these, or a newer version of inviso. From \
             3.12 on, INVISO_PUBLIC_API=1 python -m pip install --no-binary inviso inviso builds a slower form that needs \
             no such knowledge. Logs, analysis and control of other processes work here, too"
        ))
    })
}

#[cfg(Py_3_12)]
pub fn missing(py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(py.import("sys")?.getattr("monitoring")?.getattr("MISSING")?.unbind())
}
