//! The signal that ends a process which still has something to write.
//!
//! # Roles
//! Our handler may run in any thread, at any time. It notes the signal and wakes the one waiting thread. That thread
//! writes the rest and then runs the signal's default action. If it does not finish within [`PATIENCE`] seconds, a
//! timer (on Linux) sends the signal again, and the handler runs the default action at once. So code that holds the interpreter
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

use inviso_port::{
    platform::{self, Timer},
    signals,
};
use pyo3::prelude::*;
use std::{
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

const PATIENCE: i32 = 2;

static WAITER: AtomicI32 = AtomicI32::new(0);
/// The signal that the thread waits for.
static TAKEN: AtomicI32 = AtomicI32::new(0);
static COME: AtomicI32 = AtomicI32::new(0);
/// 1: the waiting thread has to wake up.
static BELL: AtomicU32 = AtomicU32::new(0);
static HAS_TIMER: AtomicBool = AtomicBool::new(false);
/// The number of a [`Timer`] of the process `WAITER`.
static TIMER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(number: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let errno = platform::errno();
    // SAFETY: `getpid` has no preconditions.
    if WAITER.load(Ordering::Acquire) != unsafe { libc::getpid() } {
        signals::follow(number);
    } else if COME.swap(number, Ordering::AcqRel) != 0 {
        if timer().is_none_or(Timer::is_over) {
            signals::follow(number);
        }
    } else {
        if let Some(timer) = timer() {
            timer.start(PATIENCE);
        }
        ring();
    }
    platform::set_errno(errno);
}

/// The timer of the process `WAITER`, if it has one.
fn timer() -> Option<Timer> {
    HAS_TIMER.load(Ordering::Acquire).then(|| Timer::of(TIMER.load(Ordering::Acquire)))
}

fn ring() {
    if BELL.swap(1, Ordering::AcqRel) == 0 {
        platform::wake(&BELL);
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
            let timer = Timer::new(number);
            TIMER.store(timer.map_or(0, Timer::number), Ordering::Release);
            HAS_TIMER.store(timer.is_some(), Ordering::Release);
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
    py.detach(|| {
        if BELL.swap(0, Ordering::AcqRel) == 0 {
            platform::sleep_while_zero(&BELL, Some(most));
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
                Timer::of(TIMER.load(Ordering::Acquire)).delete();
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
