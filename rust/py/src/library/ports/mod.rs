//! Ports: sockets, subprocesses and asyncio's pipes as links to the outside world.
//!
//! A port is known by the address of its object, as a task is. The C methods of sockets (`socket`) and of pipes' files
//! (`pipe`) show what happens to it, and functions of the standard library (`subprocess`, `transport`). The instrument
//! is in place only while a session traces ports or watches for busy ones, or a port has a name or a link by
//! `inviso.link`.
//!
//! Rules: trace.md, `port/4`. Data that arrive are a message of the port to its reader, `(port, ("data", bytes))`. Data
//! that are written are a message of the writer to the port, `(pid, ("command", bytes))`.
//!
//! # Roles
//! Attached threads open, use and close ports. Instruments switch this on and off.
//!
//! # States
//! Those of `traffic` and `passages`. `LINKED` counts the links by `inviso.link`.
//!
//! # Orderings
//! Those of `traffic` and `passages`.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

pub mod functions;
pub mod kinds;
pub mod passages;
pub mod pipe;
pub mod socket;
pub mod subprocess;
pub mod traffic;
pub mod transport;

use super::ports::{
    kinds::look,
    traffic::{closed, leave, own, words, OPENING},
};
use crate::{
    instrument::{modules, watch},
    state::{
        host::Host,
        instrument::{Instrument, Module},
        lock,
        port::LINKED,
        thread::ThreadState,
        untraced::untraced,
    },
};
use inviso_core::host::{
    flags::Flags,
    monitor::LimitEvent,
    tracee::{Kind, Tracee},
};
use pyo3::prelude::*;
use std::sync::{atomic::Ordering, Arc};

/// Ports.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.ports != Flags::NONE || wants.watches(LimitEvent::BusyPort) || wants.related_ports,
    begin,
    end,
    forget,
);

/// The modules that ports come from.
pub static MODULES: [Module; 3] = [
    Module::new("socket", |py, host, _| match modules::is_there(py, "_socket")? {
        true => modules::is_there(py, "socket").and_then(|_| socket::begin(py, host)),
        false => Ok(()),
    }),
    Module::new("subprocess", |py, host, _| match modules::is_there(py, "_posixsubprocess")? {
        true => modules::is_there(py, "subprocess").and_then(|_| subprocess::begin(py, host)),
        false => Ok(()),
    }),
    Module::new("asyncio", |py, host, _| match modules::is_there(py, "asyncio.base_subprocess")? {
        true => modules::is_there(py, "asyncio").and_then(|_| transport::begin(py, host)),
        false => Ok(()),
    }),
];

/// Whether a port has a name, or a link by `inviso.link`.
pub fn are_related(host: &Host) -> bool {
    LINKED.load(Ordering::Relaxed) != 0 || host.node.is_port_named()
}

fn begin(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    words(py)?;
    pipe::begin(py)?;
    modules::want(py, host, &MODULES)?;
    leave_closed(py, host)?;
    refresh(py, host)
}

fn end(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    socket::end();
    pipe::end();
    lock(&OPENING).clear();
    watch::remove(py, host, &socket::HANDLERS)?;
    watch::remove(py, host, &subprocess::HANDLERS)?;
    watch::remove(py, host, &transport::HANDLERS)?;
    modules::leave(py, host, &MODULES)?;
    // the ends of ports are no longer seen, and their links would stay for ever
    for port in host.node.ports() {
        for other in host.node.links(port.pid) {
            host.node.part(port.pid, other);
        }
    }
    Ok(())
}

/// Resets everything in a forked child: no instrument is installed there.
fn forget(_py: Python<'_>) {
    modules::forget(&MODULES);
    traffic::forget();
    socket::end();
    pipe::end();
    passages::forget_all();
}

/// Takes in every port that exists and has not been seen yet. One that is being opened is not a port before that is
/// reported.
///
/// # Errors
/// The error of listing them.
pub fn refresh(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    if !INSTRUMENT.on.load(Ordering::Acquire) {
        leave_closed(py, host)?;
    }
    for object in py.import("gc")?.call_method0("get_objects")?.cast_into::<pyo3::types::PyList>()?.iter() {
        let open = look(&object).filter(|seen| seen.is_open);
        // after the look: an object that is open and not in the list has been reported
        if let Some(seen) = open.filter(|_| !lock(&OPENING).contains(&(object.as_ptr() as usize))) {
            let port = host.directory.object_process(host, Kind::Port, object.as_ptr() as usize, None);
            own(&port).driver.get_or_init(|| seen.driver);
            if INSTRUMENT.on.load(Ordering::Relaxed) {
                subprocess::adopt(&object, &port);
            }
        } else {
            transport::adopt(host, &object);
        }
    }
    Ok(())
}

/// Drops the ports that were closed while the instrument was off. While it is on, a port that is found closed will be
/// reported by the call that closes it, or when its object is freed.
fn leave_closed(py: Python<'_>, host: &'static Host) -> PyResult<()> {
    for port in host.node.ports() {
        if !is_open(py, host, &port)? {
            leave(host, &port);
        }
    }
    Ok(())
}

/// Whether a port was closed while the instrument was off. If so, this ends it.
pub fn was_closed(py: Python<'_>, host: &'static Host, port: &Arc<Tracee>) -> bool {
    if INSTRUMENT.on.load(Ordering::Acquire) || is_open(py, host, port).unwrap_or(true) {
        return false;
    }
    leave(host, port);
    true
}

/// Whether the object of a port exists, and is open.
fn is_open(py: Python<'_>, host: &Host, port: &Arc<Tracee>) -> PyResult<bool> {
    let object = host.directory.object(py, port)?;
    Ok(object.is_some_and(|object| look(&object).is_some_and(|seen| seen.is_open)))
}

/// The object of a port is about to be freed.
pub fn collected(host: &'static Host, port: &Arc<Tracee>) {
    if !port.is_alive() {
        return;
    }
    let close = |state: &mut ThreadState| {
        untraced(state, |_, state| {
            // SAFETY: the thread is attached.
            unsafe { state.running.identify(state.host, &mut state.thread) };
            closed(host, &mut state.thread, port, &crate::directory::exit_reason::normal());
        });
    };
    // SAFETY: attached.
    let told = INSTRUMENT.on.load(Ordering::Relaxed) && unsafe { crate::door::enter(close) }.is_some();
    if !told {
        leave(host, port);
    }
}
