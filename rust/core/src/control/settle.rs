//! A change takes effect: publish, arm, wait, retire.
#![forbid(unsafe_code)]

use super::Arm;
use crate::{
    state::{control::Control, node::Node, plan::Plan, session::Session, snapshot::Snapshot},
    sync::{current::Retired, grace::pin, mutants::mutant, Ordering::Relaxed, Unpoisoned},
};
use std::sync::Arc;

/// What a change replaces, which threads may still use until a grace period has passed.
#[derive(Default)]
pub(super) struct Leftovers {
    pub counters: Vec<u32>,
    pub keys: Vec<usize>,
    pub changed_running: bool,
}

/// Functions and the interpreter events that they need.
type Needs = Vec<(usize, u8)>;

impl Node {
    /// Makes all plans of a session anew: its flags have changed, and with them the events that the plans need.
    pub fn rearm(&self, session: &Arc<Session>, host: &dyn Arm) {
        let mut control = self.control.lock().unpoisoned();
        let changes = self.read(|s| {
            s.plans()
                .filter(|(_, p)| p.entry(session.id).is_some())
                .map(|(key, p)| (key, p.events, Plan::of(p.slot, p.name, p.foreign, p.entries.to_vec())))
                .collect()
        });
        self.settle(&mut control, changes, Leftovers::default(), host, |next| next);
    }

    /// Makes all cached calls void: something that no plan holds has changed.
    pub fn forget_remembered(&self, host: &dyn Arm) {
        let mut control = self.control.lock().unpoisoned();
        self.settle(&mut control, Vec::new(), Leftovers::default(), host, |next| next);
    }

    /// Swaps a snapshot in.
    pub(super) fn publish(&self, build: impl FnOnce(&Snapshot) -> Snapshot) -> Retired<Snapshot> {
        let local = self.participant();
        let guard = pin(&local);
        let next = build(self.snapshot.load(&guard));
        self.snapshot.swap(next, &guard)
    }

    /// Publishes a change, arms the functions, waits and retires. A change of a function has the events that it needed before.
    pub(super) fn settle(
        &self, control: &mut Control, changes: Vec<(usize, u8, Option<Plan>)>, mut left: Leftovers, host: &dyn Arm,
        finish: impl FnOnce(Snapshot) -> Snapshot,
    ) {
        // A function that gives events already gets more of them before the plan is published: a call that runs by the new plan
        // needs the event of its end.
        let (mut grown, mut arm, mut disarm) = (Needs::new(), Needs::new(), Needs::new());
        let mut plans = Vec::with_capacity(changes.len());
        for (key, events, plan) in changes {
            let needed = plan.as_ref().map_or(0, |p| p.events);
            if needed & !events != 0 {
                arm.push((key, needed));
                if events != 0 {
                    grown.push((key, needed | events));
                }
            } else if needed != events {
                disarm.push((key, needed));
            }
            if plan.is_none() {
                left.keys.push(key);
            }
            plans.push((key, plan.map(Arc::new)));
        }
        if mutant!("publish_piecewise") {
            for plan in plans.drain(..plans.len() - 1) {
                let retired = self.publish(|old| old.with(vec![plan]));
                control.retired.push(retired);
            }
        }
        if !grown.is_empty() && !mutant!("armed_late") {
            let all = grown.iter().fold(self.read(|s| s.events), |all, (_, events)| all | events);
            host.arm(&grown, all);
        }
        let mut all = 0;
        let retired = self.publish(|old| {
            let next = finish(old.with(plans));
            self.has_plans.store(!next.is_empty(), Relaxed);
            all = next.events;
            next
        });
        control.retired.push(retired);
        host.arm(&arm, all);
        if left.changed_running || !left.keys.is_empty() || control.retired.len() > 16 {
            self.retire(control, left, || host.arm(&disarm, all));
        } else if !disarm.is_empty() {
            host.arm(&disarm, all);
        }
    }

    /// Waits for a grace period, then disarms and frees what nobody can use any more.
    fn retire(&self, control: &mut Control, left: Leftovers, disarm: impl FnOnce()) {
        let passed = self.grace();
        control.retired.drain(..).for_each(|r| r.free(&passed));
        disarm();
        let gone = left.keys.into_iter().filter_map(|key| control.slots.remove(&key));
        control.held_slots.extend(gone);
        if !self.read(|snapshot| snapshot.sessions().any(|session| session.tree.get().is_some())) {
            control.free_slots.append(&mut control.held_slots);
        }
        let mut threads = self.threads.lock().unpoisoned();
        left.counters.into_iter().for_each(|c| threads.pool.give(c));
    }
}
