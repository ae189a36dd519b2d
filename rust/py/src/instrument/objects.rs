//! Objects on their way to a tracer that gets them as they are (`capture="ref"`): they wait beside the rings, whose records say
//! which they are.

use crate::convert::terms;
use pyo3::{prelude::*, types::PyList};
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

/// Calls of one scheduler whose objects wait at most.
const MOST: usize = 1 << 14;

/// The arguments of one call. To be dropped attached, and outside every lock: a destructor may run any code.
pub struct Arguments {
    /// The objects; `None` where there is none yet.
    pub values: Vec<Option<Py<PyAny>>>,
    /// Whether there may be more that are not shown.
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
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Keeps a call's arguments and answers their number. Where too many wait already, the oldest are let go of if the session
    /// keeps the newest, else the answer is `None`.
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

    /// The arguments of a number. Those before it belong to records that were lost, and go to `stale`.
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
