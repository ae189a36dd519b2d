//! Tasks by their addresses, and how the end of each is heard of.

use super::{lock, process::known};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::tasks::name::{self as task_name, Name};
use pyo3::{ffi, prelude::*, types::*};
use rustc_hash::FxHashMap;
use std::{collections::VecDeque, sync::Arc};

/// A task, queue or port: its record, and how the end of its object is reported.
pub struct Task {
    pub tracee: Arc<Tracee>,
    pub end: EndNotice,
}

/// The weak reference that reports the end of an object; `None` if the end is not reported.
pub struct EndNotice(pub Option<Py<PyAny>>);

impl EndNotice {
    /// The object whose end this reports, if it still exists.
    pub fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.0.as_ref()?.bind(py).cast::<PyWeakref>().ok()?.upgrade()
    }

    pub fn copy(&self, py: Python<'_>) -> EndNotice {
        EndNotice(self.0.as_ref().map(|reference| reference.clone_ref(py)))
    }
}

/// Tasks, queues and ports by address, and those addresses by the address of the weak reference.
#[derive(Default)]
pub struct Tasks {
    pub all: FxHashMap<usize, Task>,
    pub references: FxHashMap<usize, usize>,
    pub ended: EndedNames,
}

impl Tasks {
    /// Removes an object that has ended. Keeps its given name, or else its own. Runs no code of Python's: the table is
    /// in use.
    ///
    /// # Safety
    /// Attached; nothing of the object at this address has been cleared.
    pub unsafe fn end(&mut self, py: Python<'_>, address: usize) -> Option<Task> {
        let ended = self.all.remove(&address)?;
        // SAFETY: attached; nothing of the object at this address has been cleared.
        let own = || unsafe { task_name::name(py, address as *mut ffi::PyObject) };
        let given = known(&ended.tracee).and_then(|process| lock(&process.name).clone()).map(Name::Given);
        if let Some(name) = given.or_else(own) {
            self.ended.keep(ended.tracee.pid, name);
        }
        Some(ended)
    }
}

/// The names of the processes that ended last.
#[derive(Default)]
pub struct EndedNames(pub VecDeque<(u64, Name)>);

/// How many names are kept: of threads, and of tasks.
pub const ENDED_NAMES: usize = 4096;

impl EndedNames {
    pub fn keep(&mut self, pid: u64, name: Name) {
        if self.0.len() >= ENDED_NAMES {
            self.0.pop_front();
        }
        self.0.push_back((pid, name));
    }

    /// Called rarely; searches thousands of names.
    pub fn find(&self, pid: u64) -> Option<String> {
        self.0.iter().rev().find(|(known, _)| *known == pid).map(|(_, name)| name.text())
    }
}
