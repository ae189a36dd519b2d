//! Cells of call_time and call_memory: a number of calls and an amount for each process and function.
//!
//! # Roles
//! A process runs on one thread at a time. That thread, the *owner*, is the only writer of the process's cells. The control side reads
//! them. When the process has ended and has no open call, the control side folds its cells; then other processes may use them.
//!
//! # States
//! | generation | meaning |
//! | --- | --- |
//! | 0 | never used, or folded |
//! | the counter's own | counts for this counter |
//! | any other | counted for a counter that is gone; reads as zero, and is reset at the next call |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | generation | owner, `Release` after zeroing | control, `Acquire` | a reader of the generation sees its zeroes |
//! | zeroes | owner, `Release` fence before zeroing | control, `Acquire` fence after reading | a reader that saw a number of the next generation finds another generation at its second check |
//! | count, amount | owner, `Relaxed` store of load + n | control, `Relaxed` | one writer, values only grow |
//!
//! # Checked by
//! `models::counters` (loom), mutants `cell_*`; the tests below.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::sync::{
    fence,
    mutants::{mutant, Edge},
    segments::Segments,
    AtomicU32, AtomicU64, Mutex,
    Ordering::{Acquire, Relaxed, Release},
    Unpoisoned,
};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

const GENERATION: Edge = Edge(Release, "cell_relaxed");

/// Quads in the first segment. Models have few, because each atomic slows them.
const QUADS: usize = if cfg!(loom) { 1 } else { 64 };

/// Segments of quads.
const PARTS: usize = if cfg!(loom) { 2 } else { 24 };

/// No cell.
pub const NONE: u32 = u32::MAX;

/// What a cell measures; part of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Own time, in ticks.
    Time,
    /// Own allocations, in bytes.
    Memory,
}

/// The key of a function's cell, from its slot and the measure.
#[inline(always)]
#[must_use]
pub fn key(slot: u32, measure: Measure) -> u32 {
    slot << 1 | measure as u32
}

/// Calls and amount of one function in one process, or of one place in a call tree.
#[derive(Default)]
pub struct Cell {
    generation: AtomicU32,
    key: AtomicU32,
    count: AtomicU64,
    amount: AtomicU64,
    waited: AtomicU64,
}

impl Cell {
    /// One more call, counted for the counter `generation`. Owner only.
    #[inline(always)]
    pub fn enter(&self, generation: u32) {
        if self.generation.load(Relaxed) != generation {
            self.begin(generation);
        }
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    /// Makes the cell count for `generation`, without a call. Owner only.
    #[inline(always)]
    pub fn resume(&self, generation: u32) {
        if self.generation.load(Relaxed) != generation {
            self.begin(generation);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&self, generation: u32) {
        self.generation.store(0, Relaxed);
        // a fence can't be `Relaxed`; the mutant's `Acquire` fence has no effect on this edge
        fence(if mutant!("cell_unfenced") { Acquire } else { Release });
        self.count.store(0, Relaxed);
        self.amount.store(0, Relaxed);
        self.waited.store(0, Relaxed);
        self.generation.store(generation, GENERATION.order());
    }

    /// The cell's key, see [`key`].
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key.load(Relaxed)
    }

    /// Adds to the time of suspended calls. Owner only.
    pub fn wait(&self, ticks: u64) {
        self.waited.store(self.waited.load(Relaxed).wrapping_add(ticks), Relaxed);
    }

    /// Adds to the amount. Owner only.
    #[inline(always)]
    pub fn charge(&self, amount: u64) {
        self.amount.store(self.amount.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Count, amount and suspended time for the counter `generation`. Zeroes if the cell counts for another one.
    #[must_use]
    pub fn read(&self, generation: u32) -> (u64, u64, u64) {
        if self.generation.load(Acquire) != generation {
            return (0, 0, 0);
        }
        let seen = (self.count.load(Relaxed), self.amount.load(Relaxed), self.waited.load(Relaxed));
        // partner: the fence in `begin`
        fence(Acquire);
        if self.generation.load(Relaxed) == generation || mutant!("cell_unchecked") {
            seen
        } else {
            (0, 0, 0)
        }
    }
}

/// Four cells on cache lines of their own, so that two processes never share one.
#[derive(Default)]
#[repr(align(128))]
struct Quad([Cell; 4]);

const _: () = assert!(cfg!(loom) || size_of::<Quad>() == 128);

/// The largest block is 4 << CLASSES - 1 cells.
const CLASSES: usize = 7;

/// One process's share of an [`Arena`]: cells `start .. start + len`.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The first cell.
    pub start: u32,
    /// How many cells.
    pub len: u32,
}

/// The counts of one process for one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The process; [`FOLDED`] for the sum over ended processes beyond the bound.
    pub pid: u64,
    /// See [`key`].
    pub key: u32,
    /// The counter.
    pub generation: u32,
    /// Calls.
    pub count: u64,
    /// Ticks or bytes.
    pub amount: u64,
    /// Ticks of suspended calls: of coroutines, in a session with a call tree.
    pub waited: u64,
}

/// Stands for the sum of ended processes beyond the bound.
pub const FOLDED: u64 = 0;

/// Cells and the free blocks of them, for all sessions. Cells are never freed, so a thread may keep a reference to the cell that it
/// charges. A session that ends returns its blocks.
struct Store {
    quads: Segments<Quad, QUADS, PARTS>,
    supply: Mutex<Supply>,
}

struct Supply {
    next: u32,
    free: [Vec<u32>; CLASSES],
}

impl Store {
    fn take_block(&self, class: usize) -> Block {
        let mut supply = self.supply.lock().unpoisoned();
        let len = 4u32 << class;
        let start = supply.free[class].pop().unwrap_or_else(|| {
            supply.next += len;
            supply.next - len
        });
        Block { start, len }
    }

    fn return_blocks(&self, blocks: &[Block]) {
        let mut supply = self.supply.lock().unpoisoned();
        for block in blocks {
            supply.free[(block.len.ilog2() - 2) as usize].push(block.start);
        }
    }

    #[inline(always)]
    fn cell(&self, n: u32) -> &Cell {
        &self.quads.at(n as usize >> 2).0[n as usize & 3]
    }
}

/// In models each arena has its own store, because loom's atomics don't outlive an execution.
#[cfg(not(loom))]
static STORE: std::sync::LazyLock<Store> = std::sync::LazyLock::new(Store::default);

impl Default for Store {
    fn default() -> Self {
        let supply = Supply { next: 0, free: Default::default() };
        Store { quads: Segments::new(), supply: Mutex::new(supply) }
    }
}

/// A reference to a cell. Cells are never freed.
#[derive(Clone, Copy)]
pub struct CellRef(&'static Cell);

impl CellRef {
    /// The cell with this number, from a [`Block`] of any session.
    #[cfg(not(loom))]
    #[inline(always)]
    #[must_use]
    pub fn of(n: u32) -> CellRef {
        CellRef(STORE.cell(n))
    }

    /// Models count calls but don't measure, because loom's cells can't outlive an execution.
    #[cfg(loom)]
    #[must_use]
    pub fn of(n: u32) -> CellRef {
        unimplemented!("no model measures (cell {n})")
    }

    /// The cell.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> &'static Cell {
        self.0
    }
}

#[derive(Default)]
struct Books {
    owned: FxHashMap<u64, Vec<Block>>,
    ended: VecDeque<Vec<Reading>>,
    folded: FxHashMap<(u32, u32), (u64, u64, u64)>,
}

/// The books of one session: the owners of its cells, and the counts of ended processes.
#[derive(Default)]
pub struct Arena {
    #[cfg(loom)]
    store: Store,
    books: Mutex<Books>,
}

impl Arena {
    #[cfg(not(loom))]
    fn store(&self) -> &'static Store {
        &STORE
    }

    #[cfg(loom)]
    fn store(&self) -> &Store {
        &self.store
    }

    /// The cell with this number, from a [`Block`].
    #[inline(always)]
    #[must_use]
    pub fn cell(&self, n: u32) -> &Cell {
        self.store().cell(n)
    }

    /// A block of unused cells for process `pid`. Each block of a process is larger than the one before, up to a bound.
    #[must_use]
    pub fn block(&self, pid: u64) -> Block {
        let mut books = self.books.lock().unpoisoned();
        let class = books.owned.get(&pid).map_or(0, Vec::len).min(CLASSES - 1);
        let block = self.store().take_block(class);
        books.owned.entry(pid).or_default().push(block);
        block
    }

    /// Makes cell `n` the owner's cell for `key`. Call it before the first use.
    pub fn assign(&self, n: u32, key: u32) {
        self.cell(n).key.store(key, Relaxed);
    }

    /// Folds the cells of a process that has ended and has no open call. Keeps the counts of the latest `bound` processes apart and sums
    /// up the others. Then the cells are free for other processes.
    pub fn fold(&self, pid: u64, bound: usize) {
        let mut books = self.books.lock().unpoisoned();
        let Some(blocks) = books.owned.remove(&pid) else { return };
        let mut readings = Vec::new();
        for block in &blocks {
            for n in block.start..block.start + block.len {
                let cell = self.cell(n);
                let generation = cell.generation.load(Acquire);
                if generation != 0 {
                    let (count, amount, waited) = cell.read(generation);
                    readings.push(Reading { pid, key: cell.key(), generation, count, amount, waited });
                    cell.generation.store(0, Release);
                }
            }
        }
        self.store().return_blocks(&blocks);
        if !readings.is_empty() {
            readings.shrink_to_fit();
            books.ended.push_back(readings);
        }
        while books.ended.len() > bound {
            for r in books.ended.pop_front().unwrap_or_default() {
                let sum = books.folded.entry((r.key, r.generation)).or_default();
                sum.0 += r.count;
                sum.1 += r.amount;
                sum.2 += r.waited;
            }
        }
    }

    /// Calls `take` for everything counted in the session, living processes and ended ones.
    pub fn each(&self, mut take: impl FnMut(Reading)) {
        let books = self.books.lock().unpoisoned();
        for (&(key, generation), &(count, amount, waited)) in &books.folded {
            take(Reading { pid: FOLDED, key, generation, count, amount, waited });
        }
        books.ended.iter().flatten().for_each(|r| take(*r));
        for (&pid, blocks) in &books.owned {
            for n in blocks.iter().flat_map(|b| b.start..b.start + b.len) {
                let cell = self.cell(n);
                let generation = cell.generation.load(Acquire);
                if generation != 0 {
                    let (count, amount, waited) = cell.read(generation);
                    take(Reading { pid, key: cell.key(), generation, count, amount, waited });
                }
            }
        }
    }

    /// Forgets the counts of ended processes for counters that are gone; `live` says which ones live.
    pub fn forget(&self, live: impl Fn(u32) -> bool) {
        let mut books = self.books.lock().unpoisoned();
        books.folded.retain(|(_, generation), _| live(*generation));
        for readings in &mut books.ended {
            readings.retain(|r| live(r.generation));
        }
        books.ended.retain(|r| !r.is_empty());
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let Ok(books) = self.books.get_mut() else { return };
        let blocks: Vec<Block> = std::mem::take(&mut books.owned).into_values().flatten().collect();
        #[cfg(not(loom))]
        {
            for n in blocks.iter().flat_map(|b| b.start..b.start + b.len) {
                STORE.cell(n).generation.store(0, Release);
            }
            STORE.return_blocks(&blocks);
        }
        let _ = blocks;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn all(arena: &Arena) -> Vec<(u64, u64, u64)> {
        let mut out = Vec::new();
        arena.each(|r| out.push((r.pid, r.count, r.amount)));
        out.sort_unstable();
        out
    }

    #[test]
    fn a_cell_begins_anew_for_another_generation() {
        let cell = Cell::default();
        cell.enter(3);
        cell.charge(10);
        cell.wait(5);
        assert_eq!(cell.read(3), (1, 10, 5));
        assert_eq!(cell.read(4), (0, 0, 0));
        cell.enter(4);
        assert_eq!((cell.read(3), cell.read(4)), ((0, 0, 0), (1, 0, 0)));
    }

    #[test]
    fn a_cell_that_goes_on_counts_no_call() {
        let cell = Cell::default();
        cell.resume(3);
        cell.charge(10);
        cell.resume(3);
        assert_eq!(cell.read(3), (0, 10, 0));
        cell.enter(3);
        cell.enter(3);
        assert_eq!(cell.read(3), (2, 10, 0));
        cell.resume(4);
        assert_eq!((cell.read(3), cell.read(4)), ((0, 0, 0), (0, 0, 0)));
        assert_eq!([key(5, Measure::Time), key(5, Measure::Memory)], [10, 11]);
    }

    #[test]
    fn what_a_session_leaves_behind_is_used_again_and_empty() {
        let mut starts = std::collections::HashSet::new();
        for _ in 0..50 {
            let arena = Arena::default();
            // each size of blocks, and one more of the largest size
            let blocks: Vec<_> = (0..=CLASSES).map(|_| arena.block(1)).collect();
            let sizes: Vec<_> = blocks.iter().map(|block| block.len).collect();
            assert_eq!(sizes, [4, 8, 16, 32, 64, 128, 256, 256]);
            assert_eq!(all(&arena), []);
            for block in &blocks {
                starts.insert((block.start, block.len));
                for n in block.start..block.start + block.len {
                    arena.assign(n, n);
                    arena.cell(n).enter(7);
                    CellRef::of(n).get().charge(u64::from(n));
                }
            }
            let mut seen = Vec::new();
            arena.each(|r| seen.push((r.key, r.generation, r.count, r.amount)));
            seen.sort_unstable();
            let mut expected: Vec<_> =
                blocks.iter().flat_map(|b| b.start..b.start + b.len).map(|n| (n, 7, 1, u64::from(n))).collect();
            expected.sort_unstable();
            assert_eq!(seen, expected);
        }
        assert!(starts.len() < 50, "blocks are not used again");
    }

    #[test]
    fn what_ends_leaves_the_cells_of_others_alone() {
        let mut arenas: Vec<_> = (0..20).map(|_| (Arena::default(), Vec::new())).collect();
        for pid in 1..=3 {
            for (arena, cells) in &mut arenas {
                let block = arena.block(pid);
                cells.extend(block.start..block.start + block.len);
            }
        }
        for (arena, cells) in &arenas {
            cells.iter().for_each(|n| arena.cell(*n).enter(7));
        }
        // a process of one session, then sessions as a whole
        arenas[9].0.fold(2, 9);
        assert!(arenas.iter().all(|(arena, cells)| all(arena).len() == cells.len()));
        let others: Vec<_> = arenas.into_iter().step_by(2).collect();
        assert!(others.iter().all(|(arena, cells)| all(arena).len() == cells.len()));
    }

    #[test]
    fn of_ended_processes_only_what_counts_is_kept() {
        let arena = Arena::default();
        for (pid, generation) in [(1, 5), (2, 6), (3, 0)] {
            let block = arena.block(pid);
            let last = block.start + block.len - 1;
            arena.assign(last, 9);
            if generation != 0 {
                arena.cell(last).enter(generation);
                arena.cell(last).charge(pid);
            }
            arena.fold(pid, 9);
            arena.fold(pid, 9);
        }
        assert_eq!(all(&arena), [(1, 1, 1), (2, 1, 2)]);
        arena.forget(|generation| generation == 6);
        assert_eq!(all(&arena), [(2, 1, 2)]);
        assert_eq!(arena.books.lock().unpoisoned().ended.len(), 1);
    }

    #[test]
    fn ended_processes_are_kept_then_folded_and_their_cells_reused() {
        let arena = Arena::default();
        let mut starts = std::collections::HashSet::new();
        for pid in 1..=5 {
            let block = arena.block(pid);
            starts.insert(block.start);
            arena.assign(block.start, key(7, Measure::Time));
            arena.cell(block.start).enter(1);
            arena.cell(block.start).charge(pid);
            arena.fold(pid, 2);
        }
        assert_eq!(all(&arena), [(FOLDED, 3, 6), (4, 1, 4), (5, 1, 5)]);
        assert!(starts.len() < 5, "no block was used again");
        arena.forget(|generation| generation != 1);
        assert_eq!(all(&arena), []);
    }

    #[test]
    fn blocks_grow_and_never_overlap() {
        let arena = Arena::default();
        let mut seen = std::collections::HashSet::new();
        let few = (0..10).flat_map(|_| [1, 2]);
        // after the largest, many of the smallest
        for pid in few.chain(3..200) {
            let b = arena.block(pid);
            assert!((b.start..b.start + b.len).all(|n| seen.insert(n)));
        }
    }
}
