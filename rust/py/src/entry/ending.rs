//! The signal that ends a process in which something is still to be written.
//!
//! # Roles
//! Our handler, in any thread at any time, notes the signal and wakes the one thread that waits. That writes what there is, then
//! has the signal's default action follow. Where it doesn't come to that in [`PATIENCE`] seconds a timer sends the signal again, and
//! the handler follows it at once: what holds the interpreter for long may not keep the process alive.
//!
//! # States
//! `TAKEN` is the signal that is waited for. `COME` is 0, or the number of the signal that was noted. `WAITER` is the process whose thread waits; a forked child has none.

use inviso_port::signals::follow;
use pyo3::prelude::*;
use std::{
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

const PATIENCE: i64 = 2;

static WAITER: AtomicI32 = AtomicI32::new(0);
/// The signal that it waits for.
static TAKEN: AtomicI32 = AtomicI32::new(0);
static COME: AtomicI32 = AtomicI32::new(0);
/// 1: there is something to look at.
static BELL: AtomicU32 = AtomicU32::new(0);
static HAS_TIMER: AtomicBool = AtomicBool::new(false);
/// A `timer_t` of the process `WAITER`.
static TIMER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(number: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: this thread's own, put back below; calls that a handler may do.
    unsafe {
        let errno = *libc::__errno_location();
        if WAITER.load(Ordering::Acquire) != libc::getpid() {
            follow(number);
        } else if COME.swap(number, Ordering::AcqRel) != 0 {
            let mut left: libc::itimerspec = zeroed();
            let timer = TIMER.load(Ordering::Acquire) as libc::timer_t;
            let is_due = !HAS_TIMER.load(Ordering::Acquire)
                || (libc::timer_gettime(timer, &raw mut left) == 0
                    && left.it_value.tv_sec == 0
                    && left.it_value.tv_nsec == 0);
            if is_due {
                follow(number);
            }
        } else {
            if HAS_TIMER.load(Ordering::Acquire) {
                let mut time: libc::itimerspec = zeroed();
                time.it_value.tv_sec = PATIENCE;
                libc::timer_settime(
                    TIMER.load(Ordering::Acquire) as libc::timer_t,
                    0,
                    &raw const time,
                    ptr::null_mut(),
                );
            }
            ring();
        }
        *libc::__errno_location() = errno;
    }
}

fn ring() {
    if BELL.swap(1, Ordering::AcqRel) == 0 {
        // SAFETY: wakes a thread that waits for a word that is always there.
        unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }
}

/// A thread of this process waits for the signal from now on, if the default action is what follows it; False if the program handles
/// or ignores it.
#[pyfunction]
pub fn ending_take(number: i32) -> bool {
    // SAFETY: plain structures of the system's, which are valid as zeroes; the handler lives for ever.
    unsafe {
        let mut there: libc::sigaction = zeroed();
        if libc::sigaction(number, ptr::null(), &raw mut there) != 0 {
            return false;
        }
        let ours = on_signal as *const () as usize;
        if there.sa_sigaction != libc::SIG_DFL && there.sa_sigaction != ours {
            return false;
        }
        let own = libc::getpid();
        if WAITER.load(Ordering::Acquire) != own {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = number;
            let mut timer: libc::timer_t = ptr::null_mut();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0;
            TIMER.store(timer as usize, Ordering::Release);
            HAS_TIMER.store(made, Ordering::Release);
            COME.store(0, Ordering::Release);
            TAKEN.store(number, Ordering::Release);
            WAITER.store(own, Ordering::Release);
        }
        if there.sa_sigaction == ours {
            return true;
        }
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        replace(number, libc::SIG_DFL, &action)
    }
}

/// Puts an action in the place of the one whose handler is `expected`; one that another thread has set meanwhile stays.
fn replace(number: i32, expected: libc::sighandler_t, action: &libc::sigaction) -> bool {
    // SAFETY: plain structures of the system's, valid as zeroes.
    unsafe {
        let mut there: libc::sigaction = zeroed();
        if libc::sigaction(number, action, &raw mut there) != 0 {
            return false;
        }
        if there.sa_sigaction != expected {
            libc::sigaction(number, &raw const there, ptr::null_mut());
            return false;
        }
    }
    true
}

/// Waits so many seconds, or until the signal comes or `ending_wake` is called; answers the signal that has come, or 0.
#[pyfunction]
pub fn ending_wait(py: Python<'_>, seconds: f64) -> i32 {
    let most = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
    let time = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    };
    py.detach(|| {
        if BELL.swap(0, Ordering::AcqRel) == 0 {
            let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word is always there, the time for the call; the system compares and sleeps in one.
            unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), how, 0, &raw const time) };
            BELL.swap(0, Ordering::AcqRel);
        }
    });
    COME.load(Ordering::Acquire)
}

/// Wakes the thread that waits.
#[pyfunction]
pub fn ending_wake() {
    ring();
}

/// What the system does at the signal where nobody handles it.
#[pyfunction]
pub fn ending_follow(number: i32) {
    follow(number);
}

/// Nobody waits for the signal any more: its default action is there again, and follows at once if it has come.
#[pyfunction]
pub fn ending_give() {
    // SAFETY: plain structures of the system's, valid as zeroes; the timer is this process's, and nobody's after the swap.
    unsafe {
        if WAITER.swap(0, Ordering::AcqRel) == libc::getpid() {
            if HAS_TIMER.swap(false, Ordering::AcqRel) {
                libc::timer_delete(TIMER.load(Ordering::Acquire) as libc::timer_t);
            }
            let mut there: libc::sigaction = zeroed();
            let number = TAKEN.load(Ordering::Acquire);
            let ours = on_signal as *const () as usize;
            if libc::sigaction(number, ptr::null(), &raw mut there) == 0 && there.sa_sigaction == ours {
                replace(number, ours, &zeroed());
            }
        }
    }
    let number = COME.swap(0, Ordering::AcqRel);
    if number != 0 {
        follow(number);
    }
}
