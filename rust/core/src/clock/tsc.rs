//! The processor's time stamp counter.

/// Its value; 0 on processors without one.
#[inline(always)]
#[allow(unsafe_code)]
pub fn read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}
