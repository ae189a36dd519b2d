//! What follows the end of a session, or a change of its patterns and flags.

use crate::{
    control::arming::Armer,
    door,
    state::{
        host::{try_host, Host},
        loading,
        wants::Wants,
    },
};
use inviso_core::host::{plan::kinds, session::Session as Core, sync::Unpoisoned};
use inviso_cpython::interpreter::calling;
use pyo3::prelude::*;
use std::sync::Arc;

impl Host {
    /// Ends a session and releases what it held.
    ///
    /// # Errors
    /// The error of `sys.monitoring`.
    pub fn end_session(&'static self, py: Python<'_>, core: &Arc<Core>) -> PyResult<bool> {
        if calling::is_ending(py) {
            return Ok(false); // it ends with the interpreter
        }
        let done = py.detach(|| {
            inviso_port::recorder::end(core);
            self.node.session_destroy(core, &Armer)
        });
        self.loading.unwant(core.id);
        if let Some(delivery) = self.deliveries.close(core.id) {
            if let Some(tracer) = &delivery.tracer {
                tracer.release(py);
            }
            if let Some(port) = delivery.port.clone() {
                py.detach(|| port.detach(core));
            }
            drop(delivery);
        }
        self.after_change(py)?;
        Ok(done)
    }

    /// Ends the sessions whose last strong handle is gone.
    pub fn reap(&'static self, py: Python<'_>) {
        let pending_ends = std::mem::take(&mut *self.pending_ends.lock().unpoisoned());
        for core in pending_ends {
            if let Err(error) = self.end_session(py, &core) {
                error.write_unraisable(py, None);
            }
        }
    }

    /// Switches off the instruments that no session needs any more, and drops objects.
    ///
    /// # Errors
    /// The error of `sys.monitoring`.
    pub fn after_change(&'static self, py: Python<'_>) -> PyResult<()> {
        if calling::is_ending(py) {
            return Ok(());
        }
        let sessions = self.node.sessions();
        if loading::is_on() && sessions.iter().all(|s| s.on_load().is_none()) {
            self.loading.end(py);
            let all = self.node.read(|s| s.events);
            inviso_core::host::control::Arm::arm(&Armer, &[], all);
        }
        self.adjust(py, Wants::default())?;
        if inviso_cpython::hooks::alloc::is_installed(py) {
            let needed = sessions.iter().any(|s| s.on_load().is_some_and(|e| e.has & kinds::MEMORY != 0))
                || self.node.read(|s| s.plans().any(|(_, p)| p.entries.iter().any(|e| e.has & kinds::MEMORY != 0)));
            if !needed {
                inviso_cpython::hooks::alloc::remove(py);
            }
        }
        self.drop_deferred(py);
        self.catch_up(py);
        Ok(())
    }

    /// Counts the bytes requested from Python's allocators from now on.
    pub fn count_allocations(&self, py: Python<'_>) -> PyResult<()> {
        inviso_cpython::hooks::alloc::install(py).map_err(|_| {
            pyo3::exceptions::PyRuntimeError::new_err("call_memory: too many other allocator hooks have come and gone")
        })
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
