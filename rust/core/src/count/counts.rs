//! Call counters: one cell a thread and counter, one writer each.
//!
//! # Roles
//! The thread that owns a [`Counts`] adds; the control side reads the sum over all threads while it holds the
//! list of threads.
//!
//! # States
//! A counter is a number. It is in use from [`Pool::take`] to [`Pool::give`]; between the two its value is the
//! sum of its cells less the sum when it was taken, so cells are never reset in place.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | cell | owner, `Relaxed` store of load + 1 | control, `Relaxed` | one writer, the value only grows |
//! | cell before thread's end | owner, then the list's mutex | control under the mutex | a folded cell is complete |
//!
//! # Checked by
//! `models::counters`, `models::node` (loom), the property test below, `tests/exact.rs`.
#![forbid(unsafe_code)]

use crate::sync::{mutants::mutant, segments::Segments, AtomicU64, Ordering::Relaxed};

/// Cells in a thread's first segment; a model has few, because each atomic costs it.
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
    /// One more call. Only the owning thread may call this.
    #[inline(always)]
    pub fn add(&self, counter: u32) {
        let cell = &self.cells.at(counter as usize).0;
        // One writer, so the two are the same. loom 0.7.2 forgets what others did before a load that the same thread's store
        // follows, and would not try the other order.
        if cfg!(loom) {
            cell.fetch_add(1, Relaxed);
        } else {
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// The owner's calls so far.
    #[must_use]
    pub fn read(&self, counter: u32) -> u64 {
        self.cells.get(counter as usize).map_or(0, |c| c.0.load(Relaxed))
    }
}

/// Which counter numbers are in use, and where each began. Owned by the control side.
#[derive(Default)]
pub struct Pool {
    free: Vec<u32>,
    base: Vec<u64>,
    /// Calls by threads that have ended, by counter.
    folded: Vec<u64>,
}

impl Pool {
    /// A counter that stands at 0; `total` sums its cells over the living threads.
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

    /// Gives a counter back, once no thread can still add to it (after a grace period).
    pub fn give(&mut self, counter: u32) {
        self.free.push(counter);
    }

    /// The value of a counter, given the sum of its cells over the living threads.
    #[must_use]
    pub fn value(&self, counter: u32, total: u64) -> u64 {
        let n = counter as usize;
        total.wrapping_add(self.folded[n]).wrapping_sub(self.base[n])
    }

    /// Takes over the cells of a thread that ends.
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
        /// Against a dict of counters: threads come, add and go, counters are taken, restarted and given back.
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
