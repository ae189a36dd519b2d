//! A frame of the ring: its state word, the memory of its page, and the bytes of a record.
//!
//! # Roles
//!
//! The producer and the reader of `ring` (see there). This file defines the layout of a word and of a
//! record. `ring` defines which role may change them.
//!
//! # States
//!
//! [`PageState`] packs, from the lowest bit: kind (2 bits), records read (16), page number (46). With a
//! page each microsecond the numbers last two years. At the rate of a core that fills pages of 64 KiB
//! they last thirty.
//!
//! # Orderings
//!
//! Callers pass them, from the table in `ring`.
//!
//! # Checked by
//!
//! The models of `ring`. Under loom each 8 bytes of a page have a shadow cell. Each access to the bytes
//! accesses the cell, too. So an access that no edge orders fails the model.

use std::{
    alloc::{alloc, dealloc, Layout},
    fmt, ptr, slice,
};

use super::HEADER_BYTES;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

/// Pages begin on a cache line.
const PAGE_ALIGN: usize = 64;

/// The shift of the header's first `u32` in memory within its first `u64`. That `u32` is the record's
/// length in bytes, including the header.
const LENGTH_SHIFT: u32 = if cfg!(target_endian = "little") { 0 } else { 32 };

const _: () = assert!(HEADER_BYTES == size_of::<[u64; 4]>());
const _: () = assert!(PAGE_ALIGN >= align_of::<[u64; 4]>());

/// Prefetches a line that will be written soon. Without it, writes to a ring larger than the caches wait for memory, and the traced
/// program waits for its store buffer. It is a hint: the address need not exist. Other processors do without: nothing was measured there.
#[inline(always)]
pub(super) fn fetch_ahead(at: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom), not(inviso_portable)))]
    // SAFETY: a prefetch is a hint and doesn't access the address
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        /// How far ahead of the write position: some records.
        const AHEAD: usize = 512;
        _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(AHEAD).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom), not(inviso_portable))))]
    let _ = at;
}

/// The word of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PageState(u64);

impl PageState {
    pub(super) const FREE: PageState = PageState(0);
    /// The largest number of records of a page.
    pub(super) const MAX_RECORDS: u32 = (1 << 16) - 1;

    const BUSY: u64 = 1;
    const LIVE: u64 = 2;
    const HELD: u64 = 3;
    const KIND: u64 = 3;
    const READ_SHIFT: u32 = 2;
    const SEQ_SHIFT: u32 = 18;

    /// The producer prepares page `seq`.
    pub(super) const fn busy(seq: u64) -> PageState {
        PageState(Self::BUSY | seq << Self::SEQ_SHIFT)
    }

    /// Page `seq` can be read. `read` of its records have been read.
    pub(super) const fn live(seq: u64, read: u32) -> PageState {
        PageState(Self::LIVE | (read as u64) << Self::READ_SHIFT | seq << Self::SEQ_SHIFT)
    }

    /// As [`PageState::live`], with a reader inside.
    pub(super) const fn held(seq: u64, read: u32) -> PageState {
        PageState(Self::live(seq, read).0 | Self::HELD)
    }

    pub(super) const fn is_held(self) -> bool {
        self.0 & Self::KIND == Self::HELD
    }

    /// The number of records that readers took from the page.
    pub(super) const fn read(self) -> u32 {
        (self.0 >> Self::READ_SHIFT) as u32 & Self::MAX_RECORDS
    }

    const fn seq(self) -> u64 {
        self.0 >> Self::SEQ_SHIFT
    }
}

impl fmt::Debug for PageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 & Self::KIND {
            Self::BUSY => write!(f, "BUSY#{}", self.seq()),
            Self::LIVE => write!(f, "LIVE#{}/{}", self.seq(), self.read()),
            Self::HELD => write!(f, "LIVE#{}/{}+reader", self.seq(), self.read()),
            _ => write!(f, "FREE"),
        }
    }
}

/// A place for a page.
pub(super) struct Frame {
    word: AtomicU64,
    /// Records produced before the page's first record.
    pub(super) base: AtomicU64,
    /// Null until the frame is first used.
    pub(super) memory: AtomicPtr<u8>,
    /// The page's final number of records, or [`Frame::OPEN`].
    pub(super) sealed: AtomicU32,
    #[cfg(loom)]
    shadow: shadow::Shadow,
}

impl Frame {
    /// The page may still grow.
    pub(super) const OPEN: u32 = u32::MAX;

    pub(super) fn new(page_bytes: usize) -> Frame {
        let _ = page_bytes;
        Frame {
            word: AtomicU64::new(PageState::FREE.0),
            base: AtomicU64::new(0),
            memory: AtomicPtr::new(ptr::null_mut()),
            sealed: AtomicU32::new(Frame::OPEN),
            #[cfg(loom)]
            shadow: shadow::Shadow::new(page_bytes),
        }
    }

    /// Changes the word from `from` to `to`. The error is the actual word.
    pub(super) fn change(&self, from: PageState, to: PageState, success: Ordering) -> Result<(), PageState> {
        match self.word.compare_exchange(from.0, to.0, success, Relaxed) {
            Ok(_) => Ok(()),
            Err(seen) => Err(PageState(seen)),
        }
    }

    /// Whether there is no page.
    pub(super) fn is_free(&self) -> bool {
        // relaxed: a hint
        self.word.load(Relaxed) == PageState::FREE.0
    }

    /// Sets the word. The caller must own it: the producer owns `BUSY`, the reader owns `+reader`.
    /// Returns the old word.
    pub(super) fn set(&self, to: PageState, order: Ordering) -> PageState {
        PageState(self.word.swap(to.0, order))
    }

    /// Allocates the frame's page. Null without memory. Only the producer calls it, once for each
    /// frame.
    pub(super) fn allocate(&self, page_bytes: usize) -> *mut u8 {
        // SAFETY: the layout's size isn't 0: `Ring::split_pages` has asserted at least the size of a
        // header
        let memory = unsafe { alloc(layout(page_bytes)) };
        self.memory.store(memory, Relaxed);
        memory
    }

    pub(super) fn free_memory(&mut self, page_bytes: usize) {
        let memory = self.memory.load(Relaxed);
        if !memory.is_null() {
            // SAFETY: `allocate` used this layout. `&mut self` in the ring's drop proves that no
            // producer is left (it owns an Arc of the ring) and no reader (it borrows the ring)
            unsafe { dealloc(memory, layout(page_bytes)) };
        }
    }

    /// Reads the record at `offset`.
    ///
    /// # Safety
    ///
    /// The caller holds this page (`+reader`) as long as the slice lives. At `offset` begins a record
    /// that an acquired `head` counts.
    pub(super) unsafe fn record(&self, offset: usize) -> ([u64; 4], &[u8]) {
        #[cfg(loom)]
        self.shadow.read(offset, HEADER_BYTES);
        let memory = self.memory.load(Relaxed);
        // SAFETY: the page is live, so its memory is allocated. The record is complete and aligned
        // (steps are multiples of 8). Nobody writes to it: the producer writes behind it and can't
        // take a page that the caller holds
        let header = unsafe { memory.add(offset).cast::<[u64; 4]>().read() };
        let length = (header[0] >> LENGTH_SHIFT) as u32 as usize;
        #[cfg(loom)]
        self.shadow.read(offset, step(length - HEADER_BYTES));
        // SAFETY: the record is complete and nobody writes to it, as above. `write_record` wrote
        // `length`, which includes the header
        let payload = unsafe { slice::from_raw_parts(memory.add(offset + HEADER_BYTES), length - HEADER_BYTES) };
        (header, payload)
    }

    /// Reports a read of `length` bytes at `offset` to the model.
    #[cfg(loom)]
    pub(super) fn model_read(&self, offset: usize, length: usize) {
        self.shadow.read(offset, length);
    }

    /// Reports a write of `length` bytes at `offset` to the model.
    #[cfg(loom)]
    pub(super) fn model_write(&self, offset: usize, length: usize) {
        self.shadow.write(offset, length);
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PageState(self.word.load(Relaxed)).fmt(f)
    }
}

/// The size of a record with a payload of this size, in bytes.
#[inline]
pub(super) const fn step(payload_bytes: usize) -> usize {
    HEADER_BYTES + ((payload_bytes + 7) & !7)
}

/// Writes a record. Its length goes into the first `u32` of its header.
///
/// # Safety
///
/// `at` is aligned to 8. It begins `step(payload.len())` bytes that only the caller may access. Their
/// page has at most `u32::MAX` bytes.
#[inline]
pub(super) unsafe fn write_record(at: *mut u8, header: [u64; 4], payload: &[u8]) {
    let length = (HEADER_BYTES + payload.len()) as u64;
    // word by word, so that a header in registers doesn't go through the stack
    let [first, second, third, fourth] = header;
    let first = first & !(0xffff_ffff << LENGTH_SHIFT) | length << LENGTH_SHIFT;
    let words = at.cast::<u64>();
    // SAFETY: the caller promises that the bytes are aligned and that only it may access them. So
    // `payload`, a live reference, can't overlap them
    unsafe {
        words.write(first);
        words.add(1).write(second);
        words.add(2).write(third);
        words.add(3).write(fourth);
        ptr::copy_nonoverlapping(payload.as_ptr(), at.add(HEADER_BYTES), payload.len());
    }
}

fn layout(page_bytes: usize) -> Layout {
    Layout::from_size_align(page_bytes, PAGE_ALIGN).expect("a page is 64 KiB at most")
}

/// Shadow cells that show loom the accesses to a page.
#[cfg(loom)]
mod shadow {
    use crate::sync::UnsafeCell;

    pub(super) struct Shadow(Box<[UnsafeCell<()>]>);

    // SAFETY: the cells have no content. loom checks the accesses to them and panics at a race
    unsafe impl Sync for Shadow {}

    impl Shadow {
        pub(super) fn new(page_bytes: usize) -> Shadow {
            Shadow((0..page_bytes / 8).map(|_| UnsafeCell::new(())).collect())
        }

        pub(super) fn read(&self, offset: usize, length: usize) {
            self.0[offset / 8..(offset + length).div_ceil(8)].iter().for_each(|cell| cell.with(|_| ()));
        }

        pub(super) fn write(&self, offset: usize, length: usize) {
            self.0[offset / 8..(offset + length).div_ceil(8)].iter().for_each(|cell| cell.with_mut(|_| ()));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_as_it_is_written_down() {
        let shown = [PageState::FREE, PageState::busy(7), PageState::live(12, 0), PageState::held(12, 3)];
        assert_eq!(format!("{shown:?}"), "[FREE, BUSY#7, LIVE#12/0, LIVE#12/3+reader]");
        let widest = PageState::held((1 << 46) - 1, PageState::MAX_RECORDS);
        assert_eq!((widest.seq(), widest.read()), ((1 << 46) - 1, PageState::MAX_RECORDS));
        assert!(widest.is_held() && !PageState::live(1, PageState::MAX_RECORDS).is_held());
    }

    #[test]
    fn a_frame_answers_with_the_state_it_saw() {
        let frame = Frame::new(64);
        assert_eq!(frame.change(PageState::FREE, PageState::busy(1), Relaxed), Ok(()));
        assert_eq!(frame.change(PageState::FREE, PageState::busy(2), Relaxed), Err(PageState::busy(1)));
        assert_eq!(frame.set(PageState::live(1, 0), Relaxed), PageState::busy(1));
    }
}
