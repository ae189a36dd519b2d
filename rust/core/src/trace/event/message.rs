//! What is told of a call, and what a match specification says of it.
#![forbid(unsafe_code)]

use super::activation::Activation;
use crate::{
    emit::{deferred, emit, values::with_values},
    record::header::{stamp, Head},
    state::{
        flags::Flags,
        frame::exit_actions,
        node::Node,
        plan::{Entry, Plan},
        session::{Session, Takes},
        setting::kinds,
        thread::Thread,
    },
    sync::Ordering::Relaxed,
    trace::matching::{self, Decision, Disclosure},
};
use inviso_term::record::Kind;
use std::sync::Arc;

/// A call that a tracer module is asked about when the section has been left.
#[cold]
#[inline(never)]
pub(super) fn ask<A: Activation>(thread: &mut Thread, entry: &Entry, flags: Flags, call: &A) {
    let pid = thread.current.pid;
    let set = entry.has & (kinds::LOCAL | kinds::GLOBAL);
    if set != 0 && flags.has(Flags::CALL) && (set & kinds::LOCAL != 0 || call.is_global()) {
        deferred::defer_question(thread, &entry.session, Kind::Call, pid, set);
    }
    if entry.has & kinds::META != 0 && entry.finds_meta_tracer() {
        deferred::defer_meta_question(thread, entry, pid);
    }
}

/// A call message, if the process is traced for it; answers what its end is wanted for.
#[inline(always)]
pub(super) fn message<A: Activation>(
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

pub(super) fn return_to(entry: &Entry, flags: Flags) -> u16 {
    if entry.run & kinds::LOCAL != 0 && flags.has(Flags::RETURN_TO) {
        exit_actions::RETURN_TO
    } else {
        0
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn call_message<A: Activation>(
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
pub(super) fn matched<A: Activation>(
    node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, decision: Decision, call: &A, now: u64,
) -> u16 {
    let exit_actions = emit_matched(node, thread, plan, entry, decision, call, now);
    decision.end(&entry.session);
    exit_actions
}

#[inline(always)]
fn emit_matched<A: Activation>(
    node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, decision: Decision, call: &A, now: u64,
) -> u16 {
    let flags = thread.current.flags(entry.index);
    if flags.has(Flags::SILENT) {
        return 0;
    }
    let mut exit_actions = 0;
    if decision.returns {
        exit_actions |= exit_actions::RETURN_FROM;
    }
    if decision.raises {
        exit_actions |= exit_actions::EXCEPTION_FROM;
    }
    if let Disclosure::Suppressed = decision.message {
        return exit_actions;
    }
    with_extra(thread, decision, |thread, extra| {
        call_message(node, thread, &entry.session, flags, plan.name, extra, call, now);
    });
    exit_actions | return_to(entry, flags)
}

/// Hands out what a match spec adds to the message.
#[inline(always)]
pub(super) fn with_extra(thread: &mut Thread, decision: Decision, with: impl FnOnce(&mut Thread, &[u8])) {
    match decision.message {
        Disclosure::Extra(length) => {
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
pub(super) fn meta<A: Activation>(
    node: &Node, thread: &mut Thread, plan: &Plan, entry: &Entry, call: &A, now: u64,
) -> u16 {
    if entry.session.tracer.load(Relaxed) == thread.current.pid || !entry.finds_meta_tracer() {
        return 0;
    }
    let session = &entry.session;
    let Some(program) = &entry.meta_spec else {
        with_arguments(node, thread, session, META, plan.name, &[], call, now);
        return 0;
    };
    let (current, extra) = (&thread.current, &mut thread.extra);
    let Some(decision) = matching::decide(node, current, session, program, call, extra) else { return 0 };
    if !matches!(decision.message, Disclosure::Suppressed) {
        with_extra(thread, decision, |thread, extra| {
            with_arguments(node, thread, session, META, plan.name, extra, call, now);
        });
    }
    decision.end(session);
    let result = if decision.returns { exit_actions::META_RETURN } else { 0 };
    result | if decision.raises { exit_actions::META_EXCEPTION } else { 0 }
}

/// The flags of meta tracing's messages.
pub(super) const META: Flags = Flags::TIMESTAMP;

#[inline(never)]
#[allow(clippy::too_many_arguments)]
pub(super) fn with_arguments<A: Activation>(
    node: &Node, thread: &mut Thread, session: &Arc<Session>, flags: Flags, name: u32, extra: &[u8], call: &A, now: u64,
) {
    let head = Head::new(thread, Kind::Call, u64::from(name));
    if session.options.capture.takes != Takes::Values {
        return deferred::defer_values(node, thread, session, flags, head, extra, now);
    }
    with_values(node, thread, session, flags, head, extra, now, |out, capture| call.arguments(out, capture));
}
