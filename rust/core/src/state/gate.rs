//! Calling a tracer module: not inside a section, not inside another such call, not after its session's end.
//!
//! # Roles
//! Any thread calls. One destroyer closes, and waits for those who are inside.
//!
//! # States
//! A word: how many are inside, and whether it is closed. Who comes in adds one and looks; who finds it closed goes at once.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | a leave | caller, `Release` | destroyer, `Acquire` | what the tracer did has been done when the session's end returns |
//! | closed | destroyer, `AcqRel` | caller's add, `Acquire` | one word: either the add is seen, or the caller sees it closed |
//!
//! # Checked by
//! `models::tracer_calls` (loom); `tests/tracer.rs`.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::{mutant, Edge},
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::{
    cell::Cell,
    panic::{catch_unwind, AssertUnwindSafe},
};

#[cfg(not(loom))]
thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

#[cfg(loom)]
loom::thread_local! {
    static INSIDE: Cell<bool> = Cell::new(false);
}

/// Whether this thread is inside a call of a tracer module.
pub(crate) fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// The calls of one session's tracer module.
#[derive(Default)]
pub(crate) struct CallGate(AtomicU32);

const CLOSED: u32 = 1 << 31;

const LEAVE: Edge = Edge(Release, "call_leaves_relaxed");

/// One call; leaves when it is dropped.
struct Entered<'a>(&'a CallGate);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(false));
        self.0 .0.fetch_sub(1, LEAVE.order());
    }
}

impl CallGate {
    fn enter(&self) -> Option<Entered<'_>> {
        if is_inside() {
            return None;
        }
        let early = mutant!("call_looks_first").then(|| self.0.load(Acquire));
        let before = self.0.fetch_add(1, Acquire);
        if early.unwrap_or(before) & CLOSED != 0 {
            self.0.fetch_sub(1, Release);
            return None;
        }
        INSIDE.with(|inside| inside.set(true));
        Some(Entered(self))
    }

    /// Runs a callback; `None` where it may not run, or where it panicked.
    pub fn run<R>(&self, errors: &AtomicU64, with: impl FnOnce() -> R) -> Option<R> {
        let call = self.enter()?;
        let done = catch_unwind(AssertUnwindSafe(with));
        drop(call);
        if done.is_err() {
            errors.fetch_add(1, Relaxed);
        }
        done.ok()
    }

    /// Lets nobody in any more, and waits until all have left; not from inside a call, which would wait for itself, or for one that
    /// waits for it.
    pub fn close(&self) {
        self.0.fetch_or(CLOSED, AcqRel);
        while !mutant!("close_unwaited") && !is_inside() && self.0.load(Acquire) != CLOSED {
            #[cfg(not(loom))]
            crate::sync::thread::sleep(std::time::Duration::from_micros(200));
            #[cfg(loom)]
            crate::sync::thread::yield_now();
        }
    }
}
