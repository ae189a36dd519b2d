//! A traced process: identity, trace flags by session, and the index of its cells.
//!
//! # Roles
//! The thread that runs the process finds cells and adds them to the index. The control side and the process itself change flags. Any
//! thread reads flags.
//!
//! # States
//! | `ended` | meaning | left by |
//! | --- | --- | --- |
//! | LIVES | it runs | `begin_end`, under the lock of the registry |
//! | ENDS | its end is being processed | the same caller |
//! | ENDED | its sessions have lost it as a tracer | never |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | flags | any, read-modify-write `AcqRel` | running thread, `Relaxed` | a flag is a request for later events; no data depends on it |
//! | index | running thread, `Relaxed` | running thread | the only reader is the only writer |
//! | object | host, `Release` | host, `Acquire` | 0 means that the address may belong to another object now |
//! | ended | the thread that ends it, `Release` | any, `Acquire` | a reader of ENDED sees that its sessions have lost it |
//!
//! # Checked by
//! `models::life`, `models::node` (loom), mutants `first_spawn_split`, `process_ends_unlocked`; the tests below.
#![forbid(unsafe_code)]

use crate::{
    count::cells::{Arena, NONE},
    state::flags::Flags,
    sync::{
        mutants::mutant,
        segments::Segments,
        AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};
use std::{any::Any, sync::OnceLock};

pub use crate::record::identity::{Class, Kind};

/// A process's flags and block of cells in one session.
#[derive(Default)]
struct Membership {
    flags: AtomicU32,
    /// The session of the block of `next` and `end`.
    session: AtomicU32,
    next: AtomicU32,
    end: AtomicU32,
}

/// Segments of a process's memberships.
const PARTS: usize = if cfg!(loom) { 1 } else { 8 };

type Memberships = Segments<Membership, 4, PARTS>;

/// The largest number of sessions at one time.
pub const MAX_SESSIONS: usize = Segments::<Membership, 4, 8>::capacity();

/// The states of a process, see States.
const LIVES: u32 = 0;
const ENDS: u32 = 1;
const ENDED: u32 = 2;

/// How many sessions have their flags in the process itself, where one load reads them.
const FIRST_FLAGS: usize = 4;

/// A process. The fields that a call needs are first, so that they are in few cache lines. A program may have many thousands of
/// processes, and a switch often goes to one that has been idle.
#[repr(C)]
pub struct Tracee {
    /// Its number, unique in a node.
    pub pid: u64,
    /// The address of the host's object; 0 when it is gone.
    pub object: AtomicUsize,
    /// Flags in the sessions with the lowest indices. Mostly there are no others.
    first_flags: [AtomicU32; FIRST_FLAGS],
    index: Index,
    /// Created with the first cell, or with the first flags in a session of a higher index.
    memberships: crate::sync::OnceLock<Box<Memberships>>,
    ended: AtomicU32,
    /// Whether it is some session's tracer, or was: 0 or 1.
    tracer: AtomicU32,
    /// Whether its host has reported that it runs: 0 or 1.
    pub is_in: AtomicU32,
    /// Its kind.
    pub kind: Kind,
    /// Its token of sequential tracing, if it has one.
    pub(crate) seq: super::token::TokenSlot,
    /// The host's own data of the process.
    pub host: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Tracee {
    /// A new process.
    #[must_use]
    pub fn new(pid: u64, kind: Kind, object: usize) -> Self {
        Tracee {
            pid,
            kind,
            object: AtomicUsize::new(object),
            ended: AtomicU32::new(LIVES),
            tracer: AtomicU32::new(0),
            is_in: AtomicU32::new(0),
            first_flags: std::array::from_fn(|_| AtomicU32::new(0)),
            memberships: crate::sync::OnceLock::new(),
            index: Index::default(),
            seq: super::token::TokenSlot::default(),
            host: OnceLock::new(),
        }
    }

    /// Whether the process has not ended yet.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.ended.load(Acquire) != ENDED
    }

    /// Begins the end of the process. `true` for the one caller that began it. That caller calls [`Tracee::end`] after the sessions have
    /// lost the process. Call it under the lock of the registry, which admits one at a time.
    pub(crate) fn begin_end(&self) -> bool {
        self.object.store(0, Release);
        let lives = self.ended.load(Relaxed) == LIVES;
        if lives {
            self.ended.store(ENDS, Release);
        }
        lives
    }

    /// Marks the process as ended. A thread that sees it ended also sees that its sessions have lost it.
    pub(crate) fn end(&self) {
        self.ended.store(ENDED, Release);
    }

    /// Notes whether it runs. Answers the former note. Only the thread that runs it may call this.
    /// Only other crates of the workspace use it.
    pub fn set_in(&self, how: bool) -> bool {
        let was = self.is_in.load(Relaxed) != 0;
        self.is_in.store(u32::from(how), Release);
        was
    }

    /// Notes that it will be the tracer of a session.
    pub fn note_tracer(&self) {
        self.tracer.store(1, Release);
    }

    /// Whether it has a cell in a session.
    pub(crate) fn is_counted(&self) -> bool {
        self.index.used.load(Relaxed) != 0
    }

    /// Whether it is some session's tracer, or was.
    pub(crate) fn is_tracer(&self) -> bool {
        self.tracer.load(Acquire) != 0
    }

    /// Its flags in the session with this index.
    #[inline(always)]
    #[must_use]
    pub fn flags(&self, session: u16) -> Flags {
        match self.first_flags.get(session as usize) {
            Some(word) => Flags(word.load(Relaxed)),
            None => self.flags_after_first(session),
        }
    }

    #[cold]
    #[inline(never)]
    fn flags_after_first(&self, session: u16) -> Flags {
        let membership = self.memberships.get().and_then(|all| all.get(session as usize));
        Flags(membership.map_or(0, |m| m.flags.load(Relaxed)))
    }

    fn flag_word(&self, session: u16) -> &AtomicU32 {
        self.first_flags.get(session as usize).unwrap_or_else(|| &self.membership(session).flags)
    }

    fn membership(&self, session: u16) -> &Membership {
        self.memberships.get_or_init(Box::default).at(session as usize)
    }

    /// Switches flags on or off. Answers the former flags.
    pub fn change(&self, session: u16, how: bool, flags: Flags) -> Flags {
        let word = self.flag_word(session);
        Flags(if how { word.fetch_or(flags.0, AcqRel) } else { word.fetch_and(!flags.0, AcqRel) })
    }

    /// Switches [`Flags::SILENT`] on or off if the process has any flag. The spec of a meta pattern also runs in processes without flags,
    /// and they get none.
    /// Only other crates of the workspace use it.
    pub fn silence(&self, session: u16, how: bool) {
        if self.flags(session) == Flags::NONE {
            return;
        }
        let silent = Flags::SILENT.0;
        let change = |own| (own != 0).then_some(if how { own | silent } else { own & !silent });
        let _fails_without_flags = self.flag_word(session).fetch_update(AcqRel, Acquire, change);
    }

    /// Replaces the flags.
    pub fn set(&self, session: u16, flags: Flags) {
        if flags != Flags::NONE || self.flags(session) != Flags::NONE {
            self.flag_word(session).store(flags.0, Release);
        }
    }

    /// The flags that a child inherits now. `None` if it gets those of new processes.
    ///
    /// Exactly one child inherits by `set_on_first_spawn`. That clears the flag and `set_on_spawn` in both processes.
    pub fn inherit(&self, session: u16) -> Option<Flags> {
        let seen = self.flags(session);
        let pair = Flags::SET_ON_SPAWN | Flags::SET_ON_FIRST_SPAWN;
        if seen.has(Flags::SET_ON_FIRST_SPAWN) {
            let was = take_first(self.flag_word(session), pair.0);
            if was & Flags::SET_ON_FIRST_SPAWN.0 != 0 {
                return Some(Flags(was & !pair.0));
            }
            return None;
        }
        seen.has(Flags::SET_ON_SPAWN).then_some(seen)
    }

    /// `from` links itself to this process. If `from` hands its flags on by links, this process adds them to its own. They replace `new`,
    /// the flags that a process that is being started has because new ones get them.
    ///
    /// Exactly one process inherits by `set_on_first_link`. That clears the flag and `set_on_link` in both processes.
    pub fn inherit_by_link(&self, session: u16, from: &Tracee, new: Flags) {
        let seen = from.flags(session);
        let pair = Flags::SET_ON_LINK | Flags::SET_ON_FIRST_LINK;
        let (handed, by, cleared) = if seen.has(Flags::SET_ON_FIRST_LINK) {
            (Flags(take_first(from.flag_word(session), pair.0)), Flags::SET_ON_FIRST_LINK, pair)
        } else {
            (seen, Flags::SET_ON_LINK, Flags::NONE)
        };
        if !handed.has(by) {
            return; // it has no such flag, or another process was the first
        }
        let get = |own| Some((if own == new.0 { 0 } else { own } | handed.0) & !cleared.0);
        let _never_fails = self.flag_word(session).fetch_update(AcqRel, Acquire, get);
    }

    /// The process's cell for `key` in a session. Takes a cell if there is none.
    #[inline(always)]
    pub fn cell(&self, session: u16, id: u32, key: u32, arena: &Arena, live: impl Fn(u32) -> bool) -> u32 {
        let full = u64::from(id) << 32 | u64::from(key);
        match self.index.find(full) {
            NONE => self.new_cell(session, id, full, arena, &live),
            n => n,
        }
    }

    /// The process's cell for `key` in a session, or [`NONE`].
    #[inline(always)]
    pub fn known_cell(&self, id: u32, key: u32) -> u32 {
        self.index.find(u64::from(id) << 32 | u64::from(key))
    }

    #[cold]
    #[inline(never)]
    fn new_cell(&self, session: u16, id: u32, full: u64, arena: &Arena, live: &dyn Fn(u32) -> bool) -> u32 {
        let m = self.membership(session);
        if m.session.load(Relaxed) != id || m.next.load(Relaxed) == m.end.load(Relaxed) {
            let block = arena.block(self.pid);
            m.session.store(id, Relaxed);
            m.next.store(block.start, Relaxed);
            m.end.store(block.start + block.len, Relaxed);
        }
        let n = m.next.load(Relaxed);
        m.next.store(n + 1, Relaxed);
        arena.assign(n, full as u32);
        self.index.insert(full, n, live);
        n
    }
}

/// Clears `bits` and answers the former word, in one step, so that only one child is the first.
fn take_first(word: &AtomicU32, bits: u32) -> u32 {
    if mutant!("first_spawn_split") {
        let was = word.load(Acquire);
        word.store(was & !bits, Release);
        return was;
    }
    word.fetch_and(!bits, AcqRel)
}

/// The number of sizes of an index, from 16 places to 4 million. Each is four times the one before.
const LEVELS: usize = 10;

/// The index of a process's cells: an open-addressed table from (session id, key) to cell number, at most three quarters full: with
/// thousands of tasks, small tables count for more than short searches. Only the thread that runs the process uses it. Atomics make that
/// safe without a lock.
#[derive(Default)]
#[repr(C)]
struct Index {
    level: AtomicU32,
    used: AtomicU32,
    levels: [OnceLock<Box<[Pair]>>; LEVELS],
}

#[derive(Default)]
struct Pair {
    key: AtomicU64,
    cell: AtomicU32,
}

impl Index {
    #[inline(always)]
    fn start(full: u64, len: usize) -> usize {
        (full.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (len - 1)
    }

    #[inline(always)]
    fn find(&self, full: u64) -> u32 {
        let Some(table) = self.levels.get(self.level.load(Relaxed) as usize).and_then(OnceLock::get) else {
            return NONE;
        };
        let mut at = Self::start(full, table.len());
        loop {
            let key = table[at].key.load(Relaxed);
            if key == full {
                return table[at].cell.load(Relaxed);
            }
            if key == 0 {
                return NONE;
            }
            at = (at + 1) & (table.len() - 1);
        }
    }

    fn insert(&self, full: u64, cell: u32, live: &dyn Fn(u32) -> bool) {
        let mut level = self.level.load(Relaxed) as usize;
        let mut table = self.table(level);
        if (self.used.load(Relaxed) as usize + 1) * 4 > table.len() * 3 {
            let kept: Vec<(u64, u32)> = table
                .iter()
                .map(|p| (p.key.load(Relaxed), p.cell.load(Relaxed)))
                .filter(|(k, _)| *k != 0 && live((k >> 32) as u32))
                .collect();
            if (kept.len() + 1) * 2 > table.len() && level < LEVELS - 1 {
                level += 1;
                table = self.table(level);
            }
            table.iter().for_each(|p| p.key.store(0, Relaxed));
            kept.iter().for_each(|(k, c)| Self::put(table, *k, *c));
            self.level.store(level as u32, Relaxed);
            self.used.store(kept.len() as u32, Relaxed);
        }
        Self::put(table, full, cell);
        self.used.store(self.used.load(Relaxed) + 1, Relaxed);
    }

    fn table(&self, level: usize) -> &[Pair] {
        self.levels[level].get_or_init(|| (0..16usize << (2 * level)).map(|_| Pair::default()).collect())
    }

    fn put(table: &[Pair], full: u64, cell: u32) {
        let mut at = Self::start(full, table.len());
        while table[at].key.load(Relaxed) != 0 {
            at = (at + 1) & (table.len() - 1);
        }
        table[at].cell.store(cell, Relaxed);
        table[at].key.store(full, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_again_and_dead_sessions_leave_no_trace() {
        let tracee = Tracee::new(1, Kind::Thread, 0);
        let arenas: Vec<Arena> = (0..2).map(|_| Arena::default()).collect();
        let mut first = std::collections::HashMap::new();
        for round in 1..200u32 {
            for key in 0..20 {
                let live = |id| id == round || id == 1;
                let a = tracee.cell(0, 1, key, &arenas[0], live);
                assert_eq!(a, tracee.cell(0, 1, key, &arenas[0], live));
                assert_eq!(a, *first.entry(key).or_insert(a), "round {round}");
                let arena = Arena::default();
                if round > 1 {
                    let _ = tracee.cell(1, round, key, &arena, live);
                }
            }
        }
        assert!(tracee.index.level.load(Relaxed) <= 2, "the index grew for dead sessions");
    }

    #[test]
    fn an_index_of_any_size_finds_its_cells_and_is_small() {
        let (tracee, arena) = (Tracee::new(1, Kind::Thread, 0), Arena::default());
        let mut cells = Vec::new();
        for key in 0..3000 {
            cells.push(tracee.cell(0, 1, key, &arena, |_| true));
            let places = tracee.index.table(tracee.index.level.load(Relaxed) as usize).len();
            let enough = [16, 64, 256, 1024, 4096].into_iter().find(|places| cells.len() * 4 <= places * 3);
            assert_eq!(Some(places), enough, "{} cells", cells.len());
        }
        for (key, cell) in (0..3000).zip(&cells) {
            assert_eq!(tracee.known_cell(1, key), *cell);
        }
        assert_eq!(tracee.known_cell(1, 3000), NONE);
        assert_eq!(tracee.known_cell(2, 0), NONE);
    }

    #[test]
    fn the_first_child_takes_the_flags_and_clears_both() {
        let parent = Tracee::new(1, Kind::Thread, 0);
        let flags = Flags::CALL | Flags::SET_ON_SPAWN | Flags::SET_ON_FIRST_SPAWN;
        parent.change(3, true, flags);
        assert_eq!(parent.inherit(3), Some(Flags::CALL));
        assert_eq!(parent.flags(3), Flags::CALL);
        assert_eq!(parent.inherit(3), None);
        parent.change(3, true, Flags::SET_ON_SPAWN);
        assert_eq!(parent.inherit(3), Some(Flags::CALL | Flags::SET_ON_SPAWN));
    }

    #[test]
    fn silence_is_for_those_that_have_flags() {
        let tracee = Tracee::new(1, Kind::Thread, 0);
        tracee.change(4, true, Flags::CALL);
        for session in [3, 4] {
            tracee.silence(session, true);
        }
        assert_eq!((tracee.flags(3), tracee.flags(4)), (Flags::NONE, Flags::CALL | Flags::SILENT));
        tracee.silence(4, false);
        assert_eq!(tracee.flags(4), Flags::CALL);
    }

    #[test]
    fn the_first_that_is_linked_to_takes_the_flags_and_both_are_cleared() {
        let pair = Flags::SET_ON_LINK | Flags::SET_ON_FIRST_LINK;
        let (from, to) = (Tracee::new(1, Kind::Thread, 0), Tracee::new(2, Kind::Thread, 0));
        from.change(3, true, Flags::SEND | pair);
        to.change(3, true, Flags::CALL | pair);
        to.inherit_by_link(3, &from, Flags::NONE);
        assert_eq!((from.flags(3), to.flags(3)), (Flags::SEND, Flags::SEND | Flags::CALL));
        to.inherit_by_link(3, &from, Flags::SEND | Flags::CALL);
        assert_eq!(to.flags(3), Flags::SEND | Flags::CALL);
        from.change(3, true, Flags::SET_ON_LINK);
        to.inherit_by_link(3, &from, Flags::SEND | Flags::CALL);
        assert_eq!(to.flags(3), Flags::SEND | Flags::SET_ON_LINK);
    }
}
