//! Creates a shared object in its final place. `Arc::new` moves its argument. For an object of some hundred bytes the move is most of
//! the cost, and a program may create many thousands of processes.

use std::sync::Arc;

/// An `Arc` whose value `make` creates directly in the `Arc`'s memory.
#[inline(always)]
pub(crate) fn arc<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let memory = Arc::<T>::new_uninit();
    let place = Arc::as_ptr(&memory).cast::<T>().cast_mut();
    // SAFETY: nobody else has the Arc yet. Its memory has the size and alignment of `T`. The value is written before `assume_init`. If
    // `make` panics, the memory is freed and no value is dropped.
    unsafe {
        place.write(make());
        memory.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_there_once() {
        let inside = Arc::new(());
        let made = arc(|| (inside.clone(), [7u64; 40]));
        assert_eq!((made.1, Arc::strong_count(&made), Arc::strong_count(&inside)), ([7; 40], 1, 2));
        drop(made);
        assert_eq!(Arc::strong_count(&inside), 1);
    }

    #[test]
    fn who_fails_to_make_leaves_nothing() {
        let inside = Arc::new(());
        let moved = inside.clone();
        let failed = std::panic::catch_unwind(|| arc::<Arc<()>>(|| panic!("{}", Arc::strong_count(&moved))));
        assert!(failed.is_err());
        drop(moved);
        assert_eq!(Arc::strong_count(&inside), 1);
    }
}
