//! One scheduler: what a thread that runs traced code keeps for itself.
//!
//! Nothing in here is shared but [`Shared`]; a thread is its only user, so plain fields do.
#![forbid(unsafe_code)]

use crate::{
    cells::CellRef,
    counts::Counts,
    node::Node,
    ring::{Producer, Pushed, Ring},
    section::Section,
    session::Session,
    tracee::Tracee,
};
use std::sync::Arc;

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

/// What a shadow frame wants at its call's end.
pub mod wants {
    /// call_time's charge.
    pub const TIME: u16 = 1;
    /// call_memory's charge.
    pub const MEMORY: u16 = 2;
    /// call_latency's record.
    pub const LATENCY: u16 = 4;
    /// return_to: the call's message was sent.
    pub const RETURN_TO: u16 = 8;
    /// Survives a suspension: has to be found again at the resume.
    pub const KEPT: u16 = LATENCY | RETURN_TO;
}

/// One traced call that has not ended, for one session.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// The activation, as the host identifies it.
    pub at: usize,
    pub id: u32,
    pub index: u16,
    pub wants: u16,
    /// The cells that were current before, see [`Timer`].
    pub time_before: Option<CellRef>,
    pub memory_before: Option<CellRef>,
    /// Ticks at entry, for the latency.
    pub start: u64,
}

/// What one session is charging on this thread.
#[derive(Clone, Copy)]
pub(crate) struct Timer {
    pub id: u32,
    pub time: Option<CellRef>,
    pub memory: Option<CellRef>,
    pub time_mark: u64,
    pub memory_mark: u64,
}

impl Timer {
    fn new(id: u32) -> Self {
        Timer { id, time: None, memory: None, time_mark: 0, memory_mark: 0 }
    }
}

impl Timer {
    /// Charges what ran since the mark to the current cell, if there is one, and answers it.
    #[inline(always)]
    pub fn charge_time(&mut self, now: u64) -> Option<CellRef> {
        if let Some(cell) = self.time {
            cell.get().charge(now.wrapping_sub(self.time_mark));
        }
        self.time_mark = now;
        self.time
    }

    /// The same for memory.
    #[inline(always)]
    pub fn charge_memory(&mut self, now: u64) -> Option<CellRef> {
        if let Some(cell) = self.memory {
            cell.get().charge(now.wrapping_sub(self.memory_mark));
        }
        self.memory_mark = now;
        self.memory
    }
}

/// Calls that an exception has left; the first frame that goes on gets `return_to`.
#[derive(Default)]
pub(crate) struct Pending {
    pub sessions: Vec<(u16, u32)>,
    /// The activation that goes on if nobody is seen to catch the exception, and its name as terms.
    pub at: usize,
    pub name: Vec<u8>,
}

/// A call that only adds to a counter, remembered by function: saves the look-up in the snapshot's table.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub code: usize,
    /// The snapshot that says so.
    pub version: u32,
    pub counter: u32,
}

/// A call that only charges time or memory in one session, remembered by function and process.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    pub code: usize,
    /// The snapshot that says so.
    pub version: u32,
    pub generation: u32,
    pub pid: u64,
    pub id: u32,
    pub index: u16,
    /// [`wants::TIME`] or [`wants::MEMORY`].
    pub wants: u16,
    pub cell: Option<CellRef>,
}

/// Functions that a thread remembers (a power of two).
const REMEMBERED: usize = 1024;

/// What a thread remembers of calls to which one simple thing happens.
pub(crate) struct Memory {
    pub counted: [Counted; REMEMBERED],
    pub measured: [Measured; REMEMBERED],
}

impl Memory {
    /// Where a function is remembered.
    #[inline(always)]
    pub fn place(code: usize) -> usize {
        (code >> 4 ^ code >> 13) & (REMEMBERED - 1)
    }
}

/// A scheduler.
pub struct Thread {
    /// What others see of it.
    pub shared: Arc<Shared>,
    /// Set while the tracer itself works on this thread: events are not taken then.
    pub busy: bool,
    pub(crate) own: Arc<Tracee>,
    pub(crate) current: Arc<Tracee>,
    pub(crate) stack: Vec<Frame>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) pending: Pending,
    pub(crate) memory: Box<Memory>,
    pub(crate) scratch: Vec<u8>,
    rings: Vec<Option<(u32, Producer)>>,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, own: Arc<Tracee>) -> Self {
        Thread {
            shared,
            busy: false,
            current: own.clone(),
            own,
            stack: Vec::with_capacity(256),
            timers: Vec::new(),
            pending: Pending::default(),
            memory: Box::new(Memory {
                counted: [Counted::default(); REMEMBERED],
                measured: [Measured::default(); REMEMBERED],
            }),
            scratch: Vec::new(),
            rings: Vec::new(),
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

    /// Whether calls that an exception has left wait for the frame that goes on: see [`crate::event::on_handled`].
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
        while timers.len() <= n {
            timers.push(Timer::new(0));
        }
        timers[n] = Timer::new(id);
    }

    /// Puts a record into this scheduler's ring of a session.
    #[inline(always)]
    pub(crate) fn push(&mut self, session: &Session, header: [u64; 4], payload: &[u8]) -> Pushed {
        match self.rings.get_mut(session.index as usize) {
            Some(Some((id, ring))) if *id == session.id as u32 => ring.push(header, payload),
            _ => self.first_push(session, header, payload),
        }
    }

    #[cold]
    #[inline(never)]
    fn first_push(&mut self, session: &Session, header: [u64; 4], payload: &[u8]) -> Pushed {
        let n = session.index as usize;
        while self.rings.len() <= n {
            self.rings.push(None);
        }
        let (producer, ring) = Ring::split(session.options.ring_bytes, session.options.overflow);
        if !session.add_ring(ring) {
            return Pushed::Closed;
        }
        let (_, ring) = self.rings[n].insert((session.id as u32, producer));
        ring.push(header, payload)
    }

    /// Leaves the node: what it counted is kept, its rings stay readable.
    pub(crate) fn retire(self, node: &Node) {
        node.forget_thread(&self.shared);
    }
}
