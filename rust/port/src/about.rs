//! Writes items about this program, its threads, tasks, functions and channels ([`inviso_log::about`]) to a log while the log is
//! written. It runs no Python.
//!
//! # Roles
//!
//! The host sets the program's name and the look-up of threads, from any thread. The writer of a log reads both. A [`Described`]
//! belongs to one log and is used under that log's lock.
//!
//! # States
//!
//! `PROGRAM` is a name, empty at first. `THREAD` is set once and never changes.
//!
//! # Orderings
//!
//! None of its own: a mutex and a `OnceLock`.
//!
//! # Checked by
//!
//! `tests/python/test_export_names.py`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::learned;
use inviso_core::host::{drain::Event, node::Node, sync::Unpoisoned, tracee::Kind};
use inviso_log::{about::Item, sink::Sink};
use inviso_term::record;
use std::{
    collections::HashSet,
    sync::{Mutex, OnceLock},
};

/// How many processes are remembered as described in a log. When there are more, some are described again.
const PROCESSES: usize = 1 << 16;

static PROGRAM: Mutex<String> = Mutex::new(String::new());

/// Finds the operating system's number and the name of a thread by its pid. `None` if they are not known.
pub type Thread = fn(u64) -> Option<(u64, String)>;

static THREAD: OnceLock<Thread> = OnceLock::new();

/// Sets the program's name for logs that begin later.
pub fn set_program(name: &str) {
    *PROGRAM.lock().unpoisoned() = name.to_owned();
}

/// Sets the look-up of threads. The first call wins.
pub fn set_threads(thread: Thread) {
    let _ = THREAD.set(thread);
}

/// The items that one log already contains.
#[derive(Debug, Default)]
pub struct Described {
    /// The file of a set that these items are in.
    file: u64,
    has_begun: bool,
    last: Option<u64>,
    processes: HashSet<u64>,
    /// A bit for each number of a function's name.
    functions: Vec<u64>,
    /// The count of notes of tasks and channels when they were last read.
    notes: u64,
}

impl Described {
    /// Writes the items that the log needs before this event and does not contain yet.
    #[inline]
    pub fn before_event(&mut self, node: &Node, event: &Event<&[u8]>, sink: &mut dyn Sink) {
        let file = sink.file();
        if file != self.file {
            *self = Described { file, ..Described::default() };
        }
        if learned::count() != self.notes {
            self.write_new_notes(sink);
        }
        if self.last != Some(event.tracee) {
            self.last = Some(event.tracee);
            self.describe_process(event.tracee, sink);
        }
        let Some(kind) = record::Kind::from_u8(event.kind) else { return };
        match kind {
            record::Kind::Call | record::Kind::CallArity | record::Kind::ReturnFrom | record::Kind::ExceptionFrom => {
                self.describe_function(node, event.what, sink)
            }
            record::Kind::Send | record::Kind::Spawn | record::Kind::Spawned => self.describe_process(event.what, sink),
            _ => {}
        }
    }

    /// Writes the notes of tasks and channels that are new since the last look.
    #[cold]
    fn write_new_notes(&mut self, sink: &mut dyn Sink) {
        if self.processes.is_empty() {
            self.notes = learned::count();
            return;
        }
        self.notes = learned::since(self.notes, |pid| self.processes.contains(&pid), |item| sink.about(item));
    }

    fn describe_process(&mut self, pid: u64, sink: &mut dyn Sink) {
        if pid == 0 || self.processes.contains(&pid) {
            return;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            let name = PROGRAM.lock().unpoisoned().clone();
            sink.about(&Item::Program { os_pid: std::process::id(), name });
        }
        let item = match Kind::of(pid) {
            Kind::Thread => {
                let known = THREAD.get().and_then(|thread| thread(pid));
                // a thread may not be known before its first event
                let Some((os_tid, name)) = known else { return };
                Some(Item::Thread { id: pid, os_tid, name })
            }
            _ => learned::process(pid),
        };
        if self.processes.len() >= PROCESSES {
            self.processes.clear();
        }
        self.processes.insert(pid);
        if let Some(item) = item {
            sink.about(&item);
        }
    }

    #[inline]
    fn describe_function(&mut self, node: &Node, number: u64, sink: &mut dyn Sink) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.functions.get(word).is_none_or(|bits| bits & bit == 0) {
            self.describe_new_function(node, number, sink);
        }
    }

    #[cold]
    fn describe_new_function(&mut self, node: &Node, number: u64, sink: &mut dyn Sink) {
        let Some(name) = u32::try_from(number).ok().and_then(|number| node.name(number)) else { return };
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.functions.len() <= word {
            self.functions.resize(word + 1, 0);
        }
        if let Some(bits) = self.functions.get_mut(word) {
            *bits |= bit;
        }
        if let Some(item) = learned::function(&name) {
            sink.about(&item);
        }
    }
}
