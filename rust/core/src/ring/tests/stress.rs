//! Two real threads: one pushes as fast as it can, one reads batches of changing size.

use std::{ops::ControlFlow::Continue, time::Duration};

use super::{push, Item, Overflow, Pushed, Ring};
use crate::sync::{thread, Arc};

const RECORDS: u64 = 300_000;

/// The payload of record `number`. Its length and bytes follow from the number.
fn payload(number: u64) -> Vec<u8> {
    let length = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    vec![number as u8; length as usize * usize::from(number.is_multiple_of(3))]
}

/// Pushes all records on a second thread and reads them here. Returns the numbers of refused pushes
/// and of lost records.
fn run(page_bytes: usize, frames: usize, overflow: Overflow) -> (u64, u64) {
    let (mut producer, ring) = Ring::split_pages(page_bytes, frames, overflow);
    let pusher = thread::spawn(move || {
        let lost = (0..RECORDS).filter(|&number| match push(&mut producer, number, &payload(number)) {
            Pushed::Stored => false,
            Pushed::Lost => true,
            Pushed::Closed => panic!("nobody closes it"),
        });
        lost.count() as u64
    });
    let (mut position, mut events, mut lost, mut max) = (0, 0, 0, 1);
    loop {
        let ended = ring.is_ended();
        max = max * 7 % 1009;
        let drained = ring.drain(if ended { usize::MAX } else { max }, |record| {
            match Item::from(record) {
                Item::Event(number, bytes) => {
                    assert_eq!((number, bytes), (position, payload(number)));
                    position += 1;
                    events += 1;
                }
                Item::Drop(count) => {
                    position += count;
                    lost += count;
                }
            }
            Continue(())
        });
        assert_eq!(ring.tail(), position);
        assert!(ring.head() >= position);
        if ended {
            assert!(drained.unwrap().empty);
            break;
        }
        if max % 5 == 0 {
            thread::yield_now();
        }
    }
    assert_eq!((ring.head(), position, events + lost), (RECORDS, RECORDS, RECORDS));
    assert_eq!(ring.lost(), lost);
    (pusher.join().unwrap(), lost)
}

#[test]
fn drop_on_two_threads() {
    for frames in [2, 3, 16] {
        let (refused, lost) = run(512, frames, Overflow::Drop);
        assert_eq!(refused, lost);
    }
}

#[test]
fn overwrite_on_two_threads() {
    for frames in [3, 4, 16] {
        let (refused, _) = run(512, frames, Overflow::Overwrite);
        assert_eq!(refused, 0, "there is always a page to take");
    }
    let (refused, lost) = run(512, 2, Overflow::Overwrite);
    assert!(refused <= lost);
}

#[test]
fn block_on_two_threads() {
    let (refused, lost) = run(512, 4, Overflow::Block { limit: Duration::MAX });
    assert_eq!((refused, lost), (0, 0));
    let (refused, lost) = run(512, 4, Overflow::Block { limit: Duration::from_nanos(1) });
    assert_eq!(refused, lost);
}

#[test]
fn readers_on_many_threads_share_one_ring() {
    let (mut producer, ring) = Ring::split_pages(512, 4, Overflow::Block { limit: Duration::MAX });
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut numbers = vec![];
                while !(ring.is_ended() && ring.tail() == ring.head()) {
                    let drained = ring.drain(50, |record| {
                        let Item::Event(number, _) = record.into() else { panic!("nothing is lost") };
                        numbers.push(number);
                        Continue(())
                    });
                    if drained.is_err() {
                        thread::yield_now();
                    }
                }
                numbers
            })
        })
        .collect();
    (0..RECORDS / 3).for_each(|number| assert_eq!(push(&mut producer, number, &[]), Pushed::Stored));
    drop(producer);
    let mut all: Vec<u64> = vec![];
    for reader in readers {
        let numbers = reader.join().unwrap();
        assert!(numbers.is_sorted(), "each reader sees them in order");
        all.extend(numbers);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..RECORDS / 3), "each record was read once");
}
