//! The order of a node's records.
//!
//! Ticks order the records of several rings. If no session needs the time of events, reading the counter (10 to 20 ns) would serve the
//! order alone. A thread that writes one record after another, with no other thread between, needs no counter: its next record comes one
//! tick after its last. A host that runs one thread at a time says so ([`Order::serial`]). Then, as long as no session needs the time,
//! its threads take turns. A thread that finds another thread's turn takes a turn of its own and reads the counter. A record takes longer
//! than a tick to write, so a counted tick never runs ahead of the counter.
//!
//! # Roles
//! Traced threads take turns. The control side calls [`Order::timed`] and [`Order::rest`]. The host calls [`Order::serial`].
//!
//! # States
//! | word | meaning |
//! | --- | --- |
//! | 0 | the counter is read at each record |
//! | other | the number of the latest turn; no number is used twice |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | a turn is taken, `AcqRel` | `Order::take_turn` | `Order::moment`, `Relaxed` | a record that the program orders after another thread's sees that thread's turn, by the program's own edge |
//! | a turn is taken, `AcqRel` | `Order::take_turn` | the next `Order::take_turn` | a thread reads the counter after it took the turn, so after the thread before read it |
//!
//! # Checked by
//! `models::order` (loom), mutants `turn_*`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::mutant,
    AtomicU64, Mutex,
    Ordering::{AcqRel, Relaxed},
    Unpoisoned,
};

/// The part of the order that all threads share.
pub struct Order {
    word: AtomicU64,
    /// Whether the host allows turns, and the last turn before the word became 0.
    rest: Mutex<(bool, u64)>,
}

/// A thread's own part of the order.
#[derive(Default)]
pub(crate) struct LastTurn {
    /// The thread's latest turn.
    taken: u64,
    /// Ticks of its latest record.
    ticks: u64,
}

impl Default for Order {
    /// The counter is read at each record.
    fn default() -> Order {
        Order { word: AtomicU64::new(0), rest: Mutex::new((false, 0)) }
    }
}

impl Order {
    /// Allows turns: the host runs one thread at a time, as under a global lock. Call it before the first session.
    pub fn serial(&self) {
        self.rest.lock().unpoisoned().0 = true;
        self.rest();
    }

    /// Ends turns: a session needs the time, so the counter is read at each record from now on.
    pub fn timed(&self) {
        if self.word.load(Relaxed) == 0 {
            return;
        }
        let mut rest = self.rest.lock().unpoisoned();
        let was = self.word.swap(0, AcqRel);
        rest.1 = rest.1.max(was);
    }

    /// Allows turns again, if the host does: no session is left that needs the time.
    pub fn rest(&self) {
        let mut rest = self.rest.lock().unpoisoned();
        if rest.0 && self.word.load(Relaxed) == 0 {
            rest.1 += 1;
            self.word.store(rest.1, Relaxed);
        }
    }

    /// Ticks of a record that a thread writes now; `read` reads the counter.
    #[inline(always)]
    pub(crate) fn moment(&self, read: impl Fn() -> u64, turn: &mut LastTurn) -> u64 {
        let word = self.word.load(Relaxed);
        if word == 0 {
            return read();
        }
        if word != turn.taken && !(mutant!("turn_unlooked") && turn.taken != 0) {
            return self.take_turn(word, read, turn);
        }
        turn.ticks += 1;
        turn.ticks
    }

    /// Takes a turn. The counter must be read while the turn is this thread's. If another thread took a turn meanwhile, this thread takes
    /// another one. Otherwise the other thread's next records could get earlier ticks than this one.
    #[cold]
    #[inline(never)]
    fn take_turn(&self, mut word: u64, read: impl Fn() -> u64, turn: &mut LastTurn) -> u64 {
        loop {
            if word == 0 {
                return read();
            }
            let early = mutant!("turn_read_early").then(&read);
            match self.word.compare_exchange(word, word + 1, AcqRel, Relaxed) {
                Err(seen) => word = seen,
                Ok(_) => {
                    let ticks = early.unwrap_or_else(&read).max(turn.ticks + 1);
                    let now = self.word.load(Relaxed);
                    if now == word + 1 || mutant!("turn_kept_unseen") {
                        *turn = LastTurn { taken: word + 1, ticks };
                        return ticks;
                    }
                    word = now;
                }
            }
        }
    }
}
