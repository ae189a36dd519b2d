//! The sessions that asked for an event of a process or port.
#![forbid(unsafe_code)]

use super::about::About;
use crate::{
    emit::{deferred, emit, Recipient},
    record::header::Head,
    state::{flags::Flags, node::Node, patterns::Patterns, thread::Thread},
    sync::Ordering::Relaxed,
};
use inviso_term::record::Kind;

/// Hands an event to each session whose flags ask for it, with the answer of `wants` and without a time. A session whose tracer is
/// the process itself gets nothing. `with` runs in the section; the caller runs the work that it defers.
#[inline(always)]
pub(super) fn each_recipient<W>(
    node: &Node, thread: &mut Thread, about: About<'_>, wants: impl Fn(Flags) -> Option<W>,
    mut with: impl FnMut(&mut Thread, Recipient<'_>, &Patterns, W),
) {
    let inside = thread.shared.section.enter();
    let snapshot = node.snapshot.load_inside(&inside);
    for index in 0..snapshot.width() {
        let tracee = about.tracee(thread);
        let flags = tracee.flags(index);
        let Some(wanted) = wants(flags) else { continue };
        let Some((session, patterns)) = snapshot.standing(index) else { continue };
        if session.tracer.load(Relaxed) != tracee.pid {
            with(thread, Recipient { node, session, flags, now: 0 }, patterns, wanted);
        }
    }
}

/// Emits an event to each session whose flags ask for it, at one time, and runs the deferred work. `wants` answers the kind and the
/// payload.
#[inline(always)]
pub(super) fn emit_to_each<'p>(
    node: &Node, thread: &mut Thread, about: About<'_>, what: u64, wants: impl Fn(Flags) -> Option<(Kind, &'p [u8])>,
) {
    let mut now = 0;
    each_recipient(node, thread, about, wants, |thread, to, _, (kind, payload)| {
        if now == 0 {
            now = node.clock.ticks();
        }
        let head = Head { tracee: about.tracee(thread).pid, kind, what, more: 0 };
        emit(Recipient { now, ..to }, thread, head, payload);
    });
    if !thread.deferred.is_empty() {
        deferred::run_events(node, thread);
    }
}
