//! Events of processes and ports besides calls and messages: they start and end, get names and links, run and wait, and their memory
//! is collected.
#![forbid(unsafe_code)]

use super::{about::About, recipients::emit_to_each};
use crate::{
    state::{flags::Flags, node::Node, thread::Thread, tracee::Tracee},
    sync::Ordering::Relaxed,
};
use inviso_term::record::Kind;

/// How the scheduling of a process changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It begins to run.
    In,
    /// It stops running.
    Out,
    /// It begins to run while it ends.
    InExiting,
    /// It stops running while it ends.
    OutExiting,
    /// It stops running for ever.
    Exited,
}

impl Turn {
    /// The event of a session with the flag `exiting`.
    fn exiting(self) -> Option<Kind> {
        const KINDS: [Option<Kind>; 5] =
            [None, None, Some(Kind::InExiting), Some(Kind::OutExiting), Some(Kind::OutExited)];
        KINDS[self as usize]
    }

    /// The event of a session that asks for scheduling only: it does not distinguish processes that end.
    fn plain(self) -> Kind {
        const KINDS: [Kind; 5] = [Kind::In, Kind::Out, Kind::In, Kind::Out, Kind::Out];
        KINDS[self as usize]
    }
}

/// The number 0 as a term: the place of a process that has ended.
const NOWHERE: &[u8] = &[97, 0];

impl Node {
    /// Whether a session asked for one of these flags of a process or port. A first check, outside the section.
    #[inline(always)]
    #[must_use]
    pub fn is_asked(&self, thread: &Thread, about: About<'_>, wanted: Flags) -> bool {
        self.asks_of(about.tracee(thread), wanted)
    }

    /// As [`Node::is_asked`], of a process or port that the caller holds.
    pub fn asks_of(&self, tracee: &Tracee, wanted: Flags) -> bool {
        (0..self.width.load(Relaxed) as u16).any(|index| tracee.flags(index).has(wanted))
    }

    /// A process is scheduled. Sessions with the flag `exiting` get separate tags for a process that ends; sessions with one of the
    /// flags `wanted` get `in` and `out` (trace.md, `process/4`). `place` is `(module, function, arity)` or 0, as a term; `out_exited`
    /// always has 0.
    pub fn on_turn(&self, thread: &mut Thread, about: About<'_>, turn: Turn, wanted: Flags, place: &[u8]) {
        emit_to_each(self, thread, about, 0, |flags| {
            let ending = turn.exiting().filter(|_| flags.has(Flags::EXITING));
            let kind = ending.or_else(|| flags.has(wanted).then_some(turn.plain()))?;
            Some((kind, if kind == Kind::OutExited { NOWHERE } else { place }))
        });
    }

    /// Emits an event of a process or port to every session that has one of the flags `wanted` for it. The meaning of `what` and
    /// `payload` depends on the kind.
    pub fn emit_event(
        &self, thread: &mut Thread, about: About<'_>, wanted: Flags, kind: Kind, what: u64, payload: &[u8],
    ) {
        emit_to_each(self, thread, about, what, |flags| flags.has(wanted).then_some((kind, payload)));
    }

    /// The running process has started another, which has its flags already (see [`Node::child`]). `name` is
    /// `(module, function, arguments)` as terms.
    pub fn on_spawn(&self, thread: &mut Thread, child: &Tracee, name: &[u8]) {
        self.emit_event(thread, About::Current, Flags::PROCS, Kind::Spawn, child.pid, name);
    }

    /// The running process was started by `parent`.
    pub fn on_spawned(&self, thread: &mut Thread, parent: u64, name: &[u8]) {
        self.emit_event(thread, About::Current, Flags::PROCS, Kind::Spawned, parent, name);
    }

    /// A process ends for `reason` (a term).
    pub fn on_process_exit(&self, thread: &mut Thread, about: About<'_>, reason: &[u8]) {
        self.emit_event(thread, about, Flags::PROCS, Kind::Exit, 0, reason);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::NOWHERE;
    use inviso_term::{etf, term::Term};

    #[test]
    fn the_place_of_an_ended_process_is_a_term() {
        assert_eq!(NOWHERE, etf::encode(&Term::from(0)));
    }
}
