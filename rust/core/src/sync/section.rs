//! Sections: how a traced thread says that it is looking at the current snapshot, for less than an epoch pin.
//!
//! A pin is a locked instruction, which waits for every store before it; at two events a call that was a third of what
//! call_time cost. Here the traced thread only stores to a word of its own. The price is the control side's: before it
//! looks at the words it has every running thread pass a full barrier (Linux's `membarrier`). Where that can't be had, the
//! traced thread pays for a fence as before.
//!
//! # Roles
//! One thread enters and leaves its section, never twice at once. The control side waits.
//!
//! # States
//! The word is odd while the thread is inside, and never the same twice.
//!
//! # Orderings
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | enter, then load the snapshot | the thread, `barrier::light` between | the waiter, after its swap and `barrier::heavy` | either the waiter sees the odd word, or the thread sees the new snapshot |
//! | leave | the thread, `Release` | the waiter, `Acquire` | what was read inside was read before it is freed |
//!
//! # Checked by
//! `models::section` (loom; both barriers are `SeqCst` fences there, as loom knows no `membarrier`), mutants `section_*`.
#![forbid(unsafe_code)]

use crate::sync::{
    barrier,
    mutants::{mutant, Edge},
    thread, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const LEAVE: Edge = Edge(Release, "section_leave_relaxed");

/// A thread's section. On cache lines of its own.
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
    /// A section for one thread. Sections are never freed, so that [`Inside`] needs no borrow; give it back with
    /// [`Section::give_back`].
    pub fn take() -> &'static Section {
        barrier::prepare();
        #[cfg(not(loom))]
        if let Some(spare) = SPARE.lock().unwrap_or_else(|e| e.into_inner()).pop() {
            return spare;
        }
        Box::leak(Box::default())
    }

    /// The thread has ended: another one may have its section.
    pub fn give_back(&'static self) {
        #[cfg(not(loom))]
        SPARE.lock().unwrap_or_else(|e| e.into_inner()).push(self);
    }

    /// Enters. Only the section's thread may, and not from within.
    #[inline(always)]
    #[must_use]
    pub fn enter(&'static self) -> Inside {
        // One writer, so the two are the same. loom 0.7.2 forgets what others did before a load that the same thread's store
        // follows, and would not try the other order.
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

/// Waits until every thread that was inside one of these sections has left it. What the caller stored before is seen by
/// whoever enters after.
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
            pause(rounds);
        }
    }
}

fn pause(rounds: u32) {
    #[cfg(not(loom))]
    if rounds > 200 {
        std::thread::sleep(std::time::Duration::from_micros(50));
        return;
    }
    let _ = rounds;
    thread::yield_now();
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
                assert!(left.load(SeqCst), "the wait was over too early");
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
