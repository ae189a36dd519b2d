//! How events come to be: CPython's hooks feed the core's event functions.
//!
//! | file | is |
//! | --- | --- |
//! | `instruments` | when each of those is put in place and taken away |
//! | `session_end` | what follows the end of a session, or a change of its patterns |
//! | `delivery` | from a session's rings to its tracer |

pub mod delivery;
pub mod instruments;
pub mod session_end;

use crate::{
    entry::{arming, door, loading, waiting},
    instrument::tokens,
    processes::{directory, spawning},
};
use inviso_core::{clock::Clock, node::Node};
use pyo3::{prelude::*, sync::MutexExt};
use std::{
    sync::{
        atomic::{AtomicPtr, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

/// The state of the traced program; a forked child begins with a new one.
pub struct Host {
    /// The operating system's number of its process.
    pub process: u32,
    /// Sessions, processes, plans.
    pub node: Arc<Node>,
    /// The armed events, and the code objects that are kept alive for them.
    pub arming: Mutex<arming::Armed>,
    /// The code that exists, while a session waits for later code.
    pub loading: loading::Loading,
    /// Threads and tasks.
    pub directory: directory::Directory,
    /// Where each session's messages are delivered.
    pub deliveries: delivery::Deliveries,
    /// Threads and tasks that are being started.
    pub spawning: spawning::Spawning,
    #[cfg(Py_3_12)]
    missing: Py<PyAny>,
    /// Sessions whose last strong handle is gone.
    pub pending_ends: Mutex<Vec<Arc<inviso_core::session::Session>>>,
    /// Python objects that have to be dropped outside every lock.
    pub deferred_drops: Mutex<Vec<Py<PyAny>>>,
}

static HOST: AtomicPtr<Host> = AtomicPtr::new(std::ptr::null_mut());

/// The host of this process, if the tracer was used in it.
#[inline(always)]
pub fn try_host() -> Option<&'static Host> {
    // SAFETY: the pointer is null or comes from `Box::leak`; hosts are never freed (a fork leaves one unused).
    unsafe { HOST.load(Ordering::Acquire).as_ref() }
}

/// The host of this process; made at first use.
pub fn host(py: Python<'_>) -> PyResult<&'static Host> {
    match try_host() {
        Some(host) => Ok(host),
        None => start(py),
    }
}

/// Reads Python's monotonic clock, and the moment of the reading. A thread may lose the processor between the two
/// readings, so the fastest of four pairs counts.
fn moment(monotonic_ns: &Bound<'_, PyAny>) -> PyResult<(Instant, u64)> {
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
fn start(py: Python<'_>) -> PyResult<&'static Host> {
    static STARTING: Mutex<()> = Mutex::new(());
    inviso_cpython::calibrate::check(py).map_err(pyo3::exceptions::PyRuntimeError::new_err)?;
    crate::convert::terms::classes(py)?;
    #[cfg(Py_3_12)]
    inviso_cpython::frames::opcodes::learn(py)?;
    inviso_cpython::interpreter::calling::may_attach(py);
    let monotonic_ns = py.import("time")?.getattr("monotonic_ns")?;
    let _one = STARTING.lock_py_attached(py).unwrap_or_else(|e| e.into_inner());
    if let Some(host) = try_host() {
        return Ok(host);
    }
    let (started, monotonic) = moment(&monotonic_ns)?;
    let clock = Clock::lined_up(started, monotonic);
    let host = Box::leak(Box::new(Host {
        process: std::process::id(),
        node: Node::waiting_by(clock.with_cpu(inviso_cpython::interpreter::cpu::clock()), waiting::detached),
        arming: Mutex::default(),
        loading: loading::Loading::default(),
        directory: directory::Directory::default(),
        deliveries: delivery::Deliveries::default(),
        spawning: spawning::Spawning::default(),
        #[cfg(Py_3_12)]
        missing: missing(py)?,
        pending_ends: Mutex::default(),
        deferred_drops: Mutex::default(),
    }));
    // under the GIL records are written one after the other
    #[cfg(not(Py_GIL_DISABLED))]
    host.node.order.serial();
    host.node.seq_on_last(tokens::all_gone);
    inviso_port::origin::begin();
    HOST.store(host, Ordering::Release);
    Ok(host)
}

#[cfg(Py_3_12)]
fn missing(py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(py.import("sys")?.getattr("monitoring")?.getattr("MISSING")?.unbind())
}

/// Leaves the host unused in a forked child: its threads, locks and sessions are the parent's.
pub fn forget() {
    HOST.store(std::ptr::null_mut(), Ordering::Release);
}

impl Host {
    /// The interpreter's mark for an absent argument.
    #[cfg(Py_3_12)]
    pub fn missing(&self) -> *mut pyo3::ffi::PyObject {
        self.missing.as_ptr()
    }

    /// Keeps an object until [`Host::drop_deferred`] drops it.
    pub fn defer_drop(&self, object: Py<PyAny>) {
        self.deferred_drops.lock().unwrap_or_else(|e| e.into_inner()).push(object);
    }

    /// Drops the objects that a change left. Called attached and outside every lock: a destructor may run any code.
    pub fn drop_deferred(&self, _py: Python<'_>) {
        let dead = std::mem::take(&mut *self.deferred_drops.lock().unwrap_or_else(|e| e.into_inner()));
        drop(dead);
    }
}

/// Makes the interpreter's main loop end the sessions without handles, soon.
pub fn schedule_burial() {
    extern "C" fn call(_: *mut std::ffi::c_void) -> std::ffi::c_int {
        // at the interpreter's end, code that finalisers run also makes such calls
        let drop_deferred = |py: Python<'_>| {
            if !inviso_cpython::interpreter::calling::may_import(py) {
                return schedule_burial(); // in another frame, then
            }
            // in a forked child, objects may be dropped before the child has a host of its own: sessions, ports and
            // threads are still the parent's
            if let Some(host) = try_host().filter(|host| host.process == std::process::id()) {
                host.reap(py);
            }
        };
        door::guard(|| Python::try_attach(drop_deferred));
        0
    }
    // SAFETY: may be called from any thread, attached or not. A full queue does no harm, because every later change
    // reaps, too.
    unsafe { pyo3::ffi::Py_AddPendingCall(Some(call), std::ptr::null_mut()) };
}
