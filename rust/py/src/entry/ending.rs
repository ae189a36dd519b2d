//! The signal that ends a process which still has something to write.
//!
//! # Roles
//! Our handler may run in any thread, at any time. It notes the signal and wakes the one waiting thread. That thread
//! writes the rest and then runs the signal's default action. If it does not finish within [`PATIENCE`] seconds, a
//! timer sends the signal again, and the handler runs the default action at once. So code that holds the interpreter
//! for long does not keep the process alive.
//!
//! # States
//! | word | is |
//! | --- | --- |
//! | `TAKEN` | the signal that is waited for |
//! | `COME` | 0, or the number of the signal that was noted |
//! | `WAITER` | the process whose thread waits; a forked child has none |
//! | `BELL` | 1 if the waiting thread has to wake up |
//! | `HAS_TIMER`, `TIMER` | whether `WAITER` has a timer, and which |
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `WAITER` | [`ending_take`], `Release` | the handler, `Acquire` | it sees the timer and an empty `COME` |
//! | `BELL` | [`ring`], `AcqRel` | [`ending_wait`], `AcqRel` | the woken thread sees `COME` |
//!
//! # Checked by
//! `tests/python/test_children.py`, `tests/python/test_run_children.py`, `tests/python/test_autostart_children.py`.

use inviso_port::signals;
use pyo3::prelude::*;
use std::{
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

const PATIENCE: i64 = 2;

static WAITER: AtomicI32 = AtomicI32::new(0);
/// The signal that the thread waits for.
static TAKEN: AtomicI32 = AtomicI32::new(0);
static COME: AtomicI32 = AtomicI32::new(0);
/// 1: the waiting thread has to wake up.
static BELL: AtomicU32 = AtomicU32::new(0);
static HAS_TIMER: AtomicBool = AtomicBool::new(false);
/// A `timer_t` of the process `WAITER`.
static TIMER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(number: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: errno is this thread's own and is restored below. All other calls are async-signal-safe.
    unsafe {
        let errno = *libc::__errno_location();
        if WAITER.load(Ordering::Acquire) != libc::getpid() {
            signals::follow(number);
        } else if COME.swap(number, Ordering::AcqRel) != 0 {
            let mut left: libc::itimerspec = zeroed();
            let timer = TIMER.load(Ordering::Acquire) as libc::timer_t;
            let is_due = !HAS_TIMER.load(Ordering::Acquire)
                || (libc::timer_gettime(timer, &raw mut left) == 0
                    && left.it_value.tv_sec == 0
                    && left.it_value.tv_nsec == 0);
            if is_due {
                signals::follow(number);
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
        // SAFETY: the futex word is a static, so its address is always valid.
        unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }
}

/// A thread of this process waits for the signal from now on, if its default action would follow. Returns False if the
/// program handles or ignores it.
#[pyfunction]
pub fn take(number: i32) -> bool {
    // SAFETY: all zeroes are a valid value of these plain structures; the handler lives for ever.
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

/// Replaces the action whose handler is `expected`. An action that another thread has set meanwhile stays.
fn replace(number: i32, expected: libc::sighandler_t, action: &libc::sigaction) -> bool {
    // SAFETY: all zeroes are a valid value of this plain structure.
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

/// Waits for this many seconds, or until the signal arrives or `ending_wake` is called. Returns the signal, or 0.
#[pyfunction]
pub fn wait(py: Python<'_>, seconds: f64) -> i32 {
    let most = Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
    let time = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(most.subsec_nanos() as i32),
    };
    py.detach(|| {
        if BELL.swap(0, Ordering::AcqRel) == 0 {
            let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word is a static and the timeout lives until the call returns. The system compares the word
            // and sleeps in one step.
            unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), how, 0, &raw const time) };
            BELL.swap(0, Ordering::AcqRel);
        }
    });
    COME.load(Ordering::Acquire)
}

/// Wakes the waiting thread.
#[pyfunction]
pub fn wake() {
    ring();
}

/// Runs the signal's default action.
#[pyfunction]
pub fn follow(number: i32) {
    signals::follow(number);
}

/// No thread waits for the signal any more. Restores the default action, and runs it at once if the signal has arrived.
#[pyfunction]
pub fn give() {
    // SAFETY: all zeroes are a valid value of these plain structures. The timer belongs to this process, and after the
    // swap no other thread uses it.
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
        signals::follow(number);
    }
}
