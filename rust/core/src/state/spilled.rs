//! Records that were taken out of rings: batches of a drain, and spilled ones that wait for the consumer.
#![forbid(unsafe_code)]

use super::feed::Feed;
use crate::{
    record::event::{event, Record, What},
    sync::Arc,
};
use std::collections::VecDeque;

/// A record that was taken out of its ring. Its payload is in the batch's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub ticks: u64,
    /// The place of its session among the drained sessions.
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

/// The batches that were spilled from a session's rings, oldest first.
#[derive(Default)]
pub(crate) struct Spilled {
    pub batches: VecDeque<SpilledBatch>,
    /// The size of the batches in bytes.
    pub bytes: usize,
}

impl Spilled {
    /// Adds the batch of one spill.
    pub fn put(&mut self, batch: Batch, tails: Tails) {
        self.bytes += batch.size();
        self.batches.push_back(SpilledBatch { batch, read: 0, tails });
    }
}

/// The batch of one spill.
pub(crate) struct SpilledBatch {
    pub batch: Batch,
    /// The number of its records that were handed over.
    pub read: usize,
    /// The position of each ring after the last record of the batch.
    pub tails: Tails,
}

pub(crate) type Tails = Vec<(Arc<Feed>, u64)>;

/// Records that were taken out of rings, with their payloads.
pub(crate) struct Batch {
    pub records: Vec<Taken>,
    pub bytes: Vec<u8>,
    pub max: usize,
}

impl Batch {
    pub fn of(max: usize) -> Self {
        Batch { records: Vec::new(), bytes: Vec::new(), max }
    }

    /// Its approximate size in bytes.
    pub fn size(&self) -> usize {
        self.records.len() * size_of::<Taken>() + self.bytes.len()
    }

    /// Adds a copy of a record of another batch, for the session `of`.
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
