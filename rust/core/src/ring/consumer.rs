//! The reading side of a ring.
//!
//! # Roles
//!
//! Any thread may call [`Ring::drain`]; the lock around [`Cursor`] lets one in and tells the others
//! [`Busy`].
//!
//! # States
//!
//! The cursor is at record `read` of page `seq`, or before the first page when `seq` is 0. Within a
//! drain the reader may hold that page. Before the cursor's record, `base + read - tail` records
//! are missing: that many were lost. A sealed page that was read to its end is freed. Where no page
//! is left, all that is still counted in `head` was lost.
//!
//! # Orderings
//!
//! `COMMIT`, `TURN`, `GIVE_BACK` and `TOOK` of the table in `ring`.
//!
//! # Checked by
//!
//! The models and tests of `ring`.

use std::ops::ControlFlow;

use super::{
    edge,
    page::{step, Frame, PageState},
    Overflow, Ring,
};
use crate::sync::{mutants::mutant, MutexGuard, Ordering::Relaxed, TryLockError};

/// What a drain gives to its closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRef<'a> {
    /// A record as it was pushed, with its length in bytes (header included) in the first `u32` of
    /// `header`.
    Event {
        /// The header.
        header: [u64; 4],
        /// The payload, in the ring's own memory.
        payload: &'a [u8],
    },
    /// Between the records before and after this one, `count` records were lost.
    Drop {
        /// How many, at least 1. What is lost in one place may come as several of these.
        count: u64,
    },
}

/// Somebody else is draining the ring, perhaps further up this thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another drain of this ring is under way")]
pub struct Busy;

/// What a drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Events taken.
    pub events: u64,
    /// Records that drop records stand for.
    pub lost: u64,
    /// Whether all was taken that the ring had when the drain began.
    pub empty: bool,
}

/// Where reading goes on.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    seq: u64,
    /// Records of this page that were taken.
    read: u32,
    /// Bytes of this page that were taken.
    offset: usize,
    /// Our copy of the ring's `tail`.
    tail: u64,
}

impl Ring {
    /// Gives the records that are there now to `take`, oldest first, at most `max` of them, drop
    /// records included.
    ///
    /// `Continue` takes the record. `Break` leaves it for the next drain and ends this one, and so
    /// does a panic. What is pushed meanwhile is left for the next drain, so a drain always ends.
    /// Nothing waits: while another drain is under way this returns [`Busy`]. [`Ring::tail`] moves
    /// at the end of each page and of the drain.
    ///
    /// # Errors
    ///
    /// [`Busy`], and then `take` was not called.
    pub fn drain<F>(&self, max: usize, mut take: F) -> Result<Drained, Busy>
    where
        F: FnMut(RecordRef<'_>) -> ControlFlow<()>,
    {
        let cursor = match self.consumed.cursor.try_lock() {
            Ok(cursor) => cursor,
            // a closure panicked: its record wasn't taken, and `PageReader` has left all as it must be
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if mutant!("waits_its_turn") => {
                self.consumed.cursor.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
            }
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        let mut reading = PageReader { ring: self, cursor, page: None };
        let mut drained = Drained::default();
        let head = self.produced.head.load(edge::COMMIT_SEEN.order());
        let mut calls = 0;
        while reading.cursor.tail < head && calls < max {
            let record = reading.next(head);
            if reading.offer(record, &mut take).is_break() {
                break;
            }
            match record {
                Next::Event(_) => drained.events += 1,
                Next::Gap(count) => drained.lost += count,
            }
            calls += 1;
        }
        drained.empty = reading.cursor.tail >= head;
        Ok(drained)
    }
}

/// What comes next.
#[derive(Clone, Copy)]
enum Next<'a> {
    /// The record at the cursor, in this page, which is held.
    Event(&'a Frame),
    /// So many lost records.
    Gap(u64),
}

/// A drain under way. However it ends, it lets go of the page and moves `tail`.
struct PageReader<'a> {
    ring: &'a Ring,
    cursor: MutexGuard<'a, Cursor>,
    /// The cursor's page, while we hold it (`+reader`).
    page: Option<&'a Frame>,
}

impl<'a> PageReader<'a> {
    /// Finds what is next; `head`, which was acquired, says that something is.
    fn next(&mut self, head: u64) -> Next<'a> {
        self.hold();
        let page = loop {
            match self.page {
                Some(page) if !self.is_at_end(page) => break page,
                _ => {}
            }
            if !self.next_page() {
                // no page up to `current` has anything left, and `head` counts none behind that
                return Next::Gap(head - self.cursor.tail);
            }
        };
        // relaxed: `head` or `current` has told us, before we first held the page
        let position = page.base.load(Relaxed) + u64::from(self.cursor.read);
        if mutant!("hides_gap") {
            self.cursor.tail = position;
        }
        match position - self.cursor.tail {
            0 => Next::Event(page),
            lost => Next::Gap(lost),
        }
    }

    /// Whether the cursor's page was read to its end.
    fn is_at_end(&self, page: &Frame) -> bool {
        // relaxed: if the page was sealed before what comes next, `head` or `current` has told us
        self.cursor.read == page.sealed.load(Relaxed)
    }

    /// Leaves the cursor's page for the oldest newer one, if there is a newer one.
    fn next_page(&mut self) -> bool {
        let current = self.ring.produced.current.load(edge::TURN_SEEN.order());
        self.free();
        self.hold_after(current)
    }

    /// Holds the cursor's page again, unless it was overwritten since or freed.
    fn hold(&mut self) {
        let Cursor { seq, read, .. } = *self.cursor;
        if self.page.is_none() && seq != 0 {
            self.page = self.held(seq, read);
        }
    }

    /// Holds page `seq` if it is there and `read` of its records were read.
    fn held(&self, seq: u64, read: u32) -> Option<&'a Frame> {
        let frame = self.ring.frame(seq);
        // relaxed: a hold publishes nothing; `head` and `current` publish what it lets us read
        let held = frame.change(PageState::live(seq, read), PageState::held(seq, read), Relaxed);
        held.is_ok().then_some(frame)
    }

    /// Holds the oldest page after the cursor's up to `current`. There is none if `current` is the
    /// cursor's own, or if the producer went round the whole ring since it was loaded.
    fn hold_after(&mut self, current: u64) -> bool {
        let oldest = (current + 1).saturating_sub(self.ring.frames.len() as u64);
        for seq in oldest.max(self.cursor.seq + 1)..=current {
            // if it fails the page is gone or was skipped: `current` says that its turn has been
            if let Some(page) = self.held(seq, 0) {
                self.page = Some(page);
                self.cursor.seq = seq;
                self.cursor.read = 0;
                self.cursor.offset = 0;
                return true;
            }
        }
        false
    }

    /// Shows `next` to the closure and takes it if the closure does.
    fn offer(&mut self, next: Next<'a>, take: &mut impl FnMut(RecordRef<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        if mutant!("took_early") {
            self.ring.consumed.tail.store(self.cursor.tail + 1, edge::TOOK.order());
        }
        let count = match next {
            Next::Gap(count) => {
                take(RecordRef::Drop { count })?;
                count
            }
            Next::Event(page) => {
                let offset = self.cursor.offset;
                if mutant!("give_back_early") {
                    self.let_go();
                }
                // SAFETY: `next` says Event only while we hold the page, and no one but us lets go
                // of it; there, `head` counts a record at the cursor, whose bytes we have acquired
                // with it
                let (header, payload) = unsafe { page.record(offset) };
                let step = step(payload.len());
                let answer = take(RecordRef::Event { header, payload });
                #[cfg(loom)]
                page.model_read(offset, step);
                answer?;
                self.cursor.offset += step;
                self.cursor.read += 1;
                1
            }
        };
        self.cursor.tail += count;
        ControlFlow::Continue(())
    }

    /// Frees the cursor's page, which is sealed and was read to its end.
    fn free(&mut self) {
        if let Some(page) = self.page.take() {
            self.publish_tail();
            if !mutant!("never_frees") {
                page.set(PageState::FREE, edge::GIVE_BACK.order());
            }
            let may_wait = matches!(self.ring.overflow, Overflow::Block { .. });
            if may_wait && !mutant!("room_wakes_nobody") {
                self.ring.backpressure.wake();
            }
        }
    }

    /// Leaves the cursor's page as it is.
    fn let_go(&mut self) {
        if let Some(page) = self.page.take() {
            let Cursor { seq, read, .. } = *self.cursor;
            let read = if mutant!("forgets_read") { 0 } else { read };
            page.set(PageState::live(seq, read), edge::GIVE_BACK.order());
        }
    }

    fn publish_tail(&self) {
        self.ring.consumed.tail.store(self.cursor.tail, edge::TOOK.order());
    }
}

impl Drop for PageReader<'_> {
    fn drop(&mut self) {
        match self.page {
            Some(page) if self.is_at_end(page) || mutant!("frees_open") => self.free(),
            _ => self.let_go(),
        }
        self.publish_tail();
    }
}
