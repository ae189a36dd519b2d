//! The only door to atomics, mutexes and threads: `std` in a normal build, loom under `--cfg loom`.
//!
//! Every other module of this crate takes these names from here, so that each protocol can be put under
//! the model checker as it stands.

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock, Weak,
    },
    thread,
};

/// What a lock that is only tried says; loom uses std's own.
pub use std::sync::TryLockError;

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

#[cfg(loom)]
pub use once::OnceLock;

/// loom has no `OnceLock`; this one has the contract of std's and nothing more: one `init` runs, and who gets the value sees
/// all that it did.
#[cfg(loom)]
mod once {
    use super::{
        AtomicBool, Mutex,
        Ordering::{AcqRel, Acquire},
    };

    /// A value that is made once.
    #[derive(Debug)]
    pub struct OnceLock<T> {
        made: AtomicBool,
        making: Mutex<()>,
        value: std::sync::OnceLock<T>,
    }

    impl<T> OnceLock<T> {
        /// Nothing is made.
        #[allow(clippy::new_without_default)]
        pub fn new() -> Self {
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
            let _making = self.making.lock().unwrap();
            let value = self.value.get_or_init(init);
            self.made.swap(true, AcqRel);
            value
        }
    }
}
