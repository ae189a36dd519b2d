//! The life of a session: a word that decides between its users and the thread that ends it.
//!
//! # Roles
//! Any thread reads. The exchange selects one *destroyer*, which does the rest of the end.
//!
//! # States
//! | state | meaning | left by |
//! | --- | --- | --- |
//! | ALIVE | may be used | the destroyer, which wins the exchange to CLEARING |
//! | CLEARING | no use is admitted; its entries are being removed | the destroyer |
//! | DEAD | no plan or process has a part of it; its rings may still be read | never |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | CLEARING | destroyer, `AcqRel` exchange | anyone, `Acquire` | a reader of "not alive" sees everything from before the end |
//! | DEAD | destroyer, `Release` store | anyone, `Acquire` | a reader of DEAD sees the closed rings and the cleared plans |
//!
//! # Checked by
//! `models::life`, `models::node` (loom); mutants `end_twice`, `dead_relaxed`.
//!
//! Only other crates of the workspace use it.
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
    /// A life in the state ALIVE.
    #[must_use]
    pub fn new() -> Self {
        Life(AtomicU8::new(LifeState::ALIVE.0))
    }

    fn state(&self) -> LifeState {
        LifeState(self.0.load(Acquire))
    }

    /// Whether the session may be used.
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

    /// ALIVE to CLEARING. `true` for the one caller that has to do the rest.
    pub fn begin_end(&self) -> bool {
        if mutant!("end_twice") {
            let alive = self.is_alive();
            self.0.store(LifeState::CLEARING.0, Release);
            return alive;
        }
        self.0.compare_exchange(LifeState::ALIVE.0, LifeState::CLEARING.0, AcqRel, Acquire).is_ok()
    }

    /// CLEARING to DEAD. Only the winner of [`Life::begin_end`] may call it, as the last step.
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
