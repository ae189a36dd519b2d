//! What logs are told of this program and of its threads ([`inviso_log::about`]), by whoever writes them without Python.
#![forbid(unsafe_code)]

use inviso_core::tracee::Kind;
use inviso_log::{about::Item, sink::Sink};
use std::{
    collections::HashSet,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Threads that a log is told of; of more it has no numbers.
const THREADS: usize = 1 << 16;

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
    begun: bool,
    last: Option<u64>,
    threads: HashSet<u64>,
}

impl Told {
    /// An event of this process comes next: what the log is to know of it, and does not.
    #[inline]
    pub fn see(&mut self, pid: u64, sink: &mut dyn Sink) {
        if self.last != Some(pid) {
            self.last = Some(pid);
            self.see_other(pid, sink);
        }
    }

    fn see_other(&mut self, pid: u64, sink: &mut dyn Sink) {
        if !std::mem::replace(&mut self.begun, true) {
            let name = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner).clone();
            sink.about(&Item::Program { os_pid: std::process::id(), name }.to_bytes());
        }
        if Kind::of(pid) != Kind::Thread || self.threads.len() >= THREADS || !self.threads.insert(pid) {
            return;
        }
        if let Some((os_tid, name)) = THREAD.get().and_then(|thread| thread(pid)) {
            sink.about(&Item::Thread { id: pid, os_tid, name }.to_bytes());
        }
    }
}
