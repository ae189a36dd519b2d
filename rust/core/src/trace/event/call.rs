//! A call begins.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::Activation,
    caught::settle,
    context::CallContext,
    frames::{await_end, drop_stale, is_top},
    measure::{measure, start_branch, start_measured},
    message::{ask, matched, message, meta},
    remember::place_of,
};
use crate::{
    state::{
        call_cache::{self, Action, Filter},
        flags::Flags,
        frame::{exit_actions, Frame},
        node::Node,
        plan::{Entry, Plan},
        setting::kinds,
        snapshot::Snapshot,
        suspended_calls::PendingCall,
        thread::{Rings, Thread},
        tracee::Tracee,
    },
    trace::matching::{self, Decision},
};

/// A call of the function `code` begins.
#[inline(always)]
pub fn on_call<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    if !thread.pending.sessions.is_empty() {
        settle(node, thread, code, call);
    }
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let Some(place) = place_of::<A, true>(node, thread, snapshot, code, call) else { return };
    if run_cached(node, thread, snapshot, place, call) && !thread.deferred.is_empty() {
        drop(inside);
        accepted::run_deferred(node, thread, code, call);
    }
}

/// Runs the actions of a cached call; `true` if one may have deferred work.
#[inline(always)]
fn run_cached<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, call: &A) -> bool {
    let cached = thread.call_cache.at(place);
    let (counter, has_more, has_action) = (cached.counter, cached.more.is_some(), cached.first.is_some());
    if counter != 0 {
        thread.shared.counts.add(counter - 1);
    }
    if has_more {
        count_more(thread, place);
    }
    if !has_action {
        return false;
    }
    call.identify(thread);
    let mut context = CallContext { node, snapshot, call, at: call.address(), now: 0 };
    if is_top(thread, context.at) {
        drop_stale(thread, context.at);
    }
    let may_defer = run_action(&mut context, thread, place, 0).unwrap_or(false);
    if has_more {
        return run_more(context, thread, place) || may_defer;
    }
    may_defer
}

/// Adds to the counters after the first one.
#[inline(never)]
fn count_more(thread: &mut Thread, place: usize) {
    if let Some(more) = &thread.call_cache.at(place).more {
        more.counters.iter().for_each(|counter| thread.shared.counts.add(*counter));
    }
}

/// Runs the actions after the first one. Not inlined, as most calls have one action: their code stays small.
#[inline(never)]
fn run_more<A: Activation>(mut context: CallContext<'_, A>, thread: &mut Thread, place: usize) -> bool {
    let (mut done, mut may_defer) = (1, false);
    while let Some(deferred) = run_action(&mut context, thread, place, done) {
        may_defer |= deferred;
        done += 1;
    }
    may_defer
}

/// Runs an action of a cached call; `true` if it may have deferred work, `None` if there is no such action.
#[inline(always)]
fn run_action<A: Activation>(
    context: &mut CallContext<'_, A>, thread: &mut Thread, place: usize, n: usize,
) -> Option<bool> {
    let Thread { ref current, ref mut timers, ref mut stack, ref mut branches, ref mut rings, ref mut extra, .. } =
        *thread;
    let action = thread.call_cache.at(place).action(n)?;
    // before the others, as a compare and not as an entry of a table of jumps
    let is_done = if let Action::Emit(cached) = action {
        context.read_clock();
        emit_call(*context, current, rings, stack, cached)
    } else {
        match action {
            Action::Measure(cached) => {
                start_measured::<A, true>(context, current, timers, stack, cached);
                true
            }
            Action::Branch(cached) => start_branch::<A, true>(context, current, timers, stack, branches, cached),
            Action::Filter(cached) => {
                let Some(decision) = filter(*context, current, cached, extra) else { return Some(false) };
                start_matched(*context, thread, place, n, decision);
                return Some(true);
            }
            Action::Emit(_) | Action::Planned(_) => false,
        }
    };
    if !is_done {
        context.read_clock();
        start_planned(*context, thread, place, n);
    }
    Some(!is_done)
}

/// Writes the record of a call without arguments; `false` if the process's flags differ from the cached ones.
#[inline(always)]
fn emit_call<A: Activation>(
    context: CallContext<'_, A>, current: &Tracee, rings: &mut Rings, stack: &mut Vec<Frame>,
    cached: &call_cache::EmitPlan,
) -> bool {
    let CallContext { node, at, now, .. } = context;
    let flags = current.flags(cached.index);
    if flags != cached.flags || current.pid == cached.tracer {
        return !flags.has(Flags::CALL);
    }
    let Some(ring) = rings.of(cached.index, cached.id) else { return false };
    let _counted_by_the_ring = ring.push([cached.first, now, current.pid, u64::from(cached.name)], &[]);
    if cached.exit_actions != 0 {
        if cached.pauses {
            let pending = PendingCall { exit_actions: cached.exit_actions, start: now };
            node.suspended_calls.keep(at, cached.id, pending);
        } else {
            stack.push(Frame::new(at, cached.id, cached.index, cached.exit_actions, now));
        }
    }
    true
}

/// Runs the match specification of a call; `None` if the call gives no message and has no effect.
#[inline(never)]
fn filter<A: Activation>(
    context: CallContext<'_, A>, current: &Tracee, cached: &Filter, extra: &mut Vec<u8>,
) -> Option<Decision> {
    if !current.flags(cached.index).has(Flags::CALL) || current.pid == cached.tracer {
        return None;
    }
    let session = context.snapshot.session(cached.index, cached.id)?;
    matching::decide(context.node, current, session, &cached.program, context.call, extra)
}

/// A match specification has taken the call.
#[inline(never)]
fn start_matched<A: Activation>(
    mut context: CallContext<'_, A>, thread: &mut Thread, place: usize, n: usize, decision: Decision,
) {
    if let Some((plan, entry, _)) = planned(thread, context.snapshot, place, n) {
        context.now = context.node.clock.ticks();
        let exit_actions = matched(context, thread, plan, entry, decision);
        await_end(context, thread, entry, exit_actions);
    }
}

/// Runs the plan of the session that an action belongs to.
#[inline(never)]
fn start_planned<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, place: usize, n: usize) {
    if let Some((plan, entry, kinds)) = planned(thread, context.snapshot, place, n) {
        start(context, thread, plan, entry, kinds);
        // the process's flags may have become such that the fast form covers them
        if entry.run & kinds & !kinds::COUNT == kinds::LOCAL {
            let cached = call_cache::EmitPlan::of(context.node, thread, plan, entry, context.call.is_generator());
            if let Some(cached) = cached {
                thread.call_cache.at(place).replace(n, Action::Emit(cached));
            }
        }
    }
}

/// The entry that an action comes from, and the kinds that the action covers.
pub(super) fn planned<'s>(
    thread: &mut Thread, snapshot: &'s Snapshot, place: usize, n: usize,
) -> Option<(&'s Plan, &'s Entry, u16)> {
    let cached = thread.call_cache.at(place);
    let plan = snapshot.find(cached.code)?;
    let action = cached.action(n)?;
    let id = action.session();
    Some((plan, plan.entries.iter().find(|e| e.id == id)?, action.kinds()))
}

/// Runs these kinds of a session's entry, without counting the call.
#[inline(always)]
fn start<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, plan: &Plan, entry: &Entry, which: u16) {
    let run = entry.run & which;
    let flags = thread.current.flags(entry.index);
    let mut exit_actions = 0;
    if flags.has(Flags::CALL) && run & kinds::MESSAGES != 0 {
        exit_actions |= message(context, thread, plan, entry, flags);
    }
    if run & (kinds::META | kinds::ASKS) != 0 {
        if run & kinds::ASKS != 0 {
            ask(thread, entry, flags, context.call);
        } else {
            exit_actions |= meta(context, thread, plan, entry);
        }
    }
    if flags.has(Flags::CALL) {
        measure::<A, true>(context, thread, plan, entry, run);
    }
    if run & kinds::LATENCY != 0 {
        exit_actions |= exit_actions::LATENCY;
    }
    if exit_actions == 0
        && which & (kinds::MESSAGES | kinds::LATENCY) != 0
        && !context.node.suspended_calls.is_empty()
        && context.call.is_generator()
    {
        context.node.suspended_calls.take(context.at, entry.id); // of an earlier call, whose end was not seen
    }
    await_end(context, thread, entry, exit_actions);
}
