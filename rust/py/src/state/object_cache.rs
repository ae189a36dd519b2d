//! A thread's memory of which process an object is.

use inviso_core::host::tracee::Tracee;
use inviso_cpython::object::address_cache::AddressCache;
use std::sync::{atomic::Ordering, Arc};

/// An object that a thread has met recently, and its process, queue or port.
pub struct CachedObject(Arc<Tracee>);

impl CachedObject {
    /// The object that is now at `tracee`'s address.
    pub fn new(tracee: Arc<Tracee>) -> CachedObject {
        CachedObject(tracee)
    }
}

/// The objects that a thread has met recently, by address; looked up at each of their events.
#[derive(Default)]
pub struct ObjectCache(AddressCache<CachedObject, 256>);

impl ObjectCache {
    /// The number of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn find(&self, address: usize) -> Option<u64> {
        self.tracee(address).map(|tracee| tracee.pid)
    }

    /// The record of the object at this address, if it is remembered and still the same object.
    #[inline(always)]
    pub fn tracee(&self, address: usize) -> Option<&Arc<Tracee>> {
        let CachedObject(tracee) = self.0.get(address)?;
        (tracee.object.load(Ordering::Acquire) == address).then_some(tracee)
    }

    /// Remembers an object.
    pub fn keep(&mut self, place: CachedObject) {
        self.0.put(place.0.object.load(Ordering::Acquire), place);
    }
}
