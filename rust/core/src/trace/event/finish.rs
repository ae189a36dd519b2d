//! The end of a call that a session waits for: its latency, and messages about its result and its caller.
#![forbid(unsafe_code)]

use super::{
    activation::{Activation, Exit},
    context::CallContext,
    message::META,
};
use crate::{
    emit::{deferred, emit, values::with_values, Recipient},
    record::header::Head,
    state::{
        flags::Flags,
        frame::{exit_actions, Frame},
        node::Node,
        session::{Capture, Exceptions, Session, Takes},
        setting::kinds,
        thread::{Thread, SCRATCH},
    },
    trace::matching,
};
use inviso_term::{etf::Encoder, record::Kind};
use std::sync::Arc;

/// Runs the exit actions of a frame, but for time and memory.
#[inline(never)]
pub(super) fn finish<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, code: usize, frame: &Frame, exit: Exit,
) {
    let Some(session) = context.snapshot.session(frame.index, frame.id) else { return };
    if frame.exit_actions & exit_actions::LATENCY != 0 {
        record_latency(context, code, frame, session);
    }
    let gives_message = frame.exit_actions & (exit_actions::RESULTS | exit_actions::RETURN_TO) != 0;
    // the caller that closes a generator continues as if nothing had been raised
    if !gives_message || exit == Exit::Unwind && context.call.is_closing() {
        return;
    }
    if frame.exit_actions & exit_actions::RESULTS != 0 {
        emit_result(context, thread, code, session, frame, exit);
    }
    if frame.exit_actions & exit_actions::RETURN_TO == 0 {
        return;
    }
    context.call.identify(thread);
    let flags = thread.current.flags(frame.index);
    if flags.has(Flags::RETURN_TO) {
        emit_return_to(context, thread, context.to(session, flags), exit);
    }
}

#[inline(always)]
fn record_latency<A>(context: CallContext<'_, A>, code: usize, frame: &Frame, session: &Session) {
    let entry = context.snapshot.find(code).and_then(|p| p.entries.iter().find(|e| e.id == frame.id));
    if let Some(latency) = entry.filter(|e| e.run & kinds::LATENCY != 0).and_then(|e| e.latency.as_ref()) {
        let nanos = context.node.clock.nanos(context.now - frame.start);
        latency.record(nanos);
        if session.options.dump_slower.is_some_and(|limit| nanos >= limit) {
            session.ask_dump();
        }
    }
}

/// Emits `return_to`. After an exception the message waits for the frame that handles it.
#[inline(always)]
fn emit_return_to<A: Activation>(context: CallContext<'_, A>, thread: &mut Thread, to: Recipient<'_>, exit: Exit) {
    if exit == Exit::Return {
        let (caller, code) = context.call.caller_function();
        if caller == 0 {
            return;
        }
        // a function with a plan has its name's number there
        if let Some(plan) = context.snapshot.find(code) {
            return emit(to, thread, Head::new(thread, Kind::ReturnTo, u64::from(plan.name)), &[]);
        }
    }
    let mut scratch = std::mem::take(&mut thread.scratch);
    scratch.resize(scratch.len().max(SCRATCH), 0);
    let mut out = Encoder::new(&mut scratch);
    let caller = context.call.caller(&mut out);
    if exit == Exit::Unwind {
        let of = (to.session.index, to.session.id as u32);
        let pending = &mut thread.pending;
        if !pending.sessions.contains(&of) {
            pending.sessions.push(of);
        }
        pending.of = Some(thread.current.clone());
        pending.at = caller;
        pending.name.clear();
        pending.name.extend_from_slice(out.written());
    } else if caller != 0 {
        emit(to, thread, Head::new(thread, Kind::ReturnTo, 0), out.written());
    }
    thread.scratch = scratch;
}

/// Emits `return_from` or `exception_from`, of the call's trace and of its meta trace. A session that has removed its pattern gets
/// no message.
#[inline(never)]
fn emit_result<A: Activation>(
    context: CallContext<'_, A>, thread: &mut Thread, code: usize, session: &Arc<Session>, frame: &Frame, exit: Exit,
) {
    let CallContext { node, snapshot, call, .. } = context;
    let Some(plan) = snapshot.find(code) else { return };
    let Some(entry) = plan.entries.iter().find(|entry| entry.id == frame.id) else { return };
    call.identify(thread);
    let flags = thread.current.flags(frame.index);
    let (kind, asked, meta) = match exit {
        Exit::Unwind => (Kind::ExceptionFrom, exit_actions::EXCEPTION_FROM, exit_actions::META_EXCEPTION),
        _ => (Kind::ReturnFrom, exit_actions::RETURN_FROM, exit_actions::META_RETURN),
    };
    // the trace that began last ends first, as in OTP
    let kinds = [(meta, META, kinds::META), (asked, flags, kinds::LOCAL | kinds::GLOBAL)];
    for (wanted, flags, set) in kinds {
        if frame.exit_actions & wanted == 0 || entry.has & set == 0 || wanted == asked && !flags.has(Flags::CALL) {
            continue;
        }
        let (to, head) = (context.to(session, flags), Head::new(thread, kind, u64::from(plan.name)));
        if kind == Kind::ReturnFrom && session.options.capture.takes != Takes::Values {
            deferred::defer_values(to, thread, head, &[]);
        } else {
            let write = |out: &mut Encoder<'_>, capture: &Capture| call.result(out, capture);
            with_values(to, thread, head, &[], write);
        }
        if kind == Kind::ExceptionFrom && asks_for_dump(node, thread, session, call) {
            session.ask_dump();
        }
    }
}

/// Whether the session writes a dump for the exception that leaves the call.
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
