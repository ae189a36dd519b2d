//! The processor's time stamp counter.

/// Its value; 0 on processors without one, and in a build with `--cfg inviso_portable`.
#[inline(always)]
#[allow(unsafe_code)]
pub fn read() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(inviso_portable)))]
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(inviso_portable))))]
    0
}

/// Makes later loads wait for earlier reads of a counter. A processor need not keep their order: x86-64 may read the TSC, and aarch64
/// the system counter, after loads that follow. Elsewhere the operating system's clock is read, by a call.
#[inline]
#[allow(unsafe_code)]
pub fn settle() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: every processor of this kind has the instruction; it touches no memory. Not `nomem`, so the compiler keeps the order, too.
    unsafe {
        core::arch::asm!("isb", options(nostack, preserves_flags));
    }
}
