//! A call ends or is suspended.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::{Activation, Exit},
    caught::settle_pending,
    frames::uncover,
    message::META,
};
use crate::{
    emit::{deferred, emit, values::with_values},
    record::header::Head,
    state::{
        call_cache::Action,
        flags::Flags,
        frame::{exit_actions, Frame},
        node::Node,
        session::{Capture, Exceptions, Session, Takes},
        setting::kinds,
        snapshot::Snapshot,
        suspended_calls::PendingCall,
        thread::{Thread, SCRATCH},
    },
    trace::matching,
};
use inviso_term::{etf::Encoder, record::Kind};
use std::sync::Arc;

/// A call of the function `code` ends or is suspended.
#[inline(always)]
pub fn on_exit<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
    if thread.stack.is_empty() && thread.pending.sessions.is_empty() && node.suspended_calls.is_empty() {
        return;
    }
    exit_call(node, thread, code, exit, call);
    if !thread.deferred.is_empty() {
        accepted::run_deferred(node, thread, code, call);
    }
}

#[inline(always)]
pub(super) fn exit_call<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
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
            if now == 0 && frame.exit_actions & !exit_actions::MEMORY != 0 {
                now = node.moment(&mut thread.turn);
            }
            if frame.exit_actions & exit_actions::MEASURED != 0 {
                if snapshot.has_session(frame.index, frame.id) {
                    charge(thread, &frame, call, now);
                    if exit == Exit::Yield && frame.exit_actions == exit_actions::TIME && !thread.branches.is_empty() {
                        suspend(node, snapshot, code, &frame, call, now);
                    }
                }
                continue;
            }
            let is_cached = frame.exit_actions == exit_actions::RETURN_TO && exit == Exit::Return;
            if !(is_cached && emit_return(thread, snapshot, &frame, call, now)) {
                finish(node, thread, snapshot, code, &frame, exit, call, now);
            }
        }
    }
    if exit != Exit::Yield && !node.suspended_calls.is_empty() && call.is_generator() {
        finish_suspended(node, thread, snapshot, code, exit, call, now);
    }
}

/// The end of a call that could be suspended.
#[inline(never)]
pub(super) fn finish_suspended<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, exit: Exit, call: &A, now: u64,
) {
    let Some(plan) = snapshot.find(code) else { return };
    let now = if now == 0 { node.moment(&mut thread.turn) } else { now };
    let at = call.address();
    for entry in plan.entries.iter().filter(|e| e.has & (kinds::LATENCY | kinds::MESSAGES) != 0) {
        if let Some(begun) = node.suspended_calls.take(at, entry.id) {
            let frame = Frame::new(at, entry.id, entry.index, begun.exit_actions, begun.start);
            let is_cached = frame.exit_actions == exit_actions::RETURN_TO && exit == Exit::Return;
            if !(is_cached && emit_return(thread, snapshot, &frame, call, now)) {
                finish(node, thread, snapshot, code, &frame, exit, call, now);
            }
        }
    }
}

/// return_to at the end of a call to a function that is traced likewise; `false` if it needs more than that.
#[inline(always)]
pub(super) fn emit_return<A: Activation>(
    thread: &mut Thread, snapshot: &Snapshot, frame: &Frame, call: &A, now: u64,
) -> bool {
    const KIND: u64 = 0xff << 32;
    call.identify(thread);
    let (_, caller) = call.caller_function();
    let Some(place) = thread.call_cache.find(caller, snapshot.version) else { return false };
    let Some(Action::Emit(known)) = &thread.call_cache.at(place).first else { return false };
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
pub(super) fn charge<A: Activation>(thread: &mut Thread, frame: &Frame, call: &A, now: u64) {
    let amount = if frame.exit_actions == exit_actions::TIME { now } else { call.allocated() };
    Thread::timer(&mut thread.timers, frame.index, frame.id).of(frame.exit_actions).switch(frame.before, amount);
}

/// In a session with a call tree a coroutine begins to wait.
#[inline(never)]
fn suspend<A: Activation>(node: &Node, snapshot: &Snapshot, code: usize, frame: &Frame, call: &A, now: u64) {
    let Some(session) = snapshot.session(frame.index, frame.id) else { return };
    if session.tree.get().is_none() || !call.is_coroutine() {
        return;
    }
    let entry = snapshot.find(code).and_then(|plan| plan.entries.iter().find(|e| e.id == frame.id));
    if let Some(entry) = entry.filter(|e| e.run & kinds::TIME != 0) {
        node.suspended.keep(frame.at, entry.time, PendingCall { exit_actions: 0, start: now });
    }
}

/// Latency, return_from, exception_from and return_to at the end of a call.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
pub(super) fn finish<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, frame: &Frame, exit: Exit, call: &A, now: u64,
) {
    let Some(session) = snapshot.session(frame.index, frame.id) else { return };
    if frame.exit_actions & exit_actions::LATENCY != 0 {
        let entry = snapshot.find(code).and_then(|p| p.entries.iter().find(|e| e.id == frame.id));
        if let Some(latency) = entry.filter(|e| e.run & kinds::LATENCY != 0).and_then(|e| e.latency.as_ref()) {
            let nanos = node.clock.nanos(now - frame.start);
            latency.record(nanos);
            if session.options.dump_slower.is_some_and(|limit| nanos >= limit) {
                session.ask_dump();
            }
        }
    }
    let is_cached = frame.exit_actions & (exit_actions::RESULTS | exit_actions::RETURN_TO) != 0;
    // who closes a generator goes on as if nothing had been raised
    if !is_cached || exit == Exit::Unwind && call.is_closing() {
        return;
    }
    if frame.exit_actions & exit_actions::RESULTS != 0 {
        result(node, thread, snapshot, code, session, frame, exit, call, now);
    }
    if frame.exit_actions & exit_actions::RETURN_TO == 0 {
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
        pending.of = Some(thread.current.clone());
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
pub(super) fn result<A: Activation>(
    node: &Node, thread: &mut Thread, snapshot: &Snapshot, code: usize, session: &Arc<Session>, frame: &Frame,
    exit: Exit, call: &A, now: u64,
) {
    let Some(plan) = snapshot.find(code) else { return };
    let Some(entry) = plan.entries.iter().find(|entry| entry.id == frame.id) else { return };
    call.identify(thread);
    let flags = thread.current.flags(frame.index);
    let (kind, asked, meta) = match exit {
        Exit::Unwind => (Kind::ExceptionFrom, exit_actions::EXCEPTION_FROM, exit_actions::META_EXCEPTION),
        _ => (Kind::ReturnFrom, exit_actions::RETURN_FROM, exit_actions::META_RETURN),
    };
    // what began last ends first (as OTP does it)
    let kinds = [(meta, META, kinds::META), (asked, flags, kinds::LOCAL | kinds::GLOBAL)];
    for (wanted, flags, set) in kinds {
        if frame.exit_actions & wanted == 0 || entry.has & set == 0 || wanted == asked && !flags.has(Flags::CALL) {
            continue;
        }
        let head = Head::new(thread, kind, u64::from(plan.name));
        if kind == Kind::ReturnFrom && session.options.capture.takes != Takes::Values {
            deferred::defer_values(node, thread, session, flags, head, &[], now);
        } else {
            let write = |out: &mut Encoder<'_>, capture: &Capture| call.result(out, capture);
            with_values(node, thread, session, flags, head, &[], now, write);
        }
        if kind == Kind::ExceptionFrom && asks_for_dump(node, thread, session, call) {
            session.ask_dump();
        }
    }
}

/// Whether the exception that leaves the call is one of those of which the session has a dump.
fn asks_for_dump<A: Activation>(node: &Node, thread: &Thread, session: &Session, call: &A) -> bool {
    match &session.options.dump_on {
        None => false,
        Some(Exceptions::Of(classes)) => classes.iter().any(|class| call.is_left_by(*class)),
        Some(Exceptions::Matching(program)) => {
            let mut pair = vec![0; session.options.capture.total];
            let mut out = Encoder::new(&mut pair);
            call.result(&mut out, &session.options.capture).is_ok()
                && matching::takes_exception(node, &thread.current, session, program, out.written())
        }
    }
}
