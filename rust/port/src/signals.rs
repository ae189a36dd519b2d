//! The signals that ask for dumps.
//!
//! # Roles
//!
//! Our handler may run in any thread, at any time: it sets flags, rings the recorder's bell, and calls who handled the signal
//! before. All else is done under the recorder's lock.
//!
//! # Layers
//!
//! A program may put a handler over ours that calls ours, and the next recorder ours over that. So there are several functions
//! that are ours, *layers*, and each knows, for good, the one action that it was put over: no handler comes to be called by itself.
//!
//! # Default actions
//!
//! Where nobody handles a signal, what the system does then follows the dump: SIGTERM ends the process. SIGUSR1, SIGUSR2 and
//! the real-time signals are for programs to use, and dump only.

use crate::bell::ring;
use std::{
    io,
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering},
};

/// Their numbers end before this.
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
/// The action that a layer was put over; null where it never was.
static BEFORE: [[AtomicPtr<libc::sigaction>; LAYERS]; SIGNALS] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; LAYERS] }; SIGNALS];
/// Some session waits for it.
static WANTED: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];
static RAISED: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];
/// The process whose default action is to follow.
static DUE: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];

extern "C" fn on_signal<const LAYER: usize>(
    number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void,
) {
    let place = number as usize;
    // SAFETY: null, or leaked before our handler was put in place.
    let Some(before) = (unsafe { BEFORE[place][LAYER].load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: this thread's own, and put back.
    let errno = unsafe { *libc::__errno_location() };
    let is_default = before.sa_sigaction == libc::SIG_DFL;
    if WANTED[place].load(Ordering::Acquire) {
        if is_default && has_default(number) {
            // SAFETY: a number is asked for. It stands before the other flag, see `due`.
            DUE[place].store(unsafe { libc::getpid() }, Ordering::Release);
        }
        RAISED[place].store(true, Ordering::Release);
        ring();
    } else if is_default {
        follow(number);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if is_default || before.sa_sigaction == libc::SIG_IGN {
        return;
    }
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the flag says that it is a function of three arguments; they are ours.
        let handler: Handler = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(number, info, context);
    } else {
        // SAFETY: without the flag it is a function of one argument.
        let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(number);
    }
}

/// Whether its default action follows the dump.
pub fn has_default(number: i32) -> bool {
    let dumps_only = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    number < 32 && !dumps_only.contains(&number)
}

/// Does what the system does where nobody handles the signal. What is in place then is there again, if the process is.
pub fn follow(number: i32) {
    // SAFETY: plain structures of the system's, which are valid as zeroes; calls that a handler may do, too.
    unsafe {
        let (mut default, mut there): (libc::sigaction, libc::sigaction) = (zeroed(), zeroed());
        default.sa_sigaction = libc::SIG_DFL;
        if libc::sigaction(number, &raw const default, &raw mut there) != 0 {
            return;
        }
        let (mut this, mut mask): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigemptyset(&raw mut this);
        libc::sigaddset(&raw mut this, number);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const this, &raw mut mask);
        libc::raise(number);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut());
        libc::sigaction(number, &raw const there, ptr::null_mut());
    }
}

/// A session waits for the signal: our handler is the first that hears it.
///
/// # Errors
/// What the system says; EBUSY where a program has put ever new handlers over ours.
pub fn take(number: i32) -> io::Result<()> {
    let Some(wanted) = WANTED.get(number as usize) else { return Err(io::Error::from_raw_os_error(libc::EINVAL)) };
    if !wanted.swap(true, Ordering::AcqRel) {
        RAISED[number as usize].store(false, Ordering::Release);
        DUE[number as usize].store(0, Ordering::Release);
    }
    put_over(number, |_| true)
}

/// The program has put the default in place of ours, as who puts back what `signal.signal` answered does: ours comes over that.
pub fn keep(number: i32) {
    let _ = put_over(number, |action| action.sa_sigaction == libc::SIG_DFL);
}

/// No session waits for it: what was there before is put back, unless the program has put something else in place of ours.
pub fn give(number: i32) {
    let Some(wanted) = WANTED.get(number as usize) else { return };
    wanted.store(false, Ordering::Release);
    let Ok(Some(layer)) = there(number).map(|action| layer_of(&action)) else { return };
    let before = BEFORE[number as usize][layer].load(Ordering::Acquire);
    if !before.is_null() {
        // SAFETY: leaked when the layer was put over it.
        unsafe { libc::sigaction(number, before, ptr::null_mut()) };
    }
}

/// Whether it has come, which stays.
pub fn has_come(number: i32) -> bool {
    RAISED.get(number as usize).is_some_and(|raised| raised.load(Ordering::Acquire))
}

/// Which have come, and whose default action is due when what they asked for is written.
pub fn taken() -> ([bool; SIGNALS], [bool; SIGNALS]) {
    let (mut raised, mut due) = ([false; SIGNALS], [false; SIGNALS]);
    for at in 0..SIGNALS {
        // in this order: what is due has been raised
        due[at] = is_due(at as i32);
        raised[at] = RAISED[at].swap(false, Ordering::AcqRel);
    }
    (raised, due)
}

/// Whether its default action is due, once; in a forked child what is due there.
pub fn is_due(number: i32) -> bool {
    let Some(due) = DUE.get(number as usize) else { return false };
    let process = due.swap(0, Ordering::AcqRel);
    // SAFETY: a number is asked for.
    process != 0 && process == unsafe { libc::getpid() }
}

fn there(number: i32) -> io::Result<libc::sigaction> {
    // SAFETY: a plain structure of the system's, which is valid as zeroes.
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

/// The layer that is over an action, now if none was.
fn over(number: i32, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    for (layer, place) in BEFORE[number as usize].iter().enumerate() {
        // SAFETY: null, or leaked here.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            Some(known) if known.sa_sigaction != action.sa_sigaction || known.sa_flags != action.sa_flags => continue,
            Some(_) => {}
            None => place.store(Box::leak(Box::new(*action)), Ordering::Release),
        }
        // what a call of the system and the next signal do meanwhile is as the handler before has it
        let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        let kept = if handled { action.sa_flags & (libc::SA_RESTART | libc::SA_NODEFER) } else { libc::SA_RESTART };
        let mut ours = *action;
        ours.sa_sigaction = OURS[layer] as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | kept;
        return Ok(ours);
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Puts ours over what is there, where that isn't ours and is wanted so. The program may change it meanwhile.
fn put_over(number: i32, is_wanted: impl Fn(&libc::sigaction) -> bool) -> io::Result<()> {
    let mut before = there(number)?;
    let mut expected = before;
    loop {
        let is_good = layer_of(&before).is_some() || !is_wanted(&before);
        if is_good && before.sa_sigaction == expected.sa_sigaction {
            return Ok(());
        }
        let next = if is_good { before } else { over(number, &before)? };
        // SAFETY: as in `there`.
        let mut seen: libc::sigaction = unsafe { zeroed() };
        // SAFETY: the action is the program's own, or ours with its handler.
        if unsafe { libc::sigaction(number, &raw const next, &raw mut seen) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if seen.sa_sigaction == expected.sa_sigaction {
            return Ok(());
        }
        (before, expected) = (seen, next);
    }
}
