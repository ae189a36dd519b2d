//! Functions that are created later: the code of each new function object is offered once to every session's `on_load`.
//!
//! On 3.12 and later a function watcher reports new functions. On 3.11 the frame evaluation function sees each frame
//! and passes it to this file if its code is new.
//!
//! # Roles
//! Sessions begin and end the noticing. Any attached thread makes a function, or begins a frame.
//!
//! # States
//! Those of `state::loading`.
//!
//! # Orderings
//! Those of `state::loading`.
//!
//! # Checked by
//! `tests/python/test_trace_loading.py`.

use super::{arming::Armer, codes, found};
#[cfg(not(Py_3_12))]
use crate::state::loading::TIMES;
use crate::state::{
    host::Host,
    loading::{is_on, KnownCode, Loading, ON},
    pattern,
};
#[cfg(Py_3_12)]
use crate::{door, state::loading::is_changing};
use inviso_core::host::{plan::Mfa, sync::Unpoisoned};
use inviso_cpython::{frames::frame, interpreter::calling};
use pyo3::{ffi, prelude::*};
use rustc_hash::FxHashMap;
use std::sync::{atomic::Ordering, MutexGuard};

impl Loading {
    fn known(&self) -> MutexGuard<'_, KnownCode> {
        self.known.lock().unpoisoned()
    }

    /// New code is noticed from now on. Code that exists now is not new.
    ///
    /// # Errors
    /// No watcher slot is left, or listing the functions raised an error.
    pub fn begin(&self, py: Python<'_>) -> PyResult<()> {
        if is_on() {
            return Ok(());
        }
        #[cfg(Py_3_12)]
        {
            // SAFETY: both callbacks follow their contracts and are never unloaded.
            let watchers = unsafe {
                use inviso_cpython::hooks::watch::Watcher;
                let code = Watcher::code(py, code_event)
                    .map_err(|e| pyo3::exceptions::PyRuntimeError::new_err(e.to_string()))?;
                let function = Watcher::function(py, function_event)
                    .map_err(|e| pyo3::exceptions::PyRuntimeError::new_err(e.to_string()))?;
                (code, function)
            };
            self.known().watchers = Some(watchers);
        }
        #[cfg(not(Py_3_12))]
        TIMES.fetch_add(1, Ordering::Relaxed);
        ON.store(true, Ordering::Release);
        let all = codes::find(py, &pattern::Pattern { module: None, function: None, arity: None })?;
        let mut known = self.known();
        known.codes.extend(all.iter().map(|found| found.code.as_ptr() as usize));
        #[cfg(not(Py_3_12))]
        known.held.extend(all.into_iter().map(|found| found.code));
        // code that is freed with `all` locks this again
        drop(known);
        Ok(())
    }

    /// No session waits for new code any more.
    pub fn end(&self, py: Python<'_>) {
        if !ON.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut known = self.known();
        let old = std::mem::take(&mut *known);
        drop(known);
        #[cfg(Py_3_12)]
        if let Some((code, function)) = old.watchers {
            code.clear(py);
            function.clear(py);
        }
        #[cfg(not(Py_3_12))]
        drop(old.held);
        let _ = py;
    }

    fn wanted(&self) -> MutexGuard<'_, FxHashMap<u64, Vec<pattern::Pattern>>> {
        self.wanted.lock().unpoisoned()
    }

    /// A session waits for the functions that these patterns match.
    pub fn want(&self, session: u64, patterns: Vec<pattern::Pattern>) {
        self.wanted().insert(session, patterns);
    }

    /// A session does not wait for functions any more.
    pub fn unwant(&self, session: u64) {
        self.wanted().remove(&session);
    }

    /// Whether a session waits for this function.
    fn wants(&self, session: u64, name: &Mfa) -> bool {
        self.wanted().get(&session).is_some_and(|patterns| patterns.iter().any(|p| p.takes(name)))
    }

    /// Whether any session waits for functions with these globals.
    ///
    /// # Safety
    /// `globals` stands, and the calling thread is attached.
    unsafe fn wants_module(&self, globals: *mut ffi::PyObject) -> bool {
        // SAFETY: `globals` stands; attached.
        let module = unsafe { frame::module_of(globals) };
        // a module without a name may go by the name of its file; the search decides
        // SAFETY: the caller promises that the thread is attached.
        let name = codes::text(unsafe { Python::assume_attached() }, module.as_ptr());
        let named = |pattern: &pattern::Pattern| name.as_deref().is_none_or(|name| pattern.takes_module(name));
        self.wanted().values().flatten().any(named)
    }

    /// Adds code to the known code. Returns whether it is new.
    fn is_new(&self, code: usize) -> bool {
        self.known().codes.insert(code)
    }
}

impl Host {
    /// Offers the functions that were created inside a change. Called outside of a change.
    pub fn catch_up(&'static self, py: Python<'_>) {
        let late = std::mem::take(&mut *self.loading.late.lock().unpoisoned());
        for function in late {
            self.function_made(py, function.bind(py));
        }
    }

    /// A function object was created.
    fn function_made(&'static self, py: Python<'_>, function: &Bound<'_, PyAny>) {
        // SAFETY: `function` is a function.
        let code = unsafe { ffi::PyFunction_GetCode(function.as_ptr()) };
        // SAFETY: a function's globals live as long as the function.
        let wanted = unsafe { self.loading.wants_module(ffi::PyFunction_GetGlobals(function.as_ptr())) };
        if !self.loading.is_new(code as usize) || !wanted {
            return;
        }
        let found: Vec<found::Found> = codes::of_function(py, function)
            .into_iter()
            .filter(|f| f.code.as_ptr() == code || self.loading.is_new(f.code.as_ptr() as usize))
            .collect();
        self.offer(py, found);
    }

    /// Offers new code to every session that waits for some.
    pub fn offer(&'static self, py: Python<'_>, found: Vec<found::Found>) {
        let wanted = |name: &Mfa| self.loading.wanted().values().flatten().any(|p| p.takes(name));
        let found: Vec<_> =
            found.into_iter().filter(|f| !pattern::is_ours(&f.name.module) && wanted(&f.name)).collect();
        if found.is_empty() || calling::is_ending(py) {
            return;
        }
        let targets = codes::targets(py, self, found);
        py.detach(|| self.node.loaded(&targets, &|session, name| self.loading.wants(session, name), &Armer));
        self.release(py, targets.iter().map(|t| t.key));
        self.catch_up(py);
    }
}

/// A function object was created: its code is offered if it is new. Other events are ignored.
///
/// # Safety
/// To be called by the interpreter only, as a watcher of functions.
#[cfg(Py_3_12)]
unsafe extern "C" fn function_event(
    event: std::ffi::c_int, function: *mut ffi::PyObject, _value: *mut ffi::PyObject,
) -> std::ffi::c_int {
    if !is_on() || event != inviso_cpython::hooks::watch::FUNCTION_CREATE {
        return 0;
    }
    let Some(host) = crate::state::host::try_host() else { return 0 };
    door::guard(|| {
        // SAFETY: the interpreter passes a function, and this thread is attached.
        let code = unsafe { ffi::PyFunction_GetCode(function) } as usize;
        if code == 0 || host.loading.known().codes.contains(&code) {
            return;
        }
        calling::attached(|py| {
            // SAFETY: the function stands during the event; attached.
            let function = unsafe { Bound::from_borrowed_ptr(py, function) };
            if is_changing() {
                host.loading.late.lock().unpoisoned().push(function.unbind());
            } else {
                host.function_made(py, &function);
            }
        });
    });
    0
}

/// A code object is about to be freed.
///
/// # Safety
/// To be called by the interpreter only, as a watcher of code objects.
#[cfg(Py_3_12)]
unsafe extern "C" fn code_event(event: std::ffi::c_int, code: *mut ffi::PyObject) -> std::ffi::c_int {
    if event == inviso_cpython::hooks::watch::CODE_DESTROY {
        if let Some(host) = crate::state::host::try_host() {
            door::guard(|| host.loading.known().codes.remove(&(code as usize)));
        }
    }
    0
}

/// A frame begins (3.11). If its code is new, it is offered to sessions before the call is handled.
#[cfg(not(Py_3_12))]
#[inline(always)]
pub fn first_seen(state: &mut crate::state::thread::ThreadState, frame: inviso_cpython::frames::frame::Frame) {
    if is_on() {
        // SAFETY: the frame is about to run, so its code stands.
        let code = unsafe { frame.code() } as usize;
        if !state.seen_code.has(code) {
            meet(state, frame, code);
        }
    }
}

#[cfg(not(Py_3_12))]
#[inline(never)]
fn meet(state: &mut crate::state::thread::ThreadState, frame: inviso_cpython::frames::frame::Frame, code: usize) {
    if state.host.loading.is_new(code) {
        offer_frame(state, frame);
    }
    state.seen_code.add(code);
}

#[cfg(not(Py_3_12))]
#[cold]
#[inline(never)]
fn offer_frame(state: &mut crate::state::thread::ThreadState, frame: inviso_cpython::frames::frame::Frame) {
    calling::attached(|py| {
        // SAFETY: the frame's globals live as long as the frame.
        let wanted = unsafe { state.host.loading.wants_module(frame.globals()) };
        // SAFETY: the frame's function and code live as long as the frame.
        let (function, code) = unsafe {
            (Bound::from_borrowed_ptr(py, frame.function()), Bound::from_borrowed_ptr(py, frame.code()).unbind())
        };
        let here_code = code.as_ptr();
        state.host.loading.known().held.push(code);
        if !wanted {
            return;
        }
        let found = codes::of_function(py, &function);
        let fresh = found.into_iter().filter(|f| f.code.as_ptr() == here_code).collect();
        state.host.offer(py, fresh);
    });
}

/// Stops all waiting in a forked child. The old host's locks may be held for ever there.
pub fn forget(py: Python<'_>) {
    ON.store(false, Ordering::Release);
    if let Some(host) = crate::state::host::try_host() {
        if let Ok(mut known) = host.loading.known.try_lock() {
            let old = std::mem::take(&mut *known);
            drop(known);
            #[cfg(Py_3_12)]
            if let Some((code, function)) = old.watchers {
                code.clear(py);
                function.clear(py);
            }
            #[cfg(not(Py_3_12))]
            drop(old.held);
        }
    }
    let _ = py;
}
