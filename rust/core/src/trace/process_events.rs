//! What happens to processes and ports besides calls and messages: they start and end, get names and links, run and wait, and
//! their memory is collected.
#![forbid(unsafe_code)]

use crate::{
    emit::{deferred, emit},
    record::header::Head,
    state::{flags::Flags, node::Node, thread::Thread, tracee::Tracee},
    sync::Ordering::Relaxed,
    trace::about::About,
};
use inviso_term::{etf, record::Kind, term::Term};

/// What a process does when it is scheduled.
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
    /// What a session with the flag `exiting` is told.
    fn exiting(self) -> Option<Kind> {
        const KINDS: [Option<Kind>; 5] =
            [None, None, Some(Kind::InExiting), Some(Kind::OutExiting), Some(Kind::OutExited)];
        KINDS[self as usize]
    }

    /// What a session is told that asks for scheduling without telling processes that end from others.
    fn plain(self) -> Kind {
        const KINDS: [Kind; 5] = [Kind::In, Kind::Out, Kind::In, Kind::Out, Kind::Out];
        KINDS[self as usize]
    }
}

impl Node {
    /// Whether some session asked for one of these flags of a process or port: a first look, outside the section.
    #[inline(always)]
    #[must_use]
    pub fn is_asked(&self, thread: &Thread, about: About<'_>, wanted: Flags) -> bool {
        self.asks_of(about.tracee(thread), wanted)
    }

    /// The same, of one that is known.
    pub fn asks_of(&self, tracee: &Tracee, wanted: Flags) -> bool {
        (0..self.width.load(Relaxed) as u16).any(|index| tracee.flags(index).has(wanted))
    }

    /// A process is scheduled: sessions with the flag `exiting` are told of one that ends by its own tags, others with one of the
    /// flags `wanted` by `in` and `out` (trace.md, `process/4`). `place` is `(module, function, arity)` or 0, as a term; of one
    /// that has ended, `out_exited` says 0.
    pub fn on_turn(&self, thread: &mut Thread, about: About<'_>, turn: Turn, wanted: Flags, place: &[u8]) {
        let inside = thread.shared.section.enter();
        let snapshot = self.snapshot.load_inside(&inside);
        let mut now = 0;
        for index in 0..snapshot.width() {
            let tracee = about.tracee(thread);
            let (flags, pid) = (tracee.flags(index), tracee.pid);
            let ending = turn.exiting().filter(|_| flags.has(Flags::EXITING));
            let Some(kind) = ending.or_else(|| flags.has(wanted).then_some(turn.plain())) else { continue };
            let Some((session, _)) = snapshot.standing(index) else { continue };
            if session.tracer.load(Relaxed) != pid {
                now = if now == 0 { self.moment(&mut thread.turn) } else { now };
                let nowhere;
                let payload = if kind == Kind::OutExited {
                    nowhere = etf::encode(&Term::from(0));
                    &nowhere
                } else {
                    place
                };
                emit(self, thread, session, flags, Head { tracee: pid, kind, what: 0, more: 0 }, payload, now);
            }
        }
        drop(inside);
        if !thread.deferred.is_empty() {
            deferred::run_events(self, thread);
        }
    }

    /// Something has happened to a process or port: every session that asked for it by one of these flags is told. `what` and
    /// `payload` are what the kind says.
    pub fn emit_event(
        &self, thread: &mut Thread, about: About<'_>, wanted: Flags, kind: Kind, what: u64, payload: &[u8],
    ) {
        let inside = thread.shared.section.enter();
        let snapshot = self.snapshot.load_inside(&inside);
        let mut now = 0;
        for index in 0..snapshot.width() {
            let tracee = about.tracee(thread);
            let (flags, pid) = (tracee.flags(index), tracee.pid);
            if !flags.has(wanted) {
                continue;
            }
            let Some((session, _)) = snapshot.standing(index) else { continue };
            if session.tracer.load(Relaxed) != pid {
                now = if now == 0 { self.moment(&mut thread.turn) } else { now };
                emit(self, thread, session, flags, Head { tracee: pid, kind, what, more: 0 }, payload, now);
            }
        }
        drop(inside);
        if !thread.deferred.is_empty() {
            deferred::run_events(self, thread);
        }
    }

    /// A process started another: the child has its flags already (see [`Node::child`]); the messages are written here.
    /// `name` is `(module, function, arguments)` as terms.
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
