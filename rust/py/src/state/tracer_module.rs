//! A session's tracer module: its Python objects, until they are released.

use inviso_core::host::{
    session::Session,
    sync::Unpoisoned,
    tracer::{Group, Module},
};
use inviso_cpython::interpreter::again::{self, Whose};
use pyo3::{
    gc::{PyTraverseError, PyVisit},
    prelude::*,
};
use std::sync::{Arc, OnceLock, RwLock, Weak};

/// A session's tracer module.
pub struct Installed {
    pub module: RwLock<Option<Arc<Callbacks>>>,
    pub session: OnceLock<Weak<Session>>,
}

/// `enabled` and `trace`.
pub type EventCallbacks = (Option<Py<PyAny>>, Option<Py<PyAny>>);

pub struct Callbacks {
    pub module: Py<PyAny>,
    pub state: Py<PyAny>,
    /// By group: `enabled`, `trace`. The general pair, which is the first, has both.
    pub pairs: Vec<EventCallbacks>,
}

/// The options for a new session, and the module that it will have.
pub struct NewSession {
    /// For the session's options.
    pub module: Module,
    pub installed: Arc<Installed>,
}

impl NewSession {
    /// Connects the module with its session.
    pub fn installed(self, session: &Arc<Session>) -> Arc<Installed> {
        let _first = self.installed.session.set(Arc::downgrade(session));
        self.installed
    }
}

impl Installed {
    /// The callbacks, until they are released.
    pub fn callbacks(&self) -> Option<Arc<Callbacks>> {
        self.module.read().unpoisoned().clone()
    }

    /// The module and its state, until they are released.
    pub fn pair(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        self.callbacks().map(|known| (known.module.clone_ref(py), known.state.clone_ref(py)))
    }

    /// Drops the Python objects: attached, at the session's end.
    pub fn release(&self, _py: Python<'_>) {
        let known = self.module.write().unpoisoned().take();
        drop(known);
    }

    /// Shows the collector the objects that are held here, as if the caller held them.
    ///
    /// # Errors
    /// The collector's.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // threads hold the lock only attached, without running Python: it is free while the collector runs
        let Ok(known) = self.module.try_read() else { return Ok(()) };
        // a module that is being called stays
        let Some(known) = known.as_ref().filter(|known| Arc::strong_count(known) == 1) else { return Ok(()) };
        visit.call(&known.module)?;
        visit.call(&known.state)?;
        for (asks, told) in &known.pairs {
            visit.call(asks)?;
            visit.call(told)?;
        }
        Ok(())
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.session.get().and_then(Weak::upgrade)
    }

    /// A callback has returned an invalid answer, which can't be shown.
    pub fn note_failure(&self) {
        if let Some(session) = self.session() {
            session.note_tracer_error();
        }
    }

    /// A callback has raised, or returned an invalid answer. An exception of a signal's handler is the program's, and
    /// is raised again.
    pub fn failed(&self, py: Python<'_>, error: PyErr, callback: &Bound<'_, PyAny>) {
        let whose = again::whose(py, &error);
        if whose == Whose::Handler && again::raise(py, &error) {
            return;
        }
        let before = self.session().map_or(0, |session| session.note_tracer_error());
        if before == 0 {
            error.clone_ref(py).write_unraisable(py, Some(callback));
        }
        // last: the report may be Python code, which this exception would end
        if whose == Whose::Either {
            again::raise(py, &error);
        }
    }
}

impl Callbacks {
    /// The pair of a group; the general one replaces a callback that is missing.
    pub fn of(&self, group: Group) -> (Option<&Py<PyAny>>, Option<&Py<PyAny>>) {
        let at = Group::NAMES.iter().position(|(known, _)| *known == group).unwrap_or(0);
        let own = self.pairs.get(at);
        let general = self.pairs.first();
        let asks = own.and_then(|pair| pair.0.as_ref()).or_else(|| general?.0.as_ref());
        (asks, own.and_then(|pair| pair.1.as_ref()).or_else(|| general?.1.as_ref()))
    }
}
