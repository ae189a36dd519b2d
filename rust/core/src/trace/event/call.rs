//! A call begins.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::Activation,
    caught::settle,
    frames::{await_end, drop_stale},
    message::{ask, matched, message, meta},
    remember::place_of,
};
use crate::{
    count::cells::{CellRef, Measure, NONE},
    state::{
        call_cache::{self, Action, Branching, Filter, Measured},
        flags::Flags,
        frame::{exit_actions, Frame, Timer},
        node::Node,
        plan::{Entry, Plan},
        setting::kinds,
        snapshot::Snapshot,
        suspended_calls::PendingCall,
        thread::{Rings, Thread},
        tracee::Tracee,
        tree::Branches,
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
pub(super) fn run_cached<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, call: &A,
) -> bool {
    let known = thread.call_cache.at(place);
    if known.counter != 0 {
        thread.shared.counts.add(known.counter - 1);
    }
    if let Some(more) = &known.more {
        more.counters.iter().for_each(|counter| thread.shared.counts.add(*counter));
    }
    if known.first.is_none() {
        return false;
    }
    call.identify(thread);
    let at = call.address();
    if thread.stack.last().is_some_and(|f| f.at == at) {
        drop_stale(thread, at);
    }
    let (mut now, mut done, mut may_defer) = (0, 0, false);
    while let Some(action) = thread.call_cache.at(place).action(done) {
        if now == 0 && action.is_clocked() {
            now = node.moment(&mut thread.turn);
        }
        let enough = match action {
            Action::Measure(known) => {
                let (timers, stack) = (&mut thread.timers, &mut thread.stack);
                start_measured::<A, true>(&thread.current, timers, stack, known, call, at, now)
            }
            Action::Branch(known) => {
                let (timers, stack) = (&mut thread.timers, &mut thread.stack);
                start_branch::<A, true>(
                    node,
                    &thread.current,
                    timers,
                    stack,
                    &mut thread.branches,
                    known,
                    call,
                    at,
                    now,
                )
            }
            Action::Emit(known) => {
                emit_call(node, &thread.current, &mut thread.rings, &mut thread.stack, known, at, now)
            }
            Action::Filter(known) => {
                let decision = filter(node, &thread.current, snapshot, known, call, &mut thread.extra);
                if let Some(decision) = decision {
                    start_matched(node, thread, snapshot, place, done, decision, call, at);
                    may_defer = true;
                }
                true
            }
            Action::Planned(_) => false,
        };
        if !enough {
            start_planned(node, thread, snapshot, place, done, call, at, now);
            may_defer = true;
        }
        done += 1;
    }
    may_defer
}

/// A call that charges time or memory begins or goes on; `false` if the process has no cell for it yet.
#[inline(always)]
pub(super) fn start_measured<A: Activation, const BEGINS: bool>(
    current: &Tracee, timers: &mut Vec<Timer>, stack: &mut Vec<Frame>, known: &mut Measured, call: &A, at: usize,
    now: u64,
) -> bool {
    if !current.flags(known.index).has(Flags::CALL) {
        return true;
    }
    if current.pid != known.pid {
        match current.known_cell(known.id, known.key) {
            NONE => return false,
            number => (known.pid, known.cell) = (current.pid, CellRef::of(number)),
        }
    }
    let cell = known.cell;
    if BEGINS {
        cell.get().enter(known.generation);
    } else {
        cell.get().resume(known.generation);
    }
    let amount = if known.exit_actions == exit_actions::TIME { now } else { call.allocated() };
    let before = Thread::timer(timers, known.index, known.id).of(known.exit_actions).switch(Some(cell), amount);
    stack.push(Frame { before, ..Frame::new(at, known.id, known.index, known.exit_actions, now) });
    true
}

/// As [`start_measured`], in a session with a call tree: the cell is that of the chain of callers. `false` if the thread knows of
/// none.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn start_branch<A: Activation, const BEGINS: bool>(
    node: &Node, current: &Tracee, timers: &mut Vec<Timer>, stack: &mut Vec<Frame>, branches: &mut Branches,
    known: &Branching, call: &A, at: usize, now: u64,
) -> bool {
    if !current.flags(known.index).has(Flags::CALL) {
        return true;
    }
    let charge = Thread::timer(timers, known.index, known.id).of(known.exit_actions);
    let Some(cell) = branches.find(current, known.id, charge.key(), known.key) else { return false };
    if BEGINS {
        cell.get().enter(known.generation);
    } else {
        cell.get().resume(known.generation);
    }
    if !node.suspended.is_empty() && call.is_generator() && known.exit_actions == exit_actions::TIME {
        if let Some(begun) = node.suspended.take(at, known.generation).filter(|_| !BEGINS) {
            cell.get().wait(now.wrapping_sub(begun.start));
        }
    }
    let amount = if known.exit_actions == exit_actions::TIME { now } else { call.allocated() };
    let before = charge.switch(Some(cell), amount);
    stack.push(Frame { before, ..Frame::new(at, known.id, known.index, known.exit_actions, now) });
    true
}

/// A call of which a record without arguments is written; `false` if the process's flags are not those that are remembered.
#[inline(always)]
pub(super) fn emit_call(
    node: &Node, current: &Tracee, rings: &mut Rings, stack: &mut Vec<Frame>, known: &call_cache::EmitPlan, at: usize,
    now: u64,
) -> bool {
    let flags = current.flags(known.index);
    if flags != known.flags || current.pid == known.tracer {
        return !flags.has(Flags::CALL);
    }
    let Some(ring) = rings.of(known.index, known.id) else { return false };
    let _counted_by_the_ring = ring.push([known.first, now, current.pid, u64::from(known.name)], &[]);
    if flags.has(Flags::RETURN_TO) {
        if known.pauses {
            node.suspended_calls.keep(at, known.id, PendingCall { exit_actions: exit_actions::RETURN_TO, start: now });
        } else {
            stack.push(Frame::new(at, known.id, known.index, exit_actions::RETURN_TO, now));
        }
    }
    true
}

/// A call that a match spec decides about; `None` if nothing comes of it.
#[inline(never)]
pub(super) fn filter<A: Activation>(
    node: &Node, current: &Tracee, snapshot: &Snapshot, known: &Filter, call: &A, extra: &mut Vec<u8>,
) -> Option<Decision> {
    if !current.flags(known.index).has(Flags::CALL) || current.pid == known.tracer {
        return None;
    }
    let session = snapshot.session(known.index, known.id)?;
    matching::decide(node, current, session, &known.program, call, extra)
}

/// A call that a match spec takes.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(super) fn start_matched<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, n: usize, decision: Decision, call: &A,
    at: usize,
) {
    if let Some((plan, entry, _)) = planned(thread, snapshot, place, n) {
        let now = node.moment(&mut thread.turn);
        let exit_actions = matched(node, thread, plan, entry, decision, call, now);
        await_end(node, thread, entry, exit_actions, call, at, now);
    }
}

/// What the plan says for the session of an action.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(super) fn start_planned<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, n: usize, call: &A, at: usize, now: u64,
) {
    if let Some((plan, entry, kinds)) = planned(thread, snapshot, place, n) {
        start(node, thread, snapshot, plan, entry, kinds, call, at, now);
        // the process's flags may have become such that this is simple, or simple in another way
        if entry.run & kinds & !kinds::COUNT == kinds::LOCAL && entry.spec.is_none() {
            if let Some(told) = call_cache::EmitPlan::of(node, thread, plan, entry, call.is_generator()) {
                thread.call_cache.at(place).replace(n, Action::Emit(told));
            }
        }
    }
}

/// The entry that an action comes from, and the kinds that it stands for.
pub(super) fn planned<'s>(
    thread: &mut Thread, snapshot: &'s Snapshot, place: usize, n: usize,
) -> Option<(&'s Plan, &'s Entry, u16)> {
    let known = thread.call_cache.at(place);
    let plan = snapshot.find(known.code)?;
    let action = known.action(n)?;
    let id = action.session();
    Some((plan, plan.entries.iter().find(|e| e.id == id)?, action.kinds()))
}

/// What happens at a call in one session, of these kinds.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn start<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, which: u16, call: &A, at: usize,
    now: u64,
) {
    let run = entry.run & which;
    let flags = thread.current.flags(entry.index);
    let mut exit_actions = 0;
    if flags.has(Flags::CALL) && run & kinds::MESSAGES != 0 {
        exit_actions |= message(node, thread, plan, entry, flags, call, now);
    }
    if run & (kinds::META | kinds::ASKS) != 0 {
        if run & kinds::ASKS != 0 {
            ask(thread, entry, flags, call);
        } else {
            exit_actions |= meta(node, thread, plan, entry, call, now);
        }
    }
    if flags.has(Flags::CALL) {
        measure::<A, true>(node, thread, snapshot, plan, entry, run, call, at, now);
    }
    if run & kinds::LATENCY != 0 {
        exit_actions |= exit_actions::LATENCY;
    }
    if exit_actions == 0
        && which & (kinds::MESSAGES | kinds::LATENCY) != 0
        && !node.suspended_calls.is_empty()
        && call.is_generator()
    {
        node.suspended_calls.take(at, entry.id); // of a call whose end was not seen
    }
    await_end(node, thread, entry, exit_actions, call, at, now);
}

/// Charges what ran so far to the current cell, and makes the function's own cell current.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn measure<A: Activation, const BEGINS: bool>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, run: u16, call: &A, at: usize,
    now: u64,
) {
    for (kind, measure) in [(kinds::TIME, Measure::Time), (kinds::MEMORY, Measure::Memory)] {
        if run & kind != 0 && entry.session.tree.get().is_some() {
            let known = Branching::of(plan, entry, measure);
            known.make_cell(thread, snapshot, entry, plan, measure);
            let Thread { current, timers, stack, branches, .. } = thread;
            start_branch::<A, BEGINS>(node, current, timers, stack, branches, &known, call, at, now);
        } else if run & kind != 0 {
            let mut known = Measured::of(thread, snapshot, plan, entry, measure);
            let (timers, stack) = (&mut thread.timers, &mut thread.stack);
            start_measured::<A, BEGINS>(&thread.current, timers, stack, &mut known, call, at, now);
        }
    }
}
