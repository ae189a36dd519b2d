//! Links and names of the processes and ports of a node.
//!
//! # Roles
//! Any thread, under a short lock. Under it no other lock is taken, and nothing waits.
//!
//! # States
//! `used` is false until the first link or name, then true for good.
//!
//! # Orderings
//! The lock's. For names, `used` is written and read under the lock of the registry. For links it is a hint.
//!
//! # Checked by
//! `tests/kinds.rs`.
#![forbid(unsafe_code)]

use crate::sync::{AtomicBool, Mutex, Ordering::Relaxed, Unpoisoned};
use rustc_hash::FxHashMap;

/// Links and names of a node.
#[derive(Default)]
pub(crate) struct Relations {
    pub known: Mutex<LinkTables>,
    /// Whether there has ever been a link or a name. For names it is written and read under the lock of the registry, so that an ending
    /// process finds its own name.
    pub used: AtomicBool,
}

#[derive(Default)]
pub(crate) struct LinkTables {
    pub links: FxHashMap<u64, Vec<u64>>,
    pub by_name: FxHashMap<Box<str>, u64>,
    pub by_pid: FxHashMap<u64, Box<str>>,
}

impl Relations {
    /// Whether there may be a link or a name. For names it is exact under the lock of the registry.
    pub fn are_used(&self) -> bool {
        self.used.load(Relaxed)
    }

    /// Frees the name of an ended process that is no longer in the registry. It may have got the name after `Node::unrelate`, or the host
    /// may not have called that.
    pub fn forget_name(&self, pid: u64) {
        let mut known = self.known.lock().unpoisoned();
        if let Some(name) = known.by_pid.remove(&pid) {
            known.by_name.remove(&name);
        }
    }
}

impl LinkTables {
    /// Adds a link in one direction. Answers whether it is new.
    pub fn join(&mut self, one: u64, other: u64) -> bool {
        let links = self.links.entry(one).or_default();
        let fresh = !links.contains(&other);
        if fresh {
            links.push(other);
        }
        fresh
    }

    /// Removes a link in one direction. Answers whether there was one.
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
