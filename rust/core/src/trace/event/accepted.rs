//! Deferred work of a call, and calls that a tracer module has accepted.
#![forbid(unsafe_code)]

use super::{
    activation::Activation,
    context::CallContext,
    frames::await_end,
    message::{message, meta},
};
use crate::{
    emit::deferred::{self, Source},
    state::{deferred::Question, flags::Flags, node::Node, session::Session, setting::kinds, thread::Thread},
};
use inviso_term::record::Kind;

/// A tracer module wants the messages of a call: match specifications run now, and the call's end is awaited.
#[cold]
#[inline(never)]
fn on_accepted<A: Activation>(node: &Node, thread: &mut Thread, code: usize, question: &Question, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let Some(plan) = snapshot.find(code) else { return };
    let Some(entry) = plan.entry(question.session.id).map(|entry| entry.accepted(question.which)) else { return };
    call.identify(thread);
    let flags = thread.current.flags(entry.index);
    let now = node.clock.ticks();
    let mut context = CallContext { node, snapshot, call, at: call.address(), now };
    let mut exit_actions = 0;
    if entry.run & kinds::META != 0 {
        exit_actions = meta(context, thread, plan, &entry);
    } else if flags.has(Flags::CALL) {
        exit_actions = message(context, thread, plan, &entry, flags);
    }
    if exit_actions != 0 && call.is_generator() {
        // together with the exit actions that the call has already
        if let Some(before) = node.suspended_calls.take(context.at, entry.id) {
            exit_actions |= before.exit_actions;
            context.now = before.start;
        }
    }
    await_end(context, thread, &entry, exit_actions);
}

/// A call of the function with this key.
struct OfCall<'a, A>(usize, &'a A);

impl<A: Activation> Source for OfCall<'_, A> {
    fn write(&self, kind: Kind, payload: &mut Vec<u8>, session: &Session, scheduler: u16) {
        match kind {
            Kind::Call => self.1.arguments_late(payload, session, scheduler),
            _ => self.1.result_late(payload, session, scheduler),
        }
    }

    fn accepted(&self, node: &Node, thread: &mut Thread, question: &Question) {
        on_accepted(node, thread, self.0, question, self.1);
    }
}

/// Runs the deferred work of a call of the function `code`. Outside the section.
#[cold]
#[inline(never)]
pub(super) fn run_deferred<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    deferred::run_all(node, thread, &OfCall(code, call));
}
