//! The signals that request dumps.
//!
//! # Roles
//!
//! Our handler may run in any thread, at any time. It sets flags, rings the recorder's bell and calls the handler from before.
//! Everything else runs under the recorder's lock.
//!
//! # States
//!
//! | word | is |
//! | --- | --- |
//! | `BEFORE` | null, or the leaked action below a layer; never changes again |
//! | `WANTED` | whether a session uses the signal |
//! | `RAISED` | set by the handler, cleared by the recorder |
//! | `DUE` | 0, or the process whose default action has to follow the dump |
//!
//! # Orderings
//!
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `BEFORE` | [`install`], `Release` | the handler, `Acquire` | the handler reads the action behind the pointer |
//! | `RAISED` | the handler, `Release`, after `DUE` | [`take_raised`], `AcqRel`, after `DUE` | a due action is taken no later than its signal |
//!
//! # Checked by
//!
//! `tests/python/test_flight_recorder.py`.
//!
//! # Layers
//!
//! A program may install a handler over ours that calls ours, and the next recorder installs ours over that one. So there are
//! several handlers of ours, called *layers*. Each layer knows the one action below it, for good. So no handler calls itself in a
//! circle.
//!
//! # Default actions
//!
//! If the signal had no handler, its default action follows the dump: SIGTERM ends the process. SIGUSR1, SIGUSR2 and the
//! real-time signals are for programs to use and only dump.
//!
//! Only other crates of the workspace use it.

use crate::{bell::ring, platform};
use std::{
    io,
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering},
};

/// One more than the largest signal number.
pub const SIGNALS: usize = 65;
const LAYERS: usize = 8;

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

const OURS: [Handler; LAYERS] = [
    on_signal::<0>,
    on_signal::<1>,
    on_signal::<2>,
    on_signal::<3>,
    on_signal::<4>,
    on_signal::<5>,
    on_signal::<6>,
    on_signal::<7>,
];
/// The action below each layer; null if the layer was never installed.
static BEFORE: [[AtomicPtr<libc::sigaction>; LAYERS]; SIGNALS] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; LAYERS] }; SIGNALS];
/// Whether a session uses the signal.
static WANTED: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];
static RAISED: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];
/// The process whose default action has to follow.
static DUE: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];

extern "C" fn on_signal<const LAYER: usize>(
    number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void,
) {
    let place = number as usize;
    // SAFETY: null, or leaked before this handler was installed.
    let Some(before) = (unsafe { BEFORE[place][LAYER].load(Ordering::Acquire).as_ref() }) else { return };
    let errno = platform::errno();
    let is_default = before.sa_sigaction == libc::SIG_DFL;
    if WANTED[place].load(Ordering::Acquire) {
        if is_default && has_default(number) {
            // SAFETY: `getpid` has no preconditions. `DUE` is set before `RAISED`: see `take_raised`.
            DUE[place].store(unsafe { libc::getpid() }, Ordering::Release);
        }
        RAISED[place].store(true, Ordering::Release);
        ring();
    } else if is_default {
        follow(number);
    }
    platform::set_errno(errno);
    if is_default || before.sa_sigaction == libc::SIG_IGN {
        return;
    }
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: `SA_SIGINFO` says that this is a function of three arguments. They are those of this handler.
        let handler: Handler = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(number, info, context);
    } else {
        // SAFETY: without `SA_SIGINFO` it is a function of one argument.
        let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(number);
    }
}

/// Whether the default action follows the dump.
pub fn has_default(number: i32) -> bool {
    let dumps_only = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    number < 32 && !dumps_only.contains(&number)
}

/// Runs the signal's default action. If the process survives, the present handler is installed again.
pub fn follow(number: i32) {
    // SAFETY: all zeroes are a valid value of these plain structures, and all these calls are async-signal-safe.
    unsafe {
        let (mut default, mut present): (libc::sigaction, libc::sigaction) = (zeroed(), zeroed());
        default.sa_sigaction = libc::SIG_DFL;
        if libc::sigaction(number, &raw const default, &raw mut present) != 0 {
            return;
        }
        let (mut this, mut mask): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigemptyset(&raw mut this);
        libc::sigaddset(&raw mut this, number);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const this, &raw mut mask);
        libc::raise(number);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut());
        libc::sigaction(number, &raw const present, ptr::null_mut());
    }
}

/// Installs our handler before all others of the signal, for a session that uses it.
///
/// # Errors
/// The error of the system. EBUSY if the program has installed handlers over ours too often.
pub fn install(number: i32) -> io::Result<()> {
    let Some(wanted) = WANTED.get(number as usize) else { return Err(io::Error::from_raw_os_error(libc::EINVAL)) };
    if !wanted.swap(true, Ordering::AcqRel) {
        RAISED[number as usize].store(false, Ordering::Release);
        DUE[number as usize].store(0, Ordering::Release);
    }
    install_over(number, |_| true)
}

/// Installs our handler again if the program has restored the default, for example with the answer of `signal.signal`.
pub fn reinstall(number: i32) {
    let _ = install_over(number, |action| action.sa_sigaction == libc::SIG_DFL);
}

/// Restores the handler from before: no session uses the signal any more. A handler that the program has installed over ours
/// stays.
pub fn uninstall(number: i32) {
    let Some(wanted) = WANTED.get(number as usize) else { return };
    wanted.store(false, Ordering::Release);
    let Ok(Some(layer)) = present_action(number).map(|action| layer_of(&action)) else { return };
    let before = BEFORE[number as usize][layer].load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: `before` was leaked when the layer was installed over it.
        unsafe { libc::sigaction(number, before, ptr::null_mut()) };
    }
}

/// Whether the signal was raised. The flag stays set.
pub fn has_come(number: i32) -> bool {
    RAISED.get(number as usize).is_some_and(|raised| raised.load(Ordering::Acquire))
}

/// Takes the raised signals, and the signals whose default action is due after their dump.
pub fn take_raised() -> ([bool; SIGNALS], [bool; SIGNALS]) {
    let (mut raised, mut due) = ([false; SIGNALS], [false; SIGNALS]);
    for at in 0..SIGNALS {
        // in this order: a due signal was raised before
        due[at] = is_due(at as i32);
        raised[at] = RAISED[at].swap(false, Ordering::AcqRel);
    }
    (raised, due)
}

/// Whether the default action is due; true once. In a forked child only a signal of the child counts.
pub fn is_due(number: i32) -> bool {
    let Some(due) = DUE.get(number as usize) else { return false };
    let process = due.swap(0, Ordering::AcqRel);
    // SAFETY: `getpid` has no preconditions.
    process != 0 && process == unsafe { libc::getpid() }
}

fn present_action(number: i32) -> io::Result<libc::sigaction> {
    // SAFETY: all zeroes are a valid value of this plain structure. The call writes it.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        match libc::sigaction(number, ptr::null(), &raw mut action) {
            0 => Ok(action),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn layer_of(action: &libc::sigaction) -> Option<usize> {
    OURS.iter().position(|ours| *ours as *const () as usize == action.sa_sigaction)
}

/// The action of our layer over an action; takes a free layer if the action has none yet.
fn layer_over(number: i32, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    for (layer, place) in BEFORE[number as usize].iter().enumerate() {
        // SAFETY: null, or leaked here.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            Some(known) if known.sa_sigaction != action.sa_sigaction || known.sa_flags != action.sa_flags => continue,
            Some(_) => {}
            None => place.store(Box::leak(Box::new(*action)), Ordering::Release),
        }
        // system calls and the next signal during the handler behave as under the handler from before
        let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        let flags = if handled { action.sa_flags & (libc::SA_RESTART | libc::SA_NODEFER) } else { libc::SA_RESTART };
        let mut ours = *action;
        ours.sa_sigaction = OURS[layer] as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
        return Ok(ours);
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Installs ours over the present action if that is not ours and is wanted below. The program may change the action meanwhile.
fn install_over(number: i32, is_wanted: impl Fn(&libc::sigaction) -> bool) -> io::Result<()> {
    let mut before = present_action(number)?;
    let mut expected = before;
    loop {
        let is_good = layer_of(&before).is_some() || !is_wanted(&before);
        if is_good && before.sa_sigaction == expected.sa_sigaction {
            return Ok(());
        }
        let next = if is_good { before } else { layer_over(number, &before)? };
        // SAFETY: all zeroes are a valid value of this plain structure.
        let mut seen: libc::sigaction = unsafe { zeroed() };
        // SAFETY: the action is the program's own, or ours with a valid handler.
        if unsafe { libc::sigaction(number, &raw const next, &raw mut seen) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if seen.sa_sigaction == expected.sa_sigaction {
            return Ok(());
        }
        (before, expected) = (seen, next);
    }
}
