//! The call cache: a thread's memory of the actions at calls of a function. A hit needs neither the snapshot's table nor the plan.
//!
//! It is not shared. An entry is valid for one version of the snapshot. The next version makes all entries invalid.
#![forbid(unsafe_code)]

use crate::{
    count::cells::CellRef,
    state::{flags::Flags, frame::exit_actions, setting::kinds},
};
use inviso_match::Program;
use inviso_term::record::Kind;
use std::sync::Arc;

/// The action of one session at a call, besides counting.
pub(crate) enum Action {
    /// Time or memory is charged.
    Measure(Measured),
    /// Time or memory is charged, in a session with a call tree.
    Branch(Branching),
    /// A record without a payload is written.
    Emit(EmitPlan),
    /// A match spec decides.
    Filter(Filter),
    /// The plan's entry of the session with this id is run.
    Planned(u32),
}

impl Action {
    /// The session's id.
    pub fn session(&self) -> u32 {
        match self {
            Action::Measure(known) => known.id,
            Action::Branch(known) => known.id,
            Action::Emit(known) => known.id,
            Action::Filter(known) => known.id,
            Action::Planned(id) => *id,
        }
    }

    /// Its kinds.
    pub fn kinds(&self) -> u16 {
        match self {
            Action::Measure(known) if known.exit_actions == exit_actions::TIME => kinds::TIME,
            Action::Branch(known) if known.exit_actions == exit_actions::TIME => kinds::TIME,
            Action::Measure(_) | Action::Branch(_) => kinds::MEMORY,
            Action::Emit(_) | Action::Filter(_) => kinds::LOCAL,
            Action::Planned(_) => !kinds::COUNT,
        }
    }
}

/// See [`Action::Measure`].
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// The process of the latest call, and its cell.
    pub pid: u64,
    pub cell: CellRef,
    pub id: u32,
    /// The cell's key in any process.
    pub key: u32,
    pub generation: u32,
    pub index: u16,
    /// [`crate::state::frame::exit_actions::TIME`] or [`crate::state::frame::exit_actions::MEMORY`].
    pub exit_actions: u16,
}

/// See [`Action::Branch`].
#[derive(Clone, Copy)]
pub(crate) struct Branching {
    pub id: u32,
    /// The function's key: see [`crate::count::cells::key`].
    pub key: u32,
    pub generation: u32,
    pub index: u16,
    /// As in [`Measured`].
    pub exit_actions: u16,
}

/// See [`Action::Emit`].
#[derive(Clone, Copy)]
pub(crate) struct EmitPlan {
    /// The tracer, which is not traced.
    pub tracer: u64,
    /// The record's first word.
    pub first: u64,
    /// The flags of the process for which the word is valid.
    pub flags: Flags,
    pub id: u32,
    pub name: u32,
    pub index: u16,
    /// The exit actions of the call, see [`crate::state::frame::exit_actions`].
    pub exit_actions: u16,
    /// Whether its calls can be suspended.
    pub pauses: bool,
}

impl EmitPlan {
    /// The header of a record of another kind with the same stamps and name.
    #[inline(always)]
    pub fn header(&self, kind: Kind, now: u64, pid: u64) -> [u64; 4] {
        const KIND: u64 = 0xff << 32;
        [self.first & !KIND | (kind as u64) << 32, now, pid, u64::from(self.name)]
    }
}

/// See [`Action::Filter`].
pub(crate) struct Filter {
    pub program: Arc<Program>,
    /// The tracer, which is not traced.
    pub tracer: u64,
    pub id: u32,
    pub index: u16,
}

/// All actions at a call of a function, on one cache line.
#[repr(align(64))]
pub(crate) struct CachedCall {
    pub code: usize,
    /// The version of the snapshot.
    pub version: u32,
    /// The first counter plus 1; 0 for none.
    pub counter: u32,
    pub first: Option<Action>,
    pub more: Option<Box<More>>,
}

/// Counters and actions after the first ones.
#[derive(Default)]
pub(crate) struct More {
    pub counters: Vec<u32>,
    pub actions: Vec<Action>,
}

const _: () = assert!(size_of::<CachedCall>() == 64);

impl CachedCall {
    /// An entry for `code`: a call adds to the counters and then runs the actions.
    pub fn new(code: usize, version: u32, mut counters: Vec<u32>, mut actions: Vec<Action>) -> CachedCall {
        let counter = if counters.is_empty() { 0 } else { counters.remove(0) + 1 };
        let first = if actions.is_empty() { None } else { Some(actions.remove(0)) };
        let more = !(counters.is_empty() && actions.is_empty());
        CachedCall { code, version, counter, first, more: more.then(|| Box::new(More { counters, actions })) }
    }

    /// The action after `n` others.
    #[inline(always)]
    pub fn action(&mut self, n: usize) -> Option<&mut Action> {
        match n {
            0 => self.first.as_mut(),
            _ => self.more.as_mut()?.actions.get_mut(n - 1),
        }
    }

    /// Replaces an action.
    pub fn replace(&mut self, n: usize, action: Action) {
        if let Some(there) = self.action(n) {
            *there = action;
        }
    }
}

/// A cache of two ways: the address of a function gives its place, and the neighbour of that is its other one. With one way, two
/// functions of one place that are called in turns would drive each other out at every call.
#[derive(Default)]
pub(crate) struct CallCache(Vec<CachedCall>);

/// The first and the largest number of places; powers of two.
const FEW: usize = 64;
const MANY: usize = 4096;

impl CallCache {
    #[inline(always)]
    fn place(code: usize, places: usize) -> usize {
        (code >> 4 ^ code >> 13) & (places.wrapping_sub(1))
    }

    /// The place of a function, if its entry is valid.
    #[inline(always)]
    pub fn find(&self, code: usize, version: u32) -> Option<usize> {
        let place = Self::place(code, self.0.len());
        if self.has(place, code, version) {
            return Some(place);
        }
        self.has(place ^ 1, code, version).then_some(place ^ 1)
    }

    #[inline(always)]
    fn has(&self, place: usize, code: usize, version: u32) -> bool {
        self.0.get(place).is_some_and(|known| known.code == code && known.version == version)
    }

    /// The entry at a place from [`CallCache::find`].
    #[inline(always)]
    pub fn at(&mut self, place: usize) -> &mut CachedCall {
        &mut self.0[place]
    }

    /// Adds an entry.
    pub fn keep(&mut self, known: CachedCall) {
        if self.0.is_empty() {
            self.0.resize_with(FEW, Self::nothing);
        }
        if self.free(&known).is_none() && self.0.len() < MANY {
            self.grow(known.version);
        }
        let place = self.free(&known).unwrap_or_else(|| {
            // the newer entry stays where it is looked for first
            let place = Self::place(known.code, self.0.len());
            self.0.swap(place, place ^ 1);
            place
        });
        self.0[place] = known;
    }

    /// The place for an entry that takes no valid one from another function.
    fn free(&self, known: &CachedCall) -> Option<usize> {
        let place = Self::place(known.code, self.0.len());
        let is_free = |there: &CachedCall| there.version != known.version || there.code == known.code;
        [place, place ^ 1].into_iter().find(|place| is_free(&self.0[*place]))
    }

    fn nothing() -> CachedCall {
        CachedCall { code: 0, version: 0, counter: 0, first: None, more: None }
    }

    fn grow(&mut self, version: u32) {
        let places = self.0.len() * 4;
        let old = std::mem::take(&mut self.0);
        self.0.resize_with(places, Self::nothing);
        for known in old.into_iter().filter(|k| k.version == version) {
            if let Some(place) = self.free(&known) {
                self.0[place] = known;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn known(code: usize, version: u32) -> CachedCall {
        CachedCall { code, version, ..CallCache::nothing() }
    }

    #[test]
    fn what_is_kept_is_found_in_its_version_only() {
        let mut cache = CallCache::default();
        assert_eq!(cache.find(16, 1), None);
        cache.keep(known(16, 1));
        let place = cache.find(16, 1).expect("just kept");
        assert_eq!(cache.at(place).code, 16);
        assert_eq!(cache.find(16, 2), None);
        assert_eq!(cache.find(32, 1), None);
    }

    #[test]
    fn two_functions_of_one_place_are_both_kept() {
        let mut cache = CallCache::default();
        cache.0.resize_with(MANY, CallCache::nothing);
        let place = |code| CallCache::place(code, MANY);
        let codes: Vec<usize> = (16..1 << 20).step_by(16).filter(|code| place(*code) == 5).take(3).collect();
        codes.iter().for_each(|code| cache.keep(known(*code, 1)));
        let found = |cache: &CallCache| codes.iter().map(|code| cache.find(*code, 1)).collect::<Vec<_>>();
        assert_eq!(found(&cache), [Some(4), None, Some(5)]);
        cache.keep(known(codes[1], 1));
        assert_eq!(found(&cache), [None, Some(5), Some(4)]);
        cache.keep(known(codes[0], 2));
        assert_eq!(cache.find(codes[0], 2), Some(5));
    }

    #[test]
    fn it_grows_to_a_bound() {
        let mut cache = CallCache::default();
        for code in (16..1 << 20).step_by(16) {
            cache.keep(known(code, 1));
        }
        assert_eq!(cache.0.len(), MANY);
        let found = (16..1 << 20).step_by(16).filter(|code| cache.find(*code, 1).is_some()).count();
        assert_eq!(found, MANY);
    }

    #[test]
    fn few_functions_take_little_room() {
        let mut cache = CallCache::default();
        for round in 1..100 {
            cache.keep(known(4096, round));
        }
        assert_eq!(cache.0.len(), FEW);
    }
}
