//! An array that grows and never moves: segments of doubling size, each made at its first use.
//!
//! Readers need no lock and an element's address is stable, so an index can be kept by many threads while the
//! array grows under them. The edge between who makes a segment and who uses it is `OnceLock`'s; the models of
//! [`crate::count::counts`] run over it with the contract of std's (see [`crate::sync`]).
#![forbid(unsafe_code)]

use crate::sync::OnceLock;

/// A grow-only array of `T`: first segment `FIRST` (a power of two) elements, `PARTS` segments at most.
pub struct Segments<T, const FIRST: usize, const PARTS: usize = 26> {
    parts: [OnceLock<Box<[T]>>; PARTS],
}

impl<T: Default, const FIRST: usize, const PARTS: usize> Segments<T, FIRST, PARTS> {
    /// How many elements there can be.
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

    /// As above; nothing of loom's is made at compile time.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Segments { parts: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// Which segment holds `index`, and where in it.
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

    /// The element at `index`; makes its segment at first use.
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
