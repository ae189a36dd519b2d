//! A lock under which Python may run. Who waits for it is detached, so that its holder goes on; and the holder itself, which a signal
//! handler, a finaliser or a pending call may bring back to it, is told that it has it.

use inviso_cpython::interpreter::calling;
use pyo3::Python;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// How long who waits sleeps.
const SLICE: Duration = Duration::from_micros(50);

thread_local! {
    static ME: u8 = const { 0 };
}

/// The lock.
#[derive(Default)]
pub struct Alone {
    /// Who has it, 0 for nobody.
    holder: AtomicUsize,
}

/// It is ours until this is dropped.
pub struct Entered<'a>(&'a Alone);

impl Alone {
    /// One that nobody has.
    pub const fn new() -> Alone {
        Alone { holder: AtomicUsize::new(0) }
    }

    /// Waits for it. `None` if this thread has it already, or one that the end of the interpreter has stopped.
    pub fn enter(&self, py: Python<'_>) -> Option<Entered<'_>> {
        let me = ME.try_with(|me| std::ptr::from_ref(me) as usize).ok()?;
        loop {
            match self.holder.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Entered(self)),
                Err(holder) if holder == me || calling::is_ending(py) => return None,
                Err(_) => py.detach(|| std::thread::sleep(SLICE)),
            }
        }
    }

    /// In a forked child, whose other threads are no more.
    pub fn forget(&self) {
        self.holder.store(0, Ordering::Release);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}
