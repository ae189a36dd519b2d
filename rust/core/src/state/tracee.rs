//! A process as the tracer knows it: identity, trace flags by session, and where its cells are.
//!
//! # Roles
//! The thread that runs the process looks cells up and adds them to the index. The control side and the process
//! itself change flags. Anyone reads.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | flags | any, read-modify-write `AcqRel` | running thread, `Relaxed` | a flag is a wish about the future; no data hangs on it |
//! | index | running thread, `Relaxed` | running thread | one writer, which is the only reader |
//! | object | host, `Release` | host, `Acquire` | 0 says that the address may belong to another object now |
//!
//! # Checked by
//! `models::life` (loom), mutant `first_spawn_split`; the tests below.
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

/// One process's standing in one session.
#[derive(Default)]
struct Membership {
    flags: AtomicU32,
    /// The session whose block the next two are in.
    session: AtomicU32,
    next: AtomicU32,
    end: AtomicU32,
}

/// Segments of a process's memberships.
const PARTS: usize = if cfg!(loom) { 1 } else { 8 };

type Memberships = Segments<Membership, 4, PARTS>;

/// Number of sessions that can exist at once.
pub const MAX_SESSIONS: usize = Segments::<Membership, 4, 8>::capacity();

/// How far the life of a process has come.
const LIVES: u32 = 0;
const ENDS: u32 = 1;
const ENDED: u32 = 2;

/// How many sessions have their flags where one load finds them.
const FIRST_FLAGS: usize = 4;

/// A process. What a call needs stands first, so that it takes as few cache lines as can be: a program may have many thousands of
/// processes, and each switch comes to one that has been idle.
#[repr(C)]
pub struct Tracee {
    /// Its number, never used twice in a node.
    pub pid: u64,
    /// The host's object (address), 0 once that is gone.
    pub object: AtomicUsize,
    /// Flags in the sessions with the lowest indices, which are nearly always all there are.
    first_flags: [AtomicU32; FIRST_FLAGS],
    index: Index,
    /// Made at its first cell, or with its first flags in a later session.
    memberships: crate::sync::OnceLock<Box<Memberships>>,
    ended: AtomicU32,
    /// Whether it is some session's tracer, or was: 0 or 1.
    tracer: AtomicU32,
    /// Whether it runs, as far as its host has told: 0 or 1.
    pub is_in: AtomicU32,
    /// What it is.
    pub kind: Kind,
    /// Its token of sequential tracing, if it has one.
    pub(crate) seq: super::token::TokenSlot,
    /// Whatever the host keeps with a process.
    pub host: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Tracee {
    /// A process that has just been seen.
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

    /// Whether the process still runs, or its end is still being told.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.ended.load(Acquire) != ENDED
    }

    /// Marks that the process is ending; `true` for the one caller who did it, and who calls [`Tracee::end`] when what
    /// hung on the process is undone. To be called under the population's lock, which lets one in at a time.
    pub(crate) fn begin_end(&self) -> bool {
        self.object.store(0, Release);
        let lives = self.ended.load(Relaxed) == LIVES;
        if lives {
            self.ended.store(ENDS, Release);
        }
        lives
    }

    /// Marks the process as ended: who sees it dead from here on sees its sessions without it too.
    pub(crate) fn end(&self) {
        self.ended.store(ENDED, Release);
    }

    /// Notes that it runs, or does not; answers what was noted before. Only the thread that runs it does.
    pub fn set_in(&self, how: bool) -> bool {
        let was = self.is_in.load(Relaxed) != 0;
        self.is_in.store(u32::from(how), Release);
        was
    }

    /// Notes that a session is about to have it as its tracer.
    pub fn note_tracer(&self) {
        self.tracer.store(1, Release);
    }

    /// Whether it has been counted in a session.
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
            None => {
                let membership = self.memberships.get().and_then(|all| all.get(session as usize));
                Flags(membership.map_or(0, |m| m.flags.load(Relaxed)))
            }
        }
    }

    fn word(&self, session: u16) -> &AtomicU32 {
        self.first_flags.get(session as usize).unwrap_or_else(|| &self.membership(session).flags)
    }

    fn membership(&self, session: u16) -> &Membership {
        self.memberships.get_or_init(Box::default).at(session as usize)
    }

    /// Switches flags on or off; answers what they were.
    pub fn change(&self, session: u16, how: bool, flags: Flags) -> Flags {
        let word = self.word(session);
        Flags(if how { word.fetch_or(flags.0, AcqRel) } else { word.fetch_and(!flags.0, AcqRel) })
    }

    /// Switches [`Flags::SILENT`] on or off, if the process has any flag: a meta pattern's spec runs in processes that have none, and
    /// they keep none.
    pub fn silence(&self, session: u16, how: bool) {
        if self.flags(session) == Flags::NONE {
            return;
        }
        let silent = Flags::SILENT.0;
        let change = |own| (own != 0).then_some(if how { own | silent } else { own & !silent });
        let _unless_all_went = self.word(session).fetch_update(AcqRel, Acquire, change);
    }

    /// Replaces the flags.
    pub fn set(&self, session: u16, flags: Flags) {
        if flags != Flags::NONE || self.flags(session) != Flags::NONE {
            self.word(session).store(flags.0, Release);
        }
    }

    /// The flags that a child started now inherits, or `None` when it gets those of new processes.
    ///
    /// `set_on_first_spawn` is taken by exactly one child and clears itself and `set_on_spawn` in both.
    pub fn inherit(&self, session: u16) -> Option<Flags> {
        let seen = self.flags(session);
        let pair = Flags::SET_ON_SPAWN | Flags::SET_ON_FIRST_SPAWN;
        if seen.has(Flags::SET_ON_FIRST_SPAWN) {
            let was = take_first(self.word(session), pair.0);
            if was & Flags::SET_ON_FIRST_SPAWN.0 != 0 {
                return Some(Flags(was & !pair.0));
            }
            return None;
        }
        seen.has(Flags::SET_ON_SPAWN).then_some(seen)
    }

    /// `from` links itself to this one, which gets its flags besides its own if `from` hands them on so. They take the place of
    /// `new`: what one that is being started has because new ones have it.
    ///
    /// `set_on_first_link` is taken by exactly one and clears itself and `set_on_link` in both.
    pub fn inherit_by_link(&self, session: u16, from: &Tracee, new: Flags) {
        let seen = from.flags(session);
        let pair = Flags::SET_ON_LINK | Flags::SET_ON_FIRST_LINK;
        let (handed, by, cleared) = if seen.has(Flags::SET_ON_FIRST_LINK) {
            (Flags(take_first(from.word(session), pair.0)), Flags::SET_ON_FIRST_LINK, pair)
        } else {
            (seen, Flags::SET_ON_LINK, Flags::NONE)
        };
        if !handed.has(by) {
            return; // or another one was the first
        }
        let get = |own| Some((if own == new.0 { 0 } else { own } | handed.0) & !cleared.0);
        let _always_done = self.word(session).fetch_update(AcqRel, Acquire, get);
    }

    /// The number of the process's cell for `key` in a session.
    #[inline(always)]
    pub fn cell(&self, session: u16, id: u32, key: u32, arena: &Arena, live: impl Fn(u32) -> bool) -> u32 {
        let full = u64::from(id) << 32 | u64::from(key);
        match self.index.find(full) {
            NONE => self.new_cell(session, id, full, arena, &live),
            n => n,
        }
    }

    /// The same where there is one already, else [`NONE`].
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

/// Clears `bits` in one step and answers what stood there, so that two children can't both be the first.
fn take_first(word: &AtomicU32, bits: u32) -> u32 {
    if mutant!("first_spawn_split") {
        let was = word.load(Acquire);
        word.store(was & !bits, Release);
        return was;
    }
    word.fetch_and(!bits, AcqRel)
}

/// Sizes that an index can have, from 16 slots to 4 million, each four times the last.
const LEVELS: usize = 10;

/// Where a process's cells are: an open-addressed table of (session id, key) to cell number. Its owner alone uses
/// it; atomics make that safe without a lock.
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
        if (self.used.load(Relaxed) as usize + 1) * 2 > table.len() {
            let kept: Vec<(u64, u32)> = table
                .iter()
                .map(|p| (p.key.load(Relaxed), p.cell.load(Relaxed)))
                .filter(|(k, _)| *k != 0 && live((k >> 32) as u32))
                .collect();
            if (kept.len() + 1) * 4 > table.len() && level < LEVELS - 1 {
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
        for round in 1..200u32 {
            for key in 0..20 {
                let live = |id| id == round || id == 1;
                let a = tracee.cell(0, 1, key, &arenas[0], live);
                assert_eq!(a, tracee.cell(0, 1, key, &arenas[0], live));
                let arena = Arena::default();
                if round > 1 {
                    let _ = tracee.cell(1, round, key, &arena, live);
                }
            }
        }
        assert!(tracee.index.level.load(Relaxed) <= 2, "the index grew for dead sessions");
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
