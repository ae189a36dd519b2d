//! Whether a session may be used: the word that decides between those who use it and those who end it.
//!
//! # Roles
//! Anyone looks. Of those who would end it, the exchange picks one, who does the rest.
//!
//! # States
//! | state | meaning | left by |
//! | --- | --- | --- |
//! | ALIVE | may be used | one destroyer, who wins the exchange to CLEARING |
//! | CLEARING | no call is admitted; its entries are being taken out | the same destroyer |
//! | DEAD | nothing of it is left in any plan or process; its rings may still be read | nobody |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | CLEARING | destroyer, `AcqRel` exchange | anyone, `Acquire` | who is told "not alive" sees what came before the end |
//! | DEAD | destroyer, `Release` store | anyone, `Acquire` | who sees DEAD sees the closed rings and the cleared plans |
//!
//! # Checked by
//! `models::life`, `models::node` (loom); mutants `end_twice`, `dead_relaxed`.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::{mutant, Edge},
    AtomicU8,
    Ordering::{AcqRel, Acquire, Release},
};
use std::fmt;

/// One of the states above.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LifeState(u8);

impl LifeState {
    const ALIVE: LifeState = LifeState(0);
    const CLEARING: LifeState = LifeState(1);
    const DEAD: LifeState = LifeState(2);
}

impl fmt::Debug for LifeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            LifeState::ALIVE => "ALIVE",
            LifeState::CLEARING => "CLEARING",
            LifeState::DEAD => "DEAD",
            _ => "?",
        })
    }
}

const DEAD_STORE: Edge = Edge(Release, "dead_relaxed");

/// The life of a session.
pub struct Life(AtomicU8);

impl Life {
    /// ALIVE.
    #[must_use]
    pub fn new() -> Self {
        Life(AtomicU8::new(LifeState::ALIVE.0))
    }

    fn state(&self) -> LifeState {
        LifeState(self.0.load(Acquire))
    }

    /// Whether it may be used.
    #[inline(always)]
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state() == LifeState::ALIVE
    }

    /// Whether its end is done.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state() == LifeState::DEAD
    }

    /// ALIVE to CLEARING; `true` for the one caller who is to do the rest.
    pub fn begin_end(&self) -> bool {
        if mutant!("end_twice") {
            let alive = self.is_alive();
            self.0.store(LifeState::CLEARING.0, Release);
            return alive;
        }
        self.0.compare_exchange(LifeState::ALIVE.0, LifeState::CLEARING.0, AcqRel, Acquire).is_ok()
    }

    /// CLEARING to DEAD. Only for who won [`Life::begin_end`], at the very end.
    pub fn finish_end(&self) {
        self.0.store(LifeState::DEAD.0, DEAD_STORE.order());
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_ends_once() {
        let life = Life::new();
        assert!(life.is_alive() && !life.is_dead());
        assert!(life.begin_end() && !life.begin_end());
        assert_eq!(format!("{life:?}"), "CLEARING");
        life.finish_end();
        assert!(life.is_dead() && !life.begin_end());
    }
}
