//! The CPU time of a thread.

/// A clock of the CPU time that the calling thread has taken, in nanoseconds; `None` where the system has none.
pub fn clock() -> Option<fn() -> u64> {
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
    return read().map(|_| (|| read().unwrap_or_default()) as fn() -> u64);
    #[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
    None
}

#[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
fn read() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a timespec of ours.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (answer == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
