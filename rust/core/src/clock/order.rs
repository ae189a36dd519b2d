//! Which record of a node comes first.
//!
//! Records of several rings are put in order by their ticks. Where nobody asks when something happened, reading the counter (10
//! to 20 ns) would serve that order alone; and a thread that goes on writing records, with no other between, needs no counter:
//! its next record comes one tick after its last. A host in which one thread runs at a time says so ([`Order::serial`]), and as
//! long as no session wants the time of anything its threads take turns: whoever finds that another had the turn takes it and reads
//! the counter. A record takes longer than a tick, so what is counted so never runs ahead of the counter.
//!
//! # States of the word
//! 0: the counter is read at each record. Else the number of the last turn that was taken; none is used twice.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | a turn is taken, `AcqRel` | `Order::take` | `Order::moment`, `Relaxed` | a record that the program orders behind another thread's sees that thread's turn, by the same edge as the program |
//! | a turn is taken, `AcqRel` | `Order::take` | the next `Order::take` | the counter is read after the turn was taken, and so after the one before had read it |
//!
//! # Checked by
//! `models::order` (loom).
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::mutant,
    AtomicU64, Mutex,
    Ordering::{AcqRel, Relaxed},
    Unpoisoned,
};

/// What threads share of the order of their records.
pub struct Order {
    word: AtomicU64,
    /// Whether the host lets threads take turns at all; and the last turn of before the word was 0.
    rest: Mutex<(bool, u64)>,
}

/// A thread's part in it.
#[derive(Default)]
pub(crate) struct LastTurn {
    /// The turn that it took last.
    taken: u64,
    /// When its last record was.
    ticks: u64,
}

impl Default for Order {
    /// The counter is read at each record.
    fn default() -> Order {
        Order { word: AtomicU64::new(0), rest: Mutex::new((false, 0)) }
    }
}

impl Order {
    /// One thread runs at a time, and others only when it lets them (as under a global lock): they may take turns. Before the
    /// first session.
    pub fn serial(&self) {
        self.rest.lock().unpoisoned().0 = true;
        self.rest();
    }

    /// Somebody wants to know when something happens: from now on the counter is read at each record.
    pub fn timed(&self) {
        if self.word.load(Relaxed) == 0 {
            return;
        }
        let mut rest = self.rest.lock().unpoisoned();
        let was = self.word.swap(0, AcqRel);
        rest.1 = rest.1.max(was);
    }

    /// There is no session any more: nobody does.
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
            return self.take(word, read, turn);
        }
        turn.ticks += 1;
        turn.ticks
    }

    /// Takes the turn. The counter is read while it is this thread's: one that another thread takes meanwhile has to be taken
    /// back, or that thread's next records could come before this one.
    #[cold]
    #[inline(never)]
    fn take(&self, mut word: u64, read: impl Fn() -> u64, turn: &mut LastTurn) -> u64 {
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
