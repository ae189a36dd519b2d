//! call_latency: a histogram of the time from entry to return of calls.
//!
//! The buckets are those of HdrHistogram with two significant digits. A reading is an [`hdrhistogram::Histogram`], which has percentiles
//! and merging.
//!
//! # Roles
//! Any thread records. Any thread reads.
//!
//! # States
//! A bucket is a number, which only grows.
//!
//! # Orderings
//! `Relaxed`: each bucket counts on its own. A reading during calls may miss the latest ones.
//!
//! # Checked by
//! The tests below.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::sync::{segments::Segments, AtomicU64, Ordering::Relaxed};
pub use hdrhistogram::Histogram;

/// Bits of a value that select its bucket: the error is below 1 %.
const BITS: u32 = 7;

/// A histogram of nanoseconds.
#[derive(Default)]
pub struct Latency {
    buckets: Segments<HistogramBucket, 1024, 8>,
}

#[derive(Default)]
struct HistogramBucket(AtomicU64);

/// The bucket of a value.
fn place(value: u64) -> usize {
    let width = 64 - value.leading_zeros();
    if width <= BITS {
        return value as usize;
    }
    let shift = width - BITS;
    ((shift as usize) << (BITS - 1)) + (value >> shift) as usize
}

/// The value in the middle of a bucket.
fn middle(place: usize) -> u64 {
    let half = 1usize << (BITS - 1);
    if place < 2 * half {
        return place as u64;
    }
    let shift = (place / half - 1) as u32;
    let low = ((place % half + half) as u64) << shift;
    low + (1u64 << shift) / 2
}

impl Latency {
    /// Records a call that took `nanos`.
    pub fn record(&self, nanos: u64) {
        self.buckets.at(place(nanos)).0.fetch_add(1, Relaxed);
    }

    /// The histogram so far.
    ///
    /// ```
    /// let latency = inviso_core::host::latency::Latency::default();
    /// latency.record(1_000);
    /// assert_eq!(latency.read().len(), 1);
    /// ```
    #[must_use]
    pub fn read(&self) -> Histogram<u64> {
        let mut histogram =
            Histogram::new_with_bounds(1, u64::MAX / 2, 2).unwrap_or_else(|_| unreachable!("bounds are fixed"));
        for place in 0..=place(u64::MAX) {
            let n = self.buckets.get(place).map_or(0, |b| b.0.load(Relaxed));
            if n > 0 {
                histogram.saturating_record(middle(place).max(1));
                if n > 1 {
                    let _ = histogram.record_n(middle(place).clamp(1, u64::MAX / 2), n - 1);
                }
            }
        }
        histogram
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_within_one_percent(value in 1u64..u64::MAX / 4) {
            let back = middle(place(value));
            prop_assert!(back.abs_diff(value) as f64 <= value as f64 / 100.0, "{} {}", value, back);
        }

        #[test]
        fn places_are_in_order(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(place(a.min(b)) <= place(a.max(b)), true);
        }
    }

    #[test]
    fn counts_all() {
        let latency = Latency::default();
        for n in 0..1000 {
            latency.record(n);
        }
        let h = latency.read();
        assert_eq!(h.len(), 1000);
        assert!((480..=520).contains(&h.value_at_quantile(0.5)));
    }
}
