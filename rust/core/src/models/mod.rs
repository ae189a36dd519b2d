//! Loom models of the protocols between threads. The models of the ring are in its own room.
//!
//! Most models explore one protocol deeply. `node` drives a whole [`crate::state::node::Node`] with tighter bounds. A model names
//! outcomes, each of which some execution must reach, and the least number of executions. Without them, a run that explores almost
//! nothing would pass. `mutants.rs` lists the bugs that make a model fail. `INVISO_LOOM=long` explores with one more preemption.
//!
//! # What loom doesn't see
//! - `std::sync::OnceLock`, with which [`crate::sync::segments::Segments`] grow. loom would not switch threads inside it and does not
//!   know its edge. [`crate::sync`] replaces it by a type of the same contract. So the models explore a table that grows under its
//!   readers, provided that std's type keeps its contract. A process's own index still uses std's type: it has one user.
//! - The counts of `std::sync::Arc`, which keep sessions and plans alive. loom checks which threads may still reach one.
//! - Ticks are real time. Only drains branch on them, and their models have ticks of their own.
//! - A `SeqCst` access counts as `AcqRel`, see [`crate::sync::grace::pin`].

mod counters;
mod current;
mod delivery;
pub mod exploration;
pub mod fresh;
mod life;
mod node;
mod section;
mod seq;
mod tracer_calls;

use exploration::Seen;

/// As [`exploration::explore`]; the long form has one more preemption.
fn explore(preemptions: usize, least: usize, outcomes: &[&'static str], model: impl Fn(&Seen) + Sync + Send + 'static) {
    exploration::explore(preemptions..=preemptions + 1, least, outcomes, model);
}
