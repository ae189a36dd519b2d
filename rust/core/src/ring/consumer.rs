//! The reading side of a ring.
//!
//! # Roles
//!
//! Any thread may call [`Ring::drain`]. The lock around [`Cursor`] admits one; the others get
//! [`Busy`].
//!
//! # States
//!
//! The cursor is at record `read` of page `seq`, or before the first page if `seq` is 0. Within a
//! drain the reader may hold that page. `base + read - tail` records were lost before the cursor's
//! record. A sealed page that was read to its end is freed. If no page is left, all remaining records
//! that `head` counts were lost.
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
use crate::sync::{mutants::mutant, MutexGuard, Ordering::Relaxed, TryLockError, Unpoisoned};

/// A record or a loss, as the closure of a drain gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRef<'a> {
    /// A pushed record. The first `u32` of `header` is its length in bytes, including the header.
    Event {
        /// The header.
        header: [u64; 4],
        /// The payload, in the ring's own memory.
        payload: &'a [u8],
    },
    /// `count` records were lost at this place.
    Drop {
        /// At least 1. The losses at one place may come as several of these.
        count: u64,
    },
}

/// Another drain of the ring is running, perhaps further up this thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another drain of this ring is under way")]
pub struct Busy;

/// The result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Events taken.
    pub events: u64,
    /// Lost records that drop records report.
    pub lost: u64,
    /// Whether the drain took all records that the ring had at its beginning.
    pub empty: bool,
}

/// The reading position.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    seq: u64,
    /// Records of this page that were taken.
    read: u32,
    /// Bytes of this page that were taken.
    offset: usize,
    /// A copy of the ring's `tail`.
    tail: u64,
}

impl Ring {
    /// Passes the present records to `take`, oldest first, at most `max` of them including drop
    /// records.
    ///
    /// `Continue` takes the record. `Break` or a panic leaves it for the next drain and ends this
    /// one. Records that are pushed meanwhile are left for the next drain, so a drain always ends.
    /// It never waits: during another drain it returns [`Busy`]. [`Ring::tail`] moves at the end of
    /// each page and of the drain.
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
            // a closure panicked: its record wasn't taken, and `PageReader` has restored the page
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if mutant!("waits_its_turn") => self.consumed.cursor.lock().unpoisoned(),
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

/// The next item of a drain.
#[derive(Clone, Copy)]
enum Next<'a> {
    /// The record at the cursor, in this held page.
    Event(&'a Frame),
    /// This many lost records.
    Gap(u64),
}

/// A running drain. Its drop releases the page and moves `tail`.
struct PageReader<'a> {
    ring: &'a Ring,
    cursor: MutexGuard<'a, Cursor>,
    /// The cursor's page while it is held (`+reader`).
    page: Option<&'a Frame>,
}

impl<'a> PageReader<'a> {
    /// Finds the next item. The acquired `head` counts at least one more.
    fn next(&mut self, head: u64) -> Next<'a> {
        self.hold();
        let page = loop {
            match self.page {
                Some(page) if !self.is_at_end(page) => break page,
                _ => {}
            }
            if !self.next_page() {
                // no page up to `current` has a record left, and `head` counts none after it
                return Next::Gap(head - self.cursor.tail);
            }
        };
        // relaxed: `head` or `current` published it before the page was first held
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
        // relaxed: if the page was sealed before the next item, `head` or `current` has published that
        self.cursor.read == page.sealed.load(Relaxed)
    }

    /// Frees the cursor's page and holds the oldest newer one, if there is one.
    fn next_page(&mut self) -> bool {
        let current = self.ring.produced.current.load(edge::TURN_SEEN.order());
        self.free_page();
        self.hold_after(current)
    }

    /// Holds the cursor's page again, unless it was overwritten or freed since.
    fn hold(&mut self) {
        let Cursor { seq, read, .. } = *self.cursor;
        if self.page.is_none() && seq != 0 {
            self.page = self.hold_page(seq, read);
        }
    }

    /// Holds page `seq` if it is live and `read` of its records were read.
    fn hold_page(&self, seq: u64, read: u32) -> Option<&'a Frame> {
        let frame = self.ring.frame(seq);
        // relaxed: a hold publishes nothing; `head` and `current` publish the page
        let held = frame.change(PageState::live(seq, read), PageState::held(seq, read), Relaxed);
        held.is_ok().then_some(frame)
    }

    /// Holds the oldest page after the cursor's, up to `current`. There is none if `current` is the
    /// cursor's own, or if the producer passed the whole ring since `current` was loaded.
    fn hold_after(&mut self, current: u64) -> bool {
        let oldest = (current + 1).saturating_sub(self.ring.frames.len() as u64);
        for seq in oldest.max(self.cursor.seq + 1)..=current {
            // a page up to `current` that isn't live is gone or was skipped
            if let Some(page) = self.hold_page(seq, 0) {
                self.page = Some(page);
                self.cursor.seq = seq;
                self.cursor.read = 0;
                self.cursor.offset = 0;
                return true;
            }
        }
        false
    }

    /// Passes `next` to the closure. Takes it if the closure answers `Continue`.
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
                    self.release_page();
                }
                // SAFETY: `Next::Event` means that this reader holds the page, and only this reader
                // releases it. `head` counts a record at the cursor, and its bytes were acquired with
                // `head`
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

    /// Frees the cursor's page, which is sealed and read to its end.
    fn free_page(&mut self) {
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

    /// Releases the cursor's page without freeing it.
    fn release_page(&mut self) {
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
            Some(page) if self.is_at_end(page) || mutant!("frees_open") => self.free_page(),
            _ => self.release_page(),
        }
        self.publish_tail();
    }
}
