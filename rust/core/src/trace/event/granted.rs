//! A call that a tracer module asked for.
#![forbid(unsafe_code)]

use super::{
    call::await_end,
    message::{message, meta},
    Activation,
};
use crate::{
    emit::deferred::Question,
    state::{flags::Flags, node::Node, plan::kinds, suspended_calls::Begun, thread::Thread},
};

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
