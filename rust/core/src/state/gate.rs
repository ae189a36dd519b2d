//! Admits calls of a tracer module: never inside a section, inside another such call, or after the end of the session.
//!
//! # Roles
//! Any thread calls. One destroyer closes the gate and waits for the callers inside.
//!
//! # States
//! One word: the number of callers inside, and whether the gate is closed. A caller adds one and checks. If the gate is closed, the
//! caller leaves at once.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | a caller leaves | caller, `Release` | destroyer, `Acquire` | the tracer's work is finished when the session's end returns |
//! | closed | destroyer, `AcqRel` | caller's add, `Acquire` | one word: the destroyer sees the add, or the caller sees the gate closed |
//!
//! # Checked by
//! `models::tracer_calls` (loom), mutants `call_leaves_relaxed`, `call_looks_first`, `close_unwaited`; `tests/tracer.rs`.
#![forbid(unsafe_code)]

use crate::sync::{
    mutants::{mutant, Edge},
    pause, AtomicU32, AtomicU64,
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

/// Rounds of a wait without a sleep.
const YIELDS: u32 = 64;

const LEAVE: Edge = Edge(Release, "call_leaves_relaxed");

/// A running call; leaves the gate when it is dropped.
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

    /// Runs a callback. `None` if it may not run, or if it panicked.
    pub fn run<R>(&self, errors: &AtomicU64, with: impl FnOnce() -> R) -> Option<R> {
        let call = self.enter()?;
        let done = catch_unwind(AssertUnwindSafe(with));
        drop(call);
        if done.is_err() {
            errors.fetch_add(1, Relaxed);
        }
        done.ok()
    }

    /// Closes the gate and waits until all callers have left. Called from inside a call, it doesn't wait: the call would wait for itself,
    /// or for a call that waits for it.
    pub fn close(&self) {
        self.0.fetch_or(CLOSED, AcqRel);
        let mut rounds = 0;
        while !mutant!("close_unwaited") && !is_inside() && self.0.load(Acquire) != CLOSED {
            rounds += 1;
            pause(rounds, YIELDS);
        }
    }
}
