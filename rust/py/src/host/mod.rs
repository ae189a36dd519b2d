//! How events come to be: CPython's hooks feed the core's event functions.
//!
//! | file | is |
//! | --- | --- |
//! | `door` | the one way in for everything that CPython calls |
//! | `fault` | a failure on request, for tests of the door |
//! | `here` | what a thread keeps between two events |
//! | `call` | a running Python call, as the core sees it |
//! | `callbacks` | the functions that the interpreter calls |
//! | `arming` | switching those on and off |
//! | `backtrace` | who called whom, as terms |
//! | `builtin` | functions of built-in modules, with hooks around each call |
//! | `codes` | finding functions by pattern; the names of code |
//! | `foreign` | functions written in C, seen where they are called |
//! | `loading` | functions that come into being later |
//! | `directory` | threads and tasks as processes |
//! | `process` | what this package keeps with a process |
//! | `task_table` | tasks by their addresses |
//! | `thread_ids` | threads by the operating system's numbers |
//! | `object_cache` | which process an object is, remembered by each thread |
//! | `task_init` | when a task's object is made |
//! | `task_end` | when a task's object is gone |
//! | `spawning` | who starts whom, and how it ends |
//! | `task_made` | a task is made: its process, and who started it |
//! | `exit_reason` | why a task or thread ends, as a term |
//! | `originals` | the library's own functions, behind what the program has put around them |
//! | `watch` | functions of the standard library that instruments look at |
//! | `instruments` | when each of those is put in place and taken away |
//! | `places` | the names of functions that tasks run in, kept by each thread |
//! | `passing` | a message that is sent or has arrived, as the core sees it |
//! | `ports` | sockets, subprocesses, transports |
//! | `parcels` | calls and exceptions, as objects that are sent |
//! | `modules` | what instruments watch in modules, whenever those are imported |
//! | `executors` | calls that are submitted to executors |
//! | `futures`, `asyncio_futures` | results of futures |
//! | `gathered` | futures that the library sets with what others hold |
//! | `loops` | what other threads hand to an event loop |
//! | `multiprocess` | queues, connections and pools of `multiprocessing` |
//! | `pickles` | what stands behind the pickles of `multiprocessing`: tokens and numbers |
//! | `numbers`, `buffers` | numbers of messages of `multiprocessing`, and where they wait |
//! | `relations` | links, monitors, names, exit signals |
//! | `relations_api` | the same as Python calls them |
//! | `exits` | which exception an exit signal's is |
//! | `scheduling` | which task and thread runs when |
//! | `task_turns` | the steps of a task |
//! | `queues`, `simple_queue` | queues of the standard library |
//! | `senders`, `lengths` | who put what into a queue, and how long it is |
//! | `greenlets` | stacks of calls that take turns on a thread |
//! | `groups` | task groups as links |
//! | `loop_tokens` | tokens of callbacks of an event loop |
//! | `loop_callbacks` | what an event loop runs besides tasks |
//! | `uv_loops` | the same of uvloop's |
//! | `loop_lag` | the lag of an event loop |
//! | `collector` | collections of garbage |
//! | `tokens` | tokens of sequential tracing on their way |
//! | `late` | arguments whose taking runs the program's code |
//! | `objects` | arguments that wait for a tracer as they are |
//! | `session_end` | what follows the end of a session, or a change of its patterns |
//! | `outlet` | from a session's rings to its tracer |
//! | `waiting` | waiting for room in a ring |
//! | `ending` | the signal that ends a process which has something to write |
//! | `forking` | what survives a fork |

pub mod alone;
pub mod arming;
pub mod asyncio_futures;
pub mod backtrace;
pub mod buffers;
pub mod builtin;
pub mod call;
pub mod callbacks;
pub mod channels;
pub mod codes;
pub mod collector;
pub mod directory;
pub mod door;
pub mod ending;
pub mod executors;
pub mod exit_reason;
pub mod exits;
pub mod fault;
pub mod foreign;
pub mod forking;
pub mod futures;
pub mod gathered;
pub mod greenlets;
pub mod groups;
pub mod here;
pub mod instruments;
pub mod late;
pub mod lengths;
pub mod loading;
pub mod loop_callbacks;
pub mod loop_lag;
pub mod loop_tokens;
pub mod loops;
pub mod modules;
pub mod multiprocess;
pub mod numbers;
pub mod object_cache;
pub mod objects;
pub mod originals;
pub mod outlet;
pub mod parcels;
pub mod passing;
pub mod pickles;
pub mod places;
pub mod pools;
pub mod ports;
pub mod process;
pub mod queues;
pub mod relations;
pub mod relations_api;
pub mod scheduling;
pub mod senders;
pub mod session_end;
pub mod simple_queue;
pub mod spawning;
mod task_end;
mod task_init;
pub mod task_made;
pub mod task_table;
pub mod task_turns;
pub mod thread_ids;
pub mod tokens;
pub mod uv_loops;
#[cfg(not(Py_3_12))]
pub mod wait_for;
pub mod waiting;
pub mod watch;

use inviso_core::{clock::Clock, node::Node};
use pyo3::{prelude::*, sync::MutexExt};
use std::{
    sync::{
        atomic::{AtomicPtr, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

/// Everything about the traced program; a forked child begins with a new one.
pub struct Host {
    /// The operating system's number of the process that it is in.
    process: u32,
    /// Sessions, processes, plans.
    pub node: Arc<Node>,
    /// What is armed, and the code objects that are kept alive for it.
    pub arming: Mutex<arming::Armed>,
    /// Code that exists, while some session wants to know what comes later.
    pub loading: loading::Loading,
    /// Threads and tasks.
    pub directory: directory::Directory,
    /// Where each session's messages go.
    pub outlets: outlet::Outlets,
    /// Who is being started.
    pub spawning: spawning::Spawning,
    #[cfg(Py_3_12)]
    missing: Py<PyAny>,
    /// Sessions whose last strong handle is gone.
    pub doomed: Mutex<Vec<Arc<inviso_core::session::Session>>>,
    /// Python objects to be let go of outside every lock.
    pub graveyard: Mutex<Vec<Py<PyAny>>>,
}

static HOST: AtomicPtr<Host> = AtomicPtr::new(std::ptr::null_mut());

/// The host of this process, if anything was ever asked of it.
#[inline(always)]
pub fn try_host() -> Option<&'static Host> {
    // SAFETY: the pointer is null or comes from `Box::leak`; hosts are never freed (a fork leaves one behind).
    unsafe { HOST.load(Ordering::Acquire).as_ref() }
}

/// The host of this process; made at first use.
pub fn host(py: Python<'_>) -> PyResult<&'static Host> {
    match try_host() {
        Some(host) => Ok(host),
        None => start(py),
    }
}

/// Python's monotonic clock, and the moment at which it was read. A thread may lose the processor between the two readings, so the pair that
/// took least time of four counts.
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
    crate::terms::classes(py)?;
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
        outlets: outlet::Outlets::default(),
        spawning: spawning::Spawning::default(),
        #[cfg(Py_3_12)]
        missing: missing(py)?,
        doomed: Mutex::default(),
        graveyard: Mutex::default(),
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

/// Leaves the host behind: the forked child's threads, locks and sessions are not its parent's.
pub fn forget() {
    HOST.store(std::ptr::null_mut(), Ordering::Release);
}

impl Host {
    /// The interpreter's mark for no argument.
    #[cfg(Py_3_12)]
    pub fn missing(&self) -> *mut pyo3::ffi::PyObject {
        self.missing.as_ptr()
    }

    /// Keeps an object until [`Host::bury`].
    pub fn mourn(&self, object: Py<PyAny>) {
        self.graveyard.lock().unwrap_or_else(|e| e.into_inner()).push(object);
    }

    /// Lets go of what a change left behind. Attached, and outside every lock: a destructor may run any code.
    pub fn bury(&self, _py: Python<'_>) {
        let dead = std::mem::take(&mut *self.graveyard.lock().unwrap_or_else(|e| e.into_inner()));
        drop(dead);
    }
}

/// Has the sessions whose handles are gone ended soon, by the interpreter's main loop.
pub fn schedule_burial() {
    extern "C" fn call(_: *mut std::ffi::c_void) -> std::ffi::c_int {
        // as the interpreter ends, what finalisers run takes such calls, too
        let bury = |py: Python<'_>| {
            if !inviso_cpython::interpreter::calling::may_import(py) {
                return schedule_burial(); // in another frame, then
            }
            // in a forked child objects can go before it has left the host behind: sessions, ports and threads are its parent's
            if let Some(host) = try_host().filter(|host| host.process == std::process::id()) {
                host.reap(py);
            }
        };
        door::guard(|| Python::try_attach(bury));
        0
    }
    // SAFETY: may be called from any thread, attached or not; a full queue is no harm, as every later change reaps, too.
    unsafe { pyo3::ffi::Py_AddPendingCall(Some(call), std::ptr::null_mut()) };
}
