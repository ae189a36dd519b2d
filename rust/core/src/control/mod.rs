//! The one place where patterns change: stage, publish, arm, grace period, retire.
//!
//! # Roles
//! One stager at a time holds the control lock. Traced threads never take it. The host arms code through [`Arm`].
//!
//! # States
//! A change is: checked (nothing has changed yet) → staged (a new snapshot exists) → published (one swap: from here
//! on every event acts by it) → armed (code that has a plan now gives events) → settled (a grace period has passed:
//! nobody is inside an old entry) → disarmed and retired.
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

/// What is done to the kinds that a call of `function/4` names.
#[derive(Clone, Debug)]
pub enum Op {
    /// `true`: on; counters start from zero.
    On,
    /// A match spec: as `On`, and messages are sent as it decides.
    Match(Arc<Program>),
    /// `false`: off, if it is of that kind.
    Off,
    /// Counters stand still.
    Pause,
    /// Counters start from zero, if there are any.
    Restart,
}

/// A function that a pattern found.
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
    /// Whether the program has dropped the function, and only what a session has set on it keeps its code. A pattern changes that, and
    /// does not count the function as matched.
    pub is_gone: bool,
}

/// How the host switches a function's events.
pub trait Arm {
    /// These functions need exactly these events from now on (see [`crate::state::plan::events`]); 0 for none. `all` is what
    /// the whole node needs.
    fn arm(&self, functions: &[(usize, u8)], all: u8);
}
