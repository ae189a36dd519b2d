//! Links and names of processes and ports.
//!
//! Rules: trace.md, `process/4` (link, unlink, getting_linked, getting_unlinked, register, unregister, set_on_link,
//! set_on_first_link); gold README 33, 34. The host carries out the effect of a link when a process ends.
//!
//! # Roles
//! Any thread links, names and asks. A process that ends removes its own links and name.
//!
//! # States
//! A link is in the table with both of its ends, or not at all. A name has one process or port, which has one name.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | links and names | any, under the lock `known` | any, under that lock | the lock's |
//! | `used`, for names | [`Node::register`], `Relaxed`, under the registry's lock | the end of a process, `Relaxed`, under that lock | a process that ends finds its name |
//! | `used`, for links | [`Node::link_begin`], `Relaxed` | [`Node::is_related`], `Relaxed` | a hint that is never reset; the tables themselves are read under `known` |
//!
//! The registry's lock is taken before `known`.
//!
//! # Checked by
//! `tests/messages.rs`, `tests/python/test_process_links.py`, `tests/python/test_trace_processes.py`.
#![forbid(unsafe_code)]

use crate::{
    record::identity::Kind as What,
    state::{flags::Flags, node::Node, thread::Thread, tracee::Tracee},
    sync::{Ordering::Relaxed, Unpoisoned},
    trace::about::About,
};
use inviso_term::{etf, record::Kind, term::Term};
use std::sync::Arc;

/// Why a name can't be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// Another process or port has the name.
    Taken,
    /// The process or port has a name already.
    HasName,
    /// It has ended.
    Dead,
}

/// The flag for these events: `ports` for a port, `procs` for a process.
fn of(tracee: &Tracee) -> Flags {
    if tracee.kind == What::Port {
        Flags::PORTS
    } else {
        Flags::PROCS
    }
}

impl Node {
    /// `from` links itself to `to`, which inherits trace flags by `set_on_link` and `set_on_first_link`; `true` if the link is new.
    pub fn link(&self, thread: &mut Thread, from: &Tracee, to: &Tracee) -> bool {
        let fresh = self.link_begin(thread, from, to, false);
        if fresh {
            self.on_getting_linked(thread, to, from.pid);
        }
        fresh
    }

    /// The half of [`Node::link`] that `from` sees. If it answers `true`, [`Node::on_getting_linked`] must follow. With `starts`, `to` is
    /// being started: the flags that it inherits replace those that new processes have.
    pub fn link_begin(&self, thread: &mut Thread, from: &Tracee, to: &Tracee, starts: bool) -> bool {
        self.emit_event(thread, About::Other(from), of(from), Kind::Link, to.pid, &[]);
        if from.pid == to.pid {
            return false;
        }
        self.relations.used.store(true, Relaxed);
        let mut known = self.relations.known.lock().unpoisoned();
        let fresh = known.join(from.pid, to.pid) & known.join(to.pid, from.pid);
        drop(known);
        if fresh {
            self.inherit_by_link(from, to, starts);
        }
        fresh
    }

    /// `by` has linked itself to `tracee`.
    pub fn on_getting_linked(&self, thread: &mut Thread, tracee: &Tracee, by: u64) {
        self.emit_event(thread, About::Other(tracee), of(tracee), Kind::GettingLinked, by, &[]);
    }

    /// Between processes only: a link with a port passes no flags, and does not count as a first link.
    fn inherit_by_link(&self, from: &Tracee, to: &Tracee, starts: bool) {
        if !(from.kind.is_process() && to.kind.is_process()) {
            return;
        }
        for session in self.sessions() {
            let new = if starts { session.new_flags(to.kind) } else { Flags::NONE };
            to.inherit_by_link(session.index, from, new);
        }
    }

    /// `from` removes its link to `to`; `true` if there was one.
    pub fn unlink(&self, thread: &mut Thread, from: &Tracee, to: u64) -> bool {
        self.emit_event(thread, About::Other(from), of(from), Kind::Unlink, to, &[]);
        let parted = self.part(from.pid, to);
        if parted {
            if let Some(other) = self.tracee(to) {
                self.emit_event(thread, About::Other(&other), of(&other), Kind::GettingUnlinked, from.pid, &[]);
            }
        }
        parted
    }

    /// Removes a link without an event; `true` if there was one.
    pub fn part(&self, one: u64, other: u64) -> bool {
        let mut known = self.relations.known.lock().unpoisoned();
        known.part(one, other) | known.part(other, one)
    }

    /// A link of `tracee` is removed because `ended` has ended.
    pub fn on_getting_unlinked(&self, thread: &mut Thread, tracee: &Tracee, ended: u64) {
        self.emit_event(thread, About::Other(tracee), of(tracee), Kind::GettingUnlinked, ended, &[]);
    }

    /// The processes and ports to which this one is linked, in the order of the links.
    #[must_use]
    pub fn links(&self, pid: u64) -> Vec<u64> {
        self.relations.known.lock().unpoisoned().links.get(&pid).cloned().unwrap_or_default()
    }

    /// Whether there is any link or name.
    #[must_use]
    pub fn is_related(&self) -> bool {
        if !self.relations.are_used() {
            return false;
        }
        let known = self.relations.known.lock().unpoisoned();
        !known.links.is_empty() || !known.by_pid.is_empty()
    }

    /// Whether a port has a name.
    #[must_use]
    pub fn is_port_named(&self) -> bool {
        self.relations.known.lock().unpoisoned().by_pid.keys().any(|pid| What::of(*pid) == What::Port)
    }

    /// Gives a process or port a name.
    ///
    /// # Errors
    /// [`Unnamed`].
    pub fn register(&self, thread: &mut Thread, name: &str, tracee: &Tracee) -> Result<(), Unnamed> {
        {
            // held until the name is given: a process that ends afterwards finds its name
            let registry = self.registry.lock().unpoisoned();
            if !registry.living.contains_key(&tracee.pid) {
                return Err(Unnamed::Dead);
            }
            self.relations.used.store(true, Relaxed);
            let mut known = self.relations.known.lock().unpoisoned();
            if known.by_name.contains_key(name) {
                return Err(Unnamed::Taken);
            }
            if known.by_pid.contains_key(&tracee.pid) {
                return Err(Unnamed::HasName);
            }
            known.by_name.insert(name.into(), tracee.pid);
            known.by_pid.insert(tracee.pid, name.into());
        }
        let payload = etf::encode(&Term::atom(name));
        self.emit_event(thread, About::Other(tracee), of(tracee), Kind::Register, 0, &payload);
        Ok(())
    }

    /// Removes a name; `false` if there was no such name.
    pub fn unregister(&self, thread: &mut Thread, name: &str) -> bool {
        let pid = {
            let mut known = self.relations.known.lock().unpoisoned();
            let Some(pid) = known.by_name.remove(name) else { return false };
            known.by_pid.remove(&pid);
            pid
        };
        if let Some(tracee) = self.tracee(pid) {
            self.on_unregister(thread, &tracee, name);
        }
        true
    }

    /// `tracee` has lost its name, by its end or by [`Node::unregister`].
    pub fn on_unregister(&self, thread: &mut Thread, tracee: &Tracee, name: &str) {
        let payload = etf::encode(&Term::atom(name));
        self.emit_event(thread, About::Other(tracee), of(tracee), Kind::Unregister, 0, &payload);
    }

    /// The name of a process or port.
    #[must_use]
    pub fn name_of(&self, pid: u64) -> Option<Box<str>> {
        self.relations.known.lock().unpoisoned().by_pid.get(&pid).cloned()
    }

    /// The living process or port of a name.
    #[must_use]
    pub fn whereis(&self, name: &str) -> Option<Arc<Tracee>> {
        let pid = *self.relations.known.lock().unpoisoned().by_name.get(name)?;
        self.tracee(pid)
    }

    /// All names, with their processes and ports.
    #[must_use]
    pub fn registered(&self) -> Vec<(Box<str>, u64)> {
        let known = self.relations.known.lock().unpoisoned();
        known.by_name.iter().map(|(name, pid)| (name.clone(), *pid)).collect()
    }

    /// A process or port ends: its name and links are removed, from the other ends, too. Answers the links, in their order.
    pub fn unrelate(&self, thread: Option<&mut Thread>, tracee: &Tracee) -> Vec<u64> {
        let (name, links) = {
            let mut known = self.relations.known.lock().unpoisoned();
            let name = known.by_pid.remove(&tracee.pid);
            if let Some(name) = &name {
                known.by_name.remove(name);
            }
            let links = known.links.remove(&tracee.pid).unwrap_or_default();
            for other in &links {
                known.part(*other, tracee.pid);
            }
            (name, links)
        };
        if let (Some(name), Some(thread)) = (name, thread) {
            self.on_unregister(thread, tracee, &name);
        }
        links
    }
}
