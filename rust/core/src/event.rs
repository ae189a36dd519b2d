//! The hot path: what happens at a call, at its end, at a suspension. Readable top to bottom.
//!
//! A host calls one of the `on_*` functions for each interpreter event and passes an [`Activation`], through which the
//! rest is looked at only when it is needed. Nothing here allocates, locks, formats or panics but in the functions
//! marked cold, which run once for a thread, process or suspended call.
#![forbid(unsafe_code)]

use crate::{
    cells::{key, CellRef, Measure, NONE},
    flags::Flags,
    memory::{Action, Known, Measured, Told},
    node::{Kept, Node},
    plan::{kinds, Entry, Plan},
    session::Session,
    slots::Snapshot,
    sync::Ordering::Relaxed,
    thread::{wants, Frame, Thread},
    tracee::Tracee,
};
use inviso_term::{
    etf::{Encoder, Full},
    record::Kind,
};
use std::sync::Arc;

/// A call that is running, as its host sees it. Each method is asked only when it is needed.
pub trait Activation {
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
    fn arguments(&self, out: &mut Encoder<'_>) -> Result<(), Full>;
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
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    if !thread.pending.sessions.is_empty() {
        settle_pending(node, thread, snapshot, call, None);
    }
    if let Some(place) = thread.memory.find(code, snapshot.version) {
        return again(node, thread, snapshot, place, call);
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
    remember(thread, snapshot, code, plan, call);
}

/// A call of a function that is remembered.
#[inline(always)]
fn again<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, call: &A) {
    let known = thread.memory.at(place);
    let (first, clocked, [one, two, three]) = (known.first, known.clocked, known.counters);
    let counts = &thread.shared.counts;
    if one != 0 {
        counts.add(one - 1);
        if two != 0 {
            counts.add(two - 1);
            if three != 0 {
                counts.add(three - 1);
            }
        }
    }
    let mut next = first;
    if next.is_none() {
        return;
    }
    call.identify(thread);
    let at = call.address();
    if thread.stack.last().is_some_and(|f| f.at == at) {
        drop_stale(thread, at);
    }
    let now = if clocked { node.clock.ticks() } else { 0 };
    let mut done = 0;
    while let Some(action) = next {
        let enough = match action {
            Action::Measure(ref known) => start_measured(thread, place, done, known, call, at, now),
            Action::Tell(ref known) => start_told(thread, known, at, now),
            Action::Planned(_) => false,
        };
        if !enough {
            start_planned(node, thread, snapshot, place, &action, call, at, now);
        }
        done += 1;
        next = thread.memory.at(place).action(done);
    }
}

/// A call that charges time or memory; `false` if the process has no cell for it yet.
#[inline(always)]
fn start_measured<A: Activation>(
    thread: &mut Thread, place: usize, n: usize, known: &Measured, call: &A, at: usize, now: u64,
) -> bool {
    if !thread.current.flags(known.index).has(Flags::CALL) {
        return true;
    }
    let mut cell = known.cell;
    if thread.current.pid != known.pid {
        match thread.current.known_cell(known.id, known.key) {
            NONE => return false,
            number => cell = CellRef::of(number),
        }
        thread.memory.at(place).renew(n, thread.current.pid, cell);
    }
    cell.get().enter(known.generation);
    let timer = Thread::timer(&mut thread.timers, known.index, known.id);
    let mut frame = Frame::new(at, known.id, known.index, known.wants, now);
    if known.wants == wants::TIME {
        frame.time_before = timer.charge_time(now);
        timer.time = Some(cell);
    } else {
        frame.memory_before = timer.charge_memory(call.allocated());
        timer.memory = Some(cell);
    }
    thread.stack.push(frame);
    true
}

/// A call of which a record without arguments is written; `false` if the process's flags are not those that are remembered.
#[inline(always)]
fn start_told(thread: &mut Thread, known: &Told, at: usize, now: u64) -> bool {
    let flags = thread.current.flags(known.index);
    if flags != known.flags || thread.current.pid == known.tracer {
        return !flags.has(Flags::CALL);
    }
    if !thread.tell(known.index, known.id, [known.first, now, thread.current.pid, u64::from(known.name)]) {
        return false;
    }
    if flags.has(Flags::RETURN_TO) {
        thread.stack.push(Frame::new(at, known.id, known.index, wants::RETURN_TO, now));
    }
    true
}

/// What the plan says for the session of an action.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn start_planned<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, place: usize, action: &Action, call: &A, at: usize, now: u64,
) {
    let id = action.session();
    let Some(plan) = snapshot.find(thread.memory.at(place).code) else { return };
    if let Some(entry) = plan.entries.iter().find(|e| e.id == id) {
        let kinds = match action {
            Action::Measure(m) if m.wants == wants::TIME => kinds::TIME,
            Action::Measure(_) => kinds::MEMORY,
            Action::Tell(_) => kinds::LOCAL,
            Action::Planned(_) => !kinds::COUNT,
        };
        start(node, thread, snapshot, plan, entry, kinds, call, at, now);
    }
}

/// Remembers what happens at calls of a function.
#[inline(never)]
fn remember<A: Activation>(thread: &mut Thread, snapshot: &Snapshot, code: usize, plan: &Plan, call: &A) {
    let mut counters = [0; 3];
    let counted = plan.entries.iter().filter(|e| e.run & kinds::COUNT != 0);
    for (n, entry) in counted.enumerate() {
        let Some(counter) = counters.get_mut(n) else { return };
        *counter = entry.count + 1;
    }
    let mut actions = Vec::new();
    for entry in plan.entries.iter().filter(|e| e.run & !kinds::COUNT != 0) {
        let told = if entry.run & kinds::LOCAL == 0 { None } else { told(thread, plan, entry, call) };
        if entry.run & !(kinds::COUNT | kinds::TIME | kinds::MEMORY | kinds::LOCAL) != 0
            || entry.run & kinds::LOCAL != 0 && told.is_none()
        {
            actions.push(Action::Planned(entry.id));
            continue;
        }
        actions.extend(told.map(Action::Tell));
        for (kind, measure) in [(kinds::TIME, Measure::Time), (kinds::MEMORY, Measure::Memory)] {
            if entry.run & kind != 0 {
                let known = measured(thread, snapshot, plan, entry, measure);
                actions.push(Action::Measure(known));
            }
        }
    }
    let first = (!actions.is_empty()).then(|| actions.remove(0));
    let clocked = plan.run & kinds::CLOCKED != 0;
    thread.memory.keep(Known { code, version: snapshot.version, clocked, counters, first, more: actions.into() });
}

/// The record of a call, if it has no arguments and always the same stamp.
fn told<A: Activation>(thread: &Thread, plan: &Plan, entry: &Entry, call: &A) -> Option<Told> {
    let flags = thread.current.flags(entry.index);
    let simple = flags.has(Flags::CALL) && flags.has(Flags::ARITY) && !flags.has(Flags::SILENT) && !call.is_generator();
    let stamps = stamps(flags).filter(|_| simple)?;
    Some(Told {
        tracer: entry.session.tracer.load(Relaxed),
        first: first_word(thread, Kind::CallArity, stamps, 0),
        flags,
        id: entry.id,
        name: plan.name,
        index: entry.index,
    })
}

fn measured(thread: &Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, measure: Measure) -> Measured {
    let (wants, generation) = match measure {
        Measure::Time => (wants::TIME, entry.time),
        Measure::Memory => (wants::MEMORY, entry.memory),
    };
    Measured {
        pid: thread.current.pid,
        cell: cell(thread, snapshot, plan, entry, measure),
        id: entry.id,
        key: key(plan.slot, measure),
        generation,
        index: entry.index,
        wants,
    }
}

/// The current process's cell of a function.
#[inline(always)]
fn cell(thread: &Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, measure: Measure) -> CellRef {
    let live = |id| snapshot.sessions().any(|s| s.id as u32 == id);
    CellRef::of(thread.current.cell(entry.index, entry.id, key(plan.slot, measure), &entry.session.arena, live))
}

/// Everything at a call but counting it.
#[inline(never)]
fn enter<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, call: &A) {
    let now = if plan.run & kinds::CLOCKED != 0 { node.clock.ticks() } else { 0 };
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
    let mut frame = Frame::new(at, entry.id, entry.index, 0, now);
    if flags.has(Flags::CALL) && run & kinds::MESSAGES != 0 {
        message(node, thread, plan, entry, flags, call, now, &mut frame);
    }
    if run & kinds::META != 0 {
        meta(node, thread, plan, entry, call, now);
    }
    if flags.has(Flags::CALL) {
        measure(thread, snapshot, plan, entry, run, call, now, true, &mut frame);
    }
    if run & kinds::LATENCY != 0 {
        frame.wants |= wants::LATENCY;
    }
    if frame.wants & wants::KEPT != 0 && call.is_generator() {
        keep(node, at, entry.id, frame.wants & wants::KEPT, now);
    }
    if frame.wants != 0 {
        thread.stack.push(frame);
    }
}

/// Charges what ran since the mark to the current cell, and makes the function's own cell current.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn measure<A: Activation>(
    thread: &mut Thread, snapshot: &Snapshot, plan: &Plan, entry: &Entry, run: u16, call: &A, now: u64, begins: bool,
    frame: &mut Frame,
) {
    if run & (kinds::TIME | kinds::MEMORY) == 0 {
        return;
    }
    if run & kinds::TIME != 0 {
        let cell = cell(thread, snapshot, plan, entry, Measure::Time);
        let timer = Thread::timer(&mut thread.timers, entry.index, entry.id);
        if begins {
            cell.get().enter(entry.time);
        } else {
            cell.get().resume(entry.time);
        }
        frame.time_before = timer.charge_time(now);
        frame.wants |= wants::TIME;
        timer.time = Some(cell);
    }
    if run & kinds::MEMORY != 0 {
        let cell = cell(thread, snapshot, plan, entry, Measure::Memory);
        let timer = Thread::timer(&mut thread.timers, entry.index, entry.id);
        if begins {
            cell.get().enter(entry.memory);
        } else {
            cell.get().resume(entry.memory);
        }
        frame.memory_before = timer.charge_memory(call.allocated());
        frame.wants |= wants::MEMORY;
        timer.memory = Some(cell);
    }
}

/// A call of the function `code` ends or is suspended.
#[inline(always)]
pub fn on_exit<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
    if thread.stack.is_empty() && thread.pending.sessions.is_empty() {
        return;
    }
    leave(node, thread, code, exit, call);
}

#[inline(always)]
fn leave<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let at = call.address();
    if !thread.pending.sessions.is_empty() {
        settle_pending(node, thread, snapshot, call, Some((exit, at)));
    }
    if thread.stack.last().is_none_or(|f| f.at != at) && !uncover(thread, at) {
        return;
    }
    let mut now = 0;
    while let Some(frame) = thread.stack.last().copied().filter(|f| f.at == at) {
        thread.stack.pop();
        if now == 0 && frame.wants & !wants::MEMORY != 0 {
            now = node.clock.ticks();
        }
        if frame.wants & (wants::TIME | wants::MEMORY) != 0 && snapshot.has_session(frame.index, frame.id) {
            charge(thread, &frame, call, now);
        }
        if frame.wants & wants::KEPT == 0
            || frame.wants == wants::RETURN_TO
                && exit == Exit::Return
                && leave_told(thread, snapshot, &frame, call, now)
        {
            continue;
        }
        if let Some(session) = snapshot.session(frame.index, frame.id) {
            finish(node, thread, snapshot, session, code, &frame, exit, call, now);
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
    let Some(Action::Tell(known)) = thread.memory.at(place).first else { return false };
    if known.id != frame.id || thread.current.flags(frame.index) != known.flags || call.is_generator() {
        return false;
    }
    let first = known.first & !KIND | (Kind::ReturnTo as u64) << 32;
    let header = [first, now, thread.current.pid, u64::from(known.name)];
    !known.flags.has(Flags::RETURN_TO) || thread.tell(frame.index, frame.id, header)
}

/// Charges what ran since the mark to the current cell, and gives back the one before.
#[inline(always)]
fn charge<A: Activation>(thread: &mut Thread, frame: &Frame, call: &A, now: u64) {
    let timer = Thread::timer(&mut thread.timers, frame.index, frame.id);
    if frame.wants & wants::TIME != 0 {
        timer.charge_time(now);
        timer.time = frame.time_before;
    }
    if frame.wants & wants::MEMORY != 0 {
        timer.charge_memory(call.allocated());
        timer.memory = frame.memory_before;
    }
}

/// Latency and return_to at the end of a call.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
fn finish<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, session: &Arc<Session>, code: usize, frame: &Frame,
    exit: Exit, call: &A, now: u64,
) {
    if exit == Exit::Yield {
        return;
    }
    let mut start = frame.start;
    if call.is_generator() {
        if let Some(kept) = node.kept.lock().unwrap().remove(&(frame.at, frame.id)) {
            start = kept.start;
        }
    }
    if frame.wants & wants::LATENCY != 0 {
        let entry = snapshot.find(code).and_then(|p| p.entries.iter().find(|e| e.id == frame.id));
        if let Some(latency) = entry.filter(|e| e.run & kinds::LATENCY != 0).and_then(|e| e.latency.as_ref()) {
            latency.record(node.clock.nanos(now - start));
        }
    }
    if frame.wants & wants::RETURN_TO == 0 {
        return;
    }
    call.identify(thread);
    let flags = thread.current.flags(frame.index);
    if !flags.has(Flags::CALL) || !flags.has(Flags::RETURN_TO) {
        return;
    }
    if exit == Exit::Return {
        let (caller, code) = call.caller_function();
        if caller == 0 {
            return;
        }
        // a function that is traced itself has its name at hand
        if let Some(plan) = snapshot.find(code) {
            return emit(node, thread, session, flags, Kind::ReturnTo, u64::from(plan.name), &[], now);
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
        emit(node, thread, session, flags, Kind::ReturnTo, 0, out.written(), now);
    }
    thread.scratch = scratch;
}

/// A suspended call goes on: its time is its own again, and no call is counted.
#[inline(always)]
pub fn on_resume<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    if !thread.pending.sessions.is_empty() {
        settle_pending(node, thread, snapshot, call, None);
    }
    let Some(plan) = snapshot.find(code) else { return };
    if plan.events & crate::plan::events::FRAME == 0 {
        return;
    }
    let now = if plan.run & kinds::CLOCKED != 0 { node.clock.ticks() } else { 0 };
    call.identify(thread);
    let at = call.address();
    for entry in &plan.entries {
        let mut frame = Frame::new(at, entry.id, entry.index, 0, now);
        if entry.has & (kinds::LATENCY | kinds::LOCAL) != 0 {
            if let Some(kept) = node.kept.lock().unwrap().get(&(at, entry.id)) {
                frame.wants |= kept.wants;
                frame.start = kept.start;
            }
        }
        if entry.run & (kinds::TIME | kinds::MEMORY) != 0 && thread.current.flags(entry.index).has(Flags::CALL) {
            measure(thread, snapshot, plan, entry, entry.run, call, now, false, &mut frame);
        }
        if frame.wants != 0 {
            thread.stack.push(frame);
        }
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
    }
}

/// How large a name may become; longer ones are cut by the encoder's own rule.
const SCRATCH: usize = 4096;

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

#[cold]
#[inline(never)]
fn goes_on<A: Activation>(node: &Node, thread: &mut Thread, snapshot: &Snapshot, call: Option<&A>) {
    let mut pending = std::mem::take(&mut thread.pending);
    let now = node.clock.ticks();
    if let Some(call) = call {
        pending.name.resize(SCRATCH, 0);
        let mut out = Encoder::new(&mut pending.name);
        call.name(&mut out);
        let len = out.len();
        pending.name.truncate(len);
        call.identify(thread);
    }
    if pending.at != 0 {
        for (index, id) in pending.sessions.drain(..) {
            let flags = thread.current.flags(index);
            if let Some(session) = snapshot.session(index, id) {
                if flags.has(Flags::CALL) && flags.has(Flags::RETURN_TO) {
                    emit(node, thread, session, flags, Kind::ReturnTo, 0, &pending.name, now);
                }
            }
        }
    }
    pending.sessions.clear();
    pending.name.clear();
    pending.at = 0;
    thread.pending = pending;
}

/// A call message, if the process is traced for it.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn message<A: Activation>(
    node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, flags: Flags, call: &A, now: u64, frame: &mut Frame,
) {
    if flags.has(Flags::SILENT) || entry.session.tracer.load(Relaxed) == thread.current.pid {
        return;
    }
    if entry.run & kinds::GLOBAL != 0 && entry.run & kinds::LOCAL == 0 && !call.is_global() {
        return;
    }
    if entry.run & (kinds::LOCAL | kinds::GLOBAL) == 0 {
        return;
    }
    if flags.has(Flags::ARITY) {
        emit(node, thread, &entry.session, flags, Kind::CallArity, u64::from(plan.name), &[], now);
    } else {
        with_arguments(node, thread, &entry.session, flags, plan.name, call, now);
    }
    if entry.run & kinds::LOCAL != 0 && flags.has(Flags::RETURN_TO) {
        frame.wants |= wants::RETURN_TO;
    }
}

/// A meta trace message: flags are fixed to call and timestamp (trace.md, `function/4`, meta).
#[inline(never)]
fn meta<A: Activation>(node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, call: &A, now: u64) {
    if entry.session.tracer.load(Relaxed) != thread.current.pid {
        with_arguments(node, thread, &entry.session, Flags::TIMESTAMP, plan.name, call, now);
    }
}

#[inline(never)]
fn with_arguments<A: Activation>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, name: u32, call: &A, now: u64,
) {
    let mut scratch = std::mem::take(&mut thread.scratch);
    if scratch.len() < session.options.capture_bytes {
        scratch.resize(session.options.capture_bytes.max(SCRATCH), 0);
    }
    let mut out = Encoder::new(&mut scratch[..session.options.capture_bytes]);
    if call.arguments(&mut out).is_err() {
        out.truncate(0);
        let _ = out.cut("arguments");
    }
    emit(node, thread, session, flags, Kind::Call, u64::from(name), out.written(), now);
    thread.scratch = scratch;
}

/// Which stamp a record's message gets; the strongest of those that are set.
pub mod stamp {
    /// None: the message begins with `trace`.
    pub const NONE: u8 = 0;
    /// `(megasecs, secs, microsecs)`.
    pub const TIMESTAMP: u8 = 1;
    /// `(nanoseconds, unique)`; the unique number is the payload's first 8 bytes.
    pub const STRICT: u8 = 2;
    /// Nanoseconds.
    pub const MONOTONIC: u8 = 3;
    /// The stamp's bits.
    pub const MASK: u8 = 3;
    /// The scheduler's number comes before the stamp.
    pub const SCHEDULER: u8 = 4;
}

/// Writes a record into this scheduler's ring of the session.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub(crate) fn emit(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, kind: Kind, what: u64, payload: &[u8],
    now: u64,
) {
    let Some(stamps) = stamps(flags) else {
        return emit_strict(node, thread, session, flags, kind, what, payload, now);
    };
    let header = header(thread, kind, stamps, what, payload.len(), now);
    let _counted_by_the_ring = thread.push(session, header, payload);
}

#[allow(clippy::too_many_arguments)]
#[inline(never)]
fn emit_strict(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, kind: Kind, what: u64, payload: &[u8],
    now: u64,
) {
    let stamps = stamp::STRICT | if flags.has(Flags::SCHEDULER_ID) { stamp::SCHEDULER } else { 0 };
    let mut long = Vec::with_capacity(8 + payload.len());
    long.extend_from_slice(&node.unique().to_ne_bytes());
    long.extend_from_slice(payload);
    let header = header(thread, kind, stamps, what, long.len(), now);
    let _counted_by_the_ring = thread.push(session, header, &long);
}

#[inline(always)]
fn header(thread: &Thread, kind: Kind, stamps: u8, what: u64, payload: usize, now: u64) -> [u64; 4] {
    [first_word(thread, kind, stamps, payload), now, thread.current.pid, what]
}

#[inline(always)]
fn first_word(thread: &Thread, kind: Kind, stamps: u8, payload: usize) -> u64 {
    (32 + payload as u64) | (kind as u64) << 32 | u64::from(stamps) << 40 | u64::from(thread.shared.number) << 48
}

/// The stamp of a process's records; `None` for [`stamp::STRICT`], which needs a payload.
#[inline(always)]
fn stamps(flags: Flags) -> Option<u8> {
    let scheduler = if flags.has(Flags::SCHEDULER_ID) { stamp::SCHEDULER } else { 0 };
    if !flags.has(Flags::STAMPS) {
        Some(scheduler)
    } else if flags.has(Flags::TIMESTAMP) {
        Some(scheduler | stamp::TIMESTAMP)
    } else if flags.has(Flags::STRICT_MONOTONIC_TIMESTAMP) {
        None
    } else {
        Some(scheduler | stamp::MONOTONIC)
    }
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

/// Keeps what a call that can be suspended needs at its end.
#[cold]
#[inline(never)]
fn keep(node: &Node, at: usize, id: u32, wants: u16, start: u64) -> u64 {
    let mut kept = node.kept.lock().unwrap();
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert((at, id), Kept { wants, start });
    start
}

/// Suspended calls that are remembered; beyond it they are forgotten together (their latency and return_to are lost).
const KEPT_MAX: usize = 1 << 17;

impl Node {
    /// A process started another: the child has its flags already (see [`Node::child`]); the messages are written here.
    /// `name` is `(module, function, arguments)` as terms.
    pub fn on_spawn(&self, thread: &mut Thread, child: &Tracee, name: &[u8]) {
        self.event(thread, Kind::Spawn, child.pid, name);
    }

    /// The running process was started by `parent`.
    pub fn on_spawned(&self, thread: &mut Thread, parent: u64, name: &[u8]) {
        self.event(thread, Kind::Spawned, parent, name);
    }

    /// The running process ends for `reason` (a term).
    pub fn on_process_exit(&self, thread: &mut Thread, reason: &[u8]) {
        self.event(thread, Kind::Exit, 0, reason);
    }

    /// A `procs` event of the running process, for every session that asked for them.
    fn event(&self, thread: &mut Thread, kind: Kind, what: u64, payload: &[u8]) {
        let inside = thread.shared.section.enter();
        let snapshot = self.snapshot.load_inside(&inside);
        let now = self.clock.ticks();
        let mut sessions: Vec<&Arc<Session>> = snapshot.sessions().collect();
        sessions.sort_by_key(|s| std::cmp::Reverse(s.id));
        for session in sessions {
            let flags = thread.current.flags(session.index);
            if flags.has(Flags::PROCS) && session.tracer.load(Relaxed) != thread.current.pid {
                emit(self, thread, session, flags, kind, what, payload, now);
            }
        }
    }
}
