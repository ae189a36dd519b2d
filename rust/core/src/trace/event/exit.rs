//! A call ends or is suspended.
#![forbid(unsafe_code)]

use super::{
    accepted,
    activation::{Activation, Exit},
    caught::settle_pending,
    context::CallContext,
    finish::finish,
    frames::uncover,
    measure::charge,
};
use crate::state::{
    call_cache::Action,
    flags::Flags,
    frame::{exit_actions, Frame},
    node::Node,
    setting::kinds,
    suspended_calls::PendingCall,
    thread::Thread,
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
    if thread.stack.last().is_some_and(|f| f.at == context.at) || uncover(thread, context.at) {
        while let Some(frame) = thread.stack.last().copied().filter(|f| f.at == context.at) {
            thread.stack.pop();
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
            let is_simple = frame.exit_actions == exit_actions::RETURN_TO && exit == Exit::Return;
            if !(is_simple && emit_return(context, thread, &frame)) {
                finish(context, thread, code, &frame, exit);
            }
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
            let is_simple = frame.exit_actions == exit_actions::RETURN_TO && exit == Exit::Return;
            if !(is_simple && emit_return(context, thread, &frame)) {
                finish(context, thread, code, &frame, exit);
            }
        }
    }
}

/// Emits `return_to` for a caller whose cached call has the name and the header; `false` if the general form is needed.
#[inline(always)]
pub(super) fn emit_return<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, frame: &Frame) -> bool {
    const KIND: u64 = 0xff << 32;
    context.call.identify(thread);
    let (_, caller) = context.call.caller_function();
    let Some(place) = thread.call_cache.find(caller, context.snapshot.version) else { return false };
    let Some(Action::Emit(cached)) = &thread.call_cache.at(place).first else { return false };
    if cached.id != frame.id || thread.current.flags(frame.index) != cached.flags {
        return false;
    }
    let first = cached.first & !KIND | (Kind::ReturnTo as u64) << 32;
    let header = [first, context.now, thread.current.pid, u64::from(cached.name)];
    if cached.flags.has(Flags::RETURN_TO) {
        let Some(ring) = thread.rings.of(frame.index, frame.id) else { return false };
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
