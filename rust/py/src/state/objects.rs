//! Objects on their way to a tracer that gets them as they are (`capture="ref"`). They wait beside the rings; a record
//! has the number of its objects.
//!
//! # Roles
//! Traced threads put objects. The one reader of a session's rings takes them.
//!
//! # States
//! A scheduler has a queue of objects with rising numbers, [`MOST`] at most.
//!
//! # Orderings
//! The mutex orders everything. A thread puts the objects before it emits their record.
//!
//! # Checked by
//! `tests/python/test_trace_functions.py`, `tests/python/test_trace_messages.py`.

use crate::convert::terms;
use inviso_core::host::sync::Unpoisoned;
use pyo3::{prelude::*, types::PyList};
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

/// The most calls of one scheduler whose objects wait.
const MOST: usize = 1 << 14;

/// The arguments of one call. They are dropped attached and outside every lock, since a destructor may run any code.
pub struct Arguments {
    /// The objects; `None` for an argument without a value yet.
    pub values: Vec<Option<Py<PyAny>>>,
    /// Whether there may be more arguments that are not shown.
    pub more: bool,
}

impl Arguments {
    /// The list of the objects.
    ///
    /// # Errors
    /// No memory.
    pub fn list(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let list = PyList::empty(py);
        for value in self.values {
            match value {
                Some(value) => list.append(value)?,
                None => list.append(terms::cut(py, "unbound")?)?,
            }
        }
        if self.more {
            list.append(terms::cut(py, "arguments")?)?;
        }
        Ok(list.into_any().unbind())
    }
}

impl Arguments {
    /// The value that a call returned; a mark where it was not shown.
    ///
    /// # Errors
    /// No memory.
    pub fn one(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.values.into_iter().next().flatten() {
            Some(value) => Ok(value),
            None => Ok(terms::cut(py, "result")?.unbind()),
        }
    }
}

/// The objects that wait for one session's tracer.
#[derive(Default)]
pub struct Objects(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    by_scheduler: FxHashMap<u16, VecDeque<(u64, Arguments)>>,
}

impl Objects {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unpoisoned()
    }

    /// Keeps a call's arguments and returns their number. If too many wait already, it drops the oldest for a session
    /// that keeps the newest, and else returns `None`.
    pub fn put(&self, scheduler: u16, arguments: Arguments, keeps_newest: bool) -> Option<u64> {
        let mut waiting = self.lock();
        waiting.last += 1;
        let number = waiting.last;
        let queue = waiting.by_scheduler.entry(scheduler).or_default();
        let mut gone = None;
        if queue.len() >= MOST {
            if !keeps_newest {
                drop(waiting);
                return None;
            }
            gone = queue.pop_front();
        }
        queue.push_back((number, arguments));
        drop(waiting);
        drop(gone);
        Some(number)
    }

    /// The arguments of a number. Those with lower numbers belong to lost records and go to `stale`.
    pub fn take(&self, scheduler: u16, number: u64, stale: &mut Vec<Arguments>) -> Option<Arguments> {
        let mut waiting = self.lock();
        let queue = waiting.by_scheduler.get_mut(&scheduler)?;
        while queue.front().is_some_and(|(first, _)| *first < number) {
            stale.extend(queue.pop_front().map(|(_, arguments)| arguments));
        }
        queue.front().filter(|(first, _)| *first == number)?;
        queue.pop_front().map(|(_, arguments)| arguments)
    }
}
