//! A suspended call is resumed.
#![forbid(unsafe_code)]

use super::{
    activation::Activation,
    call::planned,
    caught::{settle, write_name},
    context::CallContext,
    measure::{measure, start_branch, start_measured},
    remember::place_of,
};
use crate::state::{call_cache::Action, flags::Flags, node::Node, snapshot::Snapshot, thread::Thread};

/// A suspended call is resumed: its function is charged again. No call is counted.
#[inline(always)]
pub fn on_resume<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    if !thread.pending.sessions.is_empty() {
        settle(node, thread, code, call);
    }
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    resume_cached(node, thread, snapshot, code, call);
}

/// A suspended call is resumed with an exception. If the exception has left another call that this one waits for, it is still
/// unhandled.
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
fn resume_cached<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, call: &A) {
    let Some(place) = place_of::<A, false>(node, thread, snapshot, code, call) else { return };
    let cached = thread.call_cache.at(place);
    if cached.first.is_none() {
        return;
    }
    call.identify(thread);
    let mut context = CallContext { node, snapshot, call, at: call.address(), now: 0 };
    let mut done = 0;
    while let Some(action) = thread.call_cache.at(place).action(done) {
        let Thread { ref current, ref mut timers, ref mut stack, ref mut branches, .. } = *thread;
        let is_done = match action {
            Action::Measure(cached) => {
                start_measured::<A, false>(&mut context, current, timers, stack, cached);
                true
            }
            Action::Branch(cached) => start_branch::<A, false>(&mut context, current, timers, stack, branches, cached),
            Action::Emit(_) | Action::Filter(_) => true,
            Action::Planned(_) => false,
        };
        if !is_done {
            context.read_clock();
            resume_planned(context, thread, place, done);
        }
        done += 1;
    }
}

/// Charges the call by the plan of the session that an action belongs to.
#[inline(never)]
fn resume_planned<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, place: usize, n: usize) {
    if let Some((plan, entry, kinds)) = planned(thread, context.snapshot, place, n) {
        if thread.current.flags(entry.index).has(Flags::CALL) {
            measure::<A, false>(context, thread, plan, entry, entry.run & kinds);
        }
    }
}
