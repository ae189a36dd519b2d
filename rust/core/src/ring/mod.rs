//! A bounded ring of variable-length records: one thread writes, any one thread at a time reads.
//!
//! There is one ring for each pair of scheduler thread and session. The thread that owns the
//! [`Producer`] pushes trace events: a 32-byte header and a payload each. The thread that delivers
//! them calls [`Ring::drain`]. The ring consists of pages that are allocated at their first use, so
//! a session without events costs a few hundred bytes. Every pushed record is either read or
//! counted as lost. A loss is read as a record of its own, at the place where it happened:
//! `read + lost = produced`, always.
//!
//! ```
//! use inviso_core::host::ring::{Overflow, Pushed, RecordRef, Ring};
//! use std::ops::ControlFlow;
//!
//! let (mut producer, ring) = Ring::split(1 << 20, Overflow::Drop);
//! assert_eq!(producer.push([0, 1, 2, 3], b"payload"), Pushed::Stored);
//! let drained = ring.drain(usize::MAX, |record| {
//!     let RecordRef::Event { header, payload } = record else { panic!("nothing was lost") };
//!     assert_eq!((header[1..].to_vec(), payload), (vec![1, 2, 3], &b"payload"[..]));
//!     ControlFlow::Continue(())
//! });
//! assert_eq!(drained.unwrap().events, 1);
//! assert_eq!((ring.head(), ring.tail(), ring.lost()), (1, 1, 0));
//! ```
//!
//! # Roles
//!
//! | role | who | may |
//! | --- | --- | --- |
//! | producer | the thread that owns the [`Producer`] | push; take pages; allocate |
//! | reader | any thread inside [`Ring::drain`]; a `try_lock` admits one at a time | hold one page, free it, move `tail` |
//! | others | any thread | [`Ring::close`]; read positions |
//!
//! A page has a sequence number `seq`, counted from 1, and its place is frame `seq % frames`. A
//! number that the producer has passed is live, gone or skipped. A number that is gone or skipped
//! stays so. So a reader that tries the numbers in order can't miss a page. A page has the number
//! of records that were produced before it (`base`). So a reader knows from its own `tail` how many
//! records were lost before the page: `base - tail`. That accounts for all losses under any policy.
//!
//! # States
//!
//! The word of a frame is a `page::PageState`. `s` is the page's number, `r` the number of its records
//! that were read:
//!
//! | state | meaning | left by | to |
//! | --- | --- | --- | --- |
//! | `FREE` | no page; maybe no memory yet | producer | `BUSY#s` |
//! | `BUSY#s` | the producer prepares page `s` | producer | `LIVE#s/0` |
//! | `LIVE#s/r` | page `s` has records; no reader holds it | reader; producer (overwrite, not its own newest page) | `LIVE#s/r+reader`; `BUSY#t` |
//! | `LIVE#s/r+reader` | a reader is inside | reader | `LIVE#s/r'`; `FREE` if it is sealed and read to its end |
//!
//! A page is sealed when its number of records is final. The producer seals it before it counts a
//! loss or takes another page. So losses are always between pages, never within one.
//!
//! # Orderings
//!
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `head`: `edge::COMMIT` | producer, after the record or the loss is in place | drain, once at its start | the bytes and the seals of all records that `head` counts |
//! | `current`: `edge::TURN` | producer, after the page is `LIVE` | drain, at the end of a page | word, `base` and memory of a page that is newer than the `head` that this drain saw |
//! | frame word: `edge::GIVE_BACK` | reader, when it releases a page | producer, when it takes the frame | all reads of the bytes end before they are written again |
//! | `tail`: `edge::TOOK` | drain, after the closure took the records | [`Ring::tail`] | the effects of the closure |
//! | `ended`: `edge::ENDED` | producer, after its last push | [`Ring::is_ended`] | the last `head` |
//!
//! Everything else is relaxed: `head` and `lost` as numbers; `closed` (a push that happens after the
//! close reads it by coherence); `base`, `sealed`, memory and the word `LIVE` (published by the
//! edges above); the reader's hold (a read-modify-write; `head` or `current` publishes the page).
//! The producer and the reader keep plain copies of the words that only they write.
//!
//! # Checked by
//!
//! `models.rs` under loom, for each policy. `mutants.rs` lists the bugs that those models must find;
//! `tests/loom.sh` plants them one by one. `tests.rs` compares with a slow list and runs real threads.

mod backpressure;
mod consumer;
#[cfg(all(test, loom))]
mod models;
mod mutants;
mod page;
mod producer;
#[cfg(all(test, not(loom)))]
mod tests;

use std::time::Duration;

use crate::sync::{mutants::mutant, Arc, AtomicBool, AtomicU64, Mutex, Ordering::Relaxed};
use backpressure::Backpressure;
use consumer::Cursor;
pub use consumer::{Busy, Drained, RecordRef};
use mutants::edge;
use page::Frame;
pub use producer::{Producer, Pushed, Waits};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 32;

/// The largest and the smallest page that [`Ring::split`] chooses.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 10;

/// With three frames an overwriting producer always finds one that is neither its own newest nor held
/// by the reader.
const MIN_FRAMES: usize = 3;

/// The largest size of a ring; larger requests are cut to it.
const MAX_BYTES: usize = 1 << 34;

const _: () = assert!(*PAGE_BYTES.end() / HEADER_BYTES <= page::PageState::MAX_RECORDS as usize);
const _: () = assert!(PAGE_BYTES.start().is_power_of_two() && PAGE_BYTES.end().is_power_of_two());

/// The policy of a push when every page is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The new record is lost.
    Drop,
    /// The oldest page that no reader holds is lost, and the new record is stored: a flight recorder.
    Overwrite,
    /// The push waits for a reader, at most for `limit`; then the new record is lost. The owning
    /// thread is blocked meanwhile, so it must hold nothing that the reader needs: see
    /// [`Producer::wait_by`].
    Block {
        /// The longest wait of one push. `Duration::MAX` waits for ever.
        limit: Duration,
    },
}

/// The shared side of a ring. [`Ring::split`] creates it with its only [`Producer`].
pub struct Ring {
    frames: Box<[Frame]>,
    page_bytes: usize,
    overflow: Overflow,
    closed: AtomicBool,
    backpressure: Backpressure,
    produced: Produced,
    consumed: Consumed,
}

/// The words that the producer writes, on their own cache lines.
#[repr(align(128))]
struct Produced {
    /// Records produced, including lost ones.
    head: AtomicU64,
    /// The number of the newest page; 0 before the first.
    current: AtomicU64,
    /// Records lost.
    lost: AtomicU64,
    /// No later push stores anything.
    ended: AtomicBool,
}

/// The words that the reader writes, on their own cache lines.
#[repr(align(128))]
struct Consumed {
    /// Records taken by readers, or reported to them as lost.
    tail: AtomicU64,
    cursor: Mutex<Cursor>,
}

impl Ring {
    /// Creates a ring of about `bytes` bytes and its only producer.
    ///
    /// A page has an eighth of `bytes`, between 4 KiB and 64 KiB, and there are at least three pages.
    /// Each page is allocated at its first record and freed with the ring. [`Ring::max_payload`]
    /// follows from the size of a page.
    pub fn split(bytes: usize, overflow: Overflow) -> (Producer, Arc<Ring>) {
        let bytes = bytes.min(MAX_BYTES);
        let eighth = 1 << (bytes / 8).max(1).ilog2();
        let page_bytes = eighth.clamp(*PAGE_BYTES.start(), *PAGE_BYTES.end());
        Ring::split_pages(page_bytes, (bytes / page_bytes).max(MIN_FRAMES), overflow)
    }

    /// Creates a ring of `frames` pages (at least two) of `page_bytes` each (a multiple of 8, at
    /// least a header). Models and tests use it for rings that two records fill.
    pub(crate) fn split_pages(page_bytes: usize, frames: usize, overflow: Overflow) -> (Producer, Arc<Ring>) {
        assert!(frames >= 2 && page_bytes.is_multiple_of(8));
        assert!((HEADER_BYTES..=*PAGE_BYTES.end()).contains(&page_bytes));
        let ring = Arc::new(Ring {
            frames: (0..frames).map(|_| Frame::new(page_bytes)).collect(),
            page_bytes,
            overflow,
            closed: AtomicBool::new(false),
            backpressure: Backpressure::new(),
            produced: Produced {
                head: AtomicU64::new(0),
                current: AtomicU64::new(0),
                lost: AtomicU64::new(0),
                ended: AtomicBool::new(false),
            },
            consumed: Consumed { tail: AtomicU64::new(0), cursor: Mutex::new(Cursor::default()) },
        });
        (Producer::new(Arc::clone(&ring)), ring)
    }

    /// Refuses every later push. A push that has begun may still be stored. Stored records stay
    /// readable. A push that waits for space is refused.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
        if matches!(self.overflow, Overflow::Block { .. }) && !mutant!("close_wakes_nobody") {
            self.backpressure.wake();
        }
    }

    /// Whether [`Ring::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Whether the producer is gone or was refused. If so, a later drain finds all records that
    /// there will ever be.
    pub fn is_ended(&self) -> bool {
        self.produced.ended.load(edge::ENDED_SEEN.order())
    }

    /// Records produced so far, including lost ones. Counts every earlier push.
    pub fn head(&self) -> u64 {
        self.produced.head.load(Relaxed)
    }

    /// Records that readers took so far, including those that were reported to them as lost. When this
    /// reaches an earlier value of [`Ring::head`], all records from before that moment are delivered,
    /// and the effects of the closures are visible to the caller.
    pub fn tail(&self) -> u64 {
        self.consumed.tail.load(edge::TOOK_SEEN.order())
    }

    /// Records lost so far, including losses that are not reported yet.
    pub fn lost(&self) -> u64 {
        self.produced.lost.load(Relaxed)
    }

    /// The longest payload that fits, in bytes. A record with a longer one is lost under every policy.
    pub fn max_payload(&self) -> usize {
        self.page_bytes - HEADER_BYTES
    }

    /// The policy on overflow.
    pub fn overflow(&self) -> Overflow {
        self.overflow
    }

    fn frame(&self, seq: u64) -> &Frame {
        &self.frames[self.frame_index(seq)]
    }

    fn frame_index(&self, seq: u64) -> usize {
        (seq % self.frames.len() as u64) as usize
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for frame in &mut self.frames {
            frame.free_memory(self.page_bytes);
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("overflow", &self.overflow)
            .field("page_bytes", &self.page_bytes)
            .field("head", &self.head())
            .field("tail", &self.tail())
            .field("lost", &self.lost())
            .field("closed", &self.is_closed())
            .field("frames", &self.frames)
            .finish()
    }
}
