//! The ring on real threads and against a slow list. `models.rs` explores the interleavings.

mod slow;
mod stress;

use std::{
    ops::ControlFlow::{self, Break, Continue},
    panic::{catch_unwind, AssertUnwindSafe},
    time::{Duration, Instant},
};

use super::{Busy, Drained, Overflow, Producer, Pushed, RecordRef, Ring, HEADER_BYTES, MAX_BYTES};
use crate::sync::{Arc, Ordering::Relaxed};

const NOW: Overflow = Overflow::Block { limit: Duration::ZERO };

/// An owned copy of a drain's item.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Event(u64, Vec<u8>),
    Drop(u64),
}

impl From<RecordRef<'_>> for Item {
    fn from(record: RecordRef<'_>) -> Item {
        match record {
            RecordRef::Event { header, payload } => {
                let length = u32::from_ne_bytes(header[0].to_ne_bytes()[..4].try_into().unwrap());
                assert_eq!(length as usize, HEADER_BYTES + payload.len());
                assert_eq!(header[2..], [!header[1], 0xfeed]);
                Item::Event(header[1], payload.to_vec())
            }
            RecordRef::Drop { count } => Item::Drop(count),
        }
    }
}

fn push(producer: &mut Producer, number: u64, payload: &[u8]) -> Pushed {
    producer.push([u64::MAX, number, !number, 0xfeed], payload)
}

fn items(ring: &Ring, max: usize) -> Vec<Item> {
    let mut items = vec![];
    let drained = ring.drain(max, |record| {
        items.push(record.into());
        Continue(())
    });
    assert!(drained.is_ok());
    items
}

fn allocated(ring: &Ring) -> usize {
    ring.frames.iter().filter(|frame| !frame.memory.load(Relaxed).is_null()).count()
}

#[test]
fn pages_follow_from_the_size() {
    let shape = |bytes| {
        let (_producer, ring) = Ring::split(bytes, Overflow::Drop);
        (ring.page_bytes, ring.frames.len())
    };
    assert_eq!(shape(0), (4 << 10, 3));
    assert_eq!(shape(64 << 10), (8 << 10, 8));
    assert_eq!(shape(100_000), (8 << 10, 12));
    assert_eq!(shape(1 << 20), (64 << 10, 16));
    assert_eq!(shape(usize::MAX), (64 << 10, MAX_BYTES >> 16));
}

#[test]
fn a_page_is_allocated_when_it_is_written() {
    let (mut producer, ring) = Ring::split_pages(64, 3, Overflow::Drop);
    assert_eq!(allocated(&ring), 0);
    for (number, pages) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3)] {
        assert_eq!(push(&mut producer, number, &[]), Pushed::Stored);
        assert_eq!(allocated(&ring), pages);
    }
}

#[test]
fn a_record_comes_out_as_it_went_in() {
    let (mut producer, ring) = Ring::split(0, Overflow::Drop);
    let payload: Vec<u8> = (0..ring.max_payload()).map(|byte| byte as u8).collect();
    for (number, length) in [0, 1, 7, 8, 9, 4063].into_iter().enumerate() {
        assert_eq!(push(&mut producer, number as u64, &payload[..length]), Pushed::Stored);
        assert_eq!(items(&ring, 9), [Item::Event(number as u64, payload[..length].to_vec())]);
    }
}

#[test]
fn a_record_that_fits_no_page_is_lost_in_its_place() {
    for overflow in [Overflow::Drop, Overflow::Overwrite, NOW] {
        let (mut producer, ring) = Ring::split_pages(64, 3, overflow);
        assert_eq!(ring.max_payload(), 32);
        assert_eq!(push(&mut producer, 0, &[0; 33]), Pushed::Lost);
        assert_eq!(push(&mut producer, 1, &[1; 32]), Pushed::Stored);
        assert_eq!(push(&mut producer, 2, &[2; 99]), Pushed::Lost);
        assert_eq!(push(&mut producer, 3, &[3; 1]), Pushed::Stored);
        assert_eq!(push(&mut producer, 4, &[4; 64]), Pushed::Lost);
        let expected =
            [Item::Drop(1), Item::Event(1, vec![1; 32]), Item::Drop(1), Item::Event(3, vec![3]), Item::Drop(1)];
        assert_eq!(items(&ring, usize::MAX), expected);
        assert_eq!((ring.head(), ring.tail(), ring.lost()), (5, 5, 3));
    }
}

#[test]
fn a_drain_takes_what_it_is_told() {
    let (mut producer, ring) = Ring::split_pages(64, 4, Overflow::Drop);
    (0..5).for_each(|number| assert_eq!(push(&mut producer, number, &[]), Pushed::Stored));
    assert_eq!(ring.drain(0, |_| unreachable!()), Ok(Drained::default()));
    assert_eq!(items(&ring, 3).len(), 3);
    assert_eq!((ring.head(), ring.tail()), (5, 3));
    let all = ring.drain(2, |_| Continue(()));
    assert_eq!(all, Ok(Drained { events: 2, lost: 0, empty: true }));
    assert_eq!(ring.drain(2, |_| unreachable!()), Ok(Drained { empty: true, ..Drained::default() }));
}

#[test]
fn a_ring_of_eight_pages_says_once_a_page_that_it_is_half_full() {
    let pressed = |frames, read| {
        let (mut producer, ring) = Ring::split_pages(64, frames, Overflow::Drop);
        let mut pressed = vec![];
        for number in 0..2 * frames as u64 {
            assert_eq!(push(&mut producer, number, &[]), Pushed::Stored);
            if producer.take_pressure() {
                pressed.push(number);
            }
            if number == read {
                items(&ring, usize::MAX);
            }
        }
        pressed
    };
    // pages of two records each; the fifth begins while the first is there
    assert_eq!(pressed(8, u64::MAX), [8, 10, 12, 14]);
    // a read during the third page frees the first two
    assert_eq!(pressed(8, 4), [12, 14]);
    assert_eq!(pressed(7, u64::MAX), []);
}

#[test]
fn break_and_panic_leave_the_record() {
    let (mut producer, ring) = Ring::split_pages(32, 2, Overflow::Drop);
    let pushed = [0, 1, 2].map(|number| push(&mut producer, number, &[]));
    assert_eq!(pushed, [Pushed::Stored, Pushed::Stored, Pushed::Lost]);
    for stopped_at in [Item::Event(0, vec![]), Item::Event(1, vec![]), Item::Drop(1)] {
        let mut seen: Vec<Item> = vec![];
        let stopped = ring.drain(9, |record| {
            seen.push(record.into());
            Break(())
        });
        assert_eq!(stopped, Ok(Drained::default()));
        let panicked = catch_unwind(AssertUnwindSafe(|| ring.drain(9, |_| std::panic::resume_unwind(Box::new(())))));
        assert!(panicked.is_err());
        assert_eq!(seen.as_slice(), std::slice::from_ref(&stopped_at));
        assert_eq!(items(&ring, 1), [stopped_at]);
    }
    assert_eq!((ring.tail(), ring.lost()), (3, 1));
}

#[test]
fn a_drain_inside_of_a_drain_is_busy() {
    let (mut producer, ring) = Ring::split(0, Overflow::Drop);
    assert_eq!(push(&mut producer, 0, &[]), Pushed::Stored);
    let mut inner = None;
    let outer = ring.drain(9, |_| {
        inner = Some(ring.drain(9, |_| unreachable!()));
        Continue(())
    });
    assert_eq!(outer.map(|drained| drained.events), Ok(1));
    assert_eq!(inner, Some(Err(Busy)));
}

#[test]
fn overwriting_keeps_the_newest_pages() {
    let (mut producer, ring) = Ring::split_pages(64, 3, Overflow::Overwrite);
    (0..1001).for_each(|number| assert_eq!(push(&mut producer, number, &[]), Pushed::Stored));
    assert_eq!((ring.head(), ring.tail(), ring.lost()), (1001, 0, 996));
    let expected = [Item::Drop(996)].into_iter().chain((996..1001).map(|number| Item::Event(number, vec![])));
    assert_eq!(items(&ring, usize::MAX), expected.collect::<Vec<_>>());
}

#[test]
fn overwriting_leaves_alone_what_is_being_read() {
    let (mut producer, ring) = Ring::split_pages(64, 3, Overflow::Overwrite);
    (0..6).for_each(|number| assert_eq!(push(&mut producer, number, &[]), Pushed::Stored));
    let mut seen = vec![];
    let drained = ring.drain(usize::MAX, |record| {
        if seen.is_empty() {
            (6..100).for_each(|number| assert_eq!(push(&mut producer, number, &[7]), Pushed::Stored));
        }
        seen.push(Item::from(record));
        Continue(())
    });
    // the held page, then what was overwritten, then the first record of the page that is there now
    assert_eq!(seen[..3], [Item::Event(0, vec![]), Item::Event(1, vec![]), Item::Drop(96)]);
    assert_eq!(drained, Ok(Drained { events: 2, lost: 96, empty: true }));
    assert_eq!(items(&ring, 9), [Item::Event(98, vec![7]), Item::Event(99, vec![7])]);
    assert_eq!((ring.head(), ring.tail(), ring.lost()), (100, 100, 96));
}

#[test]
fn blocking_waits_as_long_as_it_may() {
    let limit = Duration::from_millis(30);
    let (mut producer, ring) = Ring::split_pages(32, 2, Overflow::Block { limit });
    assert_eq!(push(&mut producer, 0, &[]), Pushed::Stored);
    assert_eq!(push(&mut producer, 1, &[]), Pushed::Stored);
    assert_eq!(producer.try_push([0; 4], &[]), None);
    let begun = Instant::now();
    assert_eq!(push(&mut producer, 2, &[]), Pushed::Lost);
    assert!(begun.elapsed() >= limit);
    assert_eq!((ring.head(), ring.lost()), (3, 1), "what wasn't pushed isn't counted");
    assert_eq!(items(&ring, 9).pop(), Some(Item::Drop(1)));
    assert_eq!(producer.try_push([0, 3, !3, 0xfeed], &[]), Some(Pushed::Stored));
    assert_eq!(items(&ring, 9), [Item::Event(3, vec![])]);
}

#[test]
fn a_push_waits_as_it_is_told_to() {
    static WAITED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    for (overflow, waits) in [(NOW, [0, 0, 1, 2]), (Overflow::Drop, [0; 4]), (Overflow::Overwrite, [0; 4])] {
        WAITED.store(0, Relaxed);
        let (mut producer, _ring) = Ring::split_pages(32, 2, overflow);
        producer.wait_by(|wait| {
            WAITED.fetch_add(1, Relaxed);
            wait();
        });
        let waited = [0, 1, 2, 3].map(|number| {
            let _ = push(&mut producer, number, &[]);
            WAITED.load(Relaxed)
        });
        assert_eq!(waited, waits, "{overflow:?}");
    }
}

#[test]
fn a_push_that_must_not_wait_is_an_ordinary_one_elsewhere() {
    for overflow in [Overflow::Drop, Overflow::Overwrite, NOW] {
        let (mut producer, ring) = Ring::split_pages(32, 2, overflow);
        let outcomes = [(); 3].map(|()| producer.try_push([0; 4], &[]));
        let third = match overflow {
            Overflow::Drop => Some(Pushed::Lost),
            Overflow::Overwrite => Some(Pushed::Stored),
            Overflow::Block { .. } => None,
        };
        assert_eq!(outcomes, [Some(Pushed::Stored), Some(Pushed::Stored), third]);
        assert_eq!(producer.try_push([0; 4], &[0; 1]), Some(Pushed::Lost), "no waiting makes it fit");
        ring.close();
        assert_eq!(producer.try_push([0; 4], &[]), Some(Pushed::Closed));
    }
}

#[test]
fn a_push_that_must_not_wait_fills_pages_to_their_end() {
    for overflow in [Overflow::Drop, NOW] {
        let (mut producer, ring) = Ring::split_pages(64, 2, overflow);
        let outcomes = [(); 4].map(|()| producer.try_push([0; 4], &[]));
        assert_eq!(outcomes, [Some(Pushed::Stored); 4]);
        assert_eq!(allocated(&ring), 2);
    }
}

#[test]
fn a_closed_ring_is_read_to_its_end() {
    for overflow in [Overflow::Drop, Overflow::Overwrite, NOW] {
        let (mut producer, ring) = Ring::split_pages(64, 3, overflow);
        assert_eq!(push(&mut producer, 0, &[]), Pushed::Stored);
        assert!(!ring.is_closed() && !ring.is_ended());
        ring.close();
        assert!(ring.is_closed() && !ring.is_ended(), "the producer hasn't heard of it");
        assert_eq!(push(&mut producer, 1, &[]), Pushed::Closed);
        assert!(ring.is_ended());
        assert_eq!(items(&ring, 9), [Item::Event(0, vec![])]);
        assert_eq!((ring.head(), ring.tail(), ring.lost()), (1, 1, 0));
    }
}

#[test]
fn a_ring_ends_with_its_producer_and_outlives_it() {
    let (mut producer, ring) = Ring::split(0, Overflow::Drop);
    assert_eq!(push(&mut producer, 0, b"last"), Pushed::Stored);
    assert!(Arc::ptr_eq(producer.ring(), &ring));
    drop(producer);
    assert!(ring.is_ended() && !ring.is_closed());
    assert_eq!(items(&ring, 9), [Item::Event(0, b"last".to_vec())]);
}

#[test]
fn a_producer_is_for_one_thread_at_a_time() {
    trait Shared<Marker> {
        fn is_shared() -> bool {
            false
        }
    }
    struct Yes;
    impl<T> Shared<()> for T {}
    impl<T: Sync> Shared<Yes> for T {}
    fn is_send<T: Send>() {}
    is_send::<Producer>();
    is_send::<Arc<Ring>>();
    // ambiguous, and so refused by the compiler, if a producer were Sync
    assert!(!<Producer as Shared<_>>::is_shared());
}

#[test]
fn a_ring_shows_its_frames() {
    let (mut producer, ring) = Ring::split_pages(32, 2, Overflow::Drop);
    assert_eq!(push(&mut producer, 0, &[]), Pushed::Stored);
    let mut shown = String::new();
    let _: Result<Drained, Busy> = ring.drain(1, |_| -> ControlFlow<()> {
        shown = format!("{ring:?}");
        Continue(())
    });
    assert!(shown.ends_with("frames: [FREE, LIVE#1/0+reader] }"), "{shown}");
}
