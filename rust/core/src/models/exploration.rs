//! Runs a model under all schedules, and checks what its executions have reached.

use super::fresh;
use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
};

/// The outcomes that the executions of a model have reached, and the number of executions.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<(BTreeSet<&'static str>, usize)>>);

impl Seen {
    /// Notes an outcome if it was reached.
    pub fn note(&self, outcome: &'static str, reached: bool) {
        if reached {
            self.0.lock().unwrap().0.insert(outcome);
        }
    }
}

/// Runs `model` under every schedule with at most so many preemptions: the first number, or the last one if `INVISO_LOOM` is `long`. It
/// must reach `outcomes` and have at least `least` executions.
pub fn explore(
    preemptions: RangeInclusive<usize>, least: usize, outcomes: &[&'static str],
    model: impl Fn(&Seen) + Sync + Send + 'static,
) {
    let long = std::env::var("INVISO_LOOM").is_ok_and(|form| form == "long");
    let seen = Seen::default();
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(if long { *preemptions.end() } else { *preemptions.start() });
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
