//! An array that grows and never moves. It consists of segments of doubling size; each is created at its first use.
//!
//! Readers need no lock, and the address of an element is stable. So many threads can keep an index while the array grows.
//!
//! # Roles
//! Any thread reads and creates segments.
//!
//! # States
//! A segment is absent, then present for good.
//!
//! # Orderings
//! The edge of `OnceLock`, from the thread that creates a segment to its users.
//!
//! # Checked by
//! `models::counters` (loom), with a `OnceLock` of the same contract (see [`crate::sync`]); the test below.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::sync::OnceLock;

/// A grow-only array of `T`. The first segment has `FIRST` elements (a power of two). There are at most `PARTS` segments.
pub struct Segments<T, const FIRST: usize, const PARTS: usize = 26> {
    parts: [OnceLock<Box<[T]>>; PARTS],
}

impl<T: Default, const FIRST: usize, const PARTS: usize> Segments<T, FIRST, PARTS> {
    /// The largest number of elements.
    #[must_use]
    pub const fn capacity() -> usize {
        FIRST * ((1 << PARTS) - 1)
    }

    /// An empty array; allocates nothing.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(FIRST.is_power_of_two()) };
        Segments { parts: [const { OnceLock::new() }; PARTS] }
    }

    /// As above. loom's types can't be created at compile time.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Segments { parts: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// The segment of `index`, and the place in it.
    #[inline(always)]
    fn place(index: usize) -> (usize, usize) {
        let n = index + FIRST;
        let part = (n.ilog2() - FIRST.ilog2()) as usize;
        (part, n - (FIRST << part))
    }

    /// The element at `index`, if its segment exists.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (part, at) = Self::place(index);
        self.parts.get(part)?.get()?.get(at)
    }

    /// The element at `index`. Creates its segment at the first use.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &T {
        let (part, at) = Self::place(index);
        match self.parts[part].get() {
            Some(segment) => &segment[at],
            None => self.grow(part, at),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, part: usize, at: usize) -> &T {
        let segment = self.parts[part].get_or_init(|| (0..FIRST << part).map(|_| T::default()).collect());
        &segment[at]
    }
}

impl<T: Default, const FIRST: usize, const PARTS: usize> Default for Segments<T, FIRST, PARTS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let s: Segments<AtomicU64, 4> = Segments::new();
        assert!(s.get(0).is_none());
        for i in 0..1000 {
            s.at(i).store(i as u64, Relaxed);
        }
        let first = s.at(0) as *const _;
        for i in 0..1000 {
            assert_eq!(s.get(i).unwrap().load(Relaxed), i as u64);
        }
        assert!(std::ptr::eq(first, s.at(0)));
        assert!(s.get(5000).is_none());
    }
}
