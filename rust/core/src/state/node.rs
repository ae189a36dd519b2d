//! A node: one traced program. It has the state that all sessions share. All other state belongs to a session, a process or a thread.
//!
//! # Roles
//! Traced threads read the snapshot inside their sections. The control side changes state. The host adds threads and processes.
//!
//! # States
//! Those of its parts.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `snapshot` | see [`crate::sync::current`] | | |
//! | `threads`, `registry`, `control` | their locks | their locks | a thread's counts are in one place; no process misses a change of flags |
//! | `has_plans`, `width`, `cpu_stamps` | the control side | traced threads, `Relaxed` | hints; the snapshot decides |
//!
//! # Checked by
//! `models::node`, `models::counters` (loom), mutants `fold_unlocked`, `process_ends_unlocked`, `destroy_keeps_flags`.
#![forbid(unsafe_code)]

use crate::{
    clock::Clock,
    count::counts,
    record::identity::{Class, Kind},
    ring::Waits,
    state::{
        control::Control,
        links::Relations,
        mfa::Mfa,
        names::Names,
        registry::Registry,
        seq::Seq,
        session::Session,
        snapshot::Snapshot,
        suspended_calls::SuspendedCalls,
        thread::{Shared, Thread},
        tracee::Tracee,
    },
    sync::{
        current::Current,
        grace,
        mutants::mutant,
        section::{self, Section},
        AtomicBool, AtomicU32, AtomicU64, Mutex,
        Ordering::{AcqRel, Relaxed},
        Unpoisoned,
    },
};
use crossbeam_epoch::{Collector, LocalHandle};
#[cfg(not(loom))]
use std::cell::Cell;
use std::sync::Arc;

/// The living threads of a node, and the counters.
pub(crate) struct Threads {
    pub live: Vec<Arc<Shared>>,
    pub pool: counts::Pool,
    numbers: Vec<u16>,
    next: u16,
}

impl Threads {
    /// The sum of a counter's cells over the living threads.
    pub fn total(&self, counter: u32) -> u64 {
        self.live.iter().map(|t| t.counts.read(counter)).sum()
    }
}

/// One traced program.
pub struct Node {
    /// Its time.
    pub clock: Clock,
    /// Names of traced functions.
    pub names: Names,
    pub(crate) snapshot: Current<Snapshot>,
    pub(crate) control: Mutex<Control>,
    pub(crate) threads: Mutex<Threads>,
    pub(crate) suspended_calls: SuspendedCalls,
    /// Waiting coroutines, in sessions with a call tree, by address and counter.
    pub(crate) suspended: SuspendedCalls,
    collector: Collector,
    waits: Waits,
    pub(crate) registry: Mutex<Registry>,
    next_unique: AtomicU64,
    /// The number of sessions that request timestamps in CPU time.
    cpu_stamps: AtomicU32,
    control_word: AtomicU32,
    pub(crate) relations: Relations,
    pub(crate) seq: Seq,
    /// Whether the snapshot has any plan.
    pub(crate) has_plans: AtomicBool,
    /// One more than the largest index that a session has had.
    pub(crate) width: AtomicU32,
}

impl Node {
    /// A node without sessions.
    #[must_use]
    pub fn new(clock: Clock) -> Arc<Node> {
        Node::waiting_by(clock, |wait| wait())
    }

    /// As [`Node::new`]. A thread that must wait for a reader (`Overflow::Block`) calls `waits`.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn waiting_by(clock: Clock, waits: Waits) -> Arc<Node> {
        Arc::new(Node {
            waits,
            clock,
            names: Names::default(),
            snapshot: Current::new(Snapshot::empty()),
            control: Mutex::new(Control::default()),
            threads: Mutex::new(Threads {
                live: Vec::new(),
                pool: counts::Pool::default(),
                numbers: Vec::new(),
                next: 1,
            }),
            suspended_calls: SuspendedCalls::default(),
            suspended: SuspendedCalls::default(),
            collector: Collector::new(),
            registry: Mutex::new(Registry::default()),
            next_unique: AtomicU64::new(1),
            cpu_stamps: AtomicU32::new(0),
            control_word: AtomicU32::new(0),
            relations: Relations::default(),
            seq: Seq::default(),
            has_plans: AtomicBool::new(false),
            width: AtomicU32::new(0),
        })
    }

    /// A participant of this node's epochs, for a thread that reads plans or waits for grace periods.
    #[must_use]
    pub fn participant(&self) -> LocalHandle {
        self.collector.register()
    }

    /// A scheduler for the calling thread, whose own process is `own`.
    #[must_use]
    pub fn thread(&self, own: Arc<Tracee>) -> Thread {
        let mut threads = self.threads.lock().unpoisoned();
        let number = threads.numbers.pop().unwrap_or_else(|| {
            threads.next = threads.next.saturating_add(1);
            threads.next - 1
        });
        let shared = Arc::new(Shared { number, counts: counts::Counts::default(), section: Section::take() });
        threads.live.push(shared.clone());
        drop(threads);
        Thread::new(shared, own, self.waits)
    }

    /// Ends a scheduler. Its counts are folded, and its rings stay readable.
    pub fn end_thread(&self, thread: Thread) {
        self.forget_thread(&thread.shared);
    }

    pub(crate) fn forget_thread(&self, shared: &Arc<Shared>) {
        // locked throughout, so that a reader finds these counts in exactly one place
        let mut threads = self.threads.lock().unpoisoned();
        if let Some(at) = threads.live.iter().position(|t| Arc::ptr_eq(t, shared)) {
            threads.live.swap_remove(at);
            if mutant!("fold_unlocked") {
                drop(threads);
                threads = self.threads.lock().unpoisoned();
            }
            threads.pool.fold(&shared.counts);
            threads.numbers.push(shared.number);
        }
    }

    /// Adds a process. It gets the flags of new processes in each session.
    pub fn process(&self, kind: Kind, object: usize) -> Arc<Tracee> {
        self.registry.lock().unpoisoned().adopt(kind, object, None)
    }

    /// Adds a process that runs a tracer. Sessions find it, but it has no flags, and no event reports its beginning.
    /// Only other crates of the workspace use it.
    pub fn tracer_process(&self) -> Arc<Tracee> {
        self.registry.lock().unpoisoned().admit()
    }

    /// A process without flags that no session finds: for threads that don't belong to the program.
    /// Only other crates of the workspace use it.
    pub fn hidden(&self) -> Arc<Tracee> {
        let number = self.registry.lock().unpoisoned().number();
        Arc::new(Tracee::new(number << 2 | Kind::Thread as u64, Kind::Thread, 0))
    }

    /// Adds a process that `parent` starts. It inherits flags by `set_on_spawn` and `set_on_first_spawn`.
    /// Only other crates of the workspace use it.
    pub fn child(&self, kind: Kind, object: usize, parent: &Tracee) -> Arc<Tracee> {
        self.registry.lock().unpoisoned().adopt(kind, object, Some(parent))
    }

    /// A number for an object that is neither a process nor a port. No process or port of this node will have it.
    /// Only other crates of the workspace use it.
    pub fn unused_number(&self) -> u64 {
        self.registry.lock().unpoisoned().number()
    }

    /// Ends a process. `true` for the caller that ended it. An ended process may still make calls, such as the callbacks of a finished
    /// task. They count for it until [`Node::fold_counters`].
    pub fn end_process(&self, tracee: &Tracee) -> bool {
        let unlocked = mutant!("process_ends_unlocked").then(|| tracee.begin_end());
        let mut registry = self.registry.lock().unpoisoned();
        if !unlocked.unwrap_or_else(|| tracee.begin_end()) {
            return false;
        }
        if tracee.is_tracer() {
            drop(registry);
            self.lose_tracers(tracee); // before the process is dead: no flags of a dead tracer may be visible
            registry = self.registry.lock().unpoisoned();
        }
        tracee.end();
        let _dropped_outside_the_lock = registry.living.remove(&tracee.pid);
        let named = self.relations.are_used() && tracee.kind.is_process(); // the host calls `unrelate` for a port, which emits events
        drop(registry);
        if named {
            self.relations.forget_name(tracee.pid);
        }
        self.lose_tracers(tracee); // for sessions that began after the first check
        true
    }

    /// Folds the counters of a process that has ended and has no open call.
    /// Only other crates of the workspace use it.
    pub fn fold_counters(&self, tracee: &Tracee) {
        if tracee.is_counted() {
            self.sessions().iter().for_each(|s| s.arena.fold(tracee.pid, s.options.ended_processes));
        }
    }

    /// Removes an ending process as the tracer of all its sessions.
    /// Only other crates of the workspace use it.
    pub fn lose_tracers(&self, tracee: &Tracee) {
        if tracee.is_tracer() {
            let all = self.sessions();
            all.iter().filter(|s| s.tracer.load(Relaxed) == tracee.pid).for_each(|session| self.lose_tracer(session));
        }
    }

    /// Removes the tracer of a session, and all flags. Patterns stay (trace.md, `process/4`).
    /// Only other crates of the workspace use it.
    pub fn lose_tracer(&self, session: &Session) {
        let registry = self.registry.lock().unpoisoned();
        session.lose_tracer();
        registry.clear(session);
        drop(registry);
        self.ask_cpu_stamps(session, false);
    }

    /// Whether the flag `timestamp` gives CPU time now (trace.md, `process/4`, cpu_timestamp).
    #[inline(always)]
    #[must_use]
    pub fn stamps_cpu_time(&self) -> bool {
        self.cpu_stamps.load(Relaxed) != 0
    }

    /// Notes a session's request. CPU time is on for the whole node while any session requests it.
    pub(crate) fn ask_cpu_stamps(&self, session: &Session, how: bool) {
        match (session.ask_cpu_stamps(how), how) {
            (false, true) => drop(self.cpu_stamps.fetch_add(1, Relaxed)),
            (true, false) => drop(self.cpu_stamps.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// The living process with this pid.
    #[must_use]
    pub fn tracee(&self, pid: u64) -> Option<Arc<Tracee>> {
        self.registry.lock().unpoisoned().living.get(&pid).cloned()
    }

    /// Whether any function has a plan. A host need not report calls of functions without a plan.
    /// Only other crates of the workspace use it.
    #[inline(always)]
    #[must_use]
    pub fn traces_functions(&self) -> bool {
        self.has_plans.load(Relaxed)
    }

    /// The trace control word (trace.md: `get_tcw`).
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn control_word(&self) -> u32 {
        self.control_word.load(Relaxed)
    }

    /// Sets the trace control word. Answers the former one.
    /// Only other crates of the workspace use it.
    pub fn set_control_word(&self, word: u32) -> u32 {
        self.control_word.swap(word, AcqRel)
    }

    /// All living processes, in the order of their pids.
    #[must_use]
    pub fn processes(&self) -> Vec<Arc<Tracee>> {
        self.all(Kind::is_process)
    }

    /// All open ports, in the order of their numbers.
    #[must_use]
    pub fn ports(&self) -> Vec<Arc<Tracee>> {
        self.all(|kind| kind == Kind::Port)
    }

    fn all(&self, wanted: impl Fn(Kind) -> bool) -> Vec<Arc<Tracee>> {
        let registry = self.registry.lock().unpoisoned();
        let mut all: Vec<_> = registry.living.values().filter(|t| wanted(t.kind)).cloned().collect();
        drop(registry);
        all.sort_by_key(|t| t.pid);
        all
    }

    /// All living sessions, oldest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = self.read(|s| s.sessions().filter(|s| s.is_alive()).cloned().collect());
        all.sort_by_key(|s: &Arc<Session>| s.id);
        all
    }

    /// The living session with this id.
    #[must_use]
    pub fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.read(|s| s.sessions().find(|s| s.id == id && s.is_alive()).cloned())
    }

    /// Reads the current snapshot. For the control side; the hot path uses its section.
    pub fn read<R>(&self, with: impl FnOnce(&Snapshot) -> R) -> R {
        let local = self.reader();
        let read = {
            let guard = grace::pin(&local);
            with(self.snapshot.load(&guard))
        };
        keep_reader(local);
        read
    }

    /// The calling thread's participant. It is kept between readings, because thousands of processes may begin and end.
    fn reader(&self) -> LocalHandle {
        #[cfg(not(loom))]
        if let Ok(Some(known)) = READER.try_with(Cell::take) {
            if known.collector() == &self.collector {
                return known;
            }
        }
        self.collector.register()
    }

    /// Waits until every earlier section and every earlier reading of a snapshot has ended: see [`crate::sync::section`] and
    /// [`grace::wait`].
    pub fn grace(&self) -> grace::Passed {
        let sections: Vec<&'static Section> = self.threads.lock().unpoisoned().live.iter().map(|t| t.section).collect();
        section::wait(sections);
        grace::wait(&self.collector.register())
    }

    /// The name with this number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<Arc<Mfa>> {
        self.names.name(number)
    }

    /// A number larger than all before.
    pub fn unique(&self) -> u64 {
        self.next_unique.fetch_add(1, Relaxed)
    }
}

#[cfg(not(loom))]
thread_local! {
    static READER: Cell<Option<LocalHandle>> = const { Cell::new(None) };
}

/// Keeps a participant for the thread's next reading. Not under loom, whose threads are not real threads.
fn keep_reader(local: LocalHandle) {
    #[cfg(not(loom))]
    let _fails_at_the_threads_end = READER.try_with(|reader| reader.set(Some(local)));
    #[cfg(loom)]
    drop(local);
}

impl Drop for Node {
    /// Frees the retired snapshots that still wait for a grace period.
    fn drop(&mut self) {
        let passed = self.grace();
        if let Ok(control) = self.control.get_mut() {
            control.retired.drain(..).for_each(|retired| retired.free(&passed));
        }
    }
}

/// The processes or ports of a change of flags.
#[derive(Clone, Copy)]
pub enum Who<'a> {
    /// One process or port.
    One(&'a Tracee),
    /// Existing and new ones.
    All(Class),
    /// Existing ones.
    Existing(Class),
    /// New ones.
    New(Class),
}
