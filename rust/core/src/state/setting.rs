//! A session's setting on functions: the kinds and their data.
//!
//! # Roles
//! Calls and the tracer module's answers set `meta_lost`. The control side reads and clears it. The other fields are immutable in a plan.
//!
//! # States
//! `meta_lost` is absent without a meta pattern, then false or true.
//!
//! # Orderings
//! `Release` and `Relaxed`: no data depends on the flag.
//!
//! # Checked by
//! `tests/tracer.rs`.
#![forbid(unsafe_code)]

use crate::{
    count::latency::Latency,
    sync::{
        AtomicBool,
        Ordering::{Relaxed, Release},
    },
};
use inviso_match::Program;
use std::sync::Arc;

/// The kinds of tracing of a function, a bit each.
pub mod kinds {
    /// call_count.
    pub const COUNT: u16 = 1;
    /// call_time.
    pub const TIME: u16 = 2;
    /// call_memory.
    pub const MEMORY: u16 = 4;
    /// call_latency.
    pub const LATENCY: u16 = 8;
    /// Messages about all calls.
    pub const LOCAL: u16 = 16;
    /// Messages about calls from other modules.
    pub const GLOBAL: u16 = 32;
    /// Messages regardless of process flags.
    pub const META: u16 = 64;
    /// Stands for those three in [`super::Setting::run`] of a session with a tracer module, which is asked first.
    pub const ASKS: u16 = 128;
    /// All counters.
    pub const COUNTERS: u16 = COUNT | TIME | MEMORY | LATENCY;
    /// All kinds of messages.
    pub const MESSAGES: u16 = LOCAL | GLOBAL | META;
    /// The kinds that need the event of a call's end.
    pub const ENDS: u16 = TIME | MEMORY | LATENCY;
    /// The kinds that need the events of suspending and resuming.
    pub const PAUSES: u16 = TIME | MEMORY;
}

/// A session's setting on a function, or on functions that are created later.
#[derive(Clone, Default)]
pub struct Setting {
    /// The kinds that run now.
    pub run: u16,
    /// The kinds that are set: running or paused.
    pub has: u16,
    /// call_count's cell number.
    pub count: u32,
    /// call_time's generation.
    pub time: u32,
    /// call_memory's generation.
    pub memory: u32,
    /// call_latency's histogram.
    pub latency: Option<Arc<Latency>>,
    /// The match spec for local and global messages; `None` sends all.
    pub spec: Option<Arc<Program>>,
    /// The match spec for meta messages; `None` sends all.
    pub meta_spec: Option<Arc<Program>>,
    /// Whether a call has found that the session's tracer is gone, since the meta pattern was set. `None` without a meta pattern
    /// (trace.md, `info/3`, meta).
    pub(crate) meta_lost: Option<Arc<AtomicBool>>,
}

impl Setting {
    /// Prepares a change: all set kinds of messages run, also with a tracer module.
    pub(crate) fn gather(&mut self) {
        self.run = self.run & !kinds::ASKS | self.has & kinds::MESSAGES;
    }

    /// Sets a meta pattern: its tracer counts as present again.
    pub(crate) fn renew_meta(&mut self) {
        self.meta_lost.get_or_insert_default().store(false, Release);
    }

    /// Notes that the tracer of meta messages is gone, until a meta pattern is set again.
    pub(crate) fn lose_meta(&mut self) {
        self.meta_spec = None;
        self.meta_lost.get_or_insert_default().store(true, Release);
    }

    /// Whether a call has found that the tracer of meta messages is gone.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn has_lost_meta(&self) -> bool {
        self.meta_lost.as_ref().is_some_and(|lost| lost.load(Relaxed))
    }
}
