//! A trace session: its settings, cells and rings. Everything about it dies with it.
//!
//! # States
//! | state | meaning | left by |
//! | --- | --- | --- |
//! | ALIVE | may be used | one destroyer wins the exchange to CLEARING |
//! | CLEARING | no call is admitted; its entries are being taken out | the same destroyer |
//! | DEAD | nothing of it is left in any plan or process; its rings may still be read | nobody |
//!
//! # Checked by
//! `models::destroy_*` (loom).
#![forbid(unsafe_code)]

use crate::{
    cells::Arena,
    flags::Flags,
    plan::Entry,
    ring::{Overflow, Ring},
    sync::{
        AtomicU32, AtomicU64, AtomicU8, Mutex,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};
use std::sync::Arc;

const ALIVE: u8 = 0;
const CLEARING: u8 = 1;
const DEAD: u8 = 2;

/// Bounds and policies of a session, fixed when it is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one scheduler's ring.
    pub ring_bytes: usize,
    /// What a full ring does.
    pub overflow: Overflow,
    /// How many ended processes keep their counters apart before the oldest are summed up.
    pub ended_processes: usize,
    /// Bytes that the arguments of one call may take in the ring.
    pub capture_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { ring_bytes: 1 << 20, overflow: Overflow::Drop, ended_processes: 1024, capture_bytes: 4096 }
    }
}

/// One session.
pub struct Session {
    /// Never used twice in a node.
    pub id: u64,
    /// Its place among the living sessions; used again after its death.
    pub index: u16,
    /// As given by its maker.
    pub name: Box<str>,
    /// As given by its maker.
    pub options: Options,
    /// Cells of call_time and call_memory.
    pub arena: Arena,
    /// The pid of the tracer process, 0 if the session is its own tracer. It is never traced by the session.
    pub tracer: AtomicU64,
    state: AtomicU8,
    tracer_lost: AtomicU8,
    new_flags: AtomicU32,
    seen_flags: AtomicU32,
    rings: Mutex<Vec<Arc<Ring>>>,
    lost: AtomicU64,
    on_load: Mutex<Option<Entry>>,
}

impl Session {
    /// A living session.
    #[must_use]
    pub fn new(id: u64, index: u16, name: &str, tracer: u64, options: Options) -> Self {
        Session {
            id,
            index,
            name: name.into(),
            options,
            arena: Arena::default(),
            tracer: AtomicU64::new(tracer),
            state: AtomicU8::new(ALIVE),
            tracer_lost: AtomicU8::new(0),
            new_flags: AtomicU32::new(0),
            seen_flags: AtomicU32::new(0),
            rings: Mutex::new(Vec::new()),
            lost: AtomicU64::new(0),
            on_load: Mutex::new(None),
        }
    }

    /// Whether it may be used.
    #[inline(always)]
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state.load(Acquire) == ALIVE
    }

    /// Begins its end; `true` for the one caller who is to do the rest.
    pub fn begin_end(&self) -> bool {
        self.state.compare_exchange(ALIVE, CLEARING, AcqRel, Acquire).is_ok()
    }

    /// Its end is done: producers are told, what they committed stays readable.
    pub fn finish_end(&self) {
        for ring in self.rings.lock().unwrap().iter() {
            ring.close();
        }
        self.state.store(DEAD, Release);
    }

    /// Whether its messages have somebody to go to.
    #[must_use]
    pub fn has_tracer(&self) -> bool {
        self.tracer_lost.load(Acquire) == 0
    }

    /// The tracer has ended: no flag is set any more, none can be.
    pub fn lose_tracer(&self) {
        self.tracer_lost.store(1, Release);
        self.new_flags.store(0, Release);
    }

    /// The flags that new processes get.
    #[must_use]
    pub fn new_flags(&self) -> Flags {
        Flags(self.new_flags.load(Relaxed))
    }

    /// Changes the flags that new processes get.
    pub fn change_new_flags(&self, how: bool, flags: Flags) {
        if how {
            self.new_flags.fetch_or(flags.0, AcqRel);
        } else {
            self.new_flags.fetch_and(!flags.0, AcqRel);
        }
    }

    /// Notes that these flags were switched on somewhere; answers those that never were before.
    pub fn note_flags(&self, flags: Flags) -> Flags {
        Flags(flags.0 & !self.seen_flags.fetch_or(flags.0, AcqRel))
    }

    /// Whether any flag of the set was ever switched on.
    #[must_use]
    pub fn has_seen(&self, flags: Flags) -> bool {
        self.seen_flags.load(Acquire) & flags.0 != 0
    }

    /// Whether `return_to` was ever switched on for a process.
    #[must_use]
    pub fn wants_return_to(&self) -> bool {
        self.has_seen(Flags::RETURN_TO)
    }

    /// What code that comes into being later gets.
    #[must_use]
    pub fn on_load(&self) -> Option<Entry> {
        self.on_load.lock().unwrap().clone()
    }

    /// Sets what code that comes into being later gets.
    pub fn set_on_load(&self, entry: Option<Entry>) {
        *self.on_load.lock().unwrap() = entry.filter(|e| e.has != 0);
    }

    /// Adds a scheduler's ring; `false` if the session has ended.
    pub fn add_ring(&self, ring: Arc<Ring>) -> bool {
        let mut rings = self.rings.lock().unwrap();
        if self.state.load(Acquire) == DEAD {
            return false;
        }
        rings.push(ring);
        true
    }

    /// Its rings now.
    #[must_use]
    pub fn rings(&self) -> Vec<Arc<Ring>> {
        self.rings.lock().unwrap().clone()
    }

    /// Lets go of rings whose scheduler has ended and that have been read to their end.
    pub(crate) fn forget_ended_rings(&self) {
        self.rings.lock().unwrap().retain(|ring| {
            let done = ring.is_ended() && ring.tail() == ring.head();
            if done {
                self.lost.fetch_add(ring.lost(), AcqRel);
            }
            !done
        });
    }

    /// Records lost by rings that are gone.
    pub(crate) fn lost_by_ended_rings(&self) -> u64 {
        self.lost.load(Acquire)
    }
}
