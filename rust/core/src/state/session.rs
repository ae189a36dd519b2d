//! A trace session: its settings, cells and rings.
//!
//! # Roles
//! The control side changes settings. Schedulers add rings. The drain takes records. The destroyer ends the session. Any thread reads.
//!
//! # States
//! Those of [`crate::state::life`].
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | rings | their mutex | their mutex | an added ring is closed at the session's end, or it is refused |
//! | unreported losses | the caller of `give_up`, `Relaxed` | the drain, `Relaxed` | no data depends on the number |
//! | flags of new processes | any, `AcqRel` | any, `Relaxed`, under the lock of the registry | the lock orders them; see [`crate::state::node`] |
//! | `tracer_lost` | the thread that ends the tracer, `Release` | any, `Acquire` | a reader of the loss sees the tracer's end |
//! | `asked_dump` | a traced thread, `AcqRel` swap | the recorder, `AcqRel` swap | the recorder's dump has the records from before the request |
//! | `cpu_stamps`, `seen_flags`, `seen_tokens` | the control side | any | hints and notes, no data depends on them |
//!
//! # Checked by
//! `models::life`, `models::node` (loom), mutants `closes_unlocked`, `destroy_keeps_flags`; the tests below.
#![forbid(unsafe_code)]

use crate::{
    clock::Counter,
    count::cells::{Arena, Reading},
    record::identity::{Class, Kind},
    ring::{Overflow, Ring},
    state::{
        feed::Feed,
        flags::Flags,
        gate::CallGate,
        life::Life,
        limits::Limits,
        setting::Setting,
        spilled::Spilled,
        tracer::Module,
        tree::{place_of, Tree},
    },
    sync::{
        mutants::mutant,
        Arc, AtomicU32, AtomicU64, AtomicU8, Mutex, OnceLock,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
        Unpoisoned,
    },
};
use inviso_match::Program;

/// Bounds and policies of a session, fixed at its creation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one scheduler's ring.
    pub ring_bytes: usize,
    /// The policy of a full ring.
    pub overflow: Overflow,
    /// How many ended processes have counters of their own. The counters of older ones are summed up.
    pub ended_processes: usize,
    /// How arguments are copied, with the limits.
    pub capture: Capture,
    /// The source of timestamps.
    pub clock: Stamps,
    /// See [`Session::is_inner`].
    pub is_inner: bool,
    /// A tracer module, which is called instead of writing to rings: see [`crate::state::tracer`].
    pub tracer: Option<Module>,
    /// Called at a request for a dump of the rings, once until [`Session::take_dump`]. It runs on a traced thread and must return soon.
    pub on_dump: Option<fn()>,
    /// The exceptions whose exception_from requests a dump.
    pub dump_on: Option<Exceptions>,
    /// The least number of nanoseconds of a call that requests a dump, for functions with call_latency.
    pub dump_slower: Option<u64>,
    /// The session whose flags the match specs of this session switch, if it is another one: the regular trace beside a meta trace.
    pub switched: Option<Switched>,
}

/// See [`Options::switched`].
#[derive(Clone)]
pub struct Switched(pub Arc<Session>);

impl std::fmt::Debug for Switched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session {}", self.0.id)
    }
}

/// How a session copies a call's arguments, with the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The largest number of nested containers.
    pub depth: u32,
    /// The largest number of items of one container.
    pub items: usize,
    /// The largest number of bytes of one str, bytes or int.
    pub bytes: usize,
    /// The largest number of bytes of all arguments of one call in the ring.
    pub total: usize,
    /// The form of the arguments.
    pub takes: Takes,
}

/// The form in which a session takes arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Copies. An object that can't be copied is represented by its type.
    Values,
    /// Copies. An object that can't be copied is represented by its type and by its text, which the program's own code creates.
    Texts,
    /// The objects, which the host keeps beside the ring.
    Objects,
}

/// The source of the timestamps of a session's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// The node's ticks.
    Ticks,
    /// The operating system's clocks, read at each event.
    System,
}

/// A selection of exceptions that leave calls.
#[derive(Clone, Debug)]
pub enum Exceptions {
    /// Exceptions whose class and value a match spec accepts.
    Matching(std::sync::Arc<Program>),
    /// Instances of these classes and of their subclasses, by the host's numbers.
    Of(Vec<usize>),
}

impl Default for Capture {
    fn default() -> Self {
        Capture { depth: 8, items: 100, bytes: 1024, total: 4096, takes: Takes::Values }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ring_bytes: 1 << 20,
            overflow: Overflow::Drop,
            ended_processes: 1024,
            capture: Capture::default(),
            clock: Stamps::Ticks,
            is_inner: false,
            tracer: None,
            on_dump: None,
            dump_on: None,
            dump_slower: None,
            switched: None,
        }
    }
}

/// The pid that stands for a tracer module; no process has it.
pub const MODULE: u64 = u64::MAX;

/// The rings of a session.
#[derive(Default)]
struct Feeds {
    now: Vec<Arc<Feed>>,
    /// Losses of rings that are gone, and records that were given up.
    lost: u64,
}

/// One session.
pub struct Session {
    /// Unique in a node.
    pub id: u64,
    /// Its place among the living sessions, which is reused after its end.
    pub index: u16,
    /// The name from its creation.
    pub name: Box<str>,
    /// The options from its creation.
    pub options: Options,
    /// Cells of call_time and call_memory.
    pub arena: Arena,
    /// The call tree, if these cells are measured by chains of callers. Set before the first pattern.
    pub tree: OnceLock<Tree>,
    /// Whether it is not a session of a user: it stands for the system tracer of sequential tracing.
    pub is_inner: bool,
    /// The pid of the tracer process; 0 if the session is its own tracer; [`MODULE`] for a tracer module. A session never traces its
    /// tracer process.
    pub tracer: AtomicU64,
    /// Locked by the running drain.
    pub(crate) draining: Mutex<Spilled>,
    counter: Counter,
    pub(crate) limits: Limits,
    pub(crate) calls: CallGate,
    pub(crate) tracer_errors: AtomicU64,
    life: Life,
    tracer_lost: AtomicU8,
    asked_dump: AtomicU8,
    cpu_stamps: AtomicU8,
    new_flags: [AtomicU32; 2],
    seen_flags: [AtomicU32; 2],
    seen_tokens: AtomicU8,
    feeds: Mutex<Feeds>,
    /// Lost records that the next drain reports: see [`Session::give_up`].
    untold: AtomicU64,
    on_load: Mutex<Option<Setting>>,
}

impl Session {
    /// A living session.
    #[must_use]
    pub fn new(id: u64, index: u16, name: &str, tracer: u64, options: Options) -> Self {
        Session {
            id,
            index,
            name: name.into(),
            is_inner: options.is_inner,
            arena: Arena::default(),
            tree: OnceLock::new(),
            tracer: AtomicU64::new(if options.tracer.is_some() { MODULE } else { tracer }),
            options,
            draining: Mutex::default(),
            counter: Counter::new(),
            limits: Limits::default(),
            calls: CallGate::default(),
            tracer_errors: AtomicU64::new(0),
            life: Life::new(),
            tracer_lost: AtomicU8::new(0),
            asked_dump: AtomicU8::new(0),
            cpu_stamps: AtomicU8::new(0),
            new_flags: [AtomicU32::new(0), AtomicU32::new(0)],
            seen_flags: [AtomicU32::new(0), AtomicU32::new(0)],
            seen_tokens: AtomicU8::new(0),
            feeds: Mutex::new(Feeds::default()),
            untold: AtomicU64::new(0),
            on_load: Mutex::new(None),
        }
    }

    /// Whether it may be used.
    #[inline(always)]
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.life.is_alive()
    }

    /// Begins its end. `true` for the one caller that has to do the rest.
    pub fn begin_end(&self) -> bool {
        self.life.begin_end()
    }

    /// Finishes its end: closes the rings. Committed records stay readable.
    pub fn finish_end(&self) {
        let mut feeds = self.feeds.lock().unpoisoned();
        for feed in &feeds.now {
            feed.ring.close();
        }
        if mutant!("closes_unlocked") {
            drop(feeds);
            feeds = self.feeds.lock().unpoisoned();
        }
        // still locked, so that a ring is either closed here or refused by `add_ring`
        self.life.finish_end();
        drop(feeds);
    }

    /// How often a callback of its tracer module failed: by a panic, or by an error that the host notes ([`Session::note_tracer_error`]).
    #[must_use]
    pub fn tracer_errors(&self) -> u64 {
        self.tracer_errors.load(Relaxed)
    }

    /// Counts a failure of its tracer module. Answers the number of earlier ones.
    /// Only other crates of the workspace use it.
    pub fn note_tracer_error(&self) -> u64 {
        self.tracer_errors.fetch_add(1, Relaxed)
    }

    /// Whether its tracer is present.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn has_tracer(&self) -> bool {
        self.tracer_lost.load(Acquire) == 0
    }

    /// Notes the end of the tracer: no flag is set any more, and none can be.
    /// Only other crates of the workspace use it.
    pub fn lose_tracer(&self) {
        self.tracer_lost.store(1, Release);
        self.new_flags.iter().for_each(|flags| flags.store(0, Release));
    }

    /// Requests a dump of the rings. Sets a flag, and calls `on_dump` if the flag was clear.
    #[cold]
    pub fn ask_dump(&self) {
        if let Some(on_dump) = self.options.on_dump {
            if self.asked_dump.swap(1, AcqRel) == 0 {
                on_dump();
            }
        }
    }

    /// Takes the request for a dump. Answers whether there was one.
    pub fn take_dump(&self) -> bool {
        self.asked_dump.swap(0, AcqRel) != 0
    }

    /// Whether a dump is requested. `on_dump` is not called again until [`Session::take_dump`].
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn is_dump_asked(&self) -> bool {
        self.asked_dump.load(Acquire) != 0
    }

    /// Notes whether the session requests timestamps in CPU time. Answers the former note.
    pub(crate) fn ask_cpu_stamps(&self, how: bool) -> bool {
        self.cpu_stamps.swap(u8::from(how), AcqRel) != 0
    }

    /// The flags of new processes or new ports. Queues get none.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn new_flags(&self, kind: Kind) -> Flags {
        match kind {
            Kind::Thread | Kind::Task => Flags(self.new_flags[Class::Process as usize].load(Relaxed)),
            Kind::Port => Flags(self.new_flags[Class::Port as usize].load(Relaxed)),
            Kind::Queue => Flags::NONE,
        }
    }

    /// Changes the flags of new processes or new ports. Ignores flags of the other class. Switching any flag off switches all off: gold
    /// case te-info-new-ports.
    pub fn change_new_flags(&self, class: Class, how: bool, flags: Flags) {
        let word = &self.new_flags[class as usize];
        if how {
            word.fetch_or(flags.of(class).0, AcqRel);
        } else if flags != Flags::NONE {
            word.store(0, Release);
        }
    }

    /// Notes that these flags are switched on somewhere. Answers the flags that were never noted before.
    /// Only other crates of the workspace use it.
    pub fn note_flags(&self, class: Class, flags: Flags) -> Flags {
        Flags(flags.0 & !self.seen_flags[class as usize].fetch_or(flags.0, AcqRel))
    }

    /// Undoes [`Session::note_flags`] after a change that failed.
    /// Only other crates of the workspace use it.
    pub fn forget_flags(&self, class: Class, flags: Flags) {
        self.seen_flags[class as usize].fetch_and(!flags.0, AcqRel);
    }

    /// The flags that were ever switched on for a process or for a port.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn seen_flags(&self, class: Class) -> Flags {
        Flags(self.seen_flags[class as usize].load(Acquire))
    }

    /// Whether `return_to` was ever switched on for a process.
    #[must_use]
    pub fn wants_return_to(&self) -> bool {
        self.seen_flags(Class::Process).has(Flags::RETURN_TO)
    }

    /// Notes that a match spec may set tokens of sequential tracing. Answers whether that is new.
    /// Only other crates of the workspace use it.
    pub fn note_tokens(&self) -> bool {
        self.seen_tokens.swap(1, AcqRel) == 0
    }

    /// Undoes [`Session::note_tokens`] after a change that failed.
    /// Only other crates of the workspace use it.
    pub fn forget_tokens(&self) {
        self.seen_tokens.store(0, Release);
    }

    /// Whether [`Session::note_tokens`] was called: a hint.
    pub(crate) fn has_seen_tokens(&self) -> bool {
        self.seen_tokens.load(Acquire) != 0
    }

    /// The setting of functions that are created later.
    #[must_use]
    pub fn on_load(&self) -> Option<Setting> {
        self.on_load.lock().unpoisoned().clone()
    }

    /// Changes the setting of functions that are created later.
    pub fn set_on_load(&self, setting: Option<Setting>) {
        *self.on_load.lock().unpoisoned() = setting.filter(|setting| setting.has != 0);
    }

    /// Calls `take` for all readings, with the keys of functions. With a call tree there may be several readings of one process and key.
    /// Only other crates of the workspace use it.
    pub fn each_function(&self, mut take: impl FnMut(Reading)) {
        let Some(tree) = self.tree.get() else { return self.arena.each(take) };
        let mut readings = Vec::new();
        self.arena.each(|reading| readings.push(reading));
        let places = tree.places();
        for reading in readings {
            if let Some(place) = places.get(place_of(reading.key) as usize) {
                take(Reading { key: place.slot << 1 | reading.key & 1, ..reading });
            }
        }
    }

    /// The present time, in the ticks of its records; read before the rings that a drain then reads.
    pub(crate) fn ticks(&self) -> u64 {
        self.counter.read_before_loads()
    }

    /// Adds a scheduler's ring. `false` if the session has ended.
    pub fn add_ring(&self, ring: Arc<Ring>) -> bool {
        let mut feeds = self.feeds.lock().unpoisoned();
        if self.life.is_dead() {
            return false;
        }
        feeds.now.push(Arc::new(Feed::new(ring)));
        true
    }

    /// Its rings, with their delivered positions.
    #[must_use]
    pub fn feeds(&self) -> Vec<Arc<Feed>> {
        self.feeds.lock().unpoisoned().now.clone()
    }

    /// Drops rings whose scheduler has ended and that are read to their end.
    pub(crate) fn forget_ended_rings(&self) {
        let mut feeds = self.feeds.lock().unpoisoned();
        let Feeds { now, lost } = &mut *feeds;
        now.retain(|feed| {
            let done = feed.ring.is_ended() && feed.ring.tail() == feed.ring.head();
            if done {
                *lost += feed.ring.lost();
            }
            !done
        });
    }

    /// Counts records that a drain has handed over and that the consumer could not keep. The next drain first reports `untold`: the losses
    /// that are not reported yet, including those that the drain handed over.
    /// Only other crates of the workspace use it.
    pub fn give_up(&self, lost: u64, untold: u64) {
        self.feeds.lock().unpoisoned().lost += lost;
        self.untold.fetch_add(untold, Relaxed);
    }

    /// Takes the number of lost records to report.
    pub(crate) fn take_untold(&self) -> u64 {
        self.untold.swap(0, Relaxed)
    }

    /// Records lost so far.
    pub(crate) fn lost(&self) -> u64 {
        let feeds = self.feeds.lock().unpoisoned();
        feeds.lost + feeds.now.iter().map(|feed| feed.ring.lost()).sum::<u64>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::{Producer, Pushed};

    fn session() -> Session {
        Session::new(1, 0, "", 0, Options::default())
    }

    #[test]
    fn flags_are_noted_once_and_by_class() {
        let session = session();
        let [process, port] = [Class::Process, Class::Port];
        let (call, send) = (Flags::CALL, Flags::SEND);
        assert_eq!(session.note_flags(process, call), call);
        assert_eq!(session.note_flags(process, call | send), send);
        assert_eq!(session.note_flags(port, call), call);
        assert_eq!((session.seen_flags(process), session.seen_flags(port)), (call | send, call));
        session.forget_flags(process, call);
        assert_eq!((session.seen_flags(process), session.seen_flags(port)), (send, call));
        assert_eq!(session.note_flags(process, call | send), call);
        session.note_flags(port, Flags::RETURN_TO);
        assert!(!session.wants_return_to());
        session.note_flags(process, Flags::RETURN_TO);
        assert!(session.wants_return_to());
    }

    #[test]
    fn new_flags_are_those_of_their_class() {
        let session = session();
        let flags = || [Kind::Thread, Kind::Task, Kind::Port, Kind::Queue].map(|kind| session.new_flags(kind));
        session.change_new_flags(Class::Process, true, Flags::CALL);
        session.change_new_flags(Class::Process, true, Flags::SEND);
        session.change_new_flags(Class::Port, true, Flags::SEND);
        let (both, send, none) = (Flags::CALL | Flags::SEND, Flags::SEND, Flags::NONE);
        assert_eq!(flags(), [both, both, send, none]);
        session.change_new_flags(Class::Process, false, Flags::NONE);
        assert_eq!(flags(), [both, both, send, none]);
        session.change_new_flags(Class::Process, false, Flags::SEND);
        assert_eq!(flags(), [none, none, send, none]);
        session.change_new_flags(Class::Process, true, Flags::CALL);
        assert!(session.has_tracer());
        session.lose_tracer();
        assert_eq!((session.has_tracer(), flags()), (false, [none; 4]));
    }

    #[test]
    fn what_is_noted_is_told_once() {
        let session = session();
        assert!(!session.has_seen_tokens());
        assert_eq!([session.note_tokens(), session.note_tokens(), session.has_seen_tokens()], [true, false, true]);
        session.forget_tokens();
        assert_eq!([session.has_seen_tokens(), session.note_tokens()], [false, true]);
        let asked = [true, true, false, false].map(|how| session.ask_cpu_stamps(how));
        assert_eq!(asked, [false, true, true, false]);
        assert_eq!([(), (), ()].map(|()| session.note_tracer_error()), [0, 1, 2]);
        assert_eq!(session.tracer_errors(), 3);
    }

    #[test]
    fn the_bell_rings_until_somebody_comes_once() {
        static RUNG: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let rung = || RUNG.load(Relaxed);
        let on_dump: fn() = || {
            RUNG.fetch_add(1, Relaxed);
        };
        let session = Session::new(1, 0, "", 0, Options { on_dump: Some(on_dump), ..Options::default() });
        assert!(!session.is_dump_asked() && !session.take_dump());
        session.ask_dump();
        session.ask_dump();
        assert_eq!((rung(), session.is_dump_asked()), (1, true));
        assert_eq!([session.take_dump(), session.take_dump(), session.is_dump_asked()], [true, false, false]);
        session.ask_dump();
        assert_eq!(rung(), 2);
        let deaf = self::session();
        deaf.ask_dump();
        assert!(!deaf.is_dump_asked());
    }

    #[test]
    fn what_sets_nothing_is_not_set_on_later_code() {
        let session = session();
        let setting = |has| Setting { has, ..Setting::default() };
        assert!(session.on_load().is_none());
        session.set_on_load(Some(setting(4)));
        assert_eq!(session.on_load().map(|setting| setting.has), Some(4));
        session.set_on_load(Some(setting(0)));
        assert!(session.on_load().is_none());
    }

    #[test]
    fn a_session_ends_once_and_takes_no_ring_then() {
        let session = session();
        let (mut producer, ring) = Ring::split(0, Overflow::Drop);
        assert!(session.is_alive() && session.add_ring(ring.clone()));
        assert_eq!([session.begin_end(), session.begin_end(), session.is_alive()], [true, false, false]);
        assert!(session.add_ring(Ring::split(0, Overflow::Drop).1), "not before its end is done");
        session.finish_end();
        assert!(ring.is_closed() && !session.add_ring(Ring::split(0, Overflow::Drop).1));
        assert_eq!((session.feeds().len(), producer.push([0; 4], &[])), (2, Pushed::Closed));
    }

    #[test]
    fn losses_are_counted_beyond_the_end_of_their_ring() {
        let session = session();
        let ring = |lost: usize, stored: usize| -> (Producer, Arc<Ring>) {
            let (mut producer, ring) = Ring::split(0, Overflow::Drop);
            assert!(session.add_ring(ring.clone()));
            (0..stored).for_each(|_| assert_eq!(producer.push([0; 4], &[]), Pushed::Stored));
            (0..lost).for_each(|_| assert_eq!(producer.push([0; 4], &[0; 1 << 16]), Pushed::Lost));
            (producer, ring)
        };
        let left = || session.feeds().iter().map(|feed| feed.ring.lost()).collect::<Vec<_>>();
        // two rings have ended and are read, one has ended and is not read, one is open
        let (ends, [read, other, unread, goes_on]) = {
            let (all, rings): (Vec<_>, Vec<_>) =
                [(2, 0), (3, 1), (5, 1), (7, 0)].map(|(l, s)| ring(l, s)).into_iter().unzip();
            (all, <[_; 4]>::try_from(rings).unwrap_or_else(|_| unreachable!()))
        };
        let mut ends = ends.into_iter();
        (0..3).for_each(|_| drop(ends.next()));
        for ring in [read, other, goes_on] {
            ring.drain(usize::MAX, |_| std::ops::ControlFlow::Continue(())).unwrap();
        }
        assert_eq!(session.lost(), 17);
        session.forget_ended_rings();
        assert_eq!((left(), session.lost(), unread.tail()), (vec![5, 7], 17, 0));
        session.forget_ended_rings();
        session.give_up(3, 2);
        session.give_up(4, 1);
        assert_eq!([session.lost(), session.take_untold(), session.take_untold()], [24, 3, 0]);
    }
}
