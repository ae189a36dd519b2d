//! From a plan to a cached call of a thread: the actions that the plan needs in the process that runs now.
#![forbid(unsafe_code)]

use super::activation::Activation;
use crate::{
    count::cells::{key, CellRef, Measure},
    emit::{carried, first_word, stamps},
    state::{
        call_cache::{Action, Branching, CachedCall, EmitPlan, Filter, Measured},
        flags::Flags,
        frame::{exit_actions, results},
        node::Node,
        plan::{Entry, Plan},
        setting::kinds,
        snapshot::Snapshot,
        thread::Thread,
        tree,
    },
    sync::Ordering::Relaxed,
};
use inviso_term::record::Kind;

impl Branching {
    /// Charges one measure in one session.
    pub fn of(plan: &Plan, entry: &Entry, measure: Measure) -> Branching {
        let (exit_actions, generation) = charged(entry, measure);
        Branching { id: entry.id, key: key(plan.slot, measure), generation, index: entry.index, exit_actions }
    }

    /// Makes the cell of the process that runs now, if it is traced, and keeps it for the thread.
    pub fn make_cell(&self, thread: &mut Thread, snapshot: &Snapshot, entry: &Entry, plan: &Plan, measure: Measure) {
        let (current, Some(tree)) = (&thread.current, entry.session.tree.get()) else { return };
        if !current.flags(self.index).has(Flags::CALL) {
            return;
        }
        let above = Thread::timer(&mut thread.timers, self.index, self.id).of(self.exit_actions).key();
        let key = tree::key_of(tree.child(tree::place_of(above), plan.slot), measure);
        let cell = CellRef::of(current.cell(self.index, self.id, key, &entry.session.arena, |id| snapshot.lives(id)));
        thread.branches.keep(current.pid, self.id, above, self.key, key, cell);
    }
}

/// The exit action and the generation of a measure.
fn charged(entry: &Entry, measure: Measure) -> (u16, u32) {
    match measure {
        Measure::Time => (exit_actions::TIME, entry.time),
        Measure::Memory => (exit_actions::MEMORY, entry.memory),
    }
}

impl Measured {
    /// Charges one measure in one session. The first call finds the cell.
    pub fn of(plan: &Plan, entry: &Entry, measure: Measure) -> Measured {
        let (exit_actions, generation) = charged(entry, measure);
        let key = key(plan.slot, measure);
        Measured { pid: NOBODY, cell: CellRef::of(0), id: entry.id, key, generation, index: entry.index, exit_actions }
    }
}

/// No process has this pid.
const NOBODY: u64 = 0;

impl EmitPlan {
    /// The record of a call, if it has no payload: no arguments, no numbers of its stamp. The match spec, if there is one, has to take
    /// each call alike.
    pub fn of(node: &Node, thread: &Thread, plan: &Plan, entry: &Entry, pauses: bool) -> Option<EmitPlan> {
        let flags = thread.current.flags(entry.index);
        let mut exit_actions = if flags.has(Flags::RETURN_TO) { exit_actions::RETURN_TO } else { 0 };
        if let Some(program) = &entry.spec {
            let uses = program.uses();
            if !uses.unconditional {
                return None;
            }
            exit_actions |= results(uses.return_trace || uses.exception_trace, uses.exception_trace);
        }
        let simple = flags.has(Flags::CALL) && flags.has(Flags::ARITY) && !flags.has(Flags::SILENT);
        let stamps = stamps(flags).filter(|_| simple && carried(node, &entry.session, flags).is_none())?;
        Some(EmitPlan {
            tracer: entry.session.tracer.load(Relaxed),
            first: first_word(thread, Kind::CallArity, stamps, 0),
            flags,
            id: entry.id,
            name: plan.name,
            index: entry.index,
            exit_actions,
            pauses,
        })
    }
}

impl CachedCall {
    /// The actions of a plan for the process that runs now. `pauses`: calls of the function can be suspended.
    pub fn of(node: &Node, thread: &Thread, snapshot: &Snapshot, code: usize, plan: &Plan, pauses: bool) -> CachedCall {
        let counters = plan.entries.iter().filter(|e| e.run & kinds::COUNT != 0).map(|e| e.count).collect();
        let mut actions = Vec::new();
        for entry in plan.entries.iter().filter(|e| e.run & !kinds::COUNT != 0) {
            let emits = entry.run & kinds::LOCAL != 0;
            let emitting = match &entry.spec {
                Some(program) if !program.uses().unconditional => Some(Action::Filter(Filter {
                    program: program.clone(),
                    tracer: entry.session.tracer.load(Relaxed),
                    id: entry.id,
                    index: entry.index,
                })),
                _ if emits => EmitPlan::of(node, thread, plan, entry, pauses).map(Action::Emit),
                _ => None,
            };
            let simple = kinds::COUNT | kinds::TIME | kinds::MEMORY | kinds::LOCAL;
            if entry.run & !simple != 0 || emits && emitting.is_none() {
                actions.push(Action::Planned(entry.id));
                continue;
            }
            actions.extend(emitting.filter(|_| emits));
            for (kind, measure) in [(kinds::TIME, Measure::Time), (kinds::MEMORY, Measure::Memory)] {
                if entry.run & kind != 0 {
                    actions.push(match entry.session.tree.get() {
                        Some(_) => Action::Branch(Branching::of(plan, entry, measure)),
                        None => Action::Measure(Measured::of(plan, entry, measure)),
                    });
                }
            }
        }
        CachedCall::new(code, snapshot.version, counters, actions)
    }
}

/// The cached call of a function, which is made at a miss; `None` if no session traces the function.
#[inline(always)]
pub(super) fn place_of<A: Activation, const BEGINS: bool>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, call: &A,
) -> Option<usize> {
    match thread.call_cache.find(code, snapshot.version) {
        Some(place) => Some(place),
        None => remember::<A, BEGINS>(node, thread, snapshot, code, call),
    }
}

#[cold]
#[inline(never)]
fn remember<A: Activation, const BEGINS: bool>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, call: &A,
) -> Option<usize> {
    let plan = snapshot.find(code)?;
    if plan.run & !kinds::COUNT != 0 {
        call.identify(thread);
    }
    let pauses = call.is_generator();
    if BEGINS && pauses && !node.suspended_calls.is_empty() {
        // of an earlier call at this address, whose end was not seen
        for entry in &plan.entries {
            node.suspended_calls.take(call.address(), entry.id);
        }
    }
    thread.call_cache.keep(CachedCall::of(node, thread, snapshot, code, plan, pauses));
    thread.call_cache.find(code, snapshot.version)
}
