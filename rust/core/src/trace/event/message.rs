//! Messages of a call, and what its match specification makes of them.
#![forbid(unsafe_code)]

use super::{activation::Activation, context::CallContext};
use crate::{
    emit::{deferred, emit, values::with_values, Recipient},
    record::header::{stamp, Head},
    state::{
        flags::Flags,
        frame::{exit_actions, results},
        plan::{Entry, Plan},
        session::Takes,
        setting::kinds,
        thread::Thread,
    },
    sync::Ordering::Relaxed,
    trace::matching::{self, Decision, Disclosure},
};
use inviso_term::record::Kind;

/// Queues the questions about a call to a tracer module, for after the section.
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

/// Emits the message of a call, if the process is traced for it; answers the exit actions.
#[inline(always)]
pub(super) fn message<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, plan: &Plan, entry: &Entry, flags: Flags,
) -> u16 {
    if entry.run & (kinds::LOCAL | kinds::GLOBAL) == 0 || entry.session.tracer.load(Relaxed) == thread.current.pid {
        return 0;
    }
    if entry.run & kinds::LOCAL == 0 && !context.call.is_global() {
        return 0;
    }
    match &entry.spec {
        Some(program) => {
            let (current, extra) = (&thread.current, &mut thread.extra);
            match matching::decide(context.node, current, &entry.session, program, context.call, extra) {
                Some(decision) => matched(context, thread, plan, entry, decision),
                None => 0,
            }
        }
        None if flags.has(Flags::SILENT) => 0,
        None => {
            call_message(context.to(&entry.session, flags), thread, plan.name, &[], context.call);
            return_to(entry, flags)
        }
    }
}

/// The exit action for `return_to`, if the process has the flag.
fn return_to(entry: &Entry, flags: Flags) -> u16 {
    if entry.run & kinds::LOCAL != 0 && flags.has(Flags::RETURN_TO) {
        exit_actions::RETURN_TO
    } else {
        0
    }
}

#[inline(always)]
fn call_message<A: Activation>(to: Recipient<'_>, thread: &mut Thread, name: u32, extra: &[u8], call: &A) {
    if !to.flags.has(Flags::ARITY) {
        return with_arguments(to, thread, name, extra, call);
    }
    let head = Head::new(thread, Kind::CallArity, u64::from(name));
    if extra.is_empty() {
        emit(to, thread, head, &[]);
    } else {
        let mut payload = Vec::with_capacity(extra.len() + 4);
        let more = stamp::with_extra(&mut payload, extra);
        emit(to, thread, head.with(more), &payload);
    }
}

/// A match specification has taken a call. Flags that it switches count for this very message. A suppressed message keeps the exit
/// actions; silence removes them (trace.md, `function/4`; gold README 4, 17, 18).
#[inline(never)]
pub(super) fn matched<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, plan: &Plan, entry: &Entry, decision: Decision,
) -> u16 {
    let exit_actions = emit_matched(context, thread, plan, entry, decision);
    decision.end(&entry.session);
    exit_actions
}

#[inline(always)]
fn emit_matched<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, plan: &Plan, entry: &Entry, decision: Decision,
) -> u16 {
    let flags = thread.current.flags(entry.index);
    if flags.has(Flags::SILENT) {
        return 0;
    }
    let exit_actions = results(decision.returns, decision.raises);
    if let Disclosure::Suppressed = decision.message {
        return exit_actions;
    }
    with_extra(thread, decision, |thread, extra| {
        call_message(context.to(&entry.session, flags), thread, plan.name, extra, context.call);
    });
    exit_actions | return_to(entry, flags)
}

/// Passes on the term that a match specification adds to the message.
#[inline(always)]
fn with_extra(thread: &mut Thread, decision: Decision, with: impl FnOnce(&mut Thread, &[u8])) {
    match decision.message {
        Disclosure::Extra(length) => {
            let extra = std::mem::take(&mut thread.extra);
            with(thread, &extra[..length]);
            thread.extra = extra;
        }
        _ => with(thread, &[]),
    }
}

/// Emits a meta trace message, whose flags are always call and timestamp (trace.md, `function/4`, meta); answers the exit actions.
#[inline(never)]
pub(super) fn meta<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, plan: &Plan, entry: &Entry) -> u16 {
    let CallContext { node, call, .. } = context;
    if entry.session.tracer.load(Relaxed) == thread.current.pid || !entry.finds_meta_tracer() {
        return 0;
    }
    let session = &entry.session;
    let to = context.to(session, META);
    let Some(program) = &entry.meta_spec else {
        with_arguments(to, thread, plan.name, &[], call);
        return 0;
    };
    let (current, extra) = (&thread.current, &mut thread.extra);
    let Some(decision) = matching::decide(node, current, session, program, call, extra) else { return 0 };
    if !matches!(decision.message, Disclosure::Suppressed) {
        with_extra(thread, decision, |thread, extra| with_arguments(to, thread, plan.name, extra, call));
    }
    decision.end(session);
    let result = if decision.returns { exit_actions::META_RETURN } else { 0 };
    result | if decision.raises { exit_actions::META_EXCEPTION } else { 0 }
}

/// The flags of meta tracing's messages.
pub(super) const META: Flags = Flags::TIMESTAMP;

#[inline(never)]
fn with_arguments<A: Activation>(to: Recipient<'_>, thread: &mut Thread, name: u32, extra: &[u8], call: &A) {
    let head = Head::new(thread, Kind::Call, u64::from(name));
    if to.session.options.capture.takes != Takes::Values {
        return deferred::defer_values(to, thread, head, extra);
    }
    with_values(to, thread, head, extra, |out, capture| call.arguments(out, capture));
}
