//! Changes of patterns, flags and sessions: stage, publish, arm, grace period, retire.
//!
//! # Roles
//! One change at a time holds the control lock. Traced threads never take it. The host arms code through [`Arm`].
//!
//! # States
//! | state of a change | meaning |
//! | --- | --- |
//! | checked | nothing has changed yet |
//! | staged | a new snapshot exists |
//! | published | one swap: from here on every event acts by the new snapshot |
//! | armed | functions that have a plan now give events |
//! | settled | a grace period has passed: no thread is inside an old entry |
//! | retired | functions without a plan are disarmed, and the old snapshot is freed |
//!
//! # Orderings
//! Those of [`crate::state::snapshot`]. Publishing comes before arming: an event without a plan is wasted, a plan without events
//! would lose calls.
//!
//! # Checked by
//! `models::node` (loom); mutants `publish_piecewise`, `armed_late`, `restart_unsettled`, `pause_unsettled`, `destroy_keeps_flags`;
//! `tests/exact.rs` and `tests/kinds.rs`.
#![forbid(unsafe_code)]

mod apply;
mod flags;
mod patterns;
mod sessions;
mod settle;

use crate::state::mfa::Mfa;
use inviso_match::Program;
use std::sync::Arc;

/// The change that a call of `function/4` makes to the kinds that it names.
#[derive(Clone, Debug)]
pub enum Op {
    /// `true`: on; counters start from zero.
    On,
    /// A match specification: as `On`, and it decides which messages are sent.
    Match(Arc<Program>),
    /// `false`: off, for each kind that is set.
    Off,
    /// Counters stand still.
    Pause,
    /// Counters that are set start from zero.
    Restart,
}

/// A function that a pattern matches.
#[derive(Clone, Debug)]
pub struct Target {
    /// The function's identity for the host: a code object's address, a trace point's number. Never 0.
    pub key: usize,
    /// Its name.
    pub name: Arc<Mfa>,
    /// Whether `global` takes it.
    pub exported: bool,
    /// Whether it is not written in the traced language: see [`crate::state::plan::events::FOREIGN`].
    pub foreign: bool,
    /// Whether the program has dropped the function, and only settings of sessions keep its code. A pattern changes such settings, but
    /// does not count the function as matched.
    pub is_gone: bool,
}

/// Switches the events of functions, by the host.
pub trait Arm {
    /// From now on these functions need exactly these events (see [`crate::state::plan::events`]); 0 for none. `all` has the events
    /// that the whole node needs.
    fn arm(&self, functions: &[(usize, u8)], all: u8);
}
