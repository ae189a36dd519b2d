//! A node: one program that is traced. Holds what all sessions share; everything else hangs off a session, a
//! process or a thread.
#![forbid(unsafe_code)]

use crate::{
    clock::{
        order::{LastTurn, Order},
        Clock,
    },
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

pub(crate) struct Threads {
    pub live: Vec<Arc<Shared>>,
    pub pool: counts::Pool,
    numbers: Vec<u16>,
    next: u16,
}

impl Threads {
    pub fn total(&self, counter: u32) -> u64 {
        self.live.iter().map(|t| t.counts.read(counter)).sum()
    }
}

/// One traced program.
pub struct Node {
    /// Its time.
    pub clock: Clock,
    /// The order of its records.
    pub order: Order,
    /// Names of traced functions.
    pub names: Names,
    pub(crate) snapshot: Current<Snapshot>,
    pub(crate) control: Mutex<Control>,
    pub(crate) threads: Mutex<Threads>,
    pub(crate) suspended_calls: SuspendedCalls,
    /// Coroutines that wait, in sessions with a call tree, by address and counter.
    pub(crate) suspended: SuspendedCalls,
    collector: Collector,
    waits: Waits,
    pub(crate) registry: Mutex<Registry>,
    next_unique: AtomicU64,
    /// Sessions that ask for stamps in CPU time.
    cpu_stamps: AtomicU32,
    control_word: AtomicU32,
    pub(crate) relations: Relations,
    pub(crate) seq: Seq,
    /// Whether the snapshot has any plan.
    pub(crate) has_plans: AtomicBool,
    /// How many indices sessions have had.
    pub(crate) width: AtomicU32,
}

impl Node {
    /// A node in which nothing is traced.
    #[must_use]
    pub fn new(clock: Clock) -> Arc<Node> {
        Node::waiting_by(clock, |wait| wait())
    }

    /// As [`Node::new`]; a thread that has to wait for a reader (`Overflow::Block`) does it by `waits`.
    #[must_use]
    pub fn waiting_by(clock: Clock, waits: Waits) -> Arc<Node> {
        Arc::new(Node {
            waits,
            clock,
            order: Order::default(),
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

    /// Ticks of a record that a thread writes now.
    #[inline(always)]
    pub(crate) fn moment(&self, turn: &mut LastTurn) -> u64 {
        self.order.moment(|| self.clock.ticks(), turn)
    }

    /// When this thread sends something beside its records now, in their order.
    pub fn now(&self, thread: &mut crate::state::thread::Thread) -> u64 {
        self.moment(&mut thread.turn)
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

    /// Ends a scheduler: its counts are taken over, its rings stay readable.
    pub fn end_thread(&self, thread: Thread) {
        self.forget_thread(&thread.shared);
    }

    pub(crate) fn forget_thread(&self, shared: &Arc<Shared>) {
        // locked throughout, so that a reader finds these counts in one place and not in both or neither
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

    /// A new process, with the flags that new processes get in each session.
    pub fn process(&self, kind: Kind, object: usize) -> Arc<Tracee> {
        self.registry.lock().unpoisoned().adopt(kind, object, None)
    }

    /// A process that runs a tracer: sessions find it, but it is none of those that are new to them, as no beginning of it is told.
    pub fn tracer_process(&self) -> Arc<Tracee> {
        self.registry.lock().unpoisoned().admit()
    }

    /// A process that no session finds and that has no flags: for threads that are not the program's.
    pub fn hidden(&self) -> Arc<Tracee> {
        let number = self.registry.lock().unpoisoned().number();
        Arc::new(Tracee::new(number << 2 | Kind::Thread as u64, Kind::Thread, 0))
    }

    /// A new process started by `parent`: it inherits as `set_on_spawn` and `set_on_first_spawn` say.
    pub fn child(&self, kind: Kind, object: usize, parent: &Tracee) -> Arc<Tracee> {
        self.registry.lock().unpoisoned().adopt(kind, object, Some(parent))
    }

    /// A number that no process or port of this node has or will have, for something that is neither.
    pub fn unused_number(&self) -> u64 {
        self.registry.lock().unpoisoned().number()
    }

    /// The process has ended. `true` for the caller who ended it. A process that has ended may still make calls (a task that is done calls
    /// its callbacks): they count for it until [`Node::fold_counters`].
    pub fn end_process(&self, tracee: &Tracee) -> bool {
        let unlocked = mutant!("process_ends_unlocked").then(|| tracee.begin_end());
        let mut registry = self.registry.lock().unpoisoned();
        if !unlocked.unwrap_or_else(|| tracee.begin_end()) {
            return false;
        }
        if tracee.is_tracer() {
            drop(registry);
            self.lose_tracers(tracee); // before it counts as dead: a dead tracer must have no flags
            registry = self.registry.lock().unpoisoned();
        }
        tracee.end();
        let _let_go_of_outside_the_lock = registry.living.remove(&tracee.pid);
        let named = self.relations.are_used() && tracee.kind.is_process(); // a port's host unrelates it, and tells of that
        drop(registry);
        if named {
            self.relations.forget_name(tracee.pid);
        }
        self.lose_tracers(tracee); // of sessions that began between the first look and its end
        true
    }

    /// The process has ended, and no call goes on in it: its counters are kept apart or summed up.
    pub fn fold_counters(&self, tracee: &Tracee) {
        if tracee.is_counted() {
            self.sessions().iter().for_each(|s| s.arena.fold(tracee.pid, s.options.ended_processes));
        }
    }

    /// A process is about to be known as ended: the sessions whose tracer it is have none.
    pub fn lose_tracers(&self, tracee: &Tracee) {
        if tracee.is_tracer() {
            let all = self.sessions();
            all.iter().filter(|s| s.tracer.load(Relaxed) == tracee.pid).for_each(|session| self.lose_tracer(session));
        }
    }

    /// The session's tracer has ended and takes the flags with it; patterns stay (trace.md, `process/4`).
    pub fn lose_tracer(&self, session: &Session) {
        let registry = self.registry.lock().unpoisoned();
        session.lose_tracer();
        registry.clear(session);
        drop(registry);
        self.ask_cpu_stamps(session, false);
    }

    /// Whether time stamps under `timestamp` are CPU time now (trace.md, `process/4`, cpu_timestamp).
    #[inline(always)]
    #[must_use]
    pub fn stamps_cpu_time(&self) -> bool {
        self.cpu_stamps.load(Relaxed) != 0
    }

    /// The flag is the whole node's, and on while any session asks for it.
    pub(crate) fn ask_cpu_stamps(&self, session: &Session, how: bool) {
        match (session.ask_cpu_stamps(how), how) {
            (false, true) => drop(self.cpu_stamps.fetch_add(1, Relaxed)),
            (true, false) => drop(self.cpu_stamps.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// The living process of a pid.
    #[must_use]
    pub fn tracee(&self, pid: u64) -> Option<Arc<Tracee>> {
        self.registry.lock().unpoisoned().living.get(&pid).cloned()
    }

    /// Whether any function has a plan; a host may leave out calls of those that have none.
    #[inline(always)]
    #[must_use]
    pub fn traces_functions(&self) -> bool {
        self.has_plans.load(Relaxed)
    }

    /// The trace control word (trace.md: `get_tcw`).
    #[must_use]
    pub fn control_word(&self) -> u32 {
        self.control_word.load(Relaxed)
    }

    /// Sets the trace control word; answers what it was.
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

    /// Reads the current snapshot. For the control side: the hot path pins with its own participant.
    pub fn read<R>(&self, with: impl FnOnce(&Snapshot) -> R) -> R {
        let local = self.reader();
        let read = {
            let guard = grace::pin(&local);
            with(self.snapshot.load(&guard))
        };
        keep_reader(local);
        read
    }

    /// The calling thread's participant, which is kept from one reading to the next: processes come and go by the thousand.
    fn reader(&self) -> LocalHandle {
        #[cfg(not(loom))]
        if let Ok(Some(known)) = READER.try_with(Cell::take) {
            if known.collector() == &self.collector {
                return known;
            }
        }
        self.collector.register()
    }

    /// Waits until every event that began before has ended, and every look at a snapshot: see [`crate::sync::section`] and
    /// [`grace::wait`].
    pub fn grace(&self) -> grace::Passed {
        let sections: Vec<&'static Section> = self.threads.lock().unpoisoned().live.iter().map(|t| t.section).collect();
        section::wait(sections);
        grace::wait(&self.collector.register())
    }

    /// The function of a name number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<Arc<Mfa>> {
        self.names.name(number)
    }

    /// A number larger than any it gave before.
    pub fn unique(&self) -> u64 {
        self.next_unique.fetch_add(1, Relaxed)
    }
}

#[cfg(not(loom))]
thread_local! {
    static READER: Cell<Option<LocalHandle>> = const { Cell::new(None) };
}

/// Keeps a participant for the thread's next reading. Not under loom, whose threads are no threads.
fn keep_reader(local: LocalHandle) {
    #[cfg(not(loom))]
    let _at_the_threads_end = READER.try_with(|reader| reader.set(Some(local)));
    #[cfg(loom)]
    drop(local);
}

impl Drop for Node {
    /// Frees the snapshots that were swapped out without waiting for a grace period.
    fn drop(&mut self) {
        let passed = self.grace();
        if let Ok(control) = self.control.get_mut() {
            control.retired.drain(..).for_each(|retired| retired.free(&passed));
        }
    }
}

/// Which processes or ports a change of flags is for.
#[derive(Clone, Copy)]
pub enum Who<'a> {
    /// One process or port.
    One(&'a Tracee),
    /// Those that exist and those to come.
    All(Class),
    /// Those that exist.
    Existing(Class),
    /// Those to come.
    New(Class),
}
