//! One scheduler: the data of a thread that runs traced code.
//!
//! # Roles
//! The thread is the only user of a [`Thread`], so plain fields suffice. Other threads read [`Shared`].
//!
//! # States
//! From `Node::thread` to `Node::end_thread`.
//!
//! # Orderings
//! Those of the parts of [`Shared`]: [`crate::count::counts`], [`crate::sync::section`].
//!
//! # Checked by
//! `models::node` (loom).
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::{
    count::counts::Counts,
    ring::{Producer, Pushed, Ring, Waits},
    state::{call_cache::CallCache, deferred::Deferred, gate, session::Session, tracee::Tracee, tree::Branches},
    sync::section::Section,
};
use std::sync::Arc;

pub use super::frame::exit_actions;
pub(crate) use super::frame::{Frame, Timer};

/// The part that other threads read.
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

/// Calls that an exception has left. The first frame that continues gets `return_to`.
#[derive(Default)]
pub(crate) struct Pending {
    pub sessions: Vec<(u16, u32)>,
    /// The process of these calls. Another one may run when the continuing frame is found.
    pub of: Option<Arc<Tracee>>,
    /// The activation that continues if no handler is seen, and its name as terms.
    pub at: usize,
    pub name: Vec<u8>,
}

/// The largest size of a name in bytes. The encoder cuts longer ones.
pub(crate) const SCRATCH: usize = 4096;

/// A thread's producers by session index, each with the id of its session.
#[derive(Default)]
pub(crate) struct Rings(Vec<Option<(u32, Producer)>>);

impl Rings {
    /// The producer for a session, if there is one.
    #[inline(always)]
    pub fn of(&mut self, index: u16, id: u32) -> Option<&mut Producer> {
        match self.0.get_mut(index as usize) {
            Some(Some((owner, ring))) if *owner == id => Some(ring),
            _ => None,
        }
    }

    fn add(&mut self, index: u16, id: u32, ring: Producer) -> &mut Producer {
        let n = index as usize;
        if self.0.len() <= n {
            self.0.resize_with(n + 1, || None);
        }
        &mut self.0[n].insert((id, ring)).1
    }
}

/// A scheduler.
pub struct Thread {
    /// The part that other threads read.
    pub shared: Arc<Shared>,
    pub(crate) own: Arc<Tracee>,
    pub(crate) current: Arc<Tracee>,
    pub(crate) stack: Vec<Frame>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) pending: Pending,
    pub(crate) call_cache: CallCache,
    pub(crate) branches: Branches,
    pub(crate) scratch: Vec<u8>,
    /// A buffer for the term that a match spec adds to a message.
    pub(crate) extra: Vec<u8>,
    /// Work that runs after the section is left.
    pub(crate) deferred: Vec<Deferred>,
    /// Whether the tracer module has already accepted the next event.
    pub(crate) accepted: bool,
    pub(crate) rings: Rings,
    /// Ticks of the records of the present sending; 0 before the first of them.
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
            sent_at: 0,
            waits,
        }
    }

    /// The process of the thread itself.
    #[must_use]
    pub fn own(&self) -> &Arc<Tracee> {
        &self.own
    }

    /// Makes the thread another process. Answers the former one.
    pub fn become_process(&mut self, own: Arc<Tracee>) -> Arc<Tracee> {
        self.current = own.clone();
        std::mem::replace(&mut self.own, own)
    }

    /// The running process.
    #[must_use]
    pub fn current(&self) -> &Arc<Tracee> {
        &self.current
    }

    /// Makes another process the running one.
    pub fn switch(&mut self, to: Arc<Tracee>) {
        self.current = to;
    }

    /// Whether no open call of this thread needs its exit event. Suspended calls don't count.
    #[inline(always)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.stack.is_empty() && self.pending.sessions.is_empty()
    }

    /// Whether calls that an exception has left wait for the continuing frame: see [`crate::trace::event::on_handled`].
    #[inline(always)]
    #[must_use]
    pub fn waits_for_handler(&self) -> bool {
        !self.pending.sessions.is_empty()
    }

    /// Makes the thread's own process the running one.
    pub fn switch_to_own(&mut self) {
        if !Arc::ptr_eq(&self.current, &self.own) {
            self.current = self.own.clone();
        }
    }

    /// The timer of a session; creates it at the first use.
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

    /// Writes a record to this thread's ring of a session.
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
        self.rings.add(session.index, session.id as u32, producer).push(header, payload)
    }
}
