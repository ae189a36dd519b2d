//! All processes, by their objects and threads in Python.

use super::tasks::{EndedNames, Tasks, ENDED_NAMES};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::object::gil_cell::GilCell;
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// All processes, by their objects and threads in Python.
#[derive(Default)]
pub struct Directory {
    pub tasks: GilCell<Tasks>,
    pub threads: Mutex<FxHashMap<u64, Arc<Tracee>>>,
    pub ended_threads: Mutex<EndedNames>,
    /// The operating system's numbers of threads, by pid: the latest.
    pub numbers: Mutex<Numbers>,
}

/// The operating system's numbers of threads, also of ended ones, each with the name that its thread object had.
#[derive(Default)]
pub struct Numbers {
    pub of: FxHashMap<u64, (u64, String)>,
    pub order: VecDeque<u64>,
}

impl Numbers {
    pub fn note(&mut self, pid: u64, number: u64) {
        let new = !self.of.contains_key(&pid);
        self.of.entry(pid).or_default().0 = number;
        if new {
            self.order.push_back(pid);
            if self.order.len() > ENDED_NAMES {
                let oldest = self.order.pop_front();
                oldest.map(|pid| self.of.remove(&pid));
            }
        }
    }
}
