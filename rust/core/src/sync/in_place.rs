//! Making a shared object where it stays. `Arc::new` moves what it is given, which of an object of some hundred bytes is most of
//! its cost; a program may make many thousands of processes.

use std::sync::Arc;

/// An `Arc` of what `make` makes, written at once into the memory that it keeps.
#[inline(always)]
pub(crate) fn arc<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let room = Arc::<T>::new_uninit();
    let place = Arc::as_ptr(&room).cast::<T>().cast_mut();
    // SAFETY: nobody else has the Arc yet, and its memory is as `T` needs it; it is initialised before it is said to be. If `make`
    // panics, the room is freed and nothing in it is dropped.
    unsafe {
        place.write(make());
        room.assume_init()
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
