//! Two words a thread: a pointer to the thread's own record, and the bytes that its code requested from the allocators.
//!
//! A Rust `thread_local` in a shared library gets its address from the loader at every use (a function call). On Linux
//! with glibc these two words use the initial-exec model instead: the loader gives them a fixed distance from the
//! thread pointer when the library is loaded, and a read is two moves. They take 16 bytes of the space that glibc keeps
//! for this. Elsewhere they are ordinary constant-initialised thread locals.
//!
//! Both words are zero in a new thread. Nothing runs when a thread ends: the code that stores a pointer here frees its
//! target.

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(inviso_portable)))]
mod imp {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss,\"awT\",@nobits",
        ".balign 8",
        ".globl inviso_tls_record",
        ".hidden inviso_tls_record",
        ".type inviso_tls_record,@object",
        ".size inviso_tls_record, 8",
        "inviso_tls_record:",
        ".zero 8",
        ".globl inviso_tls_bytes",
        ".hidden inviso_tls_bytes",
        ".type inviso_tls_bytes,@object",
        ".size inviso_tls_bytes, 8",
        "inviso_tls_bytes:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub fn get() -> *mut u8 {
        let word: *mut u8;
        // SAFETY: the first move loads the word's distance from the thread pointer, the second this thread's own word,
        // which lives as long as the thread. Nothing is written; `set` is not `readonly`, so a read never moves across
        // it.
        unsafe {
            asm!(
                "mov {r}, qword ptr [rip + inviso_tls_record@GOTTPOFF]",
                "mov {r}, qword ptr fs:[{r}]",
                r = out(reg) word,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        word
    }

    #[inline(always)]
    pub fn set(word: *mut u8) {
        // SAFETY: writes this thread's own word and nothing else.
        unsafe {
            asm!(
                "mov {r}, qword ptr [rip + inviso_tls_record@GOTTPOFF]",
                "mov qword ptr fs:[{r}], {v}",
                r = out(reg) _,
                v = in(reg) word,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    pub fn bytes() -> u64 {
        let word: u64;
        // SAFETY: the first move loads the word's distance, the second this thread's own word. Nothing is written;
        // `set_bytes` is not `readonly`, so a read never moves across it.
        unsafe {
            asm!(
                "mov {r}, qword ptr [rip + inviso_tls_bytes@GOTTPOFF]",
                "mov {r}, qword ptr fs:[{r}]",
                r = out(reg) word,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        word
    }

    #[inline(always)]
    pub fn set_bytes(word: u64) {
        // SAFETY: writes this thread's own word and nothing else.
        unsafe {
            asm!(
                "mov {r}, qword ptr [rip + inviso_tls_bytes@GOTTPOFF]",
                "mov qword ptr fs:[{r}], {v}",
                r = out(reg) _,
                v = in(reg) word,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(inviso_portable))))]
mod imp {
    use std::cell::Cell;

    thread_local! {
        static RECORD: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
        static BYTES: Cell<u64> = const { Cell::new(0) };
    }

    #[inline]
    pub fn get() -> *mut u8 {
        RECORD.get()
    }

    #[inline]
    pub fn set(word: *mut u8) {
        RECORD.set(word);
    }

    #[inline]
    pub fn bytes() -> u64 {
        BYTES.get()
    }

    #[inline]
    pub fn set_bytes(word: u64) {
        BYTES.set(word);
    }
}

/// Whether the words are read by two moves. Otherwise the loader's function is called for each use.
pub const IS_INITIAL_EXEC: bool =
    cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(inviso_portable)));

/// This thread's record as [`set`] left it, or null in a thread without one.
#[inline(always)]
pub fn get() -> *mut u8 {
    imp::get()
}

/// Sets this thread's record. The caller still has to free its target.
#[inline(always)]
pub fn set(record: *mut u8) {
    imp::set(record);
}

/// Bytes that this thread's code has requested from Python's allocators while the hook of [`crate::hooks::alloc`] was
/// in place. Only [`set_bytes`] makes it smaller; only differences mean something.
#[inline(always)]
pub fn bytes() -> u64 {
    imp::bytes()
}

/// Sets the count of [`bytes`] to `count`: around the tracer's own work, to remove its own allocations.
#[inline(always)]
pub fn set_bytes(count: u64) {
    imp::set_bytes(count);
}
