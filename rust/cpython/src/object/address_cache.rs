//! A cache by the addresses of objects, for one thread.

/// Entries by address. Each address has one of the places, a power of two, and a later entry takes the place over.
/// Memory is allocated at the first entry. The caller checks that an entry is still about the object at the address.
pub struct AddressCache<T, const PLACES: usize>(Vec<Option<T>>);

impl<T, const PLACES: usize> Default for AddressCache<T, PLACES> {
    fn default() -> Self {
        const { assert!(PLACES.is_power_of_two()) };
        AddressCache(Vec::new())
    }
}

impl<T, const PLACES: usize> AddressCache<T, PLACES> {
    /// Objects lie at multiples of 16.
    #[inline(always)]
    fn place(address: usize) -> usize {
        (address >> 4 ^ address >> (4 + PLACES.trailing_zeros())) & (PLACES - 1)
    }

    /// The entry in the address's place.
    #[inline(always)]
    pub fn get(&self, address: usize) -> Option<&T> {
        self.0.get(Self::place(address))?.as_ref()
    }

    /// Takes the entry in the address's place out, if it is the right one.
    #[inline(always)]
    pub fn take_if(&mut self, address: usize, is_right: impl FnOnce(&T) -> bool) -> Option<T> {
        self.0.get_mut(Self::place(address))?.take_if(|entry| is_right(entry))
    }

    /// Puts an entry into the address's place; returns the one that was there.
    #[inline]
    pub fn put(&mut self, address: usize, entry: T) -> Option<T> {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        self.0[Self::place(address)].replace(entry)
    }
}
