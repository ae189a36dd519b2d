//! Adds items about this program, its threads, tasks, functions and channels ([`inviso_log::about`]) to a log while it is written. It runs no
//! Python.
#![forbid(unsafe_code)]

use crate::learned;
use inviso_core::{drain::Event, node::Node, tracee::Kind};
use inviso_log::{about::Item, sink::Sink};
use inviso_term::record;
use std::{
    collections::HashSet,
    sync::{Mutex, OnceLock, PoisonError},
};

/// How many processes are remembered as described in a log. Beyond that some are described again.
const PROCESSES: usize = 1 << 16;

static PROGRAM: Mutex<String> = Mutex::new(String::new());

/// Answers the operating system's number of a thread by its pid, and its name, as far as these are known.
pub type Thread = fn(u64) -> Option<(u64, String)>;

static THREAD: OnceLock<Thread> = OnceLock::new();

/// Logs that are begun from now on say that this program is called so.
pub fn set_program(name: &str) {
    *PROGRAM.lock().unwrap_or_else(PoisonError::into_inner) = name.to_owned();
}

/// Who knows threads.
pub fn set_threads(thread: Thread) {
    let _ = THREAD.set(thread);
}

/// What one log has been told.
#[derive(Debug, Default)]
pub struct Told {
    /// The file of a set that was told it.
    file: u64,
    begun: bool,
    last: Option<u64>,
    processes: HashSet<u64>,
    /// A bit for each number of a function's name.
    functions: Vec<u64>,
    /// How many notes of tasks and channels were looked at.
    notes: u64,
}

impl Told {
    /// An event of this process comes next: what the log is to know of it, and does not.
    #[inline]
    pub fn see(&mut self, node: &Node, event: &Event<&[u8]>, sink: &mut dyn Sink) {
        let file = sink.file();
        if file != self.file {
            *self = Told { file, ..Told::default() };
        }
        if learned::count() != self.notes {
            self.see_notes(sink);
        }
        if self.last != Some(event.tracee) {
            self.last = Some(event.tracee);
            self.see_process(event.tracee, sink);
        }
        let Some(kind) = record::Kind::from_u8(event.kind) else { return };
        match kind {
            record::Kind::Call | record::Kind::CallArity | record::Kind::ReturnFrom | record::Kind::ExceptionFrom => {
                self.see_function(node, event.what, sink)
            }
            record::Kind::Send | record::Kind::Spawn | record::Kind::Spawned => self.see_process(event.what, sink),
            _ => {}
        }
    }

    /// Tasks got other names.
    #[cold]
    fn see_notes(&mut self, sink: &mut dyn Sink) {
        if self.processes.is_empty() {
            self.notes = learned::count();
            return;
        }
        self.notes = learned::since(self.notes, |pid| self.processes.contains(&pid), |item| sink.about(item));
    }

    fn see_process(&mut self, pid: u64, sink: &mut dyn Sink) {
        if pid == 0 || self.processes.contains(&pid) {
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            let name = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner).clone();
            sink.about(&Item::Program { os_pid: std::process::id(), name });
        }
        let item = match Kind::of(pid) {
            Kind::Thread => {
                let known = THREAD.get().and_then(|thread| thread(pid));
                // it may not be known before its first event
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
    fn see_function(&mut self, node: &Node, number: u64, sink: &mut dyn Sink) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.functions.get(word).is_none_or(|bits| bits & bit == 0) {
            self.see_new_function(node, number, sink);
        }
    }

    #[cold]
    fn see_new_function(&mut self, node: &Node, number: u64, sink: &mut dyn Sink) {
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
