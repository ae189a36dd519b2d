//! Functions of the standard library (and coroutines of tasks) that instruments watch, whatever sessions trace: a table
//! from code objects to handlers.
//!
//! # Roles
//! Any traced thread looks up a code at each event of armed code, without a lock. A thread that changes the table holds
//! `USED`.
//!
//! # States
//! A slot is free (`code` is 0) or taken by a code for as long as the table exists. Its handlers are null (not watched)
//! or a set that is never freed. A table that becomes too small is replaced by one of twice the size and never freed,
//! since a thread may still read it.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `TABLE` | `put`, `Release` | `table`, `Acquire` | the new table's slots are filled |
//! | `code` | `put`, `Release` | `place`, `Acquire` | the slot belongs to this code |
//! | `handlers` | `change`, `Release` | `handlers`, `Acquire` | the set is whole |
//!
//! `ON` is a hint, read `Relaxed`. A thread that reads an old table or an old `ON` misses an event near the change.
//!
//! # Checked by
//! All tests of instruments, among them `tests/python/test_comings_and_goings.py` and `tests/python/test_stress.py`.

use crate::{
    control::originals,
    state::{
        above::above,
        host::Host,
        instrument::{Ended, Handler},
        thread::ThreadState,
    },
};
use inviso_core::host::sync::Unpoisoned;
use inviso_cpython::frames::frame::Frame;
use pyo3::{ffi::PyObject, prelude::*};
use std::sync::{
    atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release},
    Mutex, MutexGuard,
};

/// The handlers of a code object.
#[derive(Clone, Copy)]
pub struct Handlers(&'static Set);

/// Handlers that some code object has, or had, together. There are few such sets; each is made once and never freed.
struct Set(Box<[&'static Handler]>);

struct HandlerSet {
    code: AtomicUsize,
    /// Null for no handler.
    handlers: AtomicPtr<Set>,
}

impl HandlerSet {
    #[inline(always)]
    fn handlers(&self) -> Option<Handlers> {
        // SAFETY: null or made by `Box::leak`; sets are never freed.
        unsafe { self.handlers.load(Acquire).as_ref() }.map(Handlers)
    }

    /// Changes the handlers of the code object by `change`. Returns whether that made a difference.
    fn change(&self, used: &mut Used, change: impl FnOnce(&mut Vec<&'static Handler>)) -> bool {
        let mut handlers = self.handlers().map_or_else(Vec::new, |known| known.0 .0.to_vec());
        let before = handlers.len();
        change(&mut handlers);
        if handlers.len() == before {
            return false;
        }
        self.handlers.store(used.set(handlers), Release);
        true
    }
}

struct HandlerTable {
    slots: Box<[HandlerSet]>,
}

static ON: AtomicBool = AtomicBool::new(false);
static TABLE: AtomicPtr<HandlerTable> = AtomicPtr::new(std::ptr::null_mut());
/// Locked while the table is changed.
static USED: Mutex<Used> = Mutex::new(Used { places: 0, sets: Vec::new() });

/// State for changes of the table.
struct Used {
    /// The number of slots that are taken.
    places: usize,
    /// All sets.
    sets: Vec<&'static Set>,
}

impl Used {
    /// The set of these handlers; null for an empty list.
    fn set(&mut self, handlers: Vec<&'static Handler>) -> *mut Set {
        if handlers.is_empty() {
            return std::ptr::null_mut();
        }
        let same = |set: &&&'static Set| {
            set.0.len() == handlers.len() && set.0.iter().zip(&handlers).all(|(one, other)| std::ptr::eq(*one, *other))
        };
        let found = self.sets.iter().find(same).copied();
        let set = found.unwrap_or_else(|| {
            let made: &'static Set = Box::leak(Box::new(Set(handlers.into())));
            self.sets.push(made);
            made
        });
        std::ptr::from_ref(set).cast_mut()
    }
}

fn lock() -> MutexGuard<'static, Used> {
    USED.lock().unpoisoned()
}

fn table() -> Option<&'static HandlerTable> {
    // SAFETY: null or made by `Box::leak`; tables are never freed.
    unsafe { TABLE.load(Acquire).as_ref() }
}

impl HandlerTable {
    fn start(&self, code: usize) -> usize {
        ((code as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (self.slots.len() - 1)
    }

    /// The slot of a code object, or the free one for it.
    #[inline(always)]
    fn place(&self, code: usize) -> &HandlerSet {
        let mut at = self.start(code);
        loop {
            let slot = &self.slots[at];
            let there = slot.code.load(Acquire);
            if there == code || there == 0 {
                return slot;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// The handlers of a code object; `None` if it is not watched.
#[inline(always)]
pub fn find(code: *mut PyObject) -> Option<Handlers> {
    if ON.load(Relaxed) {
        find_in_table(code)
    } else {
        None
    }
}

/// Not inlined: most programs watch nothing, and the code of the callbacks stays small.
#[inline(never)]
fn find_in_table(code: *mut PyObject) -> Option<Handlers> {
    table()?.place(code as usize).handlers()
}

impl Handlers {
    /// Whether the set contains a handler.
    pub fn has(self, handler: &'static Handler) -> bool {
        self.0 .0.iter().any(|known| std::ptr::eq(*known, handler))
    }

    #[inline(always)]
    fn each(self, with: impl FnMut(&&'static Handler)) {
        self.0 .0.iter().for_each(with);
    }

    /// The call begins.
    #[inline(never)]
    pub fn begin(self, state: &mut ThreadState, frame: Frame) {
        self.each(|handler| handler.begin.into_iter().for_each(|begin| begin(state, frame)));
    }

    /// The call resumes.
    #[inline(never)]
    pub fn resume(self, state: &mut ThreadState, frame: Frame) {
        self.each(|handler| handler.resume.into_iter().for_each(|resume| resume(state, frame)));
    }

    /// The call is suspended.
    #[inline(never)]
    pub fn pause(self, state: &mut ThreadState, frame: Frame) {
        self.each(|handler| handler.pause.into_iter().for_each(|pause| pause(state, frame)));
    }

    /// The call ends.
    #[inline(never)]
    pub fn end(self, state: &mut ThreadState, frame: Frame, how: Ended) {
        self.each(|handler| {
            if !handler.raises_only || matches!(how, Ended::Raised(_)) {
                handler.end.into_iter().for_each(|end| end(state, frame, how));
            }
        });
    }
}

/// The events for which a code object is watched now, see [`events`].
pub fn needs_of(code: usize) -> u8 {
    let mut needs = 0;
    if let Some(handlers) = table().and_then(|table| table.place(code).handlers()) {
        handlers.each(|handler| needs |= handler.needs());
    }
    needs
}

/// Adds a handler to these code objects.
///
/// # Errors
/// The error of `sys.monitoring`.
pub fn add(py: Python<'_>, host: &Host, handler: &'static Handler, codes: &[Bound<'_, PyAny>]) -> PyResult<()> {
    let mut changed = Vec::new();
    {
        let mut used = lock();
        for code in codes {
            let slot = put(&mut used, code.as_ptr() as usize);
            let add = |handlers: &mut Vec<&'static Handler>| {
                if !handlers.iter().any(|known| std::ptr::eq(*known, handler)) {
                    handlers.push(handler);
                    handlers
                        .sort_by_key(|known| above().handlers.iter().position(|listed| std::ptr::eq(*listed, *known)));
                }
            };
            if slot.change(&mut used, add) {
                changed.push(code.clone());
            }
        }
        ON.store(true, Release);
    }
    if changed.is_empty() {
        return Ok(());
    }
    host.watch(py, &changed, needs_of)
}

/// Removes these handlers from all code objects.
///
/// # Errors
/// The error of `sys.monitoring`.
pub fn remove(py: Python<'_>, host: &Host, handlers: &[&'static Handler]) -> PyResult<()> {
    let mut changed = Vec::new();
    let any = {
        let mut used = lock();
        let mut any = false;
        let stays = |known: &&'static Handler| !handlers.iter().any(|handler| std::ptr::eq(*handler, *known));
        for slot in table().into_iter().flat_map(|table| table.slots.iter()) {
            if slot.change(&mut used, |known| known.retain(stays)) {
                changed.push(slot.code.load(Relaxed));
            }
            any |= slot.handlers().is_some();
        }
        ON.store(any, Release);
        any
    };
    if !any {
        originals::release();
    }
    host.unwatch(py, &changed, needs_of)
}

/// The slot of a code object in the table, which grows if needed.
fn put(used: &mut Used, code: usize) -> &'static HandlerSet {
    let room = table().map_or(0, |table| table.slots.len());
    if (used.places + 1) * 2 > room {
        let slots =
            (0..(room * 2).max(64)).map(|_| HandlerSet { code: AtomicUsize::new(0), handlers: AtomicPtr::default() });
        let next = HandlerTable { slots: slots.collect() };
        used.places = 0;
        for slot in table().into_iter().flat_map(|table| table.slots.iter()) {
            let handlers = slot.handlers.load(Relaxed);
            if !handlers.is_null() {
                let code = slot.code.load(Relaxed);
                let place = next.place(code);
                place.handlers.store(handlers, Relaxed);
                place.code.store(code, Relaxed);
                used.places += 1;
            }
        }
        TABLE.store(Box::leak(Box::new(next)), Release);
    }
    let slot = table().unwrap_or_else(|| unreachable!("made a line above")).place(code);
    if slot.code.load(Relaxed) == 0 {
        slot.code.store(code, Release);
        used.places += 1;
    }
    slot
}

/// In a forked child: watches nothing.
pub fn forget() {
    ON.store(false, Release);
    // a thread that no longer exists may hold the lock; no other thread is here
    for slot in table().into_iter().flat_map(|table| table.slots.iter()) {
        slot.handlers.store(std::ptr::null_mut(), Release);
    }
}
