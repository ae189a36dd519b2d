//! The door: CPython enters the tracer's code here only, and only the door hands out a thread's state.
//!
//! CPython calls the tracer from almost anywhere: while an exception is set, inside the collector, at the interpreter's
//! end, in a thread that is ending, inside another call into the tracer. The door decides whether the tracer may run,
//! keeps the program's exception, and catches the tracer's own failures.
//!
//! | way in | for | inside another one |
//! | --- | --- | --- |
//! | [`enter`], [`enter_of_ours`] | events: callbacks, handlers, methods | refused: the tracer does not trace itself |
//! | [`call`] | functions of the package that the program calls | let in, with a state of its own |
//! | [`untraced`] | work of the tracer that runs Python code without a thread's state | let in |
//! | [`guard`] | callbacks that need no thread's state: watchers, finalisers, pending calls | let in |
//!
//! # Roles
//!
//! Each thread has a [`ThreadRecord`] of its own, and no other thread touches it.
//!
//! # States
//!
//! `depth` counts the calls into the tracer that are under way on a thread. Each has a [`ThreadState`] of its own, so no two
//! references to one exist. After a panic `depth` stays above zero for ever: the thread emits no event any more. The
//! first panic of a process is reported on standard error; the program goes on.
//!
//! # Orderings
//!
//! Only `FAILURES` is shared. It decides which panic is reported, orders no other data, and so is relaxed.
//!
//! # Checked by
//!
//! `tests/python/test_door.py`. `tests/python/test_layout.py` checks that the functions that CPython calls use the
//! door.

use crate::state::{
    above::above,
    host::{try_host, Host},
    thread::ThreadState,
};
use inviso_core::host::tracee::Tracee;
use inviso_cpython::interpreter::{state, tls, Aside};
use pyo3::ffi::PyThreadState;
use std::{
    any::Any,
    cell::{Cell, RefCell, UnsafeCell},
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
};

/// A thread's record; its word of thread-local storage points here. Used by shared references only.
struct ThreadRecord {
    host: &'static Host,
    /// The number of calls into the tracer that are under way.
    depth: Cell<u32>,
    /// The state of the outermost call.
    state: UnsafeCell<ThreadState>,
    /// The thread's own process.
    own: RefCell<Arc<Tracee>>,
    /// The states of the inner calls, the outermost first. Boxed, so they stay in place when the list grows.
    #[allow(clippy::vec_box)]
    inner: UnsafeCell<Vec<Box<ThreadState>>>,
    /// How far the C stack may grow.
    #[cfg(not(Py_3_12))]
    stack: Cell<inviso_cpython::hooks::stack::Stack>,
}

/// Ends the thread's state when the thread ends.
struct AtEnd(Cell<bool>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let word = tls::get().cast::<ThreadRecord>();
        if !self.0.get() || word.is_null() {
            return;
        }
        tls::set(std::ptr::null_mut());
        // SAFETY: `create` made the pointer by `Box::into_raw` on this thread, and the word is null from now on.
        let slot = *unsafe { Box::from_raw(word) };
        let has_failed = slot.depth.get() != 0;
        let done = catch_unwind(AssertUnwindSafe(|| {
            for inner in slot.inner.into_inner() {
                inner.leave();
            }
            let state = slot.state.into_inner();
            if has_failed {
                state.leave(); // what it knows of its calls may be half written
            } else {
                (above().thread_ends)(state);
            }
        }));
        if let Err(panic) = done {
            report(&*panic);
        }
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd(Cell::new(false)) };
    /// The place of this thread's last panic inside the door.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The number of panics inside the door, in this process.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// This thread's record; made at first use. `None` before the first use of the tracer in this process, and at the very
/// end of a thread.
#[inline(always)]
fn slot() -> Option<&'static ThreadRecord> {
    // SAFETY: the word is null or points to a live box of this thread (see `create`, `AtEnd`). Only shared references
    // to it exist.
    match unsafe { tls::get().cast::<ThreadRecord>().as_ref() } {
        Some(slot) => Some(slot),
        None => create(),
    }
}

/// The record, if it exists.
fn known() -> Option<&'static ThreadRecord> {
    // SAFETY: the word is null or points to a live box of this thread, to which only shared references exist.
    unsafe { tls::get().cast::<ThreadRecord>().as_ref() }
}

#[cold]
#[inline(never)]
fn create() -> Option<&'static ThreadRecord> {
    let host = try_host()?;
    AT_END.try_with(|end| end.0.set(true)).ok()?;
    let state = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: attached, as the caller is. The first event may be an exception, and the code below may raise and
        // drop another one.
        let _aside = unsafe { Aside::new() };
        (above().thread_begins)(host)
    }));
    let state = state.map_err(|panic| report(&*panic)).ok()?;
    let slot = ThreadRecord {
        host,
        depth: Cell::new(0),
        own: RefCell::new(state.thread.own().clone()),
        state: UnsafeCell::new(state),
        inner: UnsafeCell::default(),
        #[cfg(not(Py_3_12))]
        stack: Cell::new(inviso_cpython::hooks::stack::Stack::of_this_thread()),
    };
    let slot = Box::into_raw(Box::new(slot));
    tls::set(slot.cast());
    // SAFETY: the pointer comes from the box above.
    Some(unsafe { &*slot })
}

/// Forgets this thread's state without ending anything. After a fork it belongs to the parent.
pub fn forget() {
    tls::set(std::ptr::null_mut());
}

/// Makes this thread another process and returns the former one. `None` if it is that process already.
pub fn become_process(state: &mut ThreadState, own: Arc<Tracee>) -> Option<Arc<Tracee>> {
    if Arc::ptr_eq(state.thread.own(), &own) {
        return None;
    }
    if let Some(slot) = known() {
        slot.own.replace(own.clone());
    }
    Some(state.thread.become_process(own))
}

/// Whether a call into the tracer is under way on this thread.
pub fn is_inside() -> bool {
    known().is_some_and(|slot| slot.depth.get() != 0)
}

impl ThreadRecord {
    /// The state of a call that has `depth` others around it.
    ///
    /// # Safety
    /// `depth` is the number of calls under way, so no other reference to this state exists.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn level(&self, depth: u32) -> &mut ThreadState {
        // SAFETY: `depth` is the number of calls under way, so no other reference to this state exists (see States).
        unsafe {
            if depth == 0 {
                return &mut *self.state.get();
            }
            self.inner_level(depth)
        }
    }

    /// # Safety
    /// As [`ThreadRecord::level`].
    #[cold]
    #[allow(clippy::mut_from_ref)]
    unsafe fn inner_level(&self, depth: u32) -> &mut ThreadState {
        // SAFETY: `depth` is the number of calls under way. Each state that the list gives out is in a box of its own;
        // other code reads only the boxes' addresses.
        unsafe {
            let (inner, own) = (&mut *self.inner.get(), self.own.borrow().clone());
            while inner.len() < depth as usize {
                inner.push(Box::new(ThreadState::new(self.host, own.clone(), true)));
            }
            let state: *mut ThreadState = &raw mut **inner.get_unchecked_mut(depth as usize - 1);
            if !Arc::ptr_eq((*state).thread.own(), &own) {
                (*state).thread.become_process(own);
            }
            &mut *state
        }
    }
}

/// Handles an event: runs `with` with this thread's state. Returns `None` inside another call into the tracer, if this
/// thread runs another interpreter, if the thread is ending, and if `with` panics. An exception that is set stays set.
///
/// # Safety
/// Attached.
#[inline(always)]
pub unsafe fn enter<R>(with: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    // SAFETY: the caller promises that the thread is attached, and this interpreter is ours.
    unsafe {
        if state::is_elsewhere() {
            return None;
        }
        enter_of_ours(state::current(), with)
    }
}

/// The same, for functions that only our interpreter calls.
///
/// # Safety
/// As [`enter`]; `tstate` is the calling thread's.
#[inline(always)]
pub unsafe fn enter_of_ours<R>(tstate: *mut PyThreadState, with: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    let slot = slot()?;
    if slot.depth.get() != 0 {
        return None;
    }
    // SAFETY: the caller promises that the thread is attached.
    let aside = unsafe { state::has_exception(tstate).then(|| Aside::new()) };
    slot.depth.set(1);
    // SAFETY: no call is under way.
    let state = unsafe { slot.level(0) };
    let run = AssertUnwindSafe(|| {
        if state.greenlets.is_old() {
            greenlet_changed(state);
        }
        with(state)
    });
    match catch_unwind(run) {
        Ok(done) => {
            slot.depth.set(0);
            drop(aside);
            Some(done)
        }
        Err(panic) => {
            report(&*panic);
            drop(aside);
            None
        }
    }
}

#[cold]
#[inline(never)]
fn greenlet_changed(state: &mut ThreadState) {
    (above().greenlet_changed)(state);
}

/// Runs `with` for a function of this package that the program has called. Inside another call into the tracer it runs
/// too, with a state of its own: a tracer module may call any function. Returns `None` if the thread is ending or runs
/// another interpreter.
///
/// # Safety
/// Attached.
pub unsafe fn call<R>(with: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    // SAFETY: the caller promises that the thread is attached.
    if unsafe { state::is_elsewhere() } {
        return None;
    }
    let slot = slot()?;
    let depth = slot.depth.get();
    slot.depth.set(depth + 1);
    // SAFETY: `depth` calls are under way, and their states are the lower ones.
    let state = unsafe { slot.level(depth) };
    let done = catch_unwind(AssertUnwindSafe(|| with(state)));
    slot.depth.set(depth);
    match done {
        Ok(done) => Some(done),
        Err(panic) => resume_unwind(panic), // to whoever called the function, as an exception
    }
}

/// Runs `with` without handling its events.
pub fn untraced<R>(with: impl FnOnce() -> R) -> R {
    let slot = slot();
    let depth = slot.map_or(0, |slot| slot.depth.replace(slot.depth.get() + 1));
    let done = catch_unwind(AssertUnwindSafe(with));
    if let Some(slot) = slot {
        slot.depth.set(depth);
    }
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs a callback that needs no thread's state. An exception that is set stays set. Returns `None` if `with` panics.
pub fn guard<R>(with: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: the questions have no preconditions. A thread that is not attached has no exception.
    let aside = unsafe { (state::is_attached() && state::has_exception(state::current())).then(|| Aside::new()) };
    let done = catch_unwind(AssertUnwindSafe(with)).map_err(|panic| report(&*panic)).ok();
    drop(aside);
    done
}

/// Reports the first failure.
#[cold]
#[inline(never)]
fn report(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    if FAILURES.fetch_add(1, Relaxed) == 0 {
        let place = PLACE.try_with(|place| place.take()).unwrap_or_default();
        // standard error may be closed
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!(
                "inviso: internal error at {place}: {}\ninviso: tracing is off in this thread from here on; the program goes on. \
                 Please report this.\n",
                text.unwrap_or("unknown")
            )
            .as_bytes(),
        );
    }
}

/// From now on the door reports panics inside the door, and no other hook does.
pub fn keep_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if is_inside() {
            let place = info.location().map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
            let _ = PLACE.try_with(|kept| kept.replace(place));
        } else {
            before(info);
        }
    }));
}

/// Whether this thread has a state.
#[cfg(not(Py_3_12))]
pub fn has_state() -> bool {
    known().is_some()
}

/// The limits of this thread's C stack, if it has a state.
#[cfg(not(Py_3_12))]
pub fn stack() -> Option<&'static Cell<inviso_cpython::hooks::stack::Stack>> {
    known().map(|slot| &slot.stack)
}
