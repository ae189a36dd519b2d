//! Records that were taken out of a session's rings: a batch, and those that wait for want of room in the rings.
#![forbid(unsafe_code)]

use super::feed::Feed;
use crate::{
    record::event::{event, Record, What},
    sync::Arc,
};
use std::collections::VecDeque;

/// A record that was taken out of its ring, its payload among those of all.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub ticks: u64,
    /// Its session's place among those that are drained.
    pub of: u32,
    pub what: Bytes,
}

#[derive(Clone, Copy)]
pub(crate) enum Bytes {
    Of { header: [u64; 4], from: usize, length: u32 },
    Lost(u64),
}

impl Taken {
    pub fn record<'b>(&self, bytes: &'b [u8]) -> Record<&'b [u8]> {
        let what = match self.what {
            Bytes::Lost(count) => What::Lost(count),
            Bytes::Of { header, from, length } => {
                let payload = bytes.get(from..from + length as usize).unwrap_or_default();
                What::Event(event(header, payload))
            }
        };
        Record { ticks: self.ticks, what }
    }
}

/// What has been taken out of a session's rings for want of room there, oldest first.
#[derive(Default)]
pub(crate) struct Spilled {
    pub batches: VecDeque<SpilledBatch>,
    /// What they take.
    pub bytes: usize,
}

impl Spilled {
    /// Adds what one spill took.
    pub fn put(&mut self, batch: Batch, tails: Tails) {
        self.bytes += batch.size();
        self.batches.push_back(SpilledBatch { batch, read: 0, tails });
    }
}

/// What one spill took.
pub(crate) struct SpilledBatch {
    pub batch: Batch,
    /// How many of its records have been handed over.
    pub read: usize,
    /// How far each ring has come when all of them have been.
    pub tails: Tails,
}

pub(crate) type Tails = Vec<(Arc<Feed>, u64)>;

/// What was taken out of the rings.
pub(crate) struct Batch {
    pub records: Vec<Taken>,
    pub bytes: Vec<u8>,
    pub max: usize,
}

impl Batch {
    pub fn of(max: usize) -> Self {
        Batch { records: Vec::new(), bytes: Vec::new(), max }
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        self.records.len() * size_of::<Taken>() + self.bytes.len()
    }

    /// Puts in a record of the session `of` that another one has.
    pub fn copy(&mut self, of: u32, taken: &Taken, bytes: &[u8]) {
        let what = match taken.what {
            Bytes::Lost(count) => Bytes::Lost(count),
            Bytes::Of { header, from, length } => {
                let to = self.bytes.len();
                self.bytes.extend_from_slice(bytes.get(from..from + length as usize).unwrap_or_default());
                Bytes::Of { header, from: to, length }
            }
        };
        self.records.push(Taken { of, ticks: taken.ticks, what });
    }
}
