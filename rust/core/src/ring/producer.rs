//! The writing side of a ring.
//!
//! # Roles
//!
//! One thread owns the [`Producer`]; it may be sent to another thread but not shared.
//!
//! # States
//!
//! Between two pushes the producer is *open* (its newest page has `room`) or *sealed* (`room` is 0: no page yet, or the
//! page is final). A push that fits is a copy and the commit. Any other push seals the page and looks for another: the
//! next frame if it is free; when overwriting, the page there unless a reader holds it, and then the frame after.
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

/// See [`Producer::take_pressure`].
const PRESSED_FRAMES: usize = 8;

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It is in the ring.
    Stored,
    /// It is lost, and counted.
    Lost,
    /// The ring is closed: nothing was stored and nothing counted.
    Closed,
}

/// How the owning thread waits for room: it lets go of what a reader may need, calls the argument once, and takes it again.
pub type Waits = fn(&mut dyn FnMut());

/// The writing side of a [`Ring`]; there is exactly one. Dropping it ends the ring: see
/// [`Ring::is_ended`].
pub struct Producer {
    /// The next free byte of the newest page.
    at: *mut u8,
    /// The bytes that are left there; 0 when the page is sealed.
    room: usize,
    /// Our copy of the ring's `head`.
    head: u64,
    ring: Arc<Ring>,
    /// The newest page's number; 0 before the first.
    seq: u64,
    /// Our copy of the newest page's `base`.
    base: u64,
    /// Our copy of the ring's `lost`.
    lost: u64,
    open: bool,
    ended: bool,
    pressed: bool,
    waits: Waits,
    /// What we know of each frame.
    copies: Box<[FrameCopy]>,
}

/// The producer's plain copy of what it wrote to a frame.
#[derive(Clone)]
struct FrameCopy {
    memory: *mut u8,
    /// The records of its sealed page.
    records: u32,
}

// SAFETY: the pointers lead into pages of the ring, which our Arc keeps; they aren't bound to a
// thread, and what they are used for needs only that one thread at a time does, which `&mut self`
// says
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

    /// Stores a record: `header`, whose first `u32` in memory is set to the record's length in
    /// bytes (32 and the payload's), and `payload`, at most [`Ring::max_payload`] bytes. Without
    /// room the ring's [`Overflow`] decides; only `Block` waits.
    #[inline(always)]
    pub fn push(&mut self, header: [u64; 4], payload: &[u8]) -> Pushed {
        let closed = self.ring.closed.load(Relaxed) && !mutant!("ignores_close");
        if closed || page::step(payload.len()) > self.room {
            // a copy, so that the address of `header` isn't taken on the way that is hot
            let [first, second, third, fourth] = header;
            return self.push_cold([first, second, third, fourth], payload);
        }
        // SAFETY: just compared
        unsafe { self.store(header, payload) }
    }

    /// As [`Producer::push`], but doesn't wait: under [`Overflow::Block`], `None` says that there
    /// is no room now and nothing was counted. A caller that must let go of something before it may
    /// wait does so and then pushes.
    #[inline]
    pub fn try_push(&mut self, header: [u64; 4], payload: &[u8]) -> Option<Pushed> {
        if self.must_wait(payload.len()) {
            return None;
        }
        Some(self.push(header, payload))
    }

    /// From now on, waits for room by `waits` (only [`Overflow::Block`] ever does).
    pub fn wait_by(&mut self, waits: Waits) {
        self.waits = waits;
    }

    /// Whether the ring has got half full since this was last asked, because nobody reads it as fast. Asked for at the beginning of
    /// pages only, of rings of at least [`PRESSED_FRAMES`] of them.
    pub fn take_pressure(&mut self) -> bool {
        std::mem::take(&mut self.pressed)
    }

    /// The ring that this writes to.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

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
        // SAFETY: `at` begins `room` bytes of the newest page, aligned because every step is a
        // multiple of 8; readers stay below `head`, which doesn't count these bytes yet, and the
        // page was ours when we took it (States, BUSY)
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
        if !self.turn() && !self.wait_for_room() {
            return if self.is_refused() { Pushed::Closed } else { self.lose() };
        }
        // SAFETY: a fresh page has room for the longest payload, and this one isn't longer
        unsafe { self.store(header, payload) }
    }

    /// Whether a push of such a payload would wait. If not, there is room for it, or it needs none.
    fn must_wait(&mut self, payload_bytes: usize) -> bool {
        page::step(payload_bytes) > self.room
            && matches!(self.ring.overflow, Overflow::Block { .. })
            && payload_bytes <= self.ring.max_payload()
            && !self.is_refused()
            && {
                self.seal();
                !self.turn()
            }
    }

    /// Whether the ring is closed; if so this producer has ended.
    fn is_refused(&mut self) -> bool {
        let closed = self.ring.is_closed() && !mutant!("ignores_close");
        if closed {
            self.end();
        }
        closed
    }

    /// Makes the newest page final.
    fn seal(&mut self) {
        if self.open {
            self.open = false;
            self.room = 0;
            let records = (self.head - self.base) as u32;
            self.copies[self.ring.frame_index(self.seq)].records = records;
            if !mutant!("unsealed") {
                // relaxed: published by the commit of what comes after the page
                self.ring.frame(self.seq).sealed.store(records, Relaxed);
            }
        }
    }

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

    /// Goes to a fresh page. The newest page is sealed.
    fn turn(&mut self) -> bool {
        let frames = self.ring.frames.len() as u64;
        let (rounds, further) = match self.ring.overflow {
            // Every frame but the newest page's own, which has the newest records. A round can fail though a reader
            // holds one page at a time: it may go on from the first frame's page to the next one's while we do. But
            // then it has freed the first, so with three frames the second round finds one.
            Overflow::Overwrite if mutant!("never_skips") => (2, 1),
            Overflow::Overwrite if mutant!("tries_once") => (1, frames - 1),
            Overflow::Overwrite => (2, frames - 1),
            // a reader goes through pages in order, so the next frame is the first to become free
            Overflow::Drop | Overflow::Block { .. } => (1, 1),
        };
        (0..rounds).any(|_| (self.seq + 1..=self.seq + further).any(|seq| self.take(seq)))
    }

    /// Makes page `seq` the newest if its frame can be had.
    fn take(&mut self, seq: u64) -> bool {
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
                // relaxed: nobody wrote anything that the next owner, who is us, would have to see
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

    /// Under the blocking policy, waits for a page; else says that there is none.
    fn wait_for_room(&mut self) -> bool {
        let Overflow::Block { limit } = self.ring.overflow else {
            return false;
        };
        let (ring, waits) = (Arc::clone(&self.ring), self.waits);
        let mut ready = false;
        waits(&mut || ready = ring.backpressure.wait(limit, || self.turn() || ring.is_closed()));
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
