//! The state under the control lock: the next numbers, and replaced snapshots.
#![forbid(unsafe_code)]

use super::snapshot::Snapshot;
use crate::sync::current::Retired;
use rustc_hash::FxHashMap;

/// The state under the control lock.
#[derive(Default)]
pub(crate) struct Control {
    pub next_session: u64,
    next_generation: u32,
    pub slots: FxHashMap<usize, u32>,
    pub free_slots: Vec<u32>,
    /// Slots that call trees may still name.
    pub held_slots: Vec<u32>,
    next_slot: u32,
    pub retired: Vec<Retired<Snapshot>>,
}

impl Control {
    /// A generation for a new counter; never 0.
    pub fn generation(&mut self) -> u32 {
        self.next_generation = self.next_generation.wrapping_add(1).max(1);
        self.next_generation
    }

    /// The slot of a function; takes one if it has none.
    pub fn slot(&mut self, key: usize) -> u32 {
        if let Some(slot) = self.slots.get(&key) {
            return *slot;
        }
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.next_slot += 1;
            self.next_slot
        });
        self.slots.insert(key, slot);
        slot
    }
}
