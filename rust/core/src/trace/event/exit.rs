//! A call ends or is suspended.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::{Activation, Exit},
    caught::settle_pending,
    context::CallContext,
    finish::finish,
    frames::{is_top, uncover},
    measure::charge,
};
use crate::{
    emit::values,
    state::{
        call_cache::{Action, EmitPlan},
        flags::Flags,
        frame::{exit_actions, Frame},
        node::Node,
        session::Takes,
        setting::kinds,
        suspended_calls::PendingCall,
        thread::Thread,
    },
};
use inviso_term::record::Kind;

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
fn exit_call<A: Activation>(node: &Node, thread: &mut Thread, code: usize, exit: Exit, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let mut context = CallContext { node, snapshot, call, at: call.address(), now: 0 };
    if !thread.pending.sessions.is_empty() {
        settle_pending(node, thread, snapshot, call, Some((exit, context.at)));
    }
    if is_top(thread, context.at) || uncover(thread, context.at) {
        while let Some(frame) = thread.stack.pop_if(|frame| frame.at == context.at) {
            if context.now == 0 && frame.exit_actions & !exit_actions::MEMORY != 0 {
                context.now = node.clock.ticks();
            }
            if frame.exit_actions & exit_actions::MEASURED != 0 {
                if snapshot.has_session(frame.index, frame.id) {
                    charge(thread, &frame, call, context.now);
                    if exit == Exit::Yield && frame.exit_actions == exit_actions::TIME && !thread.branches.is_empty() {
                        suspend(context, code, &frame);
                    }
                }
                continue;
            }
            end_frame(context, thread, code, &frame, exit);
        }
    }
    if exit != Exit::Yield && !node.suspended_calls.is_empty() && call.is_generator() {
        finish_suspended(context, thread, code, exit);
    }
}

/// A call that could be suspended ends.
#[inline(never)]
fn finish_suspended<A: Activation>(mut context: CallContext<'_, A>, thread: &mut Thread, code: usize, exit: Exit) {
    let CallContext { node, snapshot, at, .. } = context;
    let Some(plan) = snapshot.find(code) else { return };
    if context.now == 0 {
        context.now = node.clock.ticks();
    }
    for entry in plan.entries.iter().filter(|e| e.has & (kinds::LATENCY | kinds::MESSAGES) != 0) {
        if let Some(begun) = node.suspended_calls.take(at, entry.id) {
            let frame = Frame::new(at, entry.id, entry.index, begun.exit_actions, begun.start);
            end_frame(context, thread, code, &frame, exit);
        }
    }
}

/// Runs the exit actions of a frame, but for time and memory. The records of a call that returns have their names and headers in cached
/// calls.
#[inline(always)]
fn end_frame<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, code: usize, frame: &Frame, exit: Exit) {
    let only_returns = frame.exit_actions == exit_actions::RETURN_TO && exit == Exit::Return;
    if !(only_returns && emit_return(context, thread, frame)) {
        end_with_value(context, thread, code, frame, exit);
    }
}

/// As [`end_frame`], for any exit actions.
#[inline(never)]
fn end_with_value<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, code: usize, frame: &Frame, exit: Exit,
) {
    const RESULTS: u16 = exit_actions::RETURN_FROM | exit_actions::EXCEPTION_FROM;
    let mut rest = *frame;
    if exit == Exit::Return && rest.exit_actions & !(RESULTS | exit_actions::RETURN_TO) == 0 {
        if rest.exit_actions & exit_actions::RETURN_FROM != 0 && emit_value(context, thread, code, frame) {
            rest.exit_actions &= !RESULTS;
        }
        if rest.exit_actions == 0 || rest.exit_actions == exit_actions::RETURN_TO && emit_return(context, thread, frame)
        {
            return;
        }
    }
    finish(context, thread, code, &rest, exit);
}

/// The cached record of calls of a function, if it is valid for the session of a frame and for the process that runs.
#[inline(always)]
fn cached_record(thread: &mut Thread, code: usize, version: u32, frame: &Frame) -> Option<EmitPlan> {
    let place = thread.call_cache.find(code, version)?;
    let Some(Action::Emit(cached)) = &thread.call_cache.at(place).first else { return None };
    let is_valid = cached.id == frame.id && thread.current.flags(frame.index) == cached.flags;
    is_valid.then_some(*cached)
}

/// Emits `return_from` by the cached call of the function; `false` if the general form is needed.
#[inline(always)]
pub(super) fn emit_value<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, code: usize, frame: &Frame,
) -> bool {
    let CallContext { snapshot, call, now, .. } = context;
    call.identify(thread);
    let Some(cached) = cached_record(thread, code, snapshot.version, frame) else { return false };
    let Some(session) = snapshot.session(frame.index, frame.id) else { return false };
    let capture = &session.options.capture;
    if capture.takes != Takes::Values {
        return false;
    }
    let header = cached.header(Kind::ReturnFrom, now, thread.current.pid);
    values::with_payload(
        thread,
        capture,
        |out| call.result(out, capture),
        |thread, payload| {
            let _counted_by_the_ring = thread.push(session, header, payload);
        },
    );
    true
}

/// Emits `return_to` by the cached call of the caller; `false` if the general form is needed.
#[inline(always)]
pub(super) fn emit_return<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, frame: &Frame) -> bool {
    context.call.identify(thread);
    let (_, caller) = context.call.caller_function();
    let Some(cached) = cached_record(thread, caller, context.snapshot.version, frame) else { return false };
    if cached.flags.has(Flags::RETURN_TO) {
        let Some(ring) = thread.rings.of(frame.index, frame.id) else { return false };
        let header = cached.header(Kind::ReturnTo, context.now, thread.current.pid);
        let _counted_by_the_ring = ring.push(header, &[]);
    }
    true
}

/// In a session with a call tree a coroutine begins to wait.
#[inline(never)]
fn suspend<A: Activation>(context: CallContext<'_, A>, code: usize, frame: &Frame) {
    let CallContext { node, snapshot, call, now, .. } = context;
    let Some(session) = snapshot.session(frame.index, frame.id) else { return };
    if session.tree.get().is_none() || !call.is_coroutine() {
        return;
    }
    let entry = snapshot.find(code).and_then(|plan| plan.entries.iter().find(|e| e.id == frame.id));
    if let Some(entry) = entry.filter(|e| e.run & kinds::TIME != 0) {
        node.suspended.keep(frame.at, entry.time, PendingCall { exit_actions: 0, start: now });
    }
}
