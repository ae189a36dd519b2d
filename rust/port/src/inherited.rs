//! A lock that a forked child has anew: a thread of its parent may have held it, which the child doesn't have.

use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Mutex, MutexGuard, PoisonError,
};

/// Forks inside each other, with the lock held at each.
const GENERATIONS: usize = 16;

/// The lock.
pub struct Inherited<T> {
    all: [Mutex<T>; GENERATIONS],
    generation: AtomicUsize,
}

impl<T> Inherited<T> {
    /// With what is behind it at first, once for each generation.
    pub const fn new(all: [Mutex<T>; GENERATIONS]) -> Inherited<T> {
        Inherited { all, generation: AtomicUsize::new(0) }
    }

    fn current(&self) -> &Mutex<T> {
        &self.all[self.generation.load(Ordering::Acquire) % GENERATIONS]
    }

    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.current().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In a forked child: what the parent had behind it. `None` where it was held: that is left, and another one is there from now on.
    pub fn in_child(&self) -> Option<MutexGuard<'_, T>> {
        let inherited = self.current().try_lock().ok();
        if inherited.is_none() {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        inherited
    }
}
