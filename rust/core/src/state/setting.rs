//! What a session has set on functions: the kinds, and what belongs to each.
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

/// What a session does with a function; also which of it is running.
pub mod kinds {
    /// call_count.
    pub const COUNT: u16 = 1;
    /// call_time.
    pub const TIME: u16 = 2;
    /// call_memory.
    pub const MEMORY: u16 = 4;
    /// call_latency.
    pub const LATENCY: u16 = 8;
    /// Messages about every call.
    pub const LOCAL: u16 = 16;
    /// Messages about calls from other modules.
    pub const GLOBAL: u16 = 32;
    /// Messages without regard to process flags.
    pub const META: u16 = 64;
    /// In place of those three in [`super::Setting::run`] where the session has a tracer module, which is asked first.
    pub const ASKS: u16 = 128;
    /// All counters.
    pub const COUNTERS: u16 = COUNT | TIME | MEMORY | LATENCY;
    /// All kinds that give messages.
    pub const MESSAGES: u16 = LOCAL | GLOBAL | META;
    /// The kinds that need the time.
    pub const CLOCKED: u16 = TIME | LATENCY | MESSAGES;
    /// The kinds that tell or measure the time; messages do where a flag asks for it, those of [`META`] always.
    pub const TIMED: u16 = TIME | LATENCY | META;
    /// The kinds that need to see a call's end.
    pub const ENDS: u16 = TIME | MEMORY | LATENCY;
    /// The kinds that need to see a call suspended and going on.
    pub const PAUSES: u16 = TIME | MEMORY;
}

/// What a session has set on a function, or on those that come into being later.
#[derive(Clone, Default)]
pub struct Setting {
    /// The kinds that act now.
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
    /// What decides about local and global messages; `None` sends them all.
    pub spec: Option<Arc<Program>>,
    /// What decides about meta messages; `None` sends them all.
    pub meta_spec: Option<Arc<Program>>,
    /// Whether a call of the function has found that the session's tracer is none any more, since the meta pattern was set; `None`
    /// without one (trace.md, `info/3`, meta).
    pub(crate) meta_lost: Option<Arc<AtomicBool>>,
}

impl Setting {
    /// Messages are what is set again, also where a tracer module is asked about them: for a change.
    pub(crate) fn gather(&mut self) {
        self.run = self.run & !kinds::ASKS | self.has & kinds::MESSAGES;
    }

    /// A meta pattern is set: its tracer counts as one again.
    pub(crate) fn renew_meta(&mut self) {
        self.meta_lost.get_or_insert_default().store(false, Release);
    }

    /// Meta messages have nobody to go to, and are not filtered, until a meta pattern is set again.
    pub(crate) fn lose_meta(&mut self) {
        self.meta_spec = None;
        self.meta_lost.get_or_insert_default().store(true, Release);
    }

    /// Whether meta messages have nobody to go to, as far as a call has found that.
    #[must_use]
    pub fn has_lost_meta(&self) -> bool {
        self.meta_lost.as_ref().is_some_and(|lost| lost.load(Relaxed))
    }
}
