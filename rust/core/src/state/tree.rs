//! Call trees: a place for each chain of callers, for sessions that measure by place instead of by function.
//!
//! A place is a number that stands for a function and for the place of its caller. In a session with a tree the cells of call_time and
//! call_memory belong to places. So a call charges only its own cell, as without a tree. A reader computes inclusive measures, callers and
//! the tree from the places.
//!
//! # Bounds
//! A tree has at most `places` places and at most `depth` levels. Beyond these bounds functions lose their callers: their places are side
//! by side below one place without a function ([`UNKNOWN`]). If the tree is too deep, that place is below the last known caller. If the
//! tree is too large, it is below the root. So there are at most `places` places and one more for each function.
//!
//! # Roles
//! A thread requests a place at the first call along a chain, under a lock, and caches it ([`Branches`]). The control side reads.
//!
//! # States
//! Places are never removed while the session lives, and slots are not reused ([`crate::control`]).
//!
//! # Orderings
//! The lock's.
//!
//! # Checked by
//! The tests below, `tests/trees.rs`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::{
    count::cells::{key, CellRef, Measure},
    state::tracee::Tracee,
    sync::{Mutex, Unpoisoned},
};
use rustc_hash::FxHashMap;

/// The place above all calls without a measured caller.
pub const ROOT: u32 = 0;

/// The slot of a place without a function.
pub const UNKNOWN: u32 = 0;

/// The default bounds of a tree.
const PLACES: usize = 1 << 18;
const DEPTH: u16 = 1024;

/// A function with one chain of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The caller's place.
    pub above: u32,
    /// The function's slot, or [`UNKNOWN`].
    pub slot: u32,
    /// The number of its callers, including [`ROOT`].
    depth: u16,
}

/// The call tree of a session.
pub struct Tree {
    known: Mutex<Places>,
    places: usize,
    depth: u16,
}

struct Places {
    places: Vec<Place>,
    numbers: FxHashMap<(u32, u32), u32>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree::bounded(PLACES, DEPTH)
    }
}

impl Tree {
    /// A tree with these bounds.
    #[must_use]
    pub fn bounded(places: usize, depth: u16) -> Tree {
        let root = Place { above: ROOT, slot: UNKNOWN, depth: 0 };
        Tree { known: Mutex::new(Places { places: vec![root], numbers: FxHashMap::default() }), places, depth }
    }

    /// The place of a function that the place `above` calls. Adds it if it is new.
    #[must_use]
    pub fn child(&self, above: u32, slot: u32) -> u32 {
        let mut known = self.known.lock().unpoisoned();
        // `above` may be a number of another session, from the cell of a call whose end was not seen
        let mut above = if (above as usize) < known.places.len() { above } else { ROOT };
        let beyond = known.above(above);
        if beyond.slot == UNKNOWN && beyond.depth > 0 {
            above = known.places[above as usize].above;
        } else if let Some(number) = known.numbers.get(&(above, slot)) {
            return *number;
        } else if known.places.len() >= self.places {
            above = known.number(ROOT, UNKNOWN);
        } else if known.places[above as usize].depth + 1 >= self.depth {
            above = known.number(above, UNKNOWN);
        }
        known.number(above, slot)
    }

    /// All places by number. [`ROOT`] is the first, and callers come before their callees.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        self.known.lock().unpoisoned().places.clone()
    }
}

impl Places {
    /// The place above a place.
    fn above(&self, place: u32) -> Place {
        self.places[self.places[place as usize].above as usize]
    }

    /// The place of a slot below a place. Adds it if it is new.
    fn number(&mut self, above: u32, slot: u32) -> u32 {
        let depth = self.places[above as usize].depth + 1;
        *self.numbers.entry((above, slot)).or_insert_with(|| {
            self.places.push(Place { above, slot, depth });
            self.places.len() as u32 - 1
        })
    }
}

/// A cached cell: a function's calls from one place, in the process of the latest call.
#[derive(Clone, Copy)]
struct Branch {
    pid: u64,
    cell: CellRef,
    id: u32,
    /// The key of the caller's cell; 0 without one.
    above: u32,
    /// The function's key.
    function: u32,
    /// The key of the cell, in any process.
    key: u32,
}

/// A thread's direct-mapped cache of branches: the numbers of a branch give its only place.
#[derive(Default)]
pub(crate) struct Branches(Vec<Option<Branch>>);

/// The first and the largest size; powers of two.
const FEW: usize = 256;
const MANY: usize = 1 << 14;

impl Branches {
    /// Whether this thread has made no call in a session with a tree.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline(always)]
    fn at(above: u32, function: u32, length: usize) -> usize {
        let both = u64::from(above) << 32 | u64::from(function);
        (both.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & length.wrapping_sub(1)
    }

    /// The cell that a call of a function charges in the process `current`. The caller charges the cell with the key `above`. `None` if the
    /// branch is not cached, or the process has no such cell yet.
    #[inline(always)]
    pub fn find(&mut self, current: &Tracee, id: u32, above: u32, function: u32) -> Option<CellRef> {
        let at = Self::at(above, function, self.0.len());
        let branch = self.0.get_mut(at)?.as_mut()?;
        if branch.above != above || branch.function != function || branch.id != id {
            return None;
        }
        if branch.pid != current.pid {
            match current.known_cell(id, branch.key) {
                crate::count::cells::NONE => return None,
                number => (branch.pid, branch.cell) = (current.pid, CellRef::of(number)),
            }
        }
        Some(branch.cell)
    }

    /// Adds a branch; `key` is the key of its cell in the process `pid`.
    pub fn keep(&mut self, pid: u64, id: u32, above: u32, function: u32, key: u32, cell: CellRef) {
        if self.0.is_empty() {
            self.0.resize(FEW, None);
        }
        let other = |there: &Branch| there.id == id && (there.above, there.function) != (above, function);
        while self.0.len() < MANY && self.0[Self::at(above, function, self.0.len())].as_ref().is_some_and(other) {
            self.grow();
        }
        let at = Self::at(above, function, self.0.len());
        self.0[at] = Some(Branch { pid, cell, id, above, function, key });
    }

    fn grow(&mut self) {
        let length = self.0.len() * 4;
        for branch in std::mem::replace(&mut self.0, vec![None; length]).into_iter().flatten() {
            self.0[Self::at(branch.above, branch.function, length)] = Some(branch);
        }
    }
}

/// The place of a cell with this key.
#[must_use]
pub fn place_of(key: u32) -> u32 {
    key >> 1
}

/// The key of the cell of a place.
#[must_use]
pub fn key_of(place: u32, measure: Measure) -> u32 {
    key(place, measure)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(tree: &Tree, place: u32) -> Vec<u32> {
        let places = tree.places();
        let (mut at, mut slots) = (place, Vec::new());
        while at != ROOT {
            slots.push(places[at as usize].slot);
            at = places[at as usize].above;
        }
        slots.reverse();
        slots
    }

    #[test]
    fn a_chain_has_one_place() {
        let tree = Tree::default();
        let a = tree.child(ROOT, 1);
        let b = tree.child(a, 2);
        assert_eq!((tree.child(ROOT, 1), tree.child(a, 2)), (a, b));
        assert_ne!(tree.child(ROOT, 2), b);
        assert_eq!(chain(&tree, tree.child(b, 1)), [1, 2, 1]);
        assert_eq!(chain(&tree, tree.child(1000, 7)), [7], "a number of another tree");
    }

    #[test]
    fn a_tree_that_is_too_deep_lays_functions_side_by_side() {
        let tree = Tree::bounded(1000, 3);
        let mut at = ROOT;
        let chains: Vec<_> = [1, 2, 3, 4, 2, 3]
            .into_iter()
            .map(|slot| {
                at = tree.child(at, slot);
                chain(&tree, at)
            })
            .collect();
        let deep = |slot| vec![1, 2, UNKNOWN, slot];
        assert_eq!(chains, [vec![1], vec![1, 2], deep(3), deep(4), deep(2), deep(3)]);
    }

    #[test]
    fn a_tree_that_is_too_large_forgets_callers() {
        let tree = Tree::bounded(3, 100);
        let a = tree.child(ROOT, 1);
        let b = tree.child(a, 2);
        let c = tree.child(b, 3);
        assert_eq!(chain(&tree, c), [UNKNOWN, 3]);
        assert_eq!(chain(&tree, tree.child(c, 1)), [UNKNOWN, 1]);
        assert_eq!(tree.child(a, 2), b, "known places stay");
        assert_eq!(chain(&tree, tree.child(ROOT, 2)), [UNKNOWN, 2]);
    }

    proptest! {
        /// Random calls and returns: a place matches its chain, and the bounds hold.
        #[test]
        fn places_are_chains(steps in proptest::collection::vec(0u32..9, 1..400), few: bool) {
            let bound = if few { 20 } else { 100_000 };
            let tree = Tree::bounded(bound, 50);
            let mut stack: Vec<u32> = Vec::new();
            let mut slots: Vec<u32> = Vec::new();
            for step in steps {
                if step > 4 {
                    stack.pop();
                    slots.pop();
                    continue;
                }
                let place = tree.child(stack.last().copied().unwrap_or(ROOT), step + 1);
                stack.push(place);
                slots.push(step + 1);
                prop_assert_eq!(chain(&tree, place).last().copied(), Some(step + 1));
                if !few && slots.len() < 50 {
                    prop_assert_eq!(chain(&tree, place), slots.clone());
                }
            }
            prop_assert!(tree.places().len() <= bound + 6);
        }
    }
}
