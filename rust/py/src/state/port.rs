//! What is kept with a port.

use super::lock;
use pyo3::prelude::*;
use std::sync::{
    atomic::{AtomicBool, AtomicUsize, Ordering},
    Mutex, OnceLock,
};

/// The state of a port besides its record.
#[derive(Default)]
pub struct Own {
    /// Its kind, in Erlang's words.
    pub driver: OnceLock<&'static str>,
    /// Its `inviso.Port`, for messages.
    pub identity: OnceLock<Py<PyAny>>,
    /// A transport writes to it, and reports that itself.
    pub by_transport: AtomicBool,
    /// asyncio encrypts what goes over its socket, and the data are reported there.
    pub is_encrypted: AtomicBool,
    /// Its transport has stopped its writer.
    pub is_full: AtomicBool,
    /// Data of its pipes are reported at the end of a call.
    pub communicates: AtomicBool,
    /// The bytes that this call had gathered of each pipe before it began.
    pub gathered: [AtomicUsize; 2],
    /// The call's data for its pipes have not been reported yet.
    pub has_input: AtomicBool,
    /// The processes that linked themselves to it by `inviso.link`.
    pub linked: Mutex<Vec<u64>>,
}

/// The number of links to ports by `inviso.link`.
pub static LINKED: AtomicUsize = AtomicUsize::new(0);

impl Own {
    /// A process links itself to this port, or removes the link, by a call of this package.
    pub fn note_link(&self, by: u64, on: bool) {
        let mut linked = lock(&self.linked);
        if on {
            if !linked.contains(&by) {
                linked.push(by);
                LINKED.fetch_add(1, Ordering::Relaxed);
            }
        } else if let Some(at) = linked.iter().position(|pid| *pid == by) {
            linked.remove(at);
            LINKED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
