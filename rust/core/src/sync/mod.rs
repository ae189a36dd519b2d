//! The only door to atomics, mutexes and threads: `std` in a normal build, loom under `--cfg loom`.
//!
//! All other modules of this crate import these names from here. So the model checker runs each protocol unchanged.
//!
//! # Roles
//! Any thread uses these types. They have no state of their own beyond the two substitutes below.
//!
//! # States
//! | substitute | used under | is |
//! | --- | --- | --- |
//! | [`OnceLock`] | loom, ThreadSanitizer | empty; `init` runs under `making`; `made` is true for good |
//! | [`Mutex`], [`Condvar`] | ThreadSanitizer | std's, with `edge` as a counter of unlocks |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `OnceLock::made` | the thread that ran `init`, `AcqRel` | `get`, `Acquire` | the caller of `get` sees everything that `init` did |
//! | `Mutex::edge` | the holder, `Release` before it unlocks | the next holder, `Acquire` | ThreadSanitizer sees no edge inside std's lock |
//!
//! # Checked by
//! The models of the protocols that use them, and ThreadSanitizer.
//!
//! Only other crates of the workspace use it.

pub mod barrier;
pub mod current;
pub mod grace;
pub(crate) mod in_place;
pub(crate) mod mutants;
pub mod section;
pub mod segments;

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc, RwLock,
    },
    thread,
};

#[cfg(not(any(loom, inviso_tsan)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

#[cfg(inviso_tsan)]
pub use visible::{Condvar, Mutex, MutexGuard};

/// The error of `try_lock`. loom uses std's.
pub use std::sync::TryLockError;

use std::sync::{LockResult, PoisonError};

/// Takes a lock even if a holder has panicked. A panic switches tracing off in its thread. Other threads use the value as it is.
pub trait Unpoisoned<G> {
    /// The guard, also of a poisoned lock.
    fn unpoisoned(self) -> G;
}

impl<G> Unpoisoned<G> for LockResult<G> {
    fn unpoisoned(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pause in a loop that waits for other threads: yields in the first rounds, then sleeps.
pub(crate) fn pause(round: u32, yields: u32) {
    if cfg!(loom) || round <= yields {
        thread::yield_now();
    } else {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc, Condvar, Mutex, MutexGuard, RwLock,
    },
    thread,
};

/// std's locks are not instrumented for ThreadSanitizer, which would report races on the values that they guard. These locks show it
/// the edges.
#[cfg(inviso_tsan)]
mod visible {
    use super::{
        AtomicU32,
        Ordering::{Acquire, Release},
        Unpoisoned,
    };
    use std::{
        ops::{Deref, DerefMut},
        sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult},
        time::Duration,
    };

    /// std's mutex, with a visible edge from each holder to the next.
    #[derive(Default)]
    pub struct Mutex<T> {
        inner: std::sync::Mutex<T>,
        edge: AtomicU32,
    }

    /// Its guard; empty only during a wait.
    pub struct MutexGuard<'a, T> {
        inner: Option<std::sync::MutexGuard<'a, T>>,
        edge: &'a AtomicU32,
    }

    /// std's condition variable.
    #[derive(Default)]
    pub struct Condvar(std::sync::Condvar);

    impl Condvar {
        /// Without waiting threads.
        pub const fn new() -> Self {
            Condvar(std::sync::Condvar::new())
        }

        /// As std's.
        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            if let Some(inner) = guard.unlock() {
                guard.relock(self.0.wait(inner).unpoisoned());
            }
            Ok(guard)
        }

        /// As std's.
        pub fn wait_timeout<'a, T>(
            &self, mut guard: MutexGuard<'a, T>, limit: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, Option<WaitTimeoutResult>)> {
            let mut over = None;
            if let Some(inner) = guard.unlock() {
                let (inner, result) = self.0.wait_timeout(inner, limit).unpoisoned();
                guard.relock(inner);
                over = Some(result);
            }
            Ok((guard, over))
        }

        /// As std's.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    impl<'a, T> MutexGuard<'a, T> {
        fn relock(&mut self, inner: std::sync::MutexGuard<'a, T>) {
            self.edge.load(Acquire);
            self.inner = Some(inner);
        }

        fn unlock(&mut self) -> Option<std::sync::MutexGuard<'a, T>> {
            self.edge.fetch_add(1, Release); // before the real unlock
            self.inner.take()
        }
    }

    impl<T> Mutex<T> {
        /// Unlocked.
        pub const fn new(value: T) -> Self {
            Mutex { inner: std::sync::Mutex::new(value), edge: AtomicU32::new(0) }
        }

        fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            let mut guard: MutexGuard<'_, T> = MutexGuard { inner: None, edge: &self.edge };
            guard.relock(inner);
            guard
        }

        /// As std's.
        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            match self.inner.lock() {
                Ok(inner) => Ok(self.guard(inner)),
                Err(poisoned) => Err(PoisonError::new(self.guard(poisoned.into_inner()))),
            }
        }

        /// As std's.
        pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            match self.inner.try_lock() {
                Ok(inner) => Ok(self.guard(inner)),
                Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
                Err(TryLockError::Poisoned(poisoned)) => {
                    Err(TryLockError::Poisoned(PoisonError::new(self.guard(poisoned.into_inner()))))
                }
            }
        }

        /// As std's.
        pub fn get_mut(&mut self) -> LockResult<&mut T> {
            self.edge.load(Acquire);
            self.inner.get_mut()
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.inner.as_ref().expect("held")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.inner.as_mut().expect("held")
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            self.unlock();
        }
    }
}

#[cfg(any(loom, inviso_tsan))]
pub use once::OnceLock;

/// loom has no `OnceLock`, and ThreadSanitizer can't see into std's. This one has the contract of std's: one `init` runs, and a reader
/// of the value sees everything that `init` did.
#[cfg(any(loom, inviso_tsan))]
mod once {
    use super::{
        AtomicBool, Mutex,
        Ordering::{AcqRel, Acquire},
        Unpoisoned,
    };

    /// A value that is created once.
    pub struct OnceLock<T> {
        made: AtomicBool,
        making: Mutex<()>,
        value: std::sync::OnceLock<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self::new()
        }
    }

    impl<T> OnceLock<T> {
        /// Empty.
        #[cfg(loom)]
        pub fn new() -> Self {
            OnceLock { made: AtomicBool::new(false), making: Mutex::new(()), value: std::sync::OnceLock::new() }
        }

        /// Empty.
        #[cfg(not(loom))]
        pub const fn new() -> Self {
            OnceLock { made: AtomicBool::new(false), making: Mutex::new(()), value: std::sync::OnceLock::new() }
        }

        /// The value, if there is one.
        pub fn get(&self) -> Option<&T> {
            self.made.load(Acquire).then(|| self.value.get()).flatten()
        }

        /// The value. Creates it if there is none.
        pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            if let Some(value) = self.get() {
                return value;
            }
            let _making = self.making.lock().unpoisoned();
            let value = self.value.get_or_init(init);
            self.made.swap(true, AcqRel);
            value
        }
    }
}
