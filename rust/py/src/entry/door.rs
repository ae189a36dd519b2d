//! The door: every way from CPython into the tracer's code passes here, and nothing else hands out a thread's state.
//!
//! CPython calls the tracer from almost anywhere: while an exception is set, inside the collector, at the interpreter's end, in a thread
//! that is ending, inside another call into the tracer. The door decides whether the tracer may run, keeps the program's exception, and
//! catches a failure of the tracer's own.
//!
//! | way in | for | inside another one |
//! | --- | --- | --- |
//! | [`enter`], [`enter_of_ours`] | events: callbacks, handlers, methods that were taken | not let in: what the tracer does is not traced |
//! | [`call`] | functions of the package that the program calls | let in, with a state of its own |
//! | [`untraced`] | work of the tracer that runs Python code without a thread's state | let in |
//! | [`guard`] | callbacks that need no thread's state: watchers, finalisers, pending calls | let in |
//!
//! # States
//!
//! `depth` counts the calls into the tracer that are under way on a thread; each has a [`Here`] of its own, so no two references to one
//! exist. A call that panics leaves `depth` above zero for ever: no event of that thread is taken any more. The panic is reported once
//! for each process, on standard error; the program goes on.
//!
//! # Checked by
//!
//! `tests/python/test_door.py`; `tests/python/test_layout.py` holds that functions which CPython calls use the door.

use crate::{
    host::{try_host, Host},
    thread::{greenlets, here::Here},
};
use inviso_core::tracee::Tracee;
use inviso_cpython::interpreter::{state, tls, Aside};
use std::{
    any::Any,
    cell::{Cell, RefCell, UnsafeCell},
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc,
    },
};

/// A thread's record, behind its word of thread-local storage. Reached by shared references only.
struct Slot {
    host: &'static Host,
    /// Calls into the tracer that are under way.
    depth: Cell<u32>,
    /// The state of the outermost call.
    here: UnsafeCell<Here>,
    /// The process that the thread is.
    own: RefCell<Arc<Tracee>>,
    /// The states of calls inside it, the outermost first. Boxed, so that they stay in place when the list grows.
    #[allow(clippy::vec_box)]
    inner: UnsafeCell<Vec<Box<Here>>>,
    /// How far the C stack may grow.
    #[cfg(not(Py_3_12))]
    stack: Cell<inviso_cpython::hooks::stack::Stack>,
}

/// Ends the thread's state when the thread ends.
struct AtEnd(Cell<bool>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let word = tls::get().cast::<Slot>();
        if !self.0.get() || word.is_null() {
            return;
        }
        tls::set(std::ptr::null_mut());
        // SAFETY: the pointer was made by `Box::into_raw` in `create` on this thread, and the word is null from now on.
        let slot = *unsafe { Box::from_raw(word) };
        let has_failed = slot.depth.get() != 0;
        let done = catch_unwind(AssertUnwindSafe(|| {
            for inner in slot.inner.into_inner() {
                inner.leave();
            }
            let here = slot.here.into_inner();
            if has_failed {
                here.leave(); // what it knows of its calls may be half written
            } else {
                here.end();
            }
        }));
        if let Err(panic) = done {
            report(&*panic);
        }
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd(Cell::new(false)) };
    /// Where this thread panicked last inside the door.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics inside the door, in this process.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// This thread's record; made at its first use. `None` before anything was ever asked of the tracer and at the very end of a thread.
#[inline(always)]
fn slot() -> Option<&'static Slot> {
    // SAFETY: the word is null or a live box of this thread (see `create`, `AtEnd`), and only shared references to it exist.
    match unsafe { tls::get().cast::<Slot>().as_ref() } {
        Some(slot) => Some(slot),
        None => create(),
    }
}

/// The record, where there is one already.
fn known() -> Option<&'static Slot> {
    // SAFETY: as above.
    unsafe { tls::get().cast::<Slot>().as_ref() }
}

#[cold]
#[inline(never)]
fn create() -> Option<&'static Slot> {
    let host = try_host()?;
    AT_END.try_with(|end| end.0.set(true)).ok()?;
    let here = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: attached, as the caller is; a first event may be an exception, and what is asked here may raise and drop its own
        let _aside = unsafe { Aside::new() };
        Here::first(host)
    }));
    let here = here.map_err(|panic| report(&*panic)).ok()?;
    let slot = Slot {
        host,
        depth: Cell::new(0),
        own: RefCell::new(here.thread.own().clone()),
        here: UnsafeCell::new(here),
        inner: UnsafeCell::default(),
        #[cfg(not(Py_3_12))]
        stack: Cell::new(inviso_cpython::hooks::stack::Stack::of_this_thread()),
    };
    let slot = Box::into_raw(Box::new(slot));
    tls::set(slot.cast());
    // SAFETY: made a line above.
    Some(unsafe { &*slot })
}

/// Forgets this thread's state without ending anything: after a fork it belongs to the parent.
pub fn forget() {
    tls::set(std::ptr::null_mut());
}

/// This thread is another process from now on; answers the one that it was. `None` if it is that one already.
pub fn become_process(here: &mut Here, own: Arc<Tracee>) -> Option<Arc<Tracee>> {
    if Arc::ptr_eq(here.thread.own(), &own) {
        return None;
    }
    if let Some(slot) = known() {
        slot.own.replace(own.clone());
    }
    Some(here.thread.become_process(own))
}

/// Whether a call into the tracer is under way on this thread.
pub fn is_inside() -> bool {
    known().is_some_and(|slot| slot.depth.get() != 0)
}

impl Slot {
    /// The state of a call that has `depth` others around it.
    ///
    /// # Safety
    /// That is the number of calls under way, so that nobody else has this state.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn level(&self, depth: u32) -> &mut Here {
        // SAFETY: the caller's promise; see States.
        unsafe {
            if depth == 0 {
                return &mut *self.here.get();
            }
            self.inner_level(depth)
        }
    }

    /// # Safety
    /// As [`Slot::level`].
    #[cold]
    #[allow(clippy::mut_from_ref)]
    unsafe fn inner_level(&self, depth: u32) -> &mut Here {
        // SAFETY: the caller's promise: what is given out of the list is in its own box, and others only look at the boxes' addresses
        unsafe {
            let (inner, own) = (&mut *self.inner.get(), self.own.borrow().clone());
            while inner.len() < depth as usize {
                inner.push(Box::new(Here::of(self.host, own.clone())));
            }
            let here: *mut Here = &raw mut **inner.get_unchecked_mut(depth as usize - 1);
            if !Arc::ptr_eq((*here).thread.own(), &own) {
                (*here).thread.become_process(own);
            }
            &mut *here
        }
    }
}

/// Takes an event: runs `with` with this thread's state. `None` inside another call into the tracer, where this thread runs another
/// interpreter, where the thread is ending, and where `with` panics. An exception that is set stays set.
///
/// # Safety
/// Attached.
#[inline(always)]
pub unsafe fn enter<R>(with: impl FnOnce(&mut Here) -> R) -> Option<R> {
    // SAFETY: the caller's promise.
    unsafe {
        if state::is_elsewhere() {
            return None;
        }
        enter_of_ours(with)
    }
}

/// The same, for what is called by our interpreter only.
///
/// # Safety
/// As [`enter`].
#[inline(always)]
pub unsafe fn enter_of_ours<R>(with: impl FnOnce(&mut Here) -> R) -> Option<R> {
    let slot = slot()?;
    if slot.depth.get() != 0 {
        return None;
    }
    // SAFETY: attached.
    let aside = unsafe { state::has_exception().then(|| Aside::new()) };
    slot.depth.set(1);
    // SAFETY: no call is under way.
    let here = unsafe { slot.level(0) };
    let run = AssertUnwindSafe(|| {
        greenlets::look(here);
        with(here)
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

/// Runs `with` for a function of this package that the program has called: also inside another call into the tracer (a tracer module
/// may call any function), then with a state of its own. `None` where the thread is ending or runs another interpreter.
///
/// # Safety
/// Attached.
pub unsafe fn call<R>(with: impl FnOnce(&mut Here) -> R) -> Option<R> {
    // SAFETY: the caller's promise.
    if unsafe { state::is_elsewhere() } {
        return None;
    }
    let slot = slot()?;
    let depth = slot.depth.get();
    slot.depth.set(depth + 1);
    // SAFETY: as many calls are under way.
    let here = unsafe { slot.level(depth) };
    let done = catch_unwind(AssertUnwindSafe(|| with(here)));
    slot.depth.set(depth);
    match done {
        Ok(done) => Some(done),
        Err(panic) => resume_unwind(panic), // to whoever called the function, as an exception
    }
}

/// [`call`], on a thread that may be detached; `None` also on one that has no state yet.
pub fn call_detached<R>(with: impl FnOnce(&mut Here) -> R) -> Option<R> {
    let slot = known()?;
    let depth = slot.depth.get();
    slot.depth.set(depth + 1);
    // SAFETY: as in `call`.
    let done = with(unsafe { slot.level(depth) });
    slot.depth.set(depth);
    Some(done)
}

/// Runs `with`, whose events are not taken.
pub fn untraced<R>(with: impl FnOnce() -> R) -> R {
    let slot = slot();
    let depth = slot.map_or(0, |slot| slot.depth.replace(slot.depth.get() + 1));
    let done = catch_unwind(AssertUnwindSafe(with));
    if let Some(slot) = slot {
        slot.depth.set(depth);
    }
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs a callback that needs no thread's state. An exception that is set stays set; `None` where `with` panics.
pub fn guard<R>(with: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: a plain question; a thread that is not attached has no exception.
    let aside = unsafe { (state::is_attached() && state::has_exception()).then(|| Aside::new()) };
    let done = catch_unwind(AssertUnwindSafe(with)).map_err(|panic| report(&*panic)).ok();
    drop(aside);
    done
}

/// Says once what has failed.
#[cold]
#[inline(never)]
fn report(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    if FAILURES.fetch_add(1, Relaxed) == 0 {
        let place = PLACE.try_with(|place| place.take()).unwrap_or_default();
        // nobody may be there to read it
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

/// From now on a panic inside the door is reported by the door alone.
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

/// How far this thread's C stack may grow, if it has a state.
#[cfg(not(Py_3_12))]
pub fn stack() -> Option<&'static Cell<inviso_cpython::hooks::stack::Stack>> {
    known().map(|slot| &slot.stack)
}

/// Whether this thread traces functions, or is in the midst of calls that were traced; `None` inside a call into the tracer, and of a
/// thread that has no state.
#[cfg(not(Py_3_12))]
#[inline(always)]
pub fn is_traced() -> Option<bool> {
    let slot = known().filter(|slot| slot.depth.get() == 0)?;
    // SAFETY: no call is under way on this thread, so nobody has the state for writing.
    Some(unsafe { (*slot.here.get()).is_traced() })
}
