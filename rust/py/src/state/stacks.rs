//! The greenlets of a thread, and whether a thread has to look which of them runs; see `library::greenlets`.

use inviso_core::host::event::Suspended;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Changes when every thread has to install or remove our function, or to ask which greenlet runs.
pub static EPOCH: AtomicU32 = AtomicU32::new(0);

/// The greenlets of a thread.
#[derive(Default)]
pub struct Stacks {
    /// The values of [`EPOCH`] and [`BEGUN`] that it has seen.
    pub epoch: u32,
    /// The same of how often our function has come into use.
    pub begun: u32,
    /// The running greenlet, by its address.
    pub current: usize,
    /// Traced calls of the other greenlets.
    pub suspended: FxHashMap<usize, Suspended>,
}

impl Stacks {
    /// The thread has only this greenlet; all calls that have not ended belong to it.
    pub fn restart(&mut self, current: usize) {
        self.current = current;
        self.suspended.clear();
    }

    /// Whether the thread has to look again.
    #[inline(always)]
    pub fn is_old(&self) -> bool {
        EPOCH.load(Ordering::Relaxed) != self.epoch
    }
}

/// Makes all threads look again.
pub fn change() {
    EPOCH.fetch_add(1, Ordering::Release);
}
