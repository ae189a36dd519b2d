//! Queues of pools of threads, where tokens go from task to task. The instrument of pools knows what happens there.
//!
//! # Roles
//! The thread that calls a pool begins. Any attached thread puts and takes items.
//!
//! # States
//! `IN_USE` is null, or a static, from the first call of a pool of threads until tokens go out of use.
//!
//! # Orderings
//! `IN_USE` is a hint: the frames decide.
//!
//! # Checked by
//! `tests/python/test_seq_multiprocess.py`.

use crate::state::thread::ThreadState;
use pyo3::ffi::PyObject;
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

/// An item is put into a queue, or taken out of it: whether it is a queue of a pool.
///
/// # Safety
/// Queue and item stand; the thread is attached and has no exception set.
pub type AtQueue = unsafe fn(&mut ThreadState, *mut PyObject, *mut PyObject) -> bool;

/// What pools of threads do at queues.
pub struct PoolQueues {
    /// An item is put.
    pub put: AtQueue,
    /// An item is taken.
    pub taken: AtQueue,
}

/// Null until a pool of threads is called while tokens are in use.
static IN_USE: AtomicPtr<PoolQueues> = AtomicPtr::new(null_mut());

/// What pools of threads do, if one was called while tokens were in use: a first look, without a search.
#[inline(always)]
pub fn in_use() -> Option<&'static PoolQueues> {
    // SAFETY: null, or a static.
    unsafe { IN_USE.load(Ordering::Acquire).as_ref() }
}

/// A pool of threads was called.
pub fn begin(queues: &'static PoolQueues) {
    IN_USE.store(std::ptr::from_ref(queues).cast_mut(), Ordering::Release);
}

/// Instruments look at queues for pools no longer.
pub fn forget() {
    IN_USE.store(null_mut(), Ordering::Release);
}
