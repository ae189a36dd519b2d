//! Subprocesses: one port each, with its pipes.
//!
//! `subprocess.Popen` opens the port. It is closed when a process learns how the subprocess has ended. Data of its
//! pipes are seen where `communicate` moves them, where the files of the pipes are used, and at asyncio's transports.
//!
//! # Roles
//! Attached threads use subprocesses. The instrument watches the functions.
//!
//! # States
//! A port's `communicates` is true while a `communicate` with several pipes runs; `has_input` until its input is
//! reported.
//!
//! # Orderings
//! The `Relaxed` words of a port are written and read by the thread in `communicate`; other threads only skip a close
//! meanwhile.
//!
//! # Checked by
//! `tests/python/test_ports.py`, `tests/python/test_children.py`.

use super::{
    kinds::SUBPROCESSES,
    passages,
    traffic::{closed, opened, opens, own, port, read, serves, written},
};
use crate::{
    control::originals::codes,
    directory::exit_reason,
    instrument::watch,
    state::{
        host::Host,
        instrument::{Ended, Handler},
        thread::ThreadState,
        untraced::{self, untraced},
    },
};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::{frames::frame::Frame, interpreter::generic::attribute};
use inviso_term::{etf, term::Term};
use pyo3::{
    ffi,
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};
use std::sync::{atomic::Ordering, Arc};

/// `Popen.__init__`.
pub static INIT: Handler = Handler { begin: Some(on_begin), end: Some(on_init), ..Handler::NONE };

/// Methods by which a Popen learns how its subprocess has ended.
pub static STATUS: Handler = Handler { end: Some(on_status), ..Handler::NONE };

/// `Popen.communicate`.
pub static COMMUNICATE: Handler = Handler { begin: Some(on_communicate), end: Some(on_communicated), ..Handler::NONE };

/// `Popen._save_input`: several pipes are about to be used, and the input for one of them is bytes now.
pub static INPUT: Handler = Handler { end: Some(on_input), ..Handler::NONE };

/// `BaseSubprocessTransport._process_exited`.
pub static EXITED: Handler = Handler { end: Some(on_exited), ..Handler::NONE };

/// All of them.
pub static HANDLERS: [&Handler; 5] = [&INIT, &STATUS, &COMMUNICATE, &INPUT, &EXITED];

/// Begins to watch.
///
/// # Errors
/// The error of importing subprocess and asyncio, or of `sys.monitoring`.
pub fn begin(py: Python<'_>, host: &Host) -> PyResult<()> {
    // not while other threads wait for the class: they may be importing it
    let found = py.import("subprocess")?.getattr("Popen")?.unbind();
    let class = SUBPROCESSES.get_or_init(py, || found).bind(py);
    watch::add(py, host, &INIT, &codes(class, &["__init__"])?)?;
    watch::add(py, host, &STATUS, &codes(class, &["_internal_poll", "_wait"])?)?;
    watch::add(py, host, &COMMUNICATE, &codes(class, &["communicate"])?)?;
    watch::add(py, host, &INPUT, &codes(class, &["_save_input"])?)
}

/// Begins to watch the transports of subprocesses.
///
/// # Errors
/// As [`begin`].
pub fn begin_transport(py: Python<'_>, host: &Host) -> PyResult<()> {
    let transport = py.import("asyncio.base_subprocess")?.getattr("BaseSubprocessTransport")?;
    watch::add(py, host, &EXITED, &codes(&transport, &["_process_exited"])?)
}

/// Takes in the pipes of a subprocess that runs already, while the instrument is on.
pub fn adopt(object: &Bound<'_, PyAny>, port: &Arc<Tracee>) {
    if own(port).driver.get() == Some(&"spawn") {
        // SAFETY: the object is held.
        unsafe { pipes(object.py(), object.as_ptr(), port) };
    }
}

/// Records the files of a subprocess's pipes: reads and writes there go through its port.
///
/// # Safety
/// `object` stands throughout; the calling thread is attached.
unsafe fn pipes(py: Python<'_>, object: *mut ffi::PyObject, port: &Arc<Tracee>) {
    for name in ["stdin", "stdout", "stderr"] {
        // SAFETY: plain attributes of the caller's object, and those of files, which C code reads.
        let mut file = unsafe { attribute(py, object, name) };
        for inner in ["buffer", "raw"] {
            // SAFETY: `file` is held; C code reads the attributes of files.
            let deeper = file.as_ref().and_then(|file| unsafe { attribute(py, file.as_ptr(), inner) });
            file = deeper.or(file);
        }
        if let Some(file) = file.filter(|file| !file.is_none()) {
            passages::add_pipe(&file, port);
        }
    }
}

/// A subprocess is about to be started.
fn on_begin(_here: &mut ThreadState, frame: Frame) {
    // SAFETY: the first argument of a method whose frame stands; the thread is attached.
    opens(unsafe { frame.local(0) });
}

/// A subprocess has been started, or not.
fn on_init(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    unsafe {
        let object = frame.local(0);
        opened(state, object, how);
        if let Some(port) = known(state, object) {
            untraced(state, |py, _| pipes(py, object, &port));
        }
    }
}

/// A thread has asked how a subprocess has ended, and may know it.
fn on_status(state: &mut ThreadState, frame: Frame, _how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    unsafe {
        let object = frame.local(0);
        if let Some(port) = known(state, object).filter(|port| !own(port).communicates.load(Ordering::Relaxed)) {
            close(state, &port, object);
        }
    }
}

/// The known port of a subprocess.
///
/// # Safety
/// The object stands; only its address is used.
unsafe fn known(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    let port = state.places.tracee(object as usize).cloned();
    port.or_else(|| state.host.directory.known(object as usize)).filter(|port| port.is_alive())
}

/// A subprocess with a status has ended.
///
/// # Safety
/// The object is as [`attribute`] requires; an exception may be set.
unsafe fn close(state: &mut ThreadState, port: &Arc<Tracee>, object: *mut ffi::PyObject) {
    untraced(state, |py, state| {
        // SAFETY: the caller's object stands; a plain attribute.
        let status = unsafe { attribute(py, object, "returncode") };
        let Some(status) = status.and_then(|status| status.extract::<Option<i64>>().ok()).flatten() else { return };
        // SAFETY: the thread is attached.
        unsafe { state.running.identify(state.host, &mut state.thread) };
        let reason = match status {
            0 => exit_reason::normal(),
            status => etf::encode(&Term::Tuple(vec![Term::atom("exit_status"), Term::Int(status.into())])),
        };
        closed(state.host, &mut state.thread, port, &reason);
    });
}

/// `communicate` begins.
fn on_communicate(state: &mut ThreadState, frame: Frame) {
    // SAFETY: arguments of a method whose frame stands; the thread is attached.
    unsafe {
        let object = frame.local(0);
        let Some(port) = port(state, object) else { return };
        let (begun, files) = untraced(state, |py, _| {
            let begun = attribute(py, object, "_communication_started");
            let is_there = |name: &&str| attribute(py, object, name).is_some_and(|file| !file.is_none());
            let files = ["stdin", "stdout", "stderr"].iter().filter(|name| is_there(name)).count();
            (begun.is_some_and(|begun| begun.is_truthy().unwrap_or(true)), files)
        });
        if !begun && files < 2 && frame.local(2) == ffi::Py_None() {
            return; // it uses the file of the one pipe
        }
        let there = untraced(state, |py, _| if begun { lengths(py, object) } else { [0; 2] });
        for (was, there) in own(&port).gathered.iter().zip(there) {
            was.store(there, Ordering::Relaxed);
        }
        own(&port).communicates.store(true, Ordering::Relaxed);
        own(&port).has_input.store(!begun, Ordering::Relaxed);
    }
}

/// The port of a subprocess that communicates through several pipes.
///
/// # Safety
/// As [`known`].
unsafe fn communicating(state: &mut ThreadState, object: *mut ffi::PyObject) -> Option<Arc<Tracee>> {
    // SAFETY: the caller promises that the object stands.
    unsafe { known(state, object) }.filter(|port| own(port).communicates.load(Ordering::Relaxed))
}

/// The input of `communicate` is about to be written to the port.
fn on_input(state: &mut ThreadState, frame: Frame, how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    unsafe {
        let object = frame.local(0);
        let Some(port) = communicating(state, object) else { return };
        if !own(&port).has_input.swap(false, Ordering::Relaxed) || matches!(how, Ended::Raised(_)) {
            return;
        }
        let input = untraced::build_untraced(state, |py| attribute(py, object, "_input"));
        if has_something(input.as_ptr()) {
            serves(state, &port, Some("command"), |state| {
                written(state, &port, |py| Some(crate::instrument::sent_values::bytes_of(py, input.as_ptr(), None)));
            });
        }
    }
}

/// The chunks that `communicate` has gathered so far of one pipe, or of the other.
///
/// # Safety
/// `object` is as [`attribute`] requires.
unsafe fn gathered<'py>(py: Python<'py>, object: *mut ffi::PyObject, pipe: usize) -> Option<Bound<'py, PyList>> {
    // SAFETY: a plain attribute of the caller's object.
    let all = unsafe { attribute(py, object, "_fileobj2output") }?;
    let one = all.cast_exact::<PyDict>().ok()?.values().get_item(pipe).ok()?;
    one.cast_into_exact().ok()
}

/// The number of those bytes, of each pipe.
///
/// # Safety
/// As [`gathered`].
unsafe fn lengths(py: Python<'_>, object: *mut ffi::PyObject) -> [usize; 2] {
    let length = |chunk: Bound<'_, PyAny>| chunk.cast_exact::<PyBytes>().map_or(0, |bytes| bytes.as_bytes().len());
    // SAFETY: the caller promises that `object` is as [`attribute`] requires.
    [0, 1].map(|pipe| unsafe { gathered(py, object, pipe) }.map_or(0, |chunks| chunks.iter().map(length).sum()))
}

/// `communicate` ends, perhaps by a time-out: the data that have come are the port's, and the subprocess may have
/// ended.
fn on_communicated(state: &mut ThreadState, frame: Frame, _how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached. The object keeps its
    // chunks.
    unsafe {
        let object = frame.local(0);
        let Some(port) = known(state, object) else { return };
        if !own(&port).communicates.swap(false, Ordering::Relaxed) {
            return;
        }
        let there = untraced(state, |py, _| lengths(py, object));
        for (pipe, there) in there.into_iter().enumerate() {
            let before = own(&port).gathered[pipe].load(Ordering::Relaxed);
            if there > before {
                serves(state, &port, None, |state| {
                    read(state, &port, |py| {
                        let mut all = Vec::with_capacity(there);
                        for chunk in gathered(py, object, pipe)?.iter() {
                            all.extend_from_slice(chunk.cast_exact::<PyBytes>().ok()?.as_bytes());
                        }
                        Some(PyBytes::new(py, all.get(before..)?).into_any())
                    });
                });
            }
        }
        close(state, &port, object);
    }
}

/// asyncio has learnt how a subprocess has ended.
fn on_exited(state: &mut ThreadState, frame: Frame, _how: Ended) {
    // SAFETY: the first argument of a method whose frame still stands; the thread is attached.
    let object = untraced(state, |py, _| unsafe { attribute(py, frame.local(0), "_proc").map(Bound::unbind) });
    let Some(object) = object else { return };
    // SAFETY: `object` is held; the thread is attached.
    unsafe {
        if let Some(port) = known(state, object.as_ptr()) {
            close(state, &port, object.as_ptr());
        }
    }
    untraced(state, |py, _| drop(object.into_bound(py)));
}

/// Whether it is bytes that are not empty.
///
/// # Safety
/// `object` is null or stands throughout; the calling thread is attached.
unsafe fn has_something(object: *mut ffi::PyObject) -> bool {
    // SAFETY: null, or an object that stands.
    unsafe {
        !object.is_null()
            && (ffi::PyBytes_Check(object) != 0 && ffi::Py_SIZE(object) > 0
                || ffi::PyByteArray_Check(object) != 0 && ffi::Py_SIZE(object) > 0
                || ffi::PyMemoryView_Check(object) != 0)
    }
}
