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

#[cfg(all(test, not(loom), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// Makes `membarrier` fail in the calling thread.
    fn refuse_membarrier() {
        let number = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
        let statement = |code: u32, k, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            // the call's number is the first word of what the filter looks at
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: numbers, and a filter that stands during the call, which copies it; it is this thread's only.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        assert!(done, "{}", std::io::Error::last_os_error());
    }

    /// Without it no thread could be waited for: a thread in which the system refuses it must notice.
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
