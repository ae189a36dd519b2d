//! The only door to atomics, mutexes and threads: `std` in a normal build, loom under `--cfg loom`.
//!
//! Every other module of this crate takes these names from here, so that each protocol can be put under
//! the model checker as it stands.

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering},
        Arc, Condvar, Mutex, MutexGuard, RwLock, Weak,
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
