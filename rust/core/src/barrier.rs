//! A pair of barriers that together order a store before a load, with the cost on one side only.
//!
//! | | with `membarrier` | without | under loom |
//! | --- | --- | --- | --- |
//! | [`light`] | the compiler alone | `SeqCst` fence | `SeqCst` fence |
//! | [`heavy`] | every running thread of the process passes a full barrier | `SeqCst` fence | `SeqCst` fence |

use crate::sync::{fence, Ordering::SeqCst};
#[cfg(not(loom))]
use std::sync::atomic::{compiler_fence, AtomicU8, Ordering::Relaxed};

/// Not asked yet, had, not to be had.
#[cfg(not(loom))]
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(not(loom))]
const UNKNOWN: u8 = 0;
#[cfg(not(loom))]
const HAD: u8 = 1;
#[cfg(not(loom))]
const NOT: u8 = 2;

#[cfg(all(not(loom), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn membarrier(command: i64) -> bool {
    use std::ffi::c_long;
    extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    let number: c_long = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
    // SAFETY: membarrier(2) takes two numbers and touches no memory of ours.
    unsafe { syscall(number, command as c_long, 0 as c_long) == 0 }
}

#[cfg(all(not(loom), not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))))]
fn membarrier(_command: i64) -> bool {
    false
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration.
#[cfg(not(loom))]
const EXPEDITED: i64 = 8;
#[cfg(not(loom))]
const REGISTER: i64 = 16;

/// Has the process registered for `membarrier`; to be called before the first [`light`], and after a fork.
pub fn prepare() {
    #[cfg(not(loom))]
    if STATE.load(Relaxed) != NOT {
        // once without it, always without it: a thread that has begun to rely on its own fences goes on doing so
        let state = if membarrier(REGISTER) && membarrier(EXPEDITED) { HAD } else { NOT };
        STATE.store(state, Relaxed);
    }
}

/// The side that is often passed.
#[inline(always)]
pub fn light() {
    #[cfg(not(loom))]
    if STATE.load(Relaxed) == HAD {
        compiler_fence(SeqCst);
        return;
    }
    // partner: the fence in `heavy`
    fence(SeqCst);
}

/// The other side.
pub fn heavy() {
    // partner: the fence in `light`, or what `membarrier` does to every thread
    fence(SeqCst);
    #[cfg(not(loom))]
    if STATE.load(Relaxed) == HAD && !membarrier(EXPEDITED) {
        // it worked when it was prepared: without it no thread could be waited for
        panic!("membarrier is no longer to be had");
    }
}
