//! Tasks by their addresses, and how the end of each is heard of.

use super::{directory::lock, process::known};
use inviso_core::tracee::Tracee;
use inviso_cpython::tasks::name::{self as task_name, Name};
use pyo3::{ffi, prelude::*, types::*};
use rustc_hash::FxHashMap;
use std::{
    collections::{hash_map::Entry, VecDeque},
    sync::Arc,
};

/// A task, queue or port: its record, and who tells that its object is gone.
pub(super) struct Task {
    pub(super) tracee: Arc<Tracee>,
    pub(super) end: Teller,
}

/// Who tells that an object is gone.
pub(super) enum Teller {
    /// A weak reference.
    Weak(Py<PyAny>),
    /// The finaliser of its class, see [`task_end`].
    Finaliser,
    /// Nobody.
    None,
}

impl Teller {
    /// The object at this address, of which this tells, if it still exists.
    pub(super) fn object<'py>(&self, py: Python<'py>, address: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Teller::Weak(reference) => reference.bind(py).cast::<PyWeakref>().ok()?.upgrade(),
            // SAFETY: while the thread is attached (there is a GIL where finalisers tell) no other one lets go of it, and this
            // one does after the finaliser only.
            Teller::Finaliser => unsafe { Bound::from_borrowed_ptr_or_opt(py, address as *mut ffi::PyObject) },
            Teller::None => None,
        }
    }

    pub(super) fn copy(&self, py: Python<'_>) -> Teller {
        match self {
            Teller::Weak(reference) => Teller::Weak(reference.clone_ref(py)),
            Teller::Finaliser => Teller::Finaliser,
            Teller::None => Teller::None,
        }
    }
}

/// Tasks, queues and ports by address, and those addresses by that of the weak reference.
#[derive(Default)]
pub(super) struct Tasks {
    pub(super) all: FxHashMap<usize, Task>,
    pub(super) references: FxHashMap<usize, usize>,
    pub(super) ended: EndedNames,
}

impl Tasks {
    /// Takes out what has ended, if it is to be `told` so, and keeps the name that it was given, or else its own.
    ///
    /// # Safety
    /// Attached; nothing of the object at this address has been cleared.
    pub(super) unsafe fn end(&mut self, py: Python<'_>, address: usize, told: fn(&Teller) -> bool) -> Option<Task> {
        let ended = match self.all.entry(address) {
            Entry::Occupied(known) if told(&known.get().end) => known.remove(),
            _ => return None,
        };
        // SAFETY: the caller's promise.
        let own = || unsafe { task_name::name(py, address as *mut ffi::PyObject) };
        let given = known(&ended.tracee).and_then(|process| lock(&process.name).clone()).map(Name::Given);
        if let Some(name) = given.or_else(own) {
            self.ended.keep(ended.tracee.pid, name);
        }
        Some(ended)
    }
}

/// Names of processes that have ended, the latest ones.
#[derive(Default)]
pub(super) struct EndedNames(pub(super) VecDeque<(u64, Name)>);

/// How many names of ended threads, and of tasks, are kept.
pub(super) const ENDED_NAMES: usize = 4096;

impl EndedNames {
    pub(super) fn keep(&mut self, pid: u64, name: Name) {
        if self.0.len() >= ENDED_NAMES {
            self.0.pop_front();
        }
        self.0.push_back((pid, name));
    }

    /// Rarely asked for, and of many thousands.
    pub(super) fn find(&self, pid: u64) -> Option<String> {
        self.0.iter().rev().find(|(known, _)| *known == pid).map(|(_, name)| name.text())
    }
}
