//! The writing side of a ring.
//!
//! # Roles
//!
//! One thread owns the [`Producer`]. It may move to another thread but is not shared.
//!
//! # States
//!
//! Between two pushes the producer is *open* (its newest page has `room`) or *sealed* (`room` is 0: there is no page
//! yet, or the page is final). A push that fits is a copy and the commit. Any other push seals the page and tries the
//! next frame, if it is free. An overwriting producer takes the page there unless a reader holds it; then it tries the
//! frame after that one.
//!
//! # Orderings
//!
//! `COMMIT`, `TURN`, `GIVE_BACK` and `ENDED` of the table in `ring`.
//!
//! # Checked by
//!
//! The models and tests of `ring`.

use std::ptr;

use super::{
    edge,
    page::{self, Frame, PageState},
    Overflow, Ring,
};
use crate::sync::{mutants::mutant, Arc, Ordering::Relaxed};

/// How many frames a ring needs to report pressure, see [`Producer::take_pressure`].
const PRESSED_FRAMES: usize = 8;

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// The record is in the ring.
    Stored,
    /// The record is lost and counted.
    Lost,
    /// The ring is closed: the record is neither stored nor counted.
    Closed,
}

/// How the owning thread waits for space: it releases everything that a reader may need (such as a global lock), calls the argument
/// once, and takes it again.
pub type Waits = fn(&mut dyn FnMut());

/// The only writing side of a [`Ring`]. Dropping it ends the ring: see [`Ring::is_ended`].
pub struct Producer {
    /// The next free byte of the newest page.
    at: *mut u8,
    /// The free bytes of the newest page; 0 when it is sealed.
    room: usize,
    /// A copy of the ring's `head`.
    head: u64,
    ring: Arc<Ring>,
    /// The newest page's number; 0 before the first.
    seq: u64,
    /// A copy of the newest page's `base`.
    base: u64,
    /// A copy of the ring's `lost`.
    lost: u64,
    open: bool,
    ended: bool,
    pressed: bool,
    waits: Waits,
    /// A copy of each frame.
    copies: Box<[FrameCopy]>,
}

/// The producer's plain copy of its writes to a frame.
#[derive(Clone)]
struct FrameCopy {
    memory: *mut u8,
    /// The number of records of its sealed page.
    records: u32,
}

// SAFETY: the pointers lead into pages of the ring, which the producer's Arc keeps alive. They aren't
// bound to a thread. Their use needs one thread at a time, which `&mut self` guarantees
unsafe impl Send for Producer {}

impl Producer {
    pub(super) fn new(ring: Arc<Ring>) -> Producer {
        let copies = vec![FrameCopy { memory: ptr::null_mut(), records: 0 }; ring.frames.len()];
        Producer {
            at: ptr::null_mut(),
            room: 0,
            head: 0,
            ring,
            seq: 0,
            base: 0,
            lost: 0,
            open: false,
            ended: false,
            pressed: false,
            waits: |wait| wait(),
            copies: copies.into_boxed_slice(),
        }
    }

    /// Stores a record. The first `u32` of `header` in memory is set to the record's length in bytes
    /// (32 and the payload's). `payload` has at most [`Ring::max_payload`] bytes. Without space the
    /// ring's [`Overflow`] decides; only `Block` waits.
    #[inline(always)]
    pub fn push(&mut self, header: [u64; 4], payload: &[u8]) -> Pushed {
        let closed = self.ring.closed.load(Relaxed) && !mutant!("ignores_close");
        if closed || page::step(payload.len()) > self.room {
            // a copy, so that the hot path doesn't take the address of `header`
            let [first, second, third, fourth] = header;
            return self.push_cold([first, second, third, fourth], payload);
        }
        // SAFETY: the step was compared with `room` above, so the record fits
        unsafe { self.store(header, payload) }
    }

    /// As [`Producer::push`], but never waits: under [`Overflow::Block`] it returns `None` without
    /// space, and counts nothing. A caller that must release something before it may wait does that
    /// and then pushes.
    #[inline]
    pub fn try_push(&mut self, header: [u64; 4], payload: &[u8]) -> Option<Pushed> {
        if self.must_wait(payload.len()) {
            return None;
        }
        Some(self.push(header, payload))
    }

    /// Sets how the producer waits for space. Only [`Overflow::Block`] waits.
    pub fn wait_by(&mut self, waits: Waits) {
        self.waits = waits;
    }

    /// Whether the ring has become half full since the last call. It is checked at the beginning of each page, in rings of at least
    /// 8 pages.
    pub fn take_pressure(&mut self) -> bool {
        std::mem::take(&mut self.pressed)
    }

    /// The ring of this producer.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Writes a record and commits it.
    ///
    /// # Safety
    ///
    /// The record fits in `room`.
    #[inline(always)]
    unsafe fn store(&mut self, header: [u64; 4], payload: &[u8]) -> Pushed {
        let step = page::step(payload.len());
        self.head += 1;
        if mutant!("commit_early") {
            self.ring.produced.head.store(self.head, edge::COMMIT.order());
        }
        #[cfg(loom)]
        self.ring.frame(self.seq).model_write(self.ring.page_bytes - self.room, step);
        // SAFETY: `at` begins `room` bytes of the newest page; the caller promises that the record
        // fits. They are aligned, because every step is a multiple of 8. Readers stay below `head`,
        // which doesn't count these bytes yet, and only the producer writes to its newest page
        unsafe {
            page::write_record(self.at, header, payload);
            self.at = self.at.add(step);
        }
        page::fetch_ahead(self.at);
        self.room -= step;
        if !mutant!("commit_early") {
            self.ring.produced.head.store(self.head, edge::COMMIT.order());
        }
        Pushed::Stored
    }

    #[cold]
    #[inline(never)]
    fn push_cold(&mut self, header: [u64; 4], payload: &[u8]) -> Pushed {
        if self.is_refused() {
            return Pushed::Closed;
        }
        self.seal();
        if payload.len() > self.ring.max_payload() {
            return self.lose();
        }
        if !self.take_next_page() && !self.wait_for_space() {
            return if self.is_refused() { Pushed::Closed } else { self.lose() };
        }
        // SAFETY: a fresh page has space for the longest payload, and this one isn't longer
        unsafe { self.store(header, payload) }
    }

    /// Whether a push of a payload of this size would wait.
    fn must_wait(&mut self, payload_bytes: usize) -> bool {
        page::step(payload_bytes) > self.room
            && matches!(self.ring.overflow, Overflow::Block { .. })
            && payload_bytes <= self.ring.max_payload()
            && !self.is_refused()
            && {
                self.seal();
                !self.take_next_page()
            }
    }

    /// Whether the ring is closed. If so, ends this producer.
    fn is_refused(&mut self) -> bool {
        let closed = self.ring.is_closed() && !mutant!("ignores_close");
        if closed {
            self.end();
        }
        closed
    }

    /// Seals the newest page.
    fn seal(&mut self) {
        if self.open {
            self.open = false;
            self.room = 0;
            let records = (self.head - self.base) as u32;
            self.copies[self.ring.frame_index(self.seq)].records = records;
            if !mutant!("unsealed") {
                // relaxed: published by the commit of the next record or loss
                self.ring.frame(self.seq).sealed.store(records, Relaxed);
            }
        }
    }

    /// Counts a lost record.
    fn lose(&mut self) -> Pushed {
        self.lost += if mutant!("counts_twice") { 2 } else { 1 };
        // relaxed: a number, and published by the commit
        self.ring.produced.lost.store(self.lost, Relaxed);
        if !mutant!("loses_silently") {
            self.head += 1;
            self.ring.produced.head.store(self.head, edge::COMMIT.order());
        }
        Pushed::Lost
    }

    /// Takes a fresh page. The newest page must be sealed.
    fn take_next_page(&mut self) -> bool {
        let frames = self.ring.frames.len() as u64;
        let (rounds, further) = match self.ring.overflow {
            // every frame except that of the newest page, which has the newest records. A round can fail although a
            // reader holds one page at a time: the reader may continue from the first frame's page to the next one's
            // during the round. But then it has freed the first, so with three frames the second round finds one
            Overflow::Overwrite if mutant!("never_skips") => (2, 1),
            Overflow::Overwrite if mutant!("tries_once") => (1, frames - 1),
            Overflow::Overwrite => (2, frames - 1),
            // a reader reads pages in order, so the next frame becomes free first
            Overflow::Drop | Overflow::Block { .. } => (1, 1),
        };
        (0..rounds).any(|_| (self.seq + 1..=self.seq + further).any(|seq| self.take_page(seq)))
    }

    /// Makes page `seq` the newest if its frame is available.
    fn take_page(&mut self, seq: u64) -> bool {
        let ring = &*self.ring;
        let index = ring.frame_index(seq);
        let (frame, copies) = (&ring.frames[index], &mut self.copies[index]);
        let overwrites = ring.overflow == Overflow::Overwrite || mutant!("takes_live");

        let mut before = PageState::FREE;
        while let Err(seen) = frame.change(before, PageState::busy(seq), edge::GIVE_BACK_SEEN.order()) {
            if !overwrites || seen.is_held() && !mutant!("takes_held") {
                return false;
            }
            before = seen;
        }
        if before != PageState::FREE && !mutant!("counts_none") {
            let read = if mutant!("counts_read") { 0 } else { before.read() };
            self.lost += u64::from(copies.records - read);
            // relaxed: as in `lose`
            ring.produced.lost.store(self.lost, Relaxed);
        }
        if copies.memory.is_null() {
            copies.memory = frame.allocate(ring.page_bytes);
            if copies.memory.is_null() {
                // relaxed: nothing was written, and the next owner is this thread again
                frame.set(PageState::FREE, Relaxed);
                return false;
            }
        }
        if mutant!("turn_early") {
            ring.produced.current.store(seq, edge::TURN.order());
        }
        // relaxed: published by `current`
        frame.base.store(self.head, Relaxed);
        frame.sealed.store(Frame::OPEN, Relaxed);
        frame.set(PageState::live(seq, 0), Relaxed);
        ring.produced.current.store(seq, edge::TURN.order());

        if ring.frames.len() >= PRESSED_FRAMES {
            let half_a_ring_before = seq + ring.frames.len() as u64 / 2;
            self.pressed |= !ring.frame(half_a_ring_before).is_free();
        }
        self.at = copies.memory;
        self.room = ring.page_bytes;
        self.seq = seq;
        self.base = self.head;
        self.open = true;
        true
    }

    /// Waits for a page under the blocking policy. Answers whether there is one.
    fn wait_for_space(&mut self) -> bool {
        let Overflow::Block { limit } = self.ring.overflow else {
            return false;
        };
        let (ring, waits) = (Arc::clone(&self.ring), self.waits);
        let mut ready = false;
        waits(&mut || ready = ring.backpressure.wait(limit, || self.take_next_page() || ring.is_closed()));
        ready && self.open
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.ring.produced.ended.store(true, edge::ENDED.order());
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("seq", &self.seq).field("room", &self.room).finish_non_exhaustive()
    }
}
