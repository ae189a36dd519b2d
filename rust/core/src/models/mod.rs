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
pub mod fresh;
mod life;
mod node;
mod section;
mod seq;
mod tracer_calls;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// The outcomes that the executions of a model have reached, and the number of executions.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(BTreeSet<&'static str>, usize)>>);

impl Seen {
    fn note(&self, outcome: &'static str, reached: bool) {
        if reached {
            self.0.lock().unwrap().0.insert(outcome);
        }
    }
}

/// Runs `model` under every schedule with at most `preemptions`. It must reach `outcomes` and have at least `least` executions.
fn explore(preemptions: usize, least: usize, outcomes: &[&'static str], model: impl Fn(&Seen) + Sync + Send + 'static) {
    let long = std::env::var("INVISO_LOOM").is_ok_and(|form| form == "long");
    let seen = Seen::default();
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions + usize::from(long));
    }
    let begun = std::time::Instant::now();
    builder.check({
        let seen = seen.clone();
        move || {
            fresh::release();
            seen.0.lock().unwrap().1 += 1;
            model(&seen);
        }
    });
    let (reached, executions) = &*seen.0.lock().unwrap();
    for outcome in outcomes {
        assert!(reached.contains(outcome), "{outcome:?} wasn't reached in {executions} executions");
    }
    assert!(*executions >= least, "{executions} executions, {least} expected at least");
    println!("{executions} executions in {:.1} s reached {reached:?}", begun.elapsed().as_secs_f32());
}
