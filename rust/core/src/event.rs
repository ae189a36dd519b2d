//! The hot path: what happens at a call, at its end, at a suspension. Readable top to bottom.
//!
//! A host calls one of the `on_*` functions for each interpreter event and passes an [`Activation`], through which the
//! rest is looked at only when it is needed. Nothing here allocates, locks, formats or panics but in the functions
//! marked cold, which run once for a thread, process or suspended call.
#![forbid(unsafe_code)]

use crate::{
    cells::{CellRef, Measure, NONE},
    emit::{emit, stamp, Head},
    flags::Flags,
    kept::Begun,
    late::{self, Question},
    matching::{self, Decision, Subject, Told},
    memory::{self, Action, Filter, Known, Measured},
    node::Node,
    plan::{kinds, Entry, Plan},
    session::{Capture, Session, Takes},
    slots::Snapshot,
    sync::Ordering::Relaxed,
    thread::{wants, Frame, Rings, Thread, Timer},
    tracee::Tracee,
};
use inviso_term::{
    etf::{Encoder, Full},
    record::Kind,
};
use std::sync::Arc;

/// A call that is running, as its host sees it. Each method is asked only when it is needed.
pub trait Activation: Subject {
    /// What tells this call from every other that has not ended; the same at entry, suspension, resume and end.
    fn address(&self) -> usize;
    /// Whether the call can be suspended and resumed.
    fn is_generator(&self) -> bool;
    /// Makes sure that `thread.current()` is the process that runs now.
    fn identify(&self, thread: &mut Thread);
    /// Bytes that this thread has allocated so far.
    fn allocated(&self) -> u64;
    /// Whether the caller's code belongs to another module.
    fn is_global(&self) -> bool;
    /// Writes the arguments as a list.
    ///
    /// # Errors
    /// [`Full`] when they don't fit; what was written is then ignored.
    fn arguments(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full>;
    /// Writes the arguments for a session that does not take [`Takes::Values`]. Outside the section: any code may run.
    fn arguments_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16);
    /// Writes the value that the call returns, or the class and value of the exception that leaves it. At its end only.
    ///
    /// # Errors
    /// [`Full`].
    fn result(&self, out: &mut Encoder<'_>, _capture: &Capture) -> Result<(), Full> {
        out.cut("result")
    }
    /// As [`Activation::arguments_late`], for the value that the call returns.
    fn result_late(&self, _out: &mut Vec<u8>, _session: &Session, _scheduler: u16) {}
    /// Whether the call is a suspended one that is being closed, and not left by an exception of its own.
    fn is_closing(&self) -> bool {
        false
    }
    /// Writes the name `(module, function, arity)` of this call's own function; `false` if it has none.
    fn name(&self, out: &mut Encoder<'_>) -> bool;
    /// The caller's address and its function; zeroes if there is no caller.
    fn caller_function(&self) -> (usize, usize);
    /// Writes the caller's name and answers its address; 0 if there is no caller.
    fn caller(&self, out: &mut Encoder<'_>) -> usize;
}

/// How a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It returns.
    Return,
    /// It is suspended.
    Yield,
    /// An exception leaves it.
    Unwind,
}

/// A call of the function `code` begins.
#[inline(always)]
pub fn on_call<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    if !thread.pending.sessions.is_empty() {
        settle(node, thread, code, call);
    }
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    if let Some(place) = thread.memory.find(code, snapshot.version) {
        if again(node, thread, snapshot, place, call) && !thread.late.is_empty() {
            drop(inside);
            late::take(node, thread, code, call);
        }
        return;
    }
    let Some(bucket) = snapshot.bucket(code) else { return };
    let Some(plan) = bucket.plan() else { return };
    for entry in &plan.entries {
        if entry.run & kinds::COUNT != 0 {
            thread.shared.counts.add(entry.count);
        }
    }
    if plan.run & !kinds::COUNT != 0 {
        enter(node, thread, snapshot, plan, call);
    }
    remember(node, thread, snapshot, code, plan, call);
    if !thread.late.is_empty() {
        drop(inside);
        late::take(node, thread, code, call);
    }
}

/// A call of a function that is remembered; `true` if something happened that is not.
#[inline(always)]
fn again<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, call: &A) -> bool {
    let known = thread.memory.at(place);
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
    let (mut now, mut done, mut planned) = (0, 0, false);
    while let Some(action) = thread.memory.at(place).action(done) {
        if now == 0 && action.is_clocked() {
            now = node.moment(&mut thread.turn);
        }
        let enough = match action {
            Action::Measure(known) => {
                let (timers, stack) = (&mut thread.timers, &mut thread.stack);
                start_measured::<A, true>(&thread.current, timers, stack, known, call, at, now)
            }
            Action::Tell(known) => {
                start_told(node, &thread.current, &mut thread.rings, &mut thread.stack, known, at, now)
            }
            Action::Filter(known) => {
                let decision = filter(node, &thread.current, snapshot, known, call, &mut thread.extra);
                if let Some(decision) = decision {
                    start_matched(node, thread, snapshot, place, done, decision, call, at);
                }
                true
            }
            Action::Planned(_) => false,
        };
        if !enough {
            start_planned(node, thread, snapshot, place, done, call, at, now);
            planned = true;
        }
        done += 1;
    }
    planned
}

/// A call that charges time or memory begins or goes on; `false` if the process has no cell for it yet.
#[inline(always)]
fn start_measured<A: Activation, const BEGINS: bool>(
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
    let amount = if known.wants == wants::TIME { now } else { call.allocated() };
    let before = Thread::timer(timers, known.index, known.id).of(known.wants).switch(Some(cell), amount);
    stack.push(Frame { before, ..Frame::new(at, known.id, known.index, known.wants, now) });
    true
}

/// A call of which a record without arguments is written; `false` if the process's flags are not those that are remembered.
#[inline(always)]
fn start_told(
    node: &Node, current: &Tracee, rings: &mut Rings, stack: &mut Vec<Frame>, known: &memory::Told, at: usize, now: u64,
) -> bool {
    let flags = current.flags(known.index);
    if flags != known.flags || current.pid == known.tracer {
        return !flags.has(Flags::CALL);
    }
    let Some(ring) = rings.of(known.index, known.id) else { return false };
    let _counted_by_the_ring = ring.push([known.first, now, current.pid, u64::from(known.name)], &[]);
    if flags.has(Flags::RETURN_TO) {
        if known.pauses {
            node.kept.keep(at, known.id, Begun { wants: wants::RETURN_TO, start: now });
        } else {
            stack.push(Frame::new(at, known.id, known.index, wants::RETURN_TO, now));
        }
    }
    true
}

/// A call that a match spec decides about; `None` if nothing comes of it.
#[inline(never)]
fn filter<A: Activation>(
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
fn start_matched<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, n: usize, decision: Decision, call: &A,
    at: usize,
) {
    if let Some((plan, entry, _)) = planned(thread, snapshot, place, n) {
        let now = node.moment(&mut thread.turn);
        let wants = matched(node, thread, plan, entry, decision, call, now);
        await_end(node, thread, entry, wants, call, at, now);
    }
}

/// Remembers what is wanted at a call's end.
#[inline(always)]
fn await_end<A: Activation>(
    node: &Node, thread: &mut Thread, entry: &Entry, wants: u16, call: &A, at: usize, now: u64,
) {
    if wants == 0 {
    } else if call.is_generator() {
        node.kept.keep(at, entry.id, Begun { wants, start: now });
    } else {
        thread.stack.push(Frame::new(at, entry.id, entry.index, wants, now));
    }
}

/// What the plan says for the session of an action.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn start_planned<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, n: usize, call: &A, at: usize, now: u64,
) {
    if let Some((plan, entry, kinds)) = planned(thread, snapshot, place, n) {
        start(node, thread, snapshot, plan, entry, kinds, call, at, now);
        // the process's flags may have become such that this is simple, or simple in another way
        if entry.run & kinds & !kinds::COUNT == kinds::LOCAL && entry.spec.is_none() {
            if let Some(told) = memory::Told::of(node, thread, plan, entry, call.is_generator()) {
                thread.memory.at(place).replace(n, Action::Tell(told));
            }
        }
    }
}

/// The entry that an action comes from, and the kinds that it stands for.
fn planned<'s>(
    thread: &mut Thread, snapshot: &'s Snapshot, place: usize, n: usize,
) -> Option<(&'s Plan, &'s Entry, u16)> {
    let known = thread.memory.at(place);
    let plan = snapshot.find(known.code)?;
    let action = known.action(n)?;
    let id = action.session();
    Some((plan, plan.entries.iter().find(|e| e.id == id)?, action.kinds()))
}

/// Remembers what happens at calls of a function.
#[inline(never)]
fn remember<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, plan: &Plan, call: &A) {
    let known = Known::of(node, thread, snapshot, code, plan, call.is_generator());
    thread.memory.keep(known);
}

/// Everything at a call but counting it.
#[inline(never)]
fn enter<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, call: &A) {
    let now = if plan.run & kinds::CLOCKED != 0 { node.moment(&mut thread.turn) } else { 0 };
    call.identify(thread);
    let at = call.address();
    if thread.stack.last().is_some_and(|f| f.at == at) {
        drop_stale(thread, at);
    }
    for entry in plan.entries.iter().filter(|e| e.run & !kinds::COUNT != 0) {
        start(node, thread, snapshot, plan, entry, !kinds::COUNT, call, at, now);
    }
}

/// What happens at a call in one session, of these kinds.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn start<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, which: u16, call: &A, at: usize,
    now: u64,
) {
    let run = entry.run & which;
    let flags = thread.current.flags(entry.index);
    let mut wants = 0;
    if flags.has(Flags::CALL) && run & kinds::MESSAGES != 0 {
        wants |= message(node, thread, plan, entry, flags, call, now);
    }
    if run & (kinds::META | kinds::ASKS) != 0 {
        if run & kinds::ASKS != 0 {
            ask(thread, entry, flags, call);
        } else {
            wants |= meta(node, thread, plan, entry, call, now);
        }
    }
    if flags.has(Flags::CALL) {
        measure::<A, true>(thread, snapshot, plan, entry, run, call, at, now);
    }
    if run & kinds::LATENCY != 0 {
        wants |= wants::LATENCY;
    }
    if wants == 0 && which & (kinds::MESSAGES | kinds::LATENCY) != 0 && !node.kept.is_empty() && call.is_generator() {
        node.kept.take(at, entry.id); // of a call whose end was not seen
    }
    await_end(node, thread, entry, wants, call, at, now);
}

/// Charges what ran so far to the current cell, and makes the function's own cell current.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn measure<A: Activation, const BEGINS: bool>(
    thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, run: u16, call: &A, at: usize, now: u64,
) {
    for (kind, measure) in [(kinds::TIME, Measure::Time), (kinds::MEMORY, Measure::Memory)] {
        if run & kind != 0 {
            let mut known = Measured::of(thread, snapshot, plan, entry, measure);
            let (timers, stack) = (&mut thread.timers, &mut thread.stack);
            start_measured::<A, BEGINS>(&thread.current, timers, stack, &mut known, call, at, now);
        }
    }
}

/// A call of the function `code` ends or is suspended.
#[inline(always)]
pub fn on_exit<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
    if thread.stack.is_empty() && thread.pending.sessions.is_empty() && node.kept.is_empty() {
        return;
    }
    leave(node, thread, code, exit, call);
    if !thread.late.is_empty() {
        late::take(node, thread, code, call);
    }
}

#[inline(always)]
fn leave<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let at = call.address();
    if !thread.pending.sessions.is_empty() {
        settle_pending(node, thread, snapshot, call, Some((exit, at)));
    }
    let mut now = 0;
    if thread.stack.last().is_some_and(|f| f.at == at) || uncover(thread, at) {
        while let Some(frame) = thread.stack.last().copied().filter(|f| f.at == at) {
            thread.stack.pop();
            if now == 0 && frame.wants & !wants::MEMORY != 0 {
                now = node.moment(&mut thread.turn);
            }
            if frame.wants & wants::MEASURED != 0 {
                if snapshot.has_session(frame.index, frame.id) {
                    charge(thread, &frame, call, now);
                }
                continue;
            }
            let told = frame.wants == wants::RETURN_TO && exit == Exit::Return;
            if !(told && leave_told(thread, snapshot, &frame, call, now)) {
                finish(node, thread, snapshot, code, &frame, exit, call, now);
            }
        }
    }
    if exit != Exit::Yield && !node.kept.is_empty() && call.is_generator() {
        finish_kept(node, thread, snapshot, code, exit, call, now);
    }
}

/// The end of a call that could be suspended.
#[inline(never)]
fn finish_kept<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, exit: Exit, call: &A, now: u64,
) {
    let Some(plan) = snapshot.find(code) else { return };
    let now = if now == 0 { node.moment(&mut thread.turn) } else { now };
    let at = call.address();
    for entry in plan.entries.iter().filter(|e| e.has & (kinds::LATENCY | kinds::MESSAGES) != 0) {
        if let Some(begun) = node.kept.take(at, entry.id) {
            let frame = Frame::new(at, entry.id, entry.index, begun.wants, begun.start);
            let told = frame.wants == wants::RETURN_TO && exit == Exit::Return;
            if !(told && leave_told(thread, snapshot, &frame, call, now)) {
                finish(node, thread, snapshot, code, &frame, exit, call, now);
            }
        }
    }
}

/// return_to at the end of a call to a function that is traced likewise; `false` if it needs more than that.
#[inline(always)]
fn leave_told<A: Activation>(thread: &mut Thread, snapshot: &Snapshot, frame: &Frame, call: &A, now: u64) -> bool {
    const KIND: u64 = 0xff << 32;
    call.identify(thread);
    let (_, caller) = call.caller_function();
    let Some(place) = thread.memory.find(caller, snapshot.version) else { return false };
    let Some(Action::Tell(known)) = &thread.memory.at(place).first else { return false };
    if known.id != frame.id || thread.current.flags(frame.index) != known.flags {
        return false;
    }
    let first = known.first & !KIND | (Kind::ReturnTo as u64) << 32;
    let header = [first, now, thread.current.pid, u64::from(known.name)];
    if known.flags.has(Flags::RETURN_TO) {
        let Some(ring) = thread.rings.of(frame.index, frame.id) else { return false };
        let _counted_by_the_ring = ring.push(header, &[]);
    }
    true
}

/// Charges what ran so far to the current cell, and gives back the one before.
#[inline(always)]
fn charge<A: Activation>(thread: &mut Thread, frame: &Frame, call: &A, now: u64) {
    let amount = if frame.wants == wants::TIME { now } else { call.allocated() };
    Thread::timer(&mut thread.timers, frame.index, frame.id).of(frame.wants).switch(frame.before, amount);
}

/// Latency, return_from, exception_from and return_to at the end of a call.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
fn finish<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, frame: &Frame, exit: Exit, call: &A, now: u64,
) {
    let Some(session) = snapshot.session(frame.index, frame.id) else { return };
    if frame.wants & wants::LATENCY != 0 {
        let entry = snapshot.find(code).and_then(|p| p.entries.iter().find(|e| e.id == frame.id));
        if let Some(latency) = entry.filter(|e| e.run & kinds::LATENCY != 0).and_then(|e| e.latency.as_ref()) {
            let nanos = node.clock.nanos(now - frame.start);
            latency.record(nanos);
            if session.options.dump_slower.is_some_and(|limit| nanos >= limit) {
                session.ask_dump();
            }
        }
    }
    if frame.wants & wants::RESULTS != 0 && !(exit == Exit::Unwind && call.is_closing()) {
        result(node, thread, snapshot, code, session, frame, exit, call, now);
    }
    if frame.wants & wants::RETURN_TO == 0 {
        return;
    }
    call.identify(thread);
    let flags = thread.current.flags(frame.index);
    if !flags.has(Flags::RETURN_TO) {
        return;
    }
    if exit == Exit::Return {
        let (caller, code) = call.caller_function();
        if caller == 0 {
            return;
        }
        // a function that is traced itself has its name at hand
        if let Some(plan) = snapshot.find(code) {
            return emit(
                node,
                thread,
                session,
                flags,
                Head::new(thread, Kind::ReturnTo, u64::from(plan.name)),
                &[],
                now,
            );
        }
    }
    let mut scratch = std::mem::take(&mut thread.scratch);
    scratch.resize(scratch.len().max(SCRATCH), 0);
    let mut out = Encoder::new(&mut scratch);
    let caller = call.caller(&mut out);
    if exit == Exit::Unwind {
        let pending = &mut thread.pending;
        if !pending.sessions.contains(&(frame.index, frame.id)) {
            pending.sessions.push((frame.index, frame.id));
        }
        pending.at = caller;
        pending.name.clear();
        pending.name.extend_from_slice(out.written());
    } else if caller != 0 {
        emit(node, thread, session, flags, Head::new(thread, Kind::ReturnTo, 0), out.written(), now);
    }
    thread.scratch = scratch;
}

/// return_from or exception_from, of the call's trace and of its meta trace. None where the session's pattern has gone.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn result<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, session: &Arc<Session>, frame: &Frame,
    exit: Exit, call: &A, now: u64,
) {
    let Some(plan) = snapshot.find(code) else { return };
    let Some(entry) = plan.entries.iter().find(|entry| entry.id == frame.id) else { return };
    call.identify(thread);
    let flags = thread.current.flags(frame.index);
    let (kind, asked, meta) = match exit {
        Exit::Unwind => (Kind::ExceptionFrom, wants::EXCEPTION_FROM, wants::META_EXCEPTION),
        _ => (Kind::ReturnFrom, wants::RETURN_FROM, wants::META_RETURN),
    };
    let kinds = [(asked, flags, kinds::LOCAL | kinds::GLOBAL), (meta, META, kinds::META)];
    for (wanted, flags, set) in kinds {
        if frame.wants & wanted == 0 || entry.has & set == 0 || wanted == asked && !flags.has(Flags::CALL) {
            continue;
        }
        let head = Head::new(thread, kind, u64::from(plan.name));
        if kind == Kind::ReturnFrom && session.options.capture.takes != Takes::Values {
            late::leave(node, thread, session, flags, head, &[], now);
        } else {
            let write = |out: &mut Encoder<'_>, capture: &Capture| call.result(out, capture);
            with_values(node, thread, session, flags, head, &[], now, write);
        }
        if let Some(program) = session.options.dump_on.as_deref().filter(|_| kind == Kind::ExceptionFrom) {
            let mut pair = vec![0; session.options.capture.total];
            let mut out = Encoder::new(&mut pair);
            let taken = call.result(&mut out, &session.options.capture).is_ok()
                && matching::takes_exception(node, &thread.current, session, program, out.written());
            if taken {
                session.ask_dump();
            }
        }
    }
}

/// A suspended call goes on: its time is its own again, and no call is counted.
#[inline(always)]
pub fn on_resume<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    if !thread.pending.sessions.is_empty() {
        settle(node, thread, code, call);
    }
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    go_on(node, thread, snapshot, code, call);
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
    go_on(node, thread, snapshot, code, call);
}

#[inline(always)]
fn go_on<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, call: &A) {
    let Some(place) = thread.memory.find(code, snapshot.version) else {
        if let Some(plan) = snapshot.find(code) {
            resume_first(node, thread, snapshot, code, plan, call);
        }
        return;
    };
    let known = thread.memory.at(place);
    if known.first.is_none() {
        return;
    }
    call.identify(thread);
    let at = call.address();
    let (mut now, mut done) = (0, 0);
    while let Some(action) = thread.memory.at(place).action(done) {
        if now == 0 && action.is_clocked() {
            now = node.moment(&mut thread.turn);
        }
        let enough = match action {
            Action::Measure(known) => {
                let (timers, stack) = (&mut thread.timers, &mut thread.stack);
                start_measured::<A, false>(&thread.current, timers, stack, known, call, at, now)
            }
            Action::Tell(_) | Action::Filter(_) => true,
            Action::Planned(_) => false,
        };
        if !enough {
            resume_planned(thread, snapshot, place, done, call, at, now);
        }
        done += 1;
    }
}

/// See [`on_resume`], of a function that is not remembered.
#[inline(never)]
fn resume_first<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, plan: &Plan, call: &A,
) {
    call.identify(thread);
    let at = call.address();
    let now = if plan.run & kinds::CLOCKED != 0 { node.moment(&mut thread.turn) } else { 0 };
    for entry in &plan.entries {
        resume(thread, snapshot, plan, entry, entry.run, call, at, now);
    }
    remember(node, thread, snapshot, code, plan, call);
}

/// See [`on_resume`]; what the plan says for the session of an action.
#[inline(never)]
fn resume_planned<A: Activation>(
    thread: &mut Thread, snapshot: &Snapshot, place: usize, n: usize, call: &A, at: usize, now: u64,
) {
    if let Some((plan, entry, kinds)) = planned(thread, snapshot, place, n) {
        resume(thread, snapshot, plan, entry, entry.run & kinds, call, at, now);
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn resume<A: Activation>(
    thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, run: u16, call: &A, at: usize, now: u64,
) {
    if thread.current.flags(entry.index).has(Flags::CALL) {
        measure::<A, false>(thread, snapshot, plan, entry, run, call, at, now);
    }
}

/// An exception is caught by `call`, which goes on.
#[inline(always)]
pub fn on_handled<A: Activation>(node: &Node, thread: &mut Thread, call: &A) {
    if !thread.pending.sessions.is_empty() {
        let inside = thread.shared.section.enter();
        let snapshot = node.snapshot.load_inside(&inside);
        thread.pending.at = call.address();
        goes_on(node, thread, snapshot, Some(call));
        drop(inside);
        if !thread.late.is_empty() {
            late::take_events(node, thread);
        }
    }
}

/// How large a name may become; longer ones are cut by the encoder's own rule.
const SCRATCH: usize = 4096;

/// Puts a name into a buffer.
fn write_name(name: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
    name.resize(SCRATCH, 0);
    let mut out = Encoder::new(name);
    write(&mut out);
    let len = out.len();
    name.truncate(len);
}

/// Calls that an exception has left wait for the frame that goes on. If the host did not see it caught, the next event
/// tells: an unwinding of that frame means it was not; anything else means that this frame goes on.
#[cold]
#[inline(never)]
fn settle_pending<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: &A, exit: Option<(Exit, usize)>,
) {
    if let Some((Exit::Unwind, at)) = exit {
        if at == thread.pending.at {
            let mut scratch = std::mem::take(&mut thread.scratch);
            scratch.resize(scratch.len().max(SCRATCH), 0);
            let mut out = Encoder::new(&mut scratch);
            thread.pending.at = call.caller(&mut out);
            thread.pending.name.clear();
            thread.pending.name.extend_from_slice(out.written());
            thread.scratch = scratch;
        }
        return;
    }
    goes_on::<A>(node, thread, snapshot, None);
}

/// The same where a call begins or goes on.
#[cold]
#[inline(never)]
fn settle<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    settle_pending(node, thread, snapshot, call, None);
    drop(inside);
    if !thread.late.is_empty() {
        late::take(node, thread, code, call);
    }
}

#[cold]
#[inline(never)]
fn goes_on<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: Option<&A>) {
    let mut pending = std::mem::take(&mut thread.pending);
    let now = node.moment(&mut thread.turn);
    if let Some(call) = call {
        write_name(&mut pending.name, |out| {
            call.name(out);
        });
        call.identify(thread);
    }
    if pending.at != 0 {
        for (index, id) in pending.sessions.drain(..) {
            let flags = thread.current.flags(index);
            if let Some(session) = snapshot.session(index, id) {
                if flags.has(Flags::CALL) && flags.has(Flags::RETURN_TO) {
                    emit(node, thread, session, flags, Head::new(thread, Kind::ReturnTo, 0), &pending.name, now);
                }
            }
        }
    }
    pending.sessions.clear();
    pending.name.clear();
    pending.at = 0;
    thread.pending = pending;
}

/// A call that a tracer module is asked about when the section has been left.
#[cold]
#[inline(never)]
fn ask<A: Activation>(thread: &mut Thread, entry: &Entry, flags: Flags, call: &A) {
    let pid = thread.current.pid;
    let set = entry.has & (kinds::LOCAL | kinds::GLOBAL);
    if set != 0 && flags.has(Flags::CALL) && (set & kinds::LOCAL != 0 || call.is_global()) {
        late::question(thread, &entry.session, Kind::Call, pid, set);
    }
    if entry.has & kinds::META != 0 {
        late::question(thread, &entry.session, Kind::Call, pid, kinds::META);
    }
}

/// A call that a tracer module wants to be told of: match specs run now, and the end is waited for.
#[cold]
#[inline(never)]
pub(crate) fn on_granted<A: Activation>(node: &Node, thread: &mut Thread, code: usize, question: &Question, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let Some(plan) = snapshot.find(code) else { return };
    let Some(entry) = plan.entry(question.session.id).map(|entry| entry.granted(question.which)) else { return };
    call.identify(thread);
    let (flags, at, now) = (thread.current.flags(entry.index), call.address(), node.moment(&mut thread.turn));
    let mut begun = Begun { wants: 0, start: now };
    if entry.run & kinds::META != 0 {
        begun.wants = meta(node, thread, plan, &entry, call, now);
    } else if flags.has(Flags::CALL) {
        begun.wants = message(node, thread, plan, &entry, flags, call, now);
    }
    if begun.wants != 0 && call.is_generator() {
        // with what is waited for already
        if let Some(before) = node.kept.take(at, entry.id) {
            begun = Begun { wants: begun.wants | before.wants, start: before.start };
        }
    }
    await_end(node, thread, &entry, begun.wants, call, at, begun.start);
}

/// A call message, if the process is traced for it; answers what its end is wanted for.
#[inline(always)]
fn message<A: Activation>(
    node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, flags: Flags, call: &A, now: u64,
) -> u16 {
    if entry.run & (kinds::LOCAL | kinds::GLOBAL) == 0 || entry.session.tracer.load(Relaxed) == thread.current.pid {
        return 0;
    }
    if entry.run & kinds::LOCAL == 0 && !call.is_global() {
        return 0;
    }
    match &entry.spec {
        Some(program) => {
            let (current, extra) = (&thread.current, &mut thread.extra);
            match matching::decide(node, current, &entry.session, program, call, extra) {
                Some(decision) => matched(node, thread, plan, entry, decision, call, now),
                None => 0,
            }
        }
        None if flags.has(Flags::SILENT) => 0,
        None => {
            call_message(node, thread, &entry.session, flags, plan.name, &[], call, now);
            return_to(entry, flags)
        }
    }
}

fn return_to(entry: &Entry, flags: Flags) -> u16 {
    if entry.run & kinds::LOCAL != 0 && flags.has(Flags::RETURN_TO) {
        wants::RETURN_TO
    } else {
        0
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn call_message<A: Activation>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, name: u32, extra: &[u8], call: &A, now: u64,
) {
    if !flags.has(Flags::ARITY) {
        with_arguments(node, thread, session, flags, name, extra, call, now);
    } else if extra.is_empty() {
        emit(node, thread, session, flags, Head::new(thread, Kind::CallArity, u64::from(name)), &[], now);
    } else {
        let mut payload = Vec::with_capacity(extra.len() + 4);
        let more = stamp::with_extra(&mut payload, extra);
        emit(
            node,
            thread,
            session,
            flags,
            Head::new(thread, Kind::CallArity, u64::from(name)).with(more),
            &payload,
            now,
        );
    }
}

/// A call that a match spec has decided about. What it switches counts for this very message; what it asks for at the call's
/// end comes also where it keeps the message back, but not in silence (trace.md, `function/4`; gold README 4, 17, 18).
#[inline(never)]
fn matched<A: Activation>(
    node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, decision: Decision, call: &A, now: u64,
) -> u16 {
    let flags = thread.current.flags(entry.index);
    if flags.has(Flags::SILENT) {
        return 0;
    }
    let mut wants = 0;
    if decision.returns {
        wants |= wants::RETURN_FROM;
    }
    if decision.raises {
        wants |= wants::EXCEPTION_FROM;
    }
    if let Told::Nothing = decision.message {
        return wants;
    }
    with_extra(thread, decision, |thread, extra| {
        call_message(node, thread, &entry.session, flags, plan.name, extra, call, now);
    });
    wants | return_to(entry, flags)
}

/// Hands out what a match spec adds to the message.
#[inline(always)]
fn with_extra(thread: &mut Thread, decision: Decision, with: impl FnOnce(&mut Thread, &[u8])) {
    match decision.message {
        Told::Extra(length) => {
            let extra = std::mem::take(&mut thread.extra);
            with(thread, &extra[..length]);
            thread.extra = extra;
        }
        _ => with(thread, &[]),
    }
}

/// A meta trace message: flags are fixed to call and timestamp (trace.md, `function/4`, meta). Answers what the call's end is
/// wanted for.
#[inline(never)]
fn meta<A: Activation>(node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, call: &A, now: u64) -> u16 {
    if entry.session.tracer.load(Relaxed) == thread.current.pid {
        return 0;
    }
    let session = &entry.session;
    let Some(program) = &entry.meta_spec else {
        with_arguments(node, thread, session, META, plan.name, &[], call, now);
        return 0;
    };
    let (current, extra) = (&thread.current, &mut thread.extra);
    let Some(decision) = matching::decide(node, current, session, program, call, extra) else { return 0 };
    if !matches!(decision.message, Told::Nothing) {
        with_extra(thread, decision, |thread, extra| {
            with_arguments(node, thread, session, META, plan.name, extra, call, now);
        });
    }
    let result = if decision.returns { wants::META_RETURN } else { 0 };
    result | if decision.raises { wants::META_EXCEPTION } else { 0 }
}

/// The flags of meta tracing's messages.
const META: Flags = Flags::TIMESTAMP;

#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn with_arguments<A: Activation>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, name: u32, extra: &[u8], call: &A, now: u64,
) {
    let head = Head::new(thread, Kind::Call, u64::from(name));
    if session.options.capture.takes != Takes::Values {
        return late::leave(node, thread, session, flags, head, extra, now);
    }
    with_values(node, thread, session, flags, head, extra, now, |out, capture| call.arguments(out, capture));
}

/// A record whose payload is what `write` writes.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn with_values(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, head: Head, extra: &[u8], now: u64,
    write: impl FnOnce(&mut Encoder<'_>, &Capture) -> Result<(), Full>,
) {
    let capture = &session.options.capture;
    let mut scratch = std::mem::take(&mut thread.scratch);
    if scratch.len() < capture.total {
        scratch.resize(capture.total.max(SCRATCH), 0);
    }
    let mut out = Encoder::new(&mut scratch[..capture.total]);
    if write(&mut out, capture).is_err() {
        out.truncate(0);
        let _ = out.cut("arguments");
    }
    if extra.is_empty() {
        emit(node, thread, session, flags, head, out.written(), now);
    } else {
        let mut payload = out.written().to_vec();
        let more = stamp::with_extra(&mut payload, extra);
        emit(node, thread, session, flags, head.with(more), &payload, now);
    }
    thread.scratch = scratch;
}

/// Frames with the address of a call that begins belong to calls whose end was not seen.
#[cold]
#[inline(never)]
fn drop_stale(thread: &mut Thread, at: usize) {
    while thread.stack.last().is_some_and(|f| f.at == at) {
        thread.stack.pop();
    }
}

/// Drops what lies above the frames of a call that ends; `false` if it has none.
#[cold]
#[inline(never)]
fn uncover(thread: &mut Thread, at: usize) -> bool {
    match thread.stack.iter().rposition(|f| f.at == at) {
        Some(top) => {
            thread.stack.truncate(top + 1);
            true
        }
        None => false,
    }
}
