//! A call that a tracer module asked for.
#![forbid(unsafe_code)]

use super::{
    activation::Activation,
    frames::await_end,
    message::{message, meta},
};
use crate::{
    emit::deferred::{self, Source},
    state::{
        deferred::Question, flags::Flags, node::Node, session::Session, setting::kinds, suspended_calls::PendingCall,
        thread::Thread,
    },
};
use inviso_term::record::Kind;

/// A call that a tracer module wants to be told of: match specs run now, and the end is waited for.
#[cold]
#[inline(never)]
fn on_accepted<A: Activation>(node: &Node, thread: &mut Thread, code: usize, question: &Question, call: &A) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    let Some(plan) = snapshot.find(code) else { return };
    let Some(entry) = plan.entry(question.session.id).map(|entry| entry.accepted(question.which)) else { return };
    call.identify(thread);
    let (flags, at, now) = (thread.current.flags(entry.index), call.address(), node.moment(&mut thread.turn));
    let mut begun = PendingCall { exit_actions: 0, start: now };
    if entry.run & kinds::META != 0 {
        begun.exit_actions = meta(node, thread, plan, &entry, call, now);
    } else if flags.has(Flags::CALL) {
        begun.exit_actions = message(node, thread, plan, &entry, flags, call, now);
    }
    if begun.exit_actions != 0 && call.is_generator() {
        // with what is waited for already
        if let Some(before) = node.suspended_calls.take(at, entry.id) {
            begun = PendingCall { exit_actions: begun.exit_actions | before.exit_actions, start: before.start };
        }
    }
    await_end(node, thread, &entry, begun.exit_actions, call, at, begun.start);
}

/// A call of a function, by the host's key.
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

/// Does what was put down at a call of the function `code`. Not inside a section.
#[cold]
#[inline(never)]
pub(super) fn run_deferred<A: Activation>(node: &Node, thread: &mut Thread, code: usize, call: &A) {
    deferred::run_all(node, thread, &OfCall(code, call));
}
