//! A pair of barriers that together order a store before a load. Only one side pays for it.
//!
//! | | with `membarrier` | without | under loom |
//! | --- | --- | --- | --- |
//! | [`light`] | the compiler alone | `SeqCst` fence | `SeqCst` fence |
//! | [`heavy`] | every running thread of the process passes a full barrier | `SeqCst` fence | `SeqCst` fence |
//!
//! # Roles
//! A traced thread calls [`light`], often. The control side calls [`heavy`], seldom. Any thread calls [`prepare`].
//!
//! # States
//! | `STATE` | is |
//! | --- | --- |
//! | `UNKNOWN` | [`prepare`] has not run |
//! | `HAD` | the process is registered for `membarrier` |
//! | `NOT` | the system has no `membarrier`, or the build has `--cfg inviso_portable`; never changes again |
//!
//! # Orderings
//! Those of the two fences. `STATE` is `Relaxed`: [`prepare`] runs before a thread's first section.
//!
//! # Checked by
//! `models::section` (loom), mutant `section_unfenced`; the test below.
//!
//! Only other crates of the workspace use it.

use crate::sync::{fence, Ordering::SeqCst};
#[cfg(not(loom))]
use std::sync::atomic::{compiler_fence, AtomicU8, Ordering::Relaxed};

/// See States.
#[cfg(not(loom))]
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(not(loom))]
const UNKNOWN: u8 = 0;
#[cfg(not(loom))]
const HAD: u8 = 1;
#[cfg(not(loom))]
const NOT: u8 = 2;

#[cfg(all(not(loom), not(inviso_portable), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn membarrier(command: i64) -> bool {
    use std::ffi::c_long;
    extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    let number: c_long = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
    // SAFETY: membarrier(2) takes two numbers and touches no memory of ours.
    unsafe { syscall(number, command as c_long, 0 as c_long) == 0 }
}

#[cfg(all(
    not(loom),
    not(all(not(inviso_portable), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))
))]
fn membarrier(_command: i64) -> bool {
    false
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, and the command that registers for it.
#[cfg(not(loom))]
const EXPEDITED: i64 = 8;
#[cfg(not(loom))]
const REGISTER: i64 = 16;

/// Registers the process for `membarrier`. Call it before the first [`light`], and after a fork.
pub fn prepare() {
    #[cfg(not(loom))]
    if STATE.load(Relaxed) != NOT {
        // never from `NOT` to `HAD`: a thread that has begun to use fences continues to use them
        let state = if membarrier(REGISTER) && membarrier(EXPEDITED) { HAD } else { NOT };
        STATE.store(state, Relaxed);
    }
}

/// Whether the expensive side is `membarrier`, so that the cheap side costs nothing. False before [`prepare`].
#[must_use]
pub fn is_process_wide() -> bool {
    #[cfg(not(loom))]
    return STATE.load(Relaxed) == HAD;
    #[cfg(loom)]
    false
}

/// The cheap side, for the thread that passes often.
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

/// The expensive side.
pub fn heavy() {
    // partner: the fence in `light`, or the barrier that `membarrier` makes every thread pass
    fence(SeqCst);
    #[cfg(not(loom))]
    if STATE.load(Relaxed) == HAD && !membarrier(EXPEDITED) {
        // it worked in `prepare`. Without it, no wait for a thread would be safe
        panic!("membarrier is no longer to be had");
    }
}

#[cfg(all(test, not(loom), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// Makes `membarrier` fail in the calling thread.
    fn refuse_membarrier() {
        let number = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
        let statement = |code: u32, k, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            // the first word of the filter's input is the number of the system call
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the arguments are numbers and a filter that lives during the call, which copies it. It applies to this thread only.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        assert!(done, "{}", std::io::Error::last_os_error());
    }

    /// Without `membarrier` no wait is safe, so a thread must notice when the system refuses it.
    #[test]
    fn the_heavy_side_asks_the_system_each_time() {
        prepare();
        heavy();
        let had = STATE.load(Relaxed) == HAD;
        let refused = std::thread::spawn(|| {
            refuse_membarrier();
            [(), ()].map(|()| catch_unwind(heavy).is_err())
        });
        assert_eq!(refused.join().unwrap(), [had; 2]);
        heavy();
    }
}
