//! Sections: a traced thread marks that it reads the current snapshot. A section is cheaper than an epoch pin.
//!
//! A pin is a locked instruction, which waits for all earlier stores. With two events a call, pins were a third of the cost of
//! call_time. Here the traced thread only stores to its own word. The control side pays instead: before it reads the words, it makes
//! every running thread pass a full barrier (Linux's `membarrier`). On systems without `membarrier`, the traced thread uses a fence.
//!
//! # Roles
//! The thread that owns a section enters and leaves it; entries don't nest. The control side waits.
//!
//! # States
//! The word is odd while the thread is inside. It grows with every step, so no value returns.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | enter, then load the snapshot | the thread, `barrier::light` between | the waiter, after its swap and `barrier::heavy` | the waiter sees the odd word, or the thread sees the new snapshot |
//! | leave | the thread, `Release` | the waiter, `Acquire` | all reads inside happen before the memory is freed |
//!
//! # Checked by
//! `models::section` (loom; both barriers are `SeqCst` fences there, as loom knows no `membarrier`), mutants `section_*`.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
use crate::sync::Unpoisoned;
use crate::sync::{
    barrier,
    mutants::{mutant, Edge},
    pause, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Rounds of a wait without a sleep: a section is short.
const YIELDS: u32 = 200;

const LEAVE: Edge = Edge(Release, "section_leave_relaxed");

/// A thread's section, on its own cache lines.
#[derive(Default)]
#[repr(align(128))]
pub struct Section {
    word: AtomicU64,
}

/// The thread is inside until this is dropped.
pub struct Inside {
    section: &'static Section,
    word: u64,
}

#[cfg(not(loom))]
static SPARE: std::sync::Mutex<Vec<&'static Section>> = std::sync::Mutex::new(Vec::new());

impl Section {
    /// A section for one thread. Sections are never freed, so [`Inside`] needs no borrow. [`Section::give_back`] returns it for reuse.
    pub fn take() -> &'static Section {
        barrier::prepare();
        #[cfg(not(loom))]
        if let Some(spare) = SPARE.lock().unpoisoned().pop() {
            return spare;
        }
        Box::leak(Box::default())
    }

    /// The thread has ended: another thread may use the section.
    pub fn give_back(&'static self) {
        #[cfg(not(loom))]
        SPARE.lock().unpoisoned().push(self);
    }

    /// Enters. Only the owning thread may call it, and only from outside.
    #[inline(always)]
    #[must_use]
    pub fn enter(&'static self) -> Inside {
        // with one writer both forms do the same. For a load that a store of the same thread follows, loom 0.7.2 forgets the stores
        // of other threads and does not explore the other order
        let word = if cfg!(loom) {
            self.word.fetch_add(1, Relaxed) + 1
        } else {
            let word = self.word.load(Relaxed) + 1;
            self.word.store(word, Relaxed);
            word
        };
        if !mutant!("section_unfenced") {
            barrier::light();
        }
        Inside { section: self, word }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        self.section.word.store(self.word + 1, LEAVE.order());
    }
}

/// Waits until every thread that was inside one of these sections has left it. A thread that enters later sees all earlier stores
/// of the caller.
pub fn wait<'a>(sections: impl IntoIterator<Item = &'a Section>) {
    if mutant!("section_unwaited") {
        return;
    }
    barrier::heavy();
    for section in sections {
        let seen = section.word.load(Acquire);
        let mut rounds = 0u32;
        while seen % 2 == 1 && section.word.load(Acquire) == seen {
            rounds += 1;
            pause(rounds, YIELDS);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn a_wait_ends_when_the_thread_has_left() {
        let section = Section::take();
        let inside = section.enter();
        let left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                wait([section]);
                assert!(left.load(SeqCst), "the wait ended too early");
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            left.store(true, SeqCst);
            drop(inside);
            waiter.join().unwrap();
        });
        wait([section]);
        section.give_back();
    }

    #[test]
    fn a_section_that_was_given_back_is_taken_again() {
        let places: std::collections::HashSet<_> = (0..100)
            .map(|_| {
                let section = Section::take();
                section.give_back();
                std::ptr::from_ref(section) as usize
            })
            .collect();
        assert!(places.len() < 100);
    }

    #[test]
    fn a_word_is_odd_inside_and_never_the_same() {
        let section = Section::take();
        let mut before = section.word.load(Relaxed);
        assert_eq!(before % 2, 0);
        for _ in 0..3 {
            let inside = section.enter();
            assert_eq!(section.word.load(Relaxed), before + 1);
            drop(inside);
            before += 2;
            assert_eq!(section.word.load(Relaxed), before);
        }
        section.give_back();
    }
}
