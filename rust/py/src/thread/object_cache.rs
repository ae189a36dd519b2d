//! Which process an object is, remembered by each thread.

use inviso_core::tracee::Tracee;
use std::sync::{atomic::Ordering, Arc};

/// An object that a thread has met lately, and its process, queue or port.
#[derive(Clone)]
pub struct Place(Arc<Tracee>);

impl Place {
    /// What this is at its address now.
    pub fn new(tracee: Arc<Tracee>) -> Place {
        Place(tracee)
    }
}

/// Objects that a thread has met lately, by address: looked up at each of their events.
#[derive(Default)]
pub struct Places(Vec<Option<Place>>);

/// Objects that a thread remembers (a power of two).
const MET: usize = 256;

impl Places {
    fn at(address: usize) -> usize {
        (address >> 4 ^ address >> 12) & (MET - 1)
    }

    /// The number of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<u64> {
        match self.0.get(Self::at(address)) {
            Some(Some(Place(tracee))) if tracee.object.load(Ordering::Acquire) == address => Some(tracee.pid),
            _ => None,
        }
    }

    /// The record of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn tracee(&self, address: usize) -> Option<&Arc<Tracee>> {
        match self.0.get(Self::at(address)) {
            Some(Some(Place(tracee))) if tracee.object.load(Ordering::Acquire) == address => Some(tracee),
            _ => None,
        }
    }

    /// Remembers an object.
    pub fn keep(&mut self, place: Place) {
        self.0.resize(MET, None);
        let at = Self::at(place.0.object.load(Ordering::Acquire));
        self.0[at] = Some(place);
    }
}
