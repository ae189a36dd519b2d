//! Time and memory are charged to the function that runs.
#![forbid(unsafe_code)]

use super::{activation::Activation, context::CallContext};
use crate::{
    count::cells::{CellRef, Measure, NONE},
    state::{
        call_cache::{Branching, Measured},
        flags::Flags,
        frame::{exit_actions, Frame, Timer},
        plan::{Entry, Plan},
        setting::kinds,
        thread::Thread,
        tracee::Tracee,
        tree::Branches,
    },
};

/// Charges a call that begins or is resumed to its function.
#[inline(always)]
pub(super) fn start_measured<A: Activation, const BEGINS: bool>(
    context: &mut CallContext<'_, A>, current: &Tracee, timers: &mut Vec<Timer>, stack: &mut Vec<Frame>,
    cached: &mut Measured,
) {
    if !current.flags(cached.index).has(Flags::CALL) {
        return;
    }
    if current.pid != cached.pid {
        let number = match current.known_cell(cached.id, cached.key) {
            NONE => new_cell(context, current, cached),
            number => Some(number),
        };
        let Some(number) = number else { return };
        (cached.pid, cached.cell) = (current.pid, CellRef::of(number));
    }
    let cell = cached.cell;
    if BEGINS {
        cell.get().enter(cached.generation);
    } else {
        cell.get().resume(cached.generation);
    }
    let amount = context.amount(cached.exit_actions);
    let before = Thread::timer(timers, cached.index, cached.id).of(cached.exit_actions).switch(Some(cell), amount);
    stack.push(Frame { before, ..Frame::new(context.at, cached.id, cached.index, cached.exit_actions, context.now) });
}

/// A process runs a function for the first time: it gets a cell. The time that this takes is the function's, not its caller's.
#[inline(never)]
fn new_cell<A>(context: &mut CallContext<'_, A>, current: &Tracee, cached: &Measured) -> Option<u32> {
    context.read_clock();
    let session = context.snapshot.session(cached.index, cached.id)?;
    Some(current.cell(cached.index, cached.id, cached.key, &session.arena, |id| context.snapshot.lives(id)))
}

/// As [`start_measured`], in a session with a call tree: the cell belongs to the chain of callers. `false` if the thread knows no
/// cell for it.
#[inline(never)]
pub(super) fn start_branch<A: Activation, const BEGINS: bool>(
    context: &mut CallContext<'_, A>, current: &Tracee, timers: &mut Vec<Timer>, stack: &mut Vec<Frame>,
    branches: &mut Branches, cached: &Branching,
) -> bool {
    if !current.flags(cached.index).has(Flags::CALL) {
        return true;
    }
    let amount = context.amount(cached.exit_actions);
    let CallContext { node, call, at, now, .. } = *context;
    let charge = Thread::timer(timers, cached.index, cached.id).of(cached.exit_actions);
    let Some(cell) = branches.find(current, cached.id, charge.key(), cached.key) else { return false };
    if BEGINS {
        cell.get().enter(cached.generation);
    } else {
        cell.get().resume(cached.generation);
    }
    if !node.suspended.is_empty() && call.is_generator() && cached.exit_actions == exit_actions::TIME {
        if let Some(begun) = node.suspended.take(at, cached.generation).filter(|_| !BEGINS) {
            cell.get().wait(now.wrapping_sub(begun.start));
        }
    }
    let before = charge.switch(Some(cell), amount);
    stack.push(Frame { before, ..Frame::new(at, cached.id, cached.index, cached.exit_actions, now) });
    true
}

/// Charges a call by its plan: a process that is traced gets the cells that it lacks.
#[inline(always)]
pub(super) fn measure<A: Activation, const BEGINS: bool>(
    mut context: CallContext<'_, A>, thread: &mut Thread, plan: &Plan, entry: &Entry, run: u16,
) {
    for (kind, measure) in [(kinds::TIME, Measure::Time), (kinds::MEMORY, Measure::Memory)] {
        if run & kind != 0 && entry.session.tree.get().is_some() {
            let branching = Branching::of(plan, entry, measure);
            branching.make_cell(thread, context.snapshot, entry, plan, measure);
            let Thread { current, timers, stack, branches, .. } = thread;
            start_branch::<A, BEGINS>(&mut context, current, timers, stack, branches, &branching);
        } else if run & kind != 0 {
            let mut measured = Measured::of(plan, entry, measure);
            let Thread { current, timers, stack, .. } = thread;
            start_measured::<A, BEGINS>(&mut context, current, timers, stack, &mut measured);
        }
    }
}

/// A call ends or is suspended: charges its cell, and makes the cell before it current again.
#[inline(always)]
pub(super) fn charge<A: Activation>(thread: &mut Thread, frame: &Frame, call: &A, now: u64) {
    let amount = if frame.exit_actions == exit_actions::TIME { now } else { call.allocated() };
    Thread::timer(&mut thread.timers, frame.index, frame.id).of(frame.exit_actions).switch(frame.before, amount);
}
