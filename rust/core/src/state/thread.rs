//! One scheduler: what a thread that runs traced code keeps for itself.
//!
//! Nothing in here is shared but [`Shared`]; a thread is its only user, so plain fields do.
#![forbid(unsafe_code)]

use crate::{
    clock::order::LastTurn,
    count::counts::Counts,
    ring::{Producer, Pushed, Ring, Waits},
    state::{call_cache::CallCache, deferred::Deferred, gate, session::Session, tracee::Tracee, tree::Branches},
    sync::section::Section,
};
use std::sync::Arc;

pub use super::frame::exit_actions;
pub(crate) use super::frame::{Frame, Timer};

/// What other threads may look at.
pub struct Shared {
    /// The scheduler's number, from 1.
    pub number: u16,
    /// Its cells of call_count.
    pub counts: Counts,
    /// Its section.
    pub section: &'static Section,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.section.give_back();
    }
}

/// Calls that an exception has left; the first frame that goes on gets `return_to`.
#[derive(Default)]
pub(crate) struct Pending {
    pub sessions: Vec<(u16, u32)>,
    /// The process whose calls they were, which need not be the one that runs when that is found.
    pub of: Option<Arc<Tracee>>,
    /// The activation that goes on if nobody is seen to catch the exception, and its name as terms.
    pub at: usize,
    pub name: Vec<u8>,
}

/// How large a name may become; longer ones are cut by the encoder's own rule.
pub(crate) const SCRATCH: usize = 4096;

/// A thread's ends of rings, by session index, each with its session's id.
#[derive(Default)]
pub(crate) struct Rings(Vec<Option<(u32, Producer)>>);

impl Rings {
    /// The end for a session, if it has one.
    #[inline(always)]
    pub fn of(&mut self, index: u16, id: u32) -> Option<&mut Producer> {
        match self.0.get_mut(index as usize) {
            Some(Some((owner, ring))) if *owner == id => Some(ring),
            _ => None,
        }
    }

    fn put(&mut self, index: u16, id: u32, ring: Producer) -> &mut Producer {
        let n = index as usize;
        if self.0.len() <= n {
            self.0.resize_with(n + 1, || None);
        }
        &mut self.0[n].insert((id, ring)).1
    }
}

/// A scheduler.
pub struct Thread {
    /// What others see of it.
    pub shared: Arc<Shared>,
    pub(crate) own: Arc<Tracee>,
    pub(crate) current: Arc<Tracee>,
    pub(crate) stack: Vec<Frame>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) pending: Pending,
    pub(crate) call_cache: CallCache,
    pub(crate) branches: Branches,
    pub(crate) scratch: Vec<u8>,
    /// Room for what a match spec adds to a message.
    pub(crate) extra: Vec<u8>,
    /// What is still to be done when the section has been left.
    pub(crate) deferred: Vec<Deferred>,
    /// Whether the tracer module that is told next has said that it wants to be.
    pub(crate) accepted: bool,
    pub(crate) rings: Rings,
    /// Its part in the order of records.
    pub(crate) turn: LastTurn,
    /// Ticks of the records of the sending that is being written of; 0 before the first of them.
    pub(crate) sent_at: u64,
    waits: Waits,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, own: Arc<Tracee>, waits: Waits) -> Self {
        Thread {
            shared,
            current: own.clone(),
            own,
            stack: Vec::with_capacity(256),
            timers: Vec::new(),
            pending: Pending::default(),
            call_cache: CallCache::default(),
            branches: Branches::default(),
            scratch: Vec::new(),
            extra: Vec::new(),
            deferred: Vec::new(),
            accepted: false,
            rings: Rings::default(),
            turn: LastTurn::default(),
            sent_at: 0,
            waits,
        }
    }

    /// The process that is this thread itself.
    #[must_use]
    pub fn own(&self) -> &Arc<Tracee> {
        &self.own
    }

    /// This thread is another process from now on; answers the one that it was.
    pub fn become_process(&mut self, own: Arc<Tracee>) -> Arc<Tracee> {
        self.current = own.clone();
        std::mem::replace(&mut self.own, own)
    }

    /// The process that runs now.
    #[must_use]
    pub fn current(&self) -> &Arc<Tracee> {
        &self.current
    }

    /// Another process runs on this thread from now on.
    pub fn switch(&mut self, to: Arc<Tracee>) {
        self.current = to;
    }

    /// Whether no call that has begun here wants its end to be seen, as far as it is not suspended.
    #[inline(always)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.stack.is_empty() && self.pending.sessions.is_empty()
    }

    /// Whether calls that an exception has left wait for the frame that goes on: see [`crate::trace::event::on_handled`].
    #[inline(always)]
    #[must_use]
    pub fn waits_for_handler(&self) -> bool {
        !self.pending.sessions.is_empty()
    }

    /// The thread's own process runs again.
    pub fn switch_to_own(&mut self) {
        if !Arc::ptr_eq(&self.current, &self.own) {
            self.current = self.own.clone();
        }
    }

    #[inline(always)]
    pub(crate) fn timer(timers: &mut Vec<Timer>, index: u16, id: u32) -> &mut Timer {
        let n = index as usize;
        if timers.get(n).is_none_or(|t| t.id != id) {
            Self::new_timer(timers, n, id);
        }
        &mut timers[n]
    }

    #[cold]
    #[inline(never)]
    fn new_timer(timers: &mut Vec<Timer>, n: usize, id: u32) {
        if timers.len() <= n {
            timers.resize(n + 1, Timer::default());
        }
        timers[n] = Timer::new(id);
    }

    /// Puts a record into this scheduler's ring of a session.
    #[inline(always)]
    pub(crate) fn push(&mut self, session: &Arc<Session>, header: [u64; 4], payload: &[u8]) -> Pushed {
        match self.rings.of(session.index, session.id as u32) {
            Some(ring) => ring.push(header, payload),
            None => self.first_push(session, header, payload),
        }
    }

    /// See [`Producer::take_pressure`].
    #[inline(always)]
    pub(crate) fn take_pressure(&mut self, session: &Session) -> bool {
        self.rings.of(session.index, session.id as u32).is_some_and(Producer::take_pressure)
    }

    #[cold]
    #[inline(never)]
    fn first_push(&mut self, session: &Arc<Session>, header: [u64; 4], payload: &[u8]) -> Pushed {
        if session.options.tracer.is_some() {
            if !gate::is_inside() {
                let (payload, asked) = (payload.to_vec(), self.accepted);
                self.deferred.push(Deferred::Event { session: session.clone(), header, payload, asked });
            }
            return Pushed::Stored;
        }
        let (mut producer, ring) = Ring::split(session.options.ring_bytes, session.options.overflow);
        producer.wait_by(self.waits);
        if !session.add_ring(ring) {
            return Pushed::Closed;
        }
        self.rings.put(session.index, session.id as u32, producer).push(header, payload)
    }
}
