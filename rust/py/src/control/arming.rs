//! Switches interpreter events on and off, as the core's plans need them.
//!
//! # Roles
//! The core's control side calls [`Armer`] under its own lock. Instruments call [`Host::watch`] and [`Host::unwatch`].
//! All of them hold the mutex around [`Armed`] while they work.
//!
//! # States
//! A code object is held while a change is under way for it, a plan needs it, or an instrument watches it.
//!
//! # Orderings
//! The mutex orders everything. An attached thread waits for it detached, because its holder may be stopping the world.
//!
//! # Checked by
//! `tests/python/test_trace_host.py`, `tests/python/test_trace_functions.py`, `tests/python/test_host_fork.py`.

use crate::state::{
    above::above,
    armed::Armed,
    host::{try_host, Host},
    loading::Changing,
};
use inviso_core::host::{control::Arm, plan::events, sync::Unpoisoned};
use pyo3::{prelude::*, sync::MutexExt};
use std::{collections::hash_map::Entry, sync::MutexGuard};

/// The name of our `sys.monitoring` tool.
#[cfg(Py_3_12)]
pub const TOOL: &str = "inviso";

/// How many functions a free-threaded build arms one by one.
#[cfg(Py_GIL_DISABLED)]
const ONE_BY_ONE: usize = 32;

impl Host {
    /// Holds code objects that are about to get a plan, until [`Host::release`].
    pub fn hold(&self, py: Python<'_>, codes: impl IntoIterator<Item = (usize, Py<PyAny>)>) {
        let _changing = Changing::new();
        let mut again = Vec::new();
        let mut armed = self.lock_arming(py);
        for (key, code) in codes {
            match armed.codes.entry(key) {
                Entry::Vacant(place) => {
                    place.insert((code, 1));
                }
                Entry::Occupied(mut held) => {
                    held.get_mut().1 += 1;
                    again.push(code);
                }
            }
        }
        drop(armed);
        again.into_iter().for_each(|code| self.defer_drop(code));
    }

    /// Ends a change: drops the code objects that got no plan.
    pub fn release(&self, py: Python<'_>, keys: impl Iterator<Item = usize>) {
        let _changing = Changing::new();
        let mut armed = self.lock_arming(py);
        for key in keys {
            if let Some(held) = armed.codes.get_mut(&key) {
                held.1 = held.1.saturating_sub(1);
            }
            self.drop_idle(&mut armed, key);
        }
    }

    /// Drops a code object that has no plan, that no instrument watches and that no change is about to arm.
    fn drop_idle(&self, armed: &mut Armed, key: usize) {
        let idle = armed.codes.get(&key).is_some_and(|(_, holds)| *holds == 0);
        if idle && !armed.planned.contains_key(&key) && !armed.watched.contains_key(&key) {
            if let Some((code, _)) = armed.codes.remove(&key) {
                self.defer_drop(code);
            }
        }
    }

    /// Makes sure that events are available, before a change that needs them.
    ///
    /// # Errors
    /// All tool ids are taken; the error names the holders.
    pub fn ready(&self, py: Python<'_>) -> PyResult<()> {
        let _changing = Changing::new();
        self.lock_arming(py).claim(py).map(drop)
    }

    /// Makes sure that functions written in C can be seen.
    ///
    /// # Errors
    /// On 3.11: an audit hook is in the way, or the interpreter is not one that this package knows.
    pub fn ready_for_foreign(&self, py: Python<'_>) -> PyResult<()> {
        #[cfg(not(Py_3_12))]
        inviso_cpython::hooks::profile::check(py)?;
        let _ = py;
        Ok(())
    }

    /// Gives these code objects the events that instruments need, as `needs_of` says, whether a session traces them or
    /// not.
    ///
    /// # Errors
    /// What `sys.monitoring` raises.
    pub fn watch(&self, py: Python<'_>, codes: &[Bound<'_, PyAny>], needs_of: fn(usize) -> u8) -> PyResult<()> {
        self.hold(py, codes.iter().map(|c| (c.as_ptr() as usize, c.clone().unbind())));
        let keys: Vec<usize> = codes.iter().map(|c| c.as_ptr() as usize).collect();
        let done = self.watched_anew(py, &keys, needs_of);
        self.release(py, keys.into_iter());
        done
    }

    /// The same for code objects that are held for their instruments. Drops those that no instrument watches any more.
    ///
    /// # Errors
    /// What `sys.monitoring` raises.
    pub fn unwatch(&self, py: Python<'_>, keys: &[usize], needs_of: fn(usize) -> u8) -> PyResult<()> {
        let done = self.watched_anew(py, keys, needs_of);
        let _changing = Changing::new();
        let mut armed = self.lock_arming(py);
        keys.iter().for_each(|key| self.drop_idle(&mut armed, *key));
        done
    }

    fn watched_anew(&self, py: Python<'_>, keys: &[usize], needs_of: fn(usize) -> u8) -> PyResult<()> {
        let _changing = Changing::new();
        let mut armed = self.lock_arming(py);
        for key in keys {
            match needs_of(*key) {
                0 => armed.watched.remove(key),
                needs => armed.watched.insert(*key, needs),
            };
        }
        if armed.is_bare(py)? && keys.iter().all(|key| armed.watched.get(key).is_none_or(|needs| *needs == 0)) {
            return Ok(()); // nothing is claimed in order to take away what is not there
        }
        armed.apply(py, keys)?;
        let all = self.node.read(|snapshot| snapshot.events);
        armed.apply_global(py, all)
    }

    /// Whether calls reach the package now, and the id of its tool of `sys.monitoring`, which 3.11 has not.
    ///
    /// # Errors
    /// What `sys.monitoring` raises.
    pub fn hook(&self, py: Python<'_>) -> PyResult<(bool, Option<u8>)> {
        #[cfg(Py_3_12)]
        {
            let armed = self.lock_arming(py);
            let Some(tool) = &armed.tool else { return Ok((false, None)) };
            let held = tool.is_held(py)?;
            Ok((held, held.then(|| tool.id())))
        }
        #[cfg(not(Py_3_12))]
        {
            let _ = py;
            Ok((inviso_cpython::hooks::eval::is_active(), None))
        }
    }

    /// The file and the first line of a held code object.
    pub fn place_of(&self, py: Python<'_>, key: usize) -> (String, i32) {
        let code = self.lock_arming(py).codes.get(&key).map(|(c, _)| c.clone_ref(py));
        let Some(code) = code else { return (String::new(), 0) };
        let code = code.bind(py);
        let file = code.getattr("co_filename").and_then(|f| f.extract()).unwrap_or_default();
        (file, code.getattr("co_firstlineno").and_then(|l| l.extract()).unwrap_or(0))
    }

    /// Locks the armed events. Waits detached: the holder may be stopping the world.
    fn lock_arming(&self, py: Python<'_>) -> MutexGuard<'_, Armed> {
        self.arming.lock_py_attached(py).unpoisoned()
    }
}

/// Arms events in the interpreter for the core.
pub struct Armer;

impl Arm for Armer {
    fn arm(&self, functions: &[(usize, u8)], all: u8) {
        // before any Python code can run
        let _changing = Changing::new();
        inviso_cpython::interpreter::calling::attach(|py| {
            let Some(host) = try_host() else { return };
            let mut armed = host.lock_arming(py);
            let mut keys = Vec::with_capacity(functions.len());
            let mut gone = Vec::new();
            for (key, needs) in functions {
                if *needs == 0 {
                    armed.planned.remove(key);
                    gone.push(*key);
                } else {
                    armed.planned.insert(*key, *needs);
                }
                keys.push(*key);
            }
            let done = armed.apply(py, &keys).and_then(|()| armed.apply_global(py, all));
            for key in gone {
                host.drop_idle(&mut armed, key);
            }
            drop(armed);
            if let Err(error) = done {
                error.write_unraisable(py, None);
            }
        });
    }
}

#[cfg(Py_3_12)]
mod monitoring {
    use crate::control::arming::*;
    use inviso_cpython::hooks::{
        monitoring::{Event, Tool, ToolError},
        vectorcall,
    };

    impl Armed {
        fn needs(&self, key: usize) -> u8 {
            self.planned.get(&key).copied().unwrap_or(0) | self.watched.get(&key).copied().unwrap_or(0)
        }

        /// Claims the tool at first use, and again if its id was freed by other code. All codes then get their events,
        /// and the result is true.
        pub(super) fn claim(&mut self, py: Python<'_>) -> PyResult<bool> {
            if !self.is_bare(py)? {
                return Ok(false);
            }
            let tool = Tool::claim(py, TOOL).map_err(taken)?;
            let registered = above().callbacks.iter().try_for_each(|(event, function)| {
                // SAFETY: each callback follows the contract of the event that it is registered for.
                let callback = unsafe { vectorcall::callable(py, *function, std::ptr::null_mut()) }?;
                tool.register(py, *event, Some(&callback))
            });
            if let Err(error) = registered {
                tool.free(py, [])?;
                return Err(error);
            }
            self.tool = Some(tool);
            if !self.everywhere {
                let keys: Vec<usize> = self.planned.keys().chain(self.watched.keys()).copied().collect();
                self.set(py, &keys)?;
            }
            Ok(true)
        }

        /// Whether there is no tool. Drops a tool that lost its id.
        pub(super) fn is_bare(&mut self, py: Python<'_>) -> PyResult<bool> {
            let Some(tool) = &self.tool else { return Ok(true) };
            if tool.is_held(py)? {
                return Ok(false);
            }
            self.global = 0;
            let lost = self.tool.take();
            lost.map_or(Ok(true), |tool| tool.leave(py, self.bound(py)).map(|()| true))
        }

        /// The code objects that may have events.
        fn bound<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
            let codes = self.codes.iter().filter(|(key, (code, _))| code.as_ptr() as usize == **key);
            codes.map(|(_, (code, _))| code.bind(py).clone()).collect()
        }

        /// Sets the local events of these codes.
        fn set(&self, py: Python<'_>, keys: &[usize]) -> PyResult<()> {
            let Some(tool) = &self.tool else { return Ok(()) };
            for key in keys {
                // functions written in C have no code object; their callers have the events
                if let Some((code, _)) = self.codes.get(key).filter(|(c, _)| c.as_ptr() as usize == *key) {
                    tool.set_local_events(code.bind(py), mask(tool, self.needs(*key)) & tool.local_mask())?;
                }
            }
            Ok(())
        }

        /// Sets the local events of these codes to those that they need now.
        pub(super) fn apply(&mut self, py: Python<'_>, keys: &[usize]) -> PyResult<()> {
            if keys.is_empty() {
                return Ok(());
            }
            #[cfg(Py_GIL_DISABLED)]
            if keys.len() > ONE_BY_ONE && keys.iter().any(|k| self.needs(*k) != 0) {
                self.everywhere = true;
            }
            if self.everywhere {
                return Ok(());
            }
            let none = self.is_bare(py)? && keys.iter().all(|key| self.needs(*key) == 0);
            if none || self.claim(py)? {
                return Ok(());
            }
            self.set(py, keys)
        }

        /// Sets the global events to those that all plans and watched codes need. Frees the tool if nothing needs it.
        pub(super) fn apply_global(&mut self, py: Python<'_>, all: u8) -> PyResult<()> {
            let all = self.watched.values().fold(all, |sum, w| sum | w);
            if self.is_bare(py)? && all == 0 {
                return Ok(());
            }
            if self.everywhere && self.planned.len() + self.watched.len() <= 8 {
                self.everywhere = false;
                let keys: Vec<usize> = self.planned.keys().chain(self.watched.keys()).copied().collect();
                self.apply(py, &keys)?;
            }
            self.claim(py)?;
            let Some(tool) = &self.tool else { return Ok(()) };
            let wanted = mask(tool, all);
            let mut global = if self.everywhere { wanted } else { wanted & !tool.local_mask() };
            if all & events::FOREIGN != 0 {
                global |= tool.bit(Event::Call);
            }
            if all & events::HANDLED != 0 {
                // untraced code may catch the exception, too
                global |= tool.mask(&[Event::ExceptionHandled, Event::PyUnwind]);
            }
            if global != self.global {
                tool.set_events(py, global)?;
                self.global = global;
            }
            if all == 0 && self.planned.is_empty() && self.watched.is_empty() {
                if let Some(tool) = self.tool.take() {
                    self.global = 0;
                    tool.free(py, self.bound(py))?;
                }
            }
            Ok(())
        }
    }

    /// An error that names the holders of all tool ids, so the user can free one of them.
    fn taken(error: ToolError) -> PyErr {
        match error {
            ToolError::Raised(error) => error,
            ToolError::Taken(by) => {
                let by: Vec<String> = by.into_iter().map(|(id, name)| format!("{id} by {name:?}")).collect();
                let text =
                    format!("no sys.monitoring tool id is free: {}; one of them has to be given back", by.join(", "));
                pyo3::exceptions::PyRuntimeError::new_err(text)
            }
        }
    }

    fn mask(tool: &Tool, needs: u8) -> u32 {
        use Event::*;
        let mut mask = 0;
        if needs & events::CALL != 0 {
            mask |= tool.bit(PyStart);
        }
        if needs & events::END != 0 {
            mask |= tool.mask(&[PyReturn, PyUnwind]);
        }
        if needs & events::RAISE != 0 {
            mask |= tool.bit(PyUnwind);
        }
        if needs & events::PAUSE != 0 {
            mask |= tool.mask(&[PyYield, PyResume, PyThrow]);
        }
        if needs & events::HANDLED != 0 {
            mask |= tool.mask(&[ExceptionHandled, PyUnwind]);
        }
        mask
    }
}

#[cfg(not(Py_3_12))]
impl Armed {
    fn claim(&mut self, _py: Python<'_>) -> PyResult<bool> {
        Ok(false)
    }

    fn is_bare(&mut self, _py: Python<'_>) -> PyResult<bool> {
        Ok(false)
    }

    fn apply(&mut self, _py: Python<'_>, _keys: &[usize]) -> PyResult<()> {
        Ok(())
    }

    /// The hook is installed while anything needs an event, the profile function while a function written in C is
    /// traced.
    fn apply_global(&mut self, py: Python<'_>, all: u8) -> PyResult<()> {
        let all = self.watched.values().fold(all, |sum, w| sum | w);
        let wanted = all != 0 || crate::state::loading::is_on();
        crate::state::armed::watch_ends(all & events::HANDLED != 0);
        // SAFETY: `evaluate` follows PEP 523, and `evaluate` and `profile` are never unloaded. Patterns on functions
        // written in C are set after `ready_for_foreign`.
        unsafe {
            if all & events::FOREIGN != 0 {
                inviso_cpython::hooks::profile::begin(py, above().profile);
            } else {
                inviso_cpython::hooks::profile::end(py);
            }
            if wanted {
                inviso_cpython::hooks::eval::install(py, above().evaluate)?;
            } else if inviso_cpython::hooks::eval::is_active() {
                inviso_cpython::hooks::eval::remove(py, above().evaluate);
            }
        }
        Ok(())
    }
}
