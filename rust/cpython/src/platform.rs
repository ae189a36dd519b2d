//! What differs between operating systems: Linux's own calls, and what replaces them elsewhere. Only Linux is tested, and only there
//! [`layout::KNOWN`](crate::layout::KNOWN) is true.
//!
//! | function | Linux | elsewhere |
//! | --- | --- | --- |
//! | [`cpu_clock`] | the clock of the thread's CPU time | the same on macOS and FreeBSD; other systems have none |
//! | [`own_stack`] | the bounds of the thread's stack | not known: on 3.11 traced calls don't notice the end of the stack |
//! | [`map_stack`] | memory for a stack, with a guard | none: on 3.11 a traced call is refused where the thread's stack ends |
//!
//! A processor without a switch of stacks in [`hooks::stack`](crate::hooks) has no memory for a stack either.

/// A clock of the CPU time that the calling thread has taken, in nanoseconds; `None` if the system has none.
pub fn cpu_clock() -> Option<fn() -> u64> {
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
    return cpu_time().map(|_| (|| cpu_time().unwrap_or_default()) as fn() -> u64);
    #[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
    None
}

#[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
fn cpu_time() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local timespec.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (answer == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The lowest address of the calling thread's own stack, and its size. `None` if that is not known.
#[cfg(all(not(Py_3_12), target_os = "linux"))]
pub fn own_stack() -> Option<(usize, usize)> {
    use std::{mem::MaybeUninit, ptr};
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut address, mut size, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: the calls fill their arguments; the attributes are initialised by the first and destroyed by the last.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let got = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut address, &raw mut size);
        libc::pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if got != 0 || address.is_null() || size <= guard {
            return None;
        }
        let (low, end) = (address as usize + guard, address as usize + size);
        // musl tells only how far the first stack has grown
        let lowest = if cfg!(target_env = "musl") { low_of_first_stack(&raw const guard as usize) } else { None };
        let low = lowest.map_or(low, |lowest| lowest.min(low));
        Some((low, end - low))
    }
}

/// How far down the stack grows that the process began with: to its limit, or to the mapping below. `None` if `address`
/// is on another stack.
#[cfg(all(not(Py_3_12), target_os = "linux"))]
fn low_of_first_stack(address: usize) -> Option<usize> {
    /// What the kernel leaves free below a stack.
    const GAP: usize = 1024 * 1024;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the local.
    if unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } != 0 {
        return None;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut below = 0;
    for line in maps.lines() {
        let (low, high) = line.split(' ').next()?.split_once('-')?;
        let (low, high) = (usize::from_str_radix(low, 16).ok()?, usize::from_str_radix(high, 16).ok()?);
        if (low..high).contains(&address) {
            let lowest = high.saturating_sub(limit.rlim_cur as usize).max(below + GAP);
            return line.ends_with("[stack]").then_some(lowest);
        }
        below = high;
    }
    None
}

/// The lowest address of the calling thread's own stack, and its size. `None` if that is not known.
#[cfg(all(not(Py_3_12), not(target_os = "linux")))]
pub fn own_stack() -> Option<(usize, usize)> {
    None
}

/// Memory for a stack of this many bytes, whose lowest `guard` bytes must not be touched: the lowest address. Only touched
/// pages take memory. `None` without memory, and where no switch of stacks is known.
#[cfg(not(Py_3_12))]
pub fn map_stack(bytes: usize, guard: usize) -> Option<std::ptr::NonNull<u8>> {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]
    // SAFETY: a new mapping, whose lowest part is then protected.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let low = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if low == libc::MAP_FAILED {
            return None;
        }
        if libc::mprotect(low, guard, libc::PROT_NONE) != 0 {
            libc::munmap(low, bytes);
            return None;
        }
        std::ptr::NonNull::new(low.cast())
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux")))]
    {
        let _ = (bytes, guard);
        None
    }
}

/// Frees the memory of [`map_stack`].
///
/// # Safety
/// `low` and `bytes` are those of the mapping, and nothing is on it.
#[cfg(not(Py_3_12))]
pub unsafe fn unmap_stack(low: std::ptr::NonNull<u8>, bytes: usize) {
    // SAFETY: the caller promises a mapping that nothing uses.
    unsafe { libc::munmap(low.as_ptr().cast(), bytes) };
}
