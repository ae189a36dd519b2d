//! The only door to atomics, mutexes and threads: `std` in a normal build, loom under `--cfg loom`.
//!
//! Every other module of this crate takes these names from here, so that each protocol can be put under
//! the model checker as it stands.

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
        Arc, RwLock, Weak,
    },
    thread,
};

#[cfg(not(any(loom, inviso_tsan)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

#[cfg(inviso_tsan)]
pub use told::{Condvar, Mutex, MutexGuard};

/// What a lock that is only tried says; loom uses std's own.
pub use std::sync::TryLockError;

use std::sync::{LockResult, PoisonError};

/// Takes a lock also after a holder has panicked. A panic switches tracing off in its thread; the others go on with what it left.
pub trait Unpoisoned<G> {
    /// The guard, whoever held the lock before.
    fn unpoisoned(self) -> G;
}

impl<G> Unpoisoned<G> for LockResult<G> {
    fn unpoisoned(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
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

/// std's own locks come without ThreadSanitizer's instrumentation, so that it takes what they guard for races. These tell it.
#[cfg(inviso_tsan)]
mod told {
    use super::{
        AtomicU32,
        Ordering::{Acquire, Release},
    };
    use std::{
        ops::{Deref, DerefMut},
        sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult},
        time::Duration,
    };

    /// std's mutex, with an edge from each holder to the next that can be seen.
    #[derive(Default)]
    pub struct Mutex<T> {
        inner: std::sync::Mutex<T>,
        edge: AtomicU32,
    }

    /// Its guard; empty only while it waits.
    pub struct MutexGuard<'a, T> {
        inner: Option<std::sync::MutexGuard<'a, T>>,
        edge: &'a AtomicU32,
    }

    /// std's condition variable.
    #[derive(Default)]
    pub struct Condvar(std::sync::Condvar);

    impl Condvar {
        /// One that nobody waits for.
        pub const fn new() -> Self {
            Condvar(std::sync::Condvar::new())
        }

        /// As std's.
        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            if let Some(inner) = guard.let_go() {
                guard.take(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
            }
            Ok(guard)
        }

        /// As std's.
        pub fn wait_timeout<'a, T>(
            &self, mut guard: MutexGuard<'a, T>, limit: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, Option<WaitTimeoutResult>)> {
            let mut over = None;
            if let Some(inner) = guard.let_go() {
                let (inner, result) = self.0.wait_timeout(inner, limit).unwrap_or_else(PoisonError::into_inner);
                guard.take(inner);
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
        fn take(&mut self, inner: std::sync::MutexGuard<'a, T>) {
            self.edge.load(Acquire);
            self.inner = Some(inner);
        }

        fn let_go(&mut self) -> Option<std::sync::MutexGuard<'a, T>> {
            self.edge.fetch_add(1, Release); // before the lock is given back
            self.inner.take()
        }
    }

    impl<T> Mutex<T> {
        /// A free one.
        pub const fn new(value: T) -> Self {
            Mutex { inner: std::sync::Mutex::new(value), edge: AtomicU32::new(0) }
        }

        fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            let mut guard: MutexGuard<'_, T> = MutexGuard { inner: None, edge: &self.edge };
            guard.take(inner);
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
            self.let_go();
        }
    }
}

#[cfg(any(loom, inviso_tsan))]
pub use once::OnceLock;

/// loom has no `OnceLock`, and ThreadSanitizer can't see into std's; this one has the contract of std's and nothing more: one
/// `init` runs, and who gets the value sees all that it did.
#[cfg(any(loom, inviso_tsan))]
mod once {
    use super::{
        AtomicBool, Mutex,
        Ordering::{AcqRel, Acquire},
        Unpoisoned,
    };

    /// A value that is made once.
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
        /// Nothing is made.
        #[cfg(loom)]
        pub fn new() -> Self {
            OnceLock { made: AtomicBool::new(false), making: Mutex::new(()), value: std::sync::OnceLock::new() }
        }

        /// Nothing is made.
        #[cfg(not(loom))]
        pub const fn new() -> Self {
            OnceLock { made: AtomicBool::new(false), making: Mutex::new(()), value: std::sync::OnceLock::new() }
        }

        /// The value, if it is made.
        pub fn get(&self) -> Option<&T> {
            self.made.load(Acquire).then(|| self.value.get()).flatten()
        }

        /// The value; makes it if nobody has.
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
