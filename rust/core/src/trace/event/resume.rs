//! A suspended call goes on.
#![forbid(unsafe_code)]

use super::{
    activation::Activation,
    call::{measure, planned, start_branch, start_measured},
    caught::{settle, write_name},
    remember::place_of,
};
use crate::state::{
    call_cache::Action,
    flags::Flags,
    node::Node,
    plan::{Entry, Plan},
    snapshot::Snapshot,
    thread::Thread,
};

/// A suspended call goes on: its time is its own again, and no call is counted.
#[inline(always)]
pub fn on_resume<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    if !thread.pending.sessions.is_empty() {
        settle(node, thread, code, call);
    }
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    resume_cached(node, thread, snapshot, code, call);
}

/// A suspended call goes on with an exception. If that comes out of another call that it waits for, it is not yet caught.
#[inline(always)]
pub fn on_throw<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    if !thread.pending.sessions.is_empty() {
        let mut name = std::mem::take(&mut thread.pending.name);
        write_name(&mut name, |out| {
            call.name(out);
        });
        (thread.pending.at, thread.pending.name) = (call.address(), name);
    }
    resume_cached(node, thread, snapshot, code, call);
}

#[inline(always)]
pub(super) fn resume_cached<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, call: &A,
) {
    let Some(place) = place_of::<A, false>(node, thread, snapshot, code, call) else { return };
    let known = thread.call_cache.at(place);
    if known.first.is_none() {
        return;
    }
    call.identify(thread);
    let at = call.address();
    let (mut now, mut done) = (0, 0);
    while let Some(action) = thread.call_cache.at(place).action(done) {
        if now == 0 && action.is_clocked() {
            now = node.moment(&mut thread.turn);
        }
        let enough = match action {
            Action::Measure(known) => {
                let (timers, stack) = (&mut thread.timers, &mut thread.stack);
                start_measured::<A, false>(&thread.current, timers, stack, known, call, at, now)
            }
            Action::Branch(known) => {
                let (timers, stack) = (&mut thread.timers, &mut thread.stack);
                let branches = &mut thread.branches;
                start_branch::<A, false>(node, &thread.current, timers, stack, branches, known, call, at, now)
            }
            Action::Emit(_) | Action::Filter(_) => true,
            Action::Planned(_) => false,
        };
        if !enough {
            resume_planned(node, thread, snapshot, place, done, call, at, now);
        }
        done += 1;
    }
}

/// See [`on_resume`]; what the plan says for the session of an action.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(super) fn resume_planned<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, n: usize, call: &A, at: usize, now: u64,
) {
    if let Some((plan, entry, kinds)) = planned(thread, snapshot, place, n) {
        resume(node, thread, snapshot, plan, entry, entry.run & kinds, call, at, now);
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn resume<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, run: u16, call: &A, at: usize,
    now: u64,
) {
    if thread.current.flags(entry.index).has(Flags::CALL) {
        measure::<A, false>(node, thread, snapshot, plan, entry, run, call, at, now);
    }
}
