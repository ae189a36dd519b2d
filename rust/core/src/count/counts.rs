//! Call counters: one cell for each thread and counter, with one writer.
//!
//! # Roles
//! The thread that owns a [`Counts`] adds. The control side reads the sum over all threads under the lock of the list of threads.
//!
//! # States
//! A counter is a number. It is in use from [`Pool::take`] to [`Pool::give`]. Its value is the sum of its cells minus the sum at the
//! time of `take`. So cells are never reset in place.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | cell | owner, `Relaxed` store of load + 1 | control, `Relaxed` | one writer, the value only grows |
//! | cell before the thread's end | owner, then the list's mutex | control, under the mutex | a folded cell is complete |
//!
//! # Checked by
//! `models::counters`, `models::node` (loom), the property test below, `tests/exact.rs`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::sync::{mutants::mutant, segments::Segments, AtomicU64, Ordering::Relaxed};

/// Cells in a thread's first segment. Models have few, because each atomic slows them.
const FIRST: usize = if cfg!(loom) { 2 } else { 64 };

/// Segments.
const PARTS: usize = if cfg!(loom) { 2 } else { 26 };

/// The cells of one thread.
#[derive(Default)]
pub struct Counts {
    cells: Segments<CountCell, FIRST, PARTS>,
}

/// One cell of one thread.
#[derive(Default)]
struct CountCell(AtomicU64);

impl Counts {
    /// Counts a call. Only the owning thread may call this.
    #[inline(always)]
    pub fn add(&self, counter: u32) {
        let cell = &self.cells.at(counter as usize).0;
        // with one writer both forms do the same. For a load that a store of the same thread follows, loom 0.7.2 forgets the stores
        // of other threads and does not explore the other order
        if cfg!(loom) {
            cell.fetch_add(1, Relaxed);
        } else {
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// The calls of the owning thread so far.
    #[must_use]
    pub fn read(&self, counter: u32) -> u64 {
        self.cells.get(counter as usize).map_or(0, |c| c.0.load(Relaxed))
    }
}

/// The numbers of counters, and the base of each. Owned by the control side.
#[derive(Default)]
pub struct Pool {
    free: Vec<u32>,
    base: Vec<u64>,
    /// Calls by threads that have ended, by counter.
    folded: Vec<u64>,
}

impl Pool {
    /// Takes a counter whose value is 0. `total` sums its cells over the living threads.
    pub fn take(&mut self, total: impl FnOnce(u32) -> u64) -> u32 {
        let counter = self.free.pop().unwrap_or_else(|| {
            self.base.push(0);
            self.folded.push(0);
            self.base.len() as u32 - 1
        });
        if !mutant!("take_without_base") {
            self.base[counter as usize] = total(counter).wrapping_add(self.folded[counter as usize]);
        }
        counter
    }

    /// Returns a counter, after a grace period: no thread can add to it any more.
    pub fn give(&mut self, counter: u32) {
        self.free.push(counter);
    }

    /// The value of a counter, given the sum of its cells over the living threads.
    #[must_use]
    pub fn value(&self, counter: u32, total: u64) -> u64 {
        let n = counter as usize;
        total.wrapping_add(self.folded[n]).wrapping_sub(self.base[n])
    }

    /// Adds the cells of an ending thread to the folded counts.
    pub fn fold(&mut self, counts: &Counts) {
        for (n, folded) in self.folded.iter_mut().enumerate() {
            *folded = folded.wrapping_add(counts.read(n as u32));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Compares with a map of counters. Threads begin, add and end. Counters are taken, restarted and returned.
        #[test]
        fn same_as_a_dict(steps in proptest::collection::vec((0u8..5, 0usize..3, 0usize..4), 1..200)) {
            let mut pool = Pool::default();
            let mut threads: Vec<Counts> = (0..3).map(|_| Counts::default()).collect();
            let mut names: HashMap<usize, u32> = HashMap::new();
            let mut model: HashMap<usize, u64> = HashMap::new();
            for (op, thread, name) in steps {
                match op {
                    0 => {
                        if let Some(old) = names.remove(&name) { pool.give(old); }
                        let total = |c| threads.iter().map(|t| t.read(c)).sum();
                        names.insert(name, pool.take(total));
                        model.insert(name, 0);
                    }
                    1 => if let Some(old) = names.remove(&name) { pool.give(old); model.remove(&name); },
                    2 => {
                        pool.fold(&threads[thread]);
                        threads[thread] = Counts::default();
                    }
                    _ => if let Some(c) = names.get(&name) {
                        threads[thread].add(*c);
                        *model.get_mut(&name).unwrap() += 1;
                    },
                }
                for (name, counter) in &names {
                    let total = threads.iter().map(|t| t.read(*counter)).sum();
                    prop_assert_eq!(pool.value(*counter, total), model[name]);
                }
            }
        }
    }
}
