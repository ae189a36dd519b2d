//! The system tracer and its events.
#![forbid(unsafe_code)]

use crate::{
    delivery::drain::spill,
    emit::{ask, deferred, emit, Recipient},
    record::seq_event::{self, SeqEventKind},
    state::{
        flags::Flags,
        node::Node,
        session::Session,
        thread::Thread,
        token::{flags, Token},
        tracer::{Group, SEQ_TRACE},
    },
    sync::{
        Ordering::{Acquire, Relaxed, Release},
        Unpoisoned,
    },
};
use inviso_term::etf::{Encoder, Full};
use std::sync::Arc;

/// The place if there is no system tracer.
const NO_TRACER: u64 = 0;

/// The bit of a place whose system tracer is a module: its calls may run any code.
const IS_MODULE: u64 = 1 << 63;

/// The place of a session: its index plus 1, and its id.
fn place_of(session: &Session) -> u64 {
    let module = if session.options.tracer.is_some() { IS_MODULE } else { 0 };
    module | (u64::from(session.index) + 1) << 32 | u64::from(session.id as u32)
}

impl Node {
    /// The session of the system tracer, if it is alive.
    #[must_use]
    pub fn seq_tracer(&self) -> Option<Arc<Session>> {
        let mut tracer = self.seq.tracer.lock().unpoisoned();
        if tracer.as_ref().is_some_and(|session| !lives(session)) {
            *tracer = None;
            self.seq.place.store(NO_TRACER, Release);
        }
        tracer.clone()
    }

    /// Passes on the system tracer, if it is alive. A session in the snapshot takes neither a lock nor a count of references.
    #[inline(always)]
    pub(super) fn with_seq_tracer<R>(
        &self, thread: &mut Thread, with: impl FnOnce(&mut Thread, Option<&Arc<Session>>) -> R,
    ) -> R {
        let place = self.seq.place.load(Acquire);
        if place == NO_TRACER {
            return with(thread, None);
        }
        if place & IS_MODULE == 0 {
            let inside = thread.shared.section.enter();
            let snapshot = self.snapshot.load_inside(&inside);
            let index = ((place >> 32) - 1) as u16;
            if let Some(session) = snapshot.session(index, place as u32).filter(|session| lives(session)) {
                return with(thread, Some(session));
            }
        }
        let tracer = self.seq_tracer();
        with(thread, tracer.as_ref())
    }

    /// Sets the session of the system tracer; answers the one before.
    pub fn set_seq_tracer(&self, session: Option<Arc<Session>>) -> Option<Arc<Session>> {
        let mut tracer = self.seq.tracer.lock().unpoisoned();
        self.seq.place.store(session.as_deref().map_or(NO_TRACER, place_of), Release);
        std::mem::replace(&mut *tracer, session)
    }

    /// How many serials have overflowed: they don't order events any more.
    #[must_use]
    pub fn seq_overflows(&self) -> u64 {
        self.seq.overflows.load(Relaxed)
    }

    /// Emits an event to the system tracer, if the token asks for it, and if it isn't the tracer's own event. `deliver` passes the token
    /// on before the record is written: its lock waits for all earlier stores of the thread, and a record has many.
    pub(super) fn emit_seq_event<R>(
        &self, thread: &mut Thread, tracer: Option<&Arc<Session>>, token: Token, event: SeqEventKind,
        write: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
        deliver: impl FnOnce(&mut Thread, Token) -> R,
    ) -> R {
        let wanted =
            |session: &&Arc<Session>| token.flags & flag(event) != 0 && session.tracer.load(Relaxed) != event.process();
        let Some(session) = tracer.filter(wanted) else { return deliver(thread, token) };
        if session.options.tracer.is_none() {
            return self.seq_write(thread, session, token, event, write, deliver);
        }
        let delivered = deliver(thread, token.clone());
        if ask::ask(self, thread, session, Group::General, SEQ_TRACE, Some(event.process())) {
            thread.accepted = true;
            self.seq_write(thread, session, token, event, write, |_, token| drop(token));
            thread.accepted = false;
            if !thread.deferred.is_empty() {
                deferred::run_events(self, thread);
            }
        }
        delivered
    }

    pub(super) fn seq_write<R>(
        &self, thread: &mut Thread, session: &Arc<Session>, token: Token, event: SeqEventKind,
        write: impl FnOnce(&mut Encoder<'_>, &Session) -> Result<(), Full>,
        deliver: impl FnOnce(&mut Thread, Token) -> R,
    ) -> R {
        let flags = stamps(token.flags);
        let now = self.clock.ticks();
        let mut room = std::mem::take(&mut thread.scratch);
        let total = session.options.capture.total + seq_event::around(&token.fields());
        room.resize(room.len().max(total), 0);
        let mut out = Encoder::new(&mut room);
        let head = seq_event::write(&mut out, &token.fields(), event, |out| write(out, session));
        let delivered = deliver(thread, token);
        if let Ok(head) = head {
            emit(Recipient { node: self, session, flags, now }, thread, head, out.written());
            if thread.take_pressure(session) {
                spill(session);
            }
        }
        thread.scratch = room;
        delivered
    }
}

/// Whether a session can get events.
fn lives(session: &Session) -> bool {
    session.has_tracer() && session.is_alive()
}

/// The process that is a session's tracer; 0 if it is none.
pub(super) fn pid_of(tracer: Option<&Arc<Session>>) -> u64 {
    tracer.map_or(0, |session| session.tracer.load(Relaxed))
}

/// The flag of a token that asks for an event.
pub(super) fn flag(event: SeqEventKind) -> u32 {
    match event {
        SeqEventKind::Send { .. } => flags::SEND,
        SeqEventKind::Receive { .. } => flags::RECEIVE,
        SeqEventKind::Print { .. } => flags::PRINT,
    }
}

/// The timestamp that a token's flags ask for.
fn stamps(flags: u32) -> Flags {
    [
        (flags::TIMESTAMP, Flags::TIMESTAMP),
        (flags::STRICT_MONOTONIC_TIMESTAMP, Flags::STRICT_MONOTONIC_TIMESTAMP),
        (flags::MONOTONIC_TIMESTAMP, Flags::MONOTONIC_TIMESTAMP),
    ]
    .into_iter()
    .fold(Flags::NONE, |all, (bit, flag)| if flags & bit != 0 { all | flag } else { all })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        clock::Clock,
        control::Arm,
        delivery::drain::drain,
        state::{session::Options, tracee},
        trace::about::About,
    };

    #[test]
    fn an_event_goes_to_no_session_that_came_after_the_system_tracer_s() {
        /// A host without functions.
        struct Nothing;
        impl Arm for Nothing {
            fn arm(&self, _: &[(usize, u8)], _: u8) {}
        }
        let node = Node::new(Clock::new());
        let (process, tracer) = (node.process(tracee::Kind::Thread, 0), node.process(tracee::Kind::Thread, 0));
        let mut thread = node.thread(process.clone());
        let session = || node.session_create("s", tracer.pid, Options::default()).unwrap();
        let event = |session: &Session| drain(session, 9, |_| ()).unwrap();
        let system = session();
        node.set_seq_tracer(Some(system.clone()));
        node.seq_change(&process, |token| token.flags = flags::SEND);
        let mut send = || drop(node.seq_send(&mut thread, About::Current, 99, |out, _| out.nil()));
        send();
        assert_eq!(event(&system), 1);
        // as seen by a thread that has read the place, and is delayed there
        let place = node.seq.place.load(Relaxed);
        assert!(node.set_seq_tracer(None).is_some());
        send();
        assert!(node.session_destroy(&system, &Nothing));
        let other = session();
        assert_eq!((other.index, event(&system)), (system.index, 0), "the index is used again");
        node.seq.place.store(place, Relaxed);
        send();
        assert_eq!((event(&other), node.seq.place.load(Relaxed)), (0, place));
        node.set_seq_tracer(Some(other.clone()));
        send();
        assert_eq!(event(&other), 1);
    }
}
