//! What happens at a call of one function: an entry for each session that traces it. Immutable once made.
#![forbid(unsafe_code)]

use crate::{
    count::latency::Latency,
    state::session::Session,
    sync::{
        AtomicBool,
        Ordering::{Relaxed, Release},
    },
};
use inviso_match::Program;
use std::sync::Arc;

pub use super::mfa::Mfa;

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
    /// In place of those three in [`super::Entry::run`] where the session has a tracer module, which is asked first.
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

/// The interpreter events that a function needs.
pub mod events {
    /// A call begins.
    pub const CALL: u8 = 1;
    /// A call ends.
    pub const END: u8 = 2;
    /// An exception is caught somewhere.
    pub const HANDLED: u8 = 4;
    /// A call of a function that is not written in the traced language; seen where it is called.
    pub const FOREIGN: u8 = 8;
    /// A call is suspended or goes on.
    pub const PAUSE: u8 = 16;
    /// An exception leaves a call; contained in [`END`].
    pub const RAISE: u8 = 32;
}

/// One session's settings on one function.
#[derive(Clone)]
pub struct Entry {
    /// The session's id, low half; enough to tell a stale frame.
    pub id: u32,
    /// The session's index.
    pub index: u16,
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
    /// The session.
    pub session: Arc<Session>,
}

impl Entry {
    /// An entry that does nothing yet.
    #[must_use]
    pub fn new(session: &Arc<Session>) -> Self {
        Entry {
            id: session.id as u32,
            index: session.index,
            run: 0,
            has: 0,
            count: 0,
            time: 0,
            memory: 0,
            latency: None,
            spec: None,
            meta_spec: None,
            meta_lost: None,
            session: session.clone(),
        }
    }

    /// Messages, which can't be paused, are what is set; where a tracer module is asked about them they are not sent at once.
    fn lay_out(&mut self) {
        let messages = self.has & kinds::MESSAGES;
        let asks = messages != 0 && self.session.options.tracer.is_some();
        self.run = self.run & !(kinds::MESSAGES | kinds::ASKS) | if asks { kinds::ASKS } else { messages };
    }

    /// Undoes [`Entry::lay_out`], for a change.
    pub(crate) fn gather(&mut self) {
        self.run = self.run & !kinds::ASKS | self.has & kinds::MESSAGES;
    }

    /// The entry as it is once the tracer module has answered: it sends these of its messages.
    pub(crate) fn granted(&self, which: u16) -> Entry {
        Entry { run: self.has & which & kinds::MESSAGES, ..self.clone() }
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

    /// Whether meta messages have somebody to go to, looked up at a call, which notes if they don't.
    pub(crate) fn finds_meta_tracer(&self) -> bool {
        if !self.session.has_tracer() {
            self.meta_lost.iter().for_each(|lost| lost.store(true, Release));
        }
        !self.has_lost_meta()
    }

    /// The interpreter events that the entry needs.
    #[must_use]
    pub fn events(&self) -> u8 {
        let mut events = if self.has != 0 { events::CALL } else { 0 };
        if self.has & kinds::ENDS != 0 {
            events |= events::END;
        }
        if self.has & kinds::PAUSES != 0 {
            events |= events::PAUSE;
        }
        if self.has & kinds::LOCAL != 0 && self.session.wants_return_to() {
            events |= events::END | events::HANDLED;
        }
        if [&self.spec, &self.meta_spec]
            .into_iter()
            .flatten()
            .any(|spec| spec.uses().return_trace || spec.uses().exception_trace)
        {
            events |= events::END;
        }
        events
    }
}

/// Everything that happens at a call of one function.
pub struct Plan {
    /// The function's number while anything is set on it.
    pub slot: u32,
    /// The number of its name, see [`crate::state::names::Names`].
    pub name: u32,
    /// What any entry runs.
    pub run: u16,
    /// The interpreter events that are needed.
    pub events: u8,
    /// Whether the function is not written in the traced language.
    pub foreign: bool,
    /// The sessions, newest first.
    pub entries: Box<[Entry]>,
}

impl Plan {
    /// A plan of these entries, or `None` when nothing is set.
    #[must_use]
    pub fn of(slot: u32, name: u32, foreign: bool, mut entries: Vec<Entry>) -> Option<Plan> {
        entries.retain(|e| e.has != 0);
        if entries.is_empty() {
            return None;
        }
        entries.iter_mut().for_each(Entry::lay_out);
        entries.sort_by_key(|e| std::cmp::Reverse(e.session.id));
        let run = entries.iter().fold(0, |all, e| all | e.run);
        let events = if foreign { events::FOREIGN } else { entries.iter().fold(0, |all, e| all | e.events()) };
        Some(Plan { slot, name, run, events, foreign, entries: entries.into() })
    }

    /// The entry of a session.
    #[must_use]
    pub fn entry(&self, session: u64) -> Option<&Entry> {
        self.entries.iter().find(|e| e.session.id == session)
    }
}
