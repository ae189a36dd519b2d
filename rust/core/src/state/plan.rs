//! The plan of one function: an immutable list with an entry for each session that traces the function.
#![forbid(unsafe_code)]

use crate::{state::session::Session, sync::Ordering::Release};
use std::{ops::Deref, sync::Arc};

pub use super::{
    mfa::Mfa,
    setting::{kinds, Setting},
};

/// The interpreter events that a function needs.
pub mod events {
    /// A call begins.
    pub const CALL: u8 = 1;
    /// A call ends.
    pub const END: u8 = 2;
    /// An exception is caught somewhere.
    pub const HANDLED: u8 = 4;
    /// A call of a function that is not written in the traced language. The event is at the call in the caller.
    pub const FOREIGN: u8 = 8;
    /// A call is suspended or resumes.
    pub const PAUSE: u8 = 16;
    /// An exception leaves a call; contained in [`END`].
    pub const RAISE: u8 = 32;
}

/// One session's settings on one function.
#[derive(Clone)]
pub struct Entry {
    /// The low half of the session's id; enough to detect a stale frame.
    pub id: u32,
    /// The session's index.
    pub index: u16,
    /// The session's setting on the function.
    pub set: Setting,
    /// The session.
    pub session: Arc<Session>,
}

impl Entry {
    /// An entry that does nothing yet.
    #[must_use]
    pub fn new(session: &Arc<Session>) -> Self {
        Entry { id: session.id as u32, index: session.index, set: Setting::default(), session: session.clone() }
    }

    /// Makes all set kinds of messages run: messages can't be paused. With a tracer module, [`kinds::ASKS`] runs instead.
    fn run_messages(&mut self) {
        let messages = self.has & kinds::MESSAGES;
        let asks = messages != 0 && self.session.options.tracer.is_some();
        self.set.run = self.run & !(kinds::MESSAGES | kinds::ASKS) | if asks { kinds::ASKS } else { messages };
    }

    /// The entry after the tracer module's answer: the accepted kinds of messages run.
    pub(crate) fn accepted(&self, which: u16) -> Entry {
        let run = self.has & which & kinds::MESSAGES;
        Entry { set: Setting { run, ..self.set.clone() }, ..self.clone() }
    }

    /// Whether meta messages have a tracer. Notes it if they don't.
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

/// The setting, as in a pattern for later functions.
impl Deref for Entry {
    type Target = Setting;

    #[inline(always)]
    fn deref(&self) -> &Setting {
        &self.set
    }
}

/// The plan of one function.
pub struct Plan {
    /// The function's number while a session has a setting on it.
    pub slot: u32,
    /// The number of its name, see [`crate::state::names::Names`].
    pub name: u32,
    /// The kinds that any entry runs.
    pub run: u16,
    /// The interpreter events that the plan needs.
    pub events: u8,
    /// Whether the function is not written in the traced language.
    pub foreign: bool,
    /// The entries of the sessions, newest first.
    pub entries: Box<[Entry]>,
}

impl Plan {
    /// A plan of these entries. `None` if no entry has a setting.
    #[must_use]
    pub fn of(slot: u32, name: u32, foreign: bool, mut entries: Vec<Entry>) -> Option<Plan> {
        entries.retain(|e| e.has != 0);
        if entries.is_empty() {
            return None;
        }
        entries.iter_mut().for_each(Entry::run_messages);
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
