//! Loom models of what happens between threads, apart from the ring (which has its own beside it).
//!
//! `tracer_calls`, `current`, `counters`, `life` and `delivery` take one protocol each and explore it deeply; `node` drives a whole
//! [`crate::state::node::Node`] and is bounded more tightly. A model names the outcomes that some execution must reach and how
//! many executions there must be, because a run that explores next to nothing is green as well; `mutants.rs` lists the
//! bugs that make a model fail. `INVISO_LOOM=long` explores with one more preemption.
//!
//! # What loom doesn't see
//! - `std::sync::OnceLock`, by which [`crate::sync::segments::Segments`] grow: loom would neither switch threads inside it nor know
//!   its edge. [`crate::sync`] has one with the same contract in its place, so what is explored is a table that grows
//!   under its readers, given that std's keeps its contract. A process's own index still uses std's: it has one user.
//! - `std::sync::Arc` counts: sessions and plans are kept by them. What loom checks is who may still reach one.
//! - Ticks are real time. Nothing here branches on them but a drain, whose models have ticks of their own.
//! - A `SeqCst` access counts as `AcqRel`, see [`crate::sync::grace::pin`].

mod counters;
mod current;
mod delivery;
mod life;
mod node;
mod order;
mod section;
mod seq;
mod tracer_calls;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// The outcomes that the executions of a model have reached.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(BTreeSet<&'static str>, usize)>>);

impl Seen {
    fn note(&self, outcome: &'static str, reached: bool) {
        if reached {
            self.0.lock().unwrap().0.insert(outcome);
        }
    }
}

/// Runs `model` under every schedule with at most `preemptions`; it must reach `outcomes` and have `least` executions.
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
