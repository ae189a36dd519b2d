//! What differs between operating systems: Linux's own calls, and what replaces them elsewhere. Only Linux is tested.
//!
//! | function | Linux | elsewhere |
//! | --- | --- | --- |
//! | [`errno`], [`set_errno`] | the C library's word | macOS's word |
//! | [`sleep_while_zero`], [`wake`] | a futex | the sleeper looks every [`LOOK`] |
//! | [`Timer`] | a timer of the process that sends a signal | there is none |
//! | [`take_pending`] | `sigtimedwait` | `sigpending`, then `sigwait` |
//! | [`may_have_thread`] | the folder of the process's threads | always true |
//!
//! Where a file of `/proc` is read elsewhere in the workspace, the code does without it if there is none: the resident memory of a
//! collection's message, and the wait before a fork for the end of threads that were joined.
//!
//! Only other crates of the workspace use it.

use std::{sync::atomic::AtomicU32, time::Duration};

/// How often a sleeper looks at its word where nothing can wake it.
pub const LOOK: Duration = Duration::from_millis(10);

/// The calling thread's error number. Async-signal-safe.
pub fn errno() -> i32 {
    // SAFETY: the pointer is this thread's own word.
    unsafe { *place_of_errno() }
}

/// Sets the calling thread's error number. Async-signal-safe.
pub fn set_errno(number: i32) {
    // SAFETY: as in `errno`.
    unsafe { *place_of_errno() = number };
}

fn place_of_errno() -> *mut libc::c_int {
    // SAFETY: the functions have no preconditions.
    #[cfg(target_os = "linux")]
    return unsafe { libc::__errno_location() };
    #[cfg(not(target_os = "linux"))]
    return unsafe { libc::__error() };
}

/// Wakes the thread that sleeps on the word. Async-signal-safe; makes one system call at most.
pub fn wake(word: &'static AtomicU32) {
    #[cfg(target_os = "linux")]
    // SAFETY: the word is a static, so its address is always valid.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = word;
}

/// Sleeps while the word is 0, for `most` at the longest. May return early.
#[cfg(target_os = "linux")]
pub fn sleep_while_zero(word: &'static AtomicU32, most: Option<Duration>) {
    let time = most.map(|most| libc::timespec {
        tv_sec: most.as_secs().min(i32::MAX as u64) as _, // the type's name is deprecated for musl
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is a static and the timeout lives until the call returns. The system compares the word and sleeps in one
    // step.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), how, 0, time) };
}

/// Sleeps while the word is 0, for `most` at the longest. May return early.
#[cfg(not(target_os = "linux"))]
pub fn sleep_while_zero(word: &'static AtomicU32, most: Option<Duration>) {
    let begun = std::time::Instant::now();
    // the caller swaps the word afterwards, and that orders what it reads
    while word.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        let left = most.map_or(LOOK, |most| most.saturating_sub(begun.elapsed()));
        if left.is_zero() {
            return;
        }
        std::thread::sleep(LOOK.min(left));
    }
}

/// A timer of the process, which sends it a signal. A forked child has none.
#[derive(Clone, Copy, Debug)]
pub struct Timer(usize);

#[cfg(target_os = "linux")]
impl Timer {
    /// A timer that sends this signal. `None` if there is none to be had.
    pub fn new(signal: i32) -> Option<Timer> {
        // SAFETY: all zeroes are a valid value of this plain structure. The call reads it and writes the timer.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = signal;
            let mut timer: libc::timer_t = std::ptr::null_mut();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
            (made == 0).then_some(Timer(timer as usize))
        }
    }

    /// Sends the signal after this time. Async-signal-safe.
    pub fn start(self, seconds: i32) {
        // SAFETY: all zeroes are a valid value of this plain structure; the timer is this process's.
        unsafe {
            let mut time: libc::itimerspec = std::mem::zeroed();
            time.it_value.tv_sec = seconds.into();
            libc::timer_settime(self.0 as libc::timer_t, 0, &raw const time, std::ptr::null_mut());
        }
    }

    /// Whether it has sent its signal, or was not started. Async-signal-safe.
    pub fn is_over(self) -> bool {
        // SAFETY: the call writes the structure; the timer is this process's.
        unsafe {
            let mut left: libc::itimerspec = std::mem::zeroed();
            libc::timer_gettime(self.0 as libc::timer_t, &raw mut left) == 0
                && left.it_value.tv_sec == 0
                && left.it_value.tv_nsec == 0
        }
    }

    /// Deletes it. The caller uses no copy of it afterwards.
    pub fn delete(self) {
        // SAFETY: the timer is this process's.
        unsafe { libc::timer_delete(self.0 as libc::timer_t) };
    }
}

#[cfg(not(target_os = "linux"))]
impl Timer {
    /// `None`.
    pub fn new(_signal: i32) -> Option<Timer> {
        None
    }

    /// There is no timer.
    pub fn start(self, _seconds: i32) {}

    /// There is no timer.
    pub fn is_over(self) -> bool {
        true
    }

    /// There is no timer.
    pub fn delete(self) {}
}

impl Timer {
    /// The timer as a number, for a static.
    pub fn number(self) -> usize {
        self.0
    }

    /// The timer of a number.
    pub fn of(number: usize) -> Timer {
        Timer(number)
    }
}

/// Takes one of these signals if it is pending. The calling thread has blocked them.
pub fn take_pending(signals: &libc::sigset_t) {
    #[cfg(target_os = "linux")]
    // SAFETY: the set and the time live during the call, and it writes nothing.
    unsafe {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigtimedwait(signals, std::ptr::null_mut(), &raw const now);
    }
    #[cfg(not(target_os = "linux"))]
    // SAFETY: the calls read the set and write local variables. `sigwait` returns at once: one of its signals is pending.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        let mut taken = 0;
        libc::sigpending(&raw mut pending);
        let is_pending = |number| libc::sigismember(&raw const pending, number) == 1;
        if (1..32).any(|number| libc::sigismember(signals, number) == 1 && is_pending(number)) {
            libc::sigwait(signals, &raw mut taken);
        }
    }
}

/// Whether this process has a thread of this number of the system. Elsewhere it may have one, so the threads that the program
/// knows are believed.
pub fn may_have_thread(id: u64) -> bool {
    !cfg!(target_os = "linux") || std::path::Path::new(&format!("/proc/self/task/{id}")).exists()
}
