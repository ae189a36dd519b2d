//! A cache of results for short terms: most terms repeat soon.

use crate::scan::Bytes;

/// The number of slots, as a power of two.
const BITS: u32 = 9;

/// Results for terms of at most `MOST` bytes: the latest one of each slot.
pub struct Recent<const MOST: usize, V>(Vec<Slot<MOST, V>>);

struct Slot<const MOST: usize, V> {
    term: [u8; MOST],
    length: usize,
    made: V,
}

impl<const MOST: usize, V> Default for Recent<MOST, V> {
    fn default() -> Recent<MOST, V> {
        Recent(Vec::new())
    }
}

impl<const MOST: usize, V: Default> Recent<MOST, V> {
    /// The result for this term, computed by `make` if it is not in the cache; None if the term is too long.
    ///
    /// ```
    /// use inviso_export::recent::Recent;
    /// let mut recent = Recent::<32, usize>::default();
    /// assert_eq!(recent.get_or(b"a term", || 5), Some(&5));
    /// assert_eq!(recent.get_or(b"a term", || 6), Some(&5));
    /// assert_eq!(recent.get_or(&[7; 33], || 6), None);
    /// ```
    #[inline]
    pub fn get_or(&mut self, term: Bytes<'_>, make: impl FnOnce() -> V) -> Option<&V> {
        let at = slot(term);
        if !self.0.get(at).is_some_and(|slot| slot.length == term.len() && are_same(&slot.term, term)) {
            self.put(at, term, make)?;
        }
        self.0.get(at).map(|slot| &slot.made)
    }

    #[cold]
    fn put(&mut self, at: usize, term: Bytes<'_>, make: impl FnOnce() -> V) -> Option<()> {
        let mut cached = [0; MOST];
        cached.get_mut(..term.len())?.copy_from_slice(term);
        if self.0.is_empty() {
            // no term is empty
            self.0.resize_with(1 << BITS, || Slot { term: [0; MOST], length: 0, made: V::default() });
        }
        *self.0.get_mut(at)? = Slot { term: cached, length: term.len(), made: make() };
        Some(())
    }
}

/// Whether the cached bytes are these. A library call takes longer than a comparison of a few words.
#[inline]
fn are_same(cached: &[u8], term: Bytes<'_>) -> bool {
    let Some(cached) = cached.get(..term.len()) else { return false };
    let (words, rest) = term.as_chunks();
    let mut differ = 0;
    for (a, b) in words.iter().zip(cached.as_chunks().0) {
        differ |= u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
    }
    match (term.last_chunk(), cached.last_chunk()) {
        (Some(a), Some(b)) => differ |= u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b),
        _ => return rest.iter().eq(cached),
    }
    differ == 0
}

#[inline]
fn slot(term: Bytes<'_>) -> usize {
    let mix = |mixed: u64, word: u64| mixed.rotate_left(11) ^ word;
    let (words, rest) = term.as_chunks();
    let mixed = words.iter().fold(term.len() as u64, |mixed, word| mix(mixed, u64::from_le_bytes(*word)));
    let last = match term.last_chunk() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    (mix(mixed, last).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_result_belongs_to_its_term(terms in proptest::collection::vec(bytes(), 0..2000)) {
            let mut recent = Recent::<32, Vec<u8>>::default();
            for term in &terms {
                let made = recent.get_or(term, || term.clone());
                prop_assert_eq!(made, (term.len() <= 32).then_some(term));
            }
        }
    }

    /// Bytes of few values, so that many terms are nearly equal.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0_u8..2, 0..36)
    }
}
