//! Which process an object is, remembered by each thread.

use inviso_core::tracee::Tracee;
use std::sync::{atomic::Ordering, Arc};

/// An object that a thread has met recently, and its process, queue or port.
#[derive(Clone)]
pub struct CachedObject(Arc<Tracee>);

impl CachedObject {
    /// The object that is now at `tracee`'s address.
    pub fn new(tracee: Arc<Tracee>) -> CachedObject {
        CachedObject(tracee)
    }
}

/// The objects that a thread has met recently, by address; looked up at each of their events.
#[derive(Default)]
pub struct ObjectCache(Vec<Option<CachedObject>>);

/// How many objects a thread remembers (a power of two).
const MET: usize = 256;

impl ObjectCache {
    fn at(address: usize) -> usize {
        (address >> 4 ^ address >> 12) & (MET - 1)
    }

    /// The number of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<u64> {
        match self.0.get(Self::at(address)) {
            Some(Some(CachedObject(tracee))) if tracee.object.load(Ordering::Acquire) == address => Some(tracee.pid),
            _ => None,
        }
    }

    /// The record of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn tracee(&self, address: usize) -> Option<&Arc<Tracee>> {
        match self.0.get(Self::at(address)) {
            Some(Some(CachedObject(tracee))) if tracee.object.load(Ordering::Acquire) == address => Some(tracee),
            _ => None,
        }
    }

    /// Remembers an object.
    pub fn keep(&mut self, place: CachedObject) {
        self.0.resize(MET, None);
        let at = Self::at(place.0.object.load(Ordering::Acquire));
        self.0[at] = Some(place);
    }
}
