//! Links and names of the processes and ports of a node.
//!
//! # Roles
//! Any thread: a short lock, under which nothing else is locked and nothing waited for.
//!
//! # Orderings
//! The lock's. `used` of names is written and read under the node's lock of its processes; of links it is a hint that is never taken back.
#![forbid(unsafe_code)]

use crate::sync::{AtomicBool, Mutex, Ordering::Relaxed, Unpoisoned};
use rustc_hash::FxHashMap;

/// Links and names of a node. A short lock; nothing else is locked and nothing waited for under it.
#[derive(Default)]
pub(crate) struct Relations {
    pub known: Mutex<LinkTables>,
    /// Whether there has ever been a link or a name. Of names it is written and read under the node's lock of its processes, so
    /// that a process that ends finds its own.
    pub used: AtomicBool,
}

#[derive(Default)]
pub(crate) struct LinkTables {
    pub links: FxHashMap<u64, Vec<u64>>,
    pub by_name: FxHashMap<Box<str>, u64>,
    pub by_pid: FxHashMap<u64, Box<str>>,
}

impl Relations {
    /// Whether anything may have a link or a name. Of names to be trusted under the lock of the node's processes.
    pub fn are_used(&self) -> bool {
        self.used.load(Relaxed)
    }

    /// A process has ended, and is not among the node's any more: a name that it was given after `Node::unrelate`, or
    /// has because nobody called that, is free again.
    pub fn forget_name(&self, pid: u64) {
        let mut known = self.known.lock().unpoisoned();
        if let Some(name) = known.by_pid.remove(&pid) {
            known.by_name.remove(&name);
        }
    }
}

impl LinkTables {
    pub fn join(&mut self, one: u64, other: u64) -> bool {
        let links = self.links.entry(one).or_default();
        let fresh = !links.contains(&other);
        if fresh {
            links.push(other);
        }
        fresh
    }

    pub fn part(&mut self, one: u64, other: u64) -> bool {
        let Some(links) = self.links.get_mut(&one) else { return false };
        let Some(at) = links.iter().position(|link| *link == other) else { return false };
        links.remove(at);
        if links.is_empty() {
            self.links.remove(&one);
        }
        true
    }
}
