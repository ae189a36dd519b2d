//! What happens to processes and ports besides calls and messages: they start and end, get names and links, run and wait, and
//! their memory is collected.
#![forbid(unsafe_code)]

use crate::{
    emit::{emit, Head},
    flags::Flags,
    messages::About,
    node::Node,
    sync::Ordering::Relaxed,
    thread::Thread,
    tracee::Tracee,
};
use inviso_term::record::Kind;

impl Node {
    /// Something has happened to a process or port: every session that asked for it by one of these flags is told. `what` and
    /// `payload` are what the kind says.
    pub fn tell(&self, thread: &mut Thread, about: About<'_>, wanted: Flags, kind: Kind, what: u64, payload: &[u8]) {
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
                now = if now == 0 { self.clock.ticks() } else { now };
                emit(self, thread, session, flags, Head { tracee: pid, kind, what, more: 0 }, payload, now);
            }
        }
    }

    /// Whether some session has given a process one of these flags; to be asked before something is made for a message.
    #[must_use]
    pub fn is_asked(&self, thread: &mut Thread, about: About<'_>, wanted: Flags) -> bool {
        let inside = thread.shared.section.enter();
        let width = self.snapshot.load_inside(&inside).width();
        (0..width).any(|index| about.tracee(thread).flags(index).has(wanted))
    }

    /// A process started another: the child has its flags already (see [`Node::child`]); the messages are written here.
    /// `name` is `(module, function, arguments)` as terms.
    pub fn on_spawn(&self, thread: &mut Thread, child: &Tracee, name: &[u8]) {
        self.tell(thread, About::Current, Flags::PROCS, Kind::Spawn, child.pid, name);
    }

    /// The running process was started by `parent`.
    pub fn on_spawned(&self, thread: &mut Thread, parent: u64, name: &[u8]) {
        self.tell(thread, About::Current, Flags::PROCS, Kind::Spawned, parent, name);
    }

    /// A process ends for `reason` (a term).
    pub fn on_process_exit(&self, thread: &mut Thread, about: About<'_>, reason: &[u8]) {
        self.tell(thread, about, Flags::PROCS, Kind::Exit, 0, reason);
    }
}
