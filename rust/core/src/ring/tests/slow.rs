//! Compares the ring with a list of pages, which are lists of records.

use std::{
    collections::VecDeque,
    ops::ControlFlow::{Break, Continue},
};

use proptest::{collection::vec, prelude::*};

use super::{super::HEADER_BYTES, push, Item, Overflow, Pushed, Ring, NOW};

/// The slow model. Calls don't overlap.
struct SlowRing {
    page_bytes: usize,
    frames: usize,
    overwrites: bool,
    pages: VecDeque<SlowPage>,
    /// Whether the newest page is final.
    sealed: bool,
    /// Losses after the newest page.
    pending: u64,
    produced: u64,
    lost: u64,
    closed: bool,
}

#[derive(Default)]
struct SlowPage {
    lost_before: u64,
    unread: VecDeque<Item>,
    bytes: usize,
}

impl SlowRing {
    fn push(&mut self, payload: &[u8]) -> Pushed {
        if self.closed {
            return Pushed::Closed;
        }
        let number = self.produced;
        self.produced += 1;
        let bytes = HEADER_BYTES + payload.len().div_ceil(8) * 8;
        let fits = self.pages.back().is_some_and(|page| page.bytes + bytes <= self.page_bytes);
        if self.sealed || !fits {
            self.sealed = true;
            if HEADER_BYTES + payload.len() > self.page_bytes || !self.new_page() {
                self.pending += 1;
                self.lost += 1;
                return Pushed::Lost;
            }
        }
        let page = self.pages.back_mut().unwrap();
        page.bytes += bytes;
        page.unread.push_back(Item::Event(number, payload.to_vec()));
        Pushed::Stored
    }

    fn new_page(&mut self) -> bool {
        if self.pages.len() == self.frames {
            if !self.overwrites {
                return false;
            }
            let oldest = self.pages.pop_front().unwrap();
            self.lost += oldest.unread.len() as u64;
            self.pages[0].lost_before += oldest.lost_before + oldest.unread.len() as u64;
        }
        self.pages.push_back(SlowPage { lost_before: std::mem::take(&mut self.pending), ..SlowPage::default() });
        self.sealed = false;
        true
    }

    /// Frees the oldest page if it is final and read.
    fn free(&mut self) -> bool {
        let is_final = self.pages.len() > 1 || self.sealed;
        let is_read = |page: &SlowPage| page.lost_before == 0 && page.unread.is_empty();
        let frees = is_final && self.pages.front().is_some_and(is_read);
        if frees {
            self.pages.pop_front();
        }
        frees
    }

    /// The next item.
    fn look(&mut self) -> Option<Item> {
        if self.unread() == 0 {
            return None;
        }
        while self.free() {}
        match self.pages.front() {
            Some(page) if page.lost_before > 0 => Some(Item::Drop(page.lost_before)),
            Some(page) if !page.unread.is_empty() => page.unread.front().cloned(),
            _ => Some(Item::Drop(self.pending)),
        }
    }

    fn take(&mut self) {
        match self.pages.front_mut() {
            Some(page) if page.lost_before > 0 => page.lost_before = 0,
            Some(page) if !page.unread.is_empty() => drop(page.unread.pop_front()),
            _ => self.pending = 0,
        }
    }

    fn unread(&self) -> u64 {
        let pages = self.pages.iter().map(|page| page.lost_before + page.unread.len() as u64);
        pages.sum::<u64>() + self.pending
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Push a payload of this many bytes.
    Push(usize),
    /// Drain at most `max`, and break at the record `stop`.
    Drain {
        max: usize,
        stop: usize,
    },
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        60 => prop_oneof![4 => Just(0), 4 => 0..40_usize, 1 => 90..140_usize].prop_map(Op::Push),
        15 => (0..6_usize, prop_oneof![3 => Just(usize::MAX), 1 => 0..4_usize])
            .prop_map(|(max, stop)| Op::Drain { max, stop }),
        3 => Just(Op::Drain { max: usize::MAX, stop: usize::MAX }),
        1 => Just(Op::Close),
    ]
}

fn overflow() -> impl Strategy<Value = Overflow> {
    prop_oneof![Just(Overflow::Drop), Just(Overflow::Overwrite), Just(NOW)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn agrees_with_the_slow_list(
        overflow in overflow(),
        (page_bytes, frames) in (4..16_usize, 2..5_usize),
        ops in vec(op(), 1..150),
    ) {
        let page_bytes = page_bytes * 8;
        let (mut producer, ring) = Ring::split_pages(page_bytes, frames, overflow);
        let mut slow = SlowRing {
            page_bytes,
            frames,
            overwrites: overflow == Overflow::Overwrite,
            pages: VecDeque::new(),
            sealed: false,
            pending: 0,
            produced: 0,
            lost: 0,
            closed: false,
        };
        for op in ops {
            match op {
                Op::Push(length) => {
                    let payload = vec![slow.produced as u8; length];
                    let number = slow.produced;
                    prop_assert_eq!(push(&mut producer, number, &payload), slow.push(&payload));
                }
                Op::Drain { max, stop } => {
                    let mut items = vec![];
                    let drained = ring.drain(max, |record| {
                        items.push(Item::from(record));
                        if items.len() > stop { Break(()) } else { Continue(()) }
                    });
                    let mut expected = vec![];
                    while expected.len() < max {
                        let Some(item) = slow.look() else { break };
                        expected.push(item);
                        if expected.len() > stop {
                            break;
                        }
                        slow.take();
                    }
                    if !expected.is_empty() {
                        slow.free();
                    }
                    prop_assert_eq!(&items, &expected);
                    prop_assert_eq!(drained.unwrap().empty, slow.unread() == 0);
                }
                Op::Close => {
                    ring.close();
                    slow.closed = true;
                }
            }
            prop_assert_eq!(ring.head(), slow.produced);
            prop_assert_eq!(ring.tail(), slow.produced - slow.unread());
            prop_assert_eq!(ring.lost(), slow.lost);
        }
    }

    #[test]
    fn accounts_for_pushes_from_inside_of_a_drain(
        overflow in overflow(),
        (page_bytes, frames) in (4..10_usize, 2..5_usize),
        drains in vec((0..12_usize, vec(0..9_usize, 0..6)), 1..40),
    ) {
        let (mut producer, ring) = Ring::split_pages(page_bytes * 8, frames, overflow);
        let (mut number, mut refused, mut position, mut lost) = (0, 0, 0, 0);
        let mut push_some = |records: usize| {
            for _ in 0..records {
                refused += u64::from(push(&mut producer, number, &[]) == Pushed::Lost);
                number += 1;
            }
        };
        for (before, inside) in drains.into_iter().chain([(0, vec![])]) {
            push_some(before);
            let mut inside = inside.into_iter();
            let drained = ring.drain(usize::MAX, |record| {
                match Item::from(record) {
                    Item::Event(number, _) => {
                        assert_eq!(number, position);
                        position += 1;
                    }
                    Item::Drop(count) => {
                        position += count;
                        lost += count;
                    }
                }
                push_some(inside.next().unwrap_or(0));
                Continue(())
            });
            prop_assert!(drained.unwrap().empty);
            prop_assert_eq!(ring.tail(), position);
        }
        while ring.tail() < ring.head() {
            ring.drain(usize::MAX, |record| {
                match Item::from(record) {
                    Item::Event(number, _) => {
                        assert_eq!(number, position);
                        position += 1;
                    }
                    Item::Drop(count) => {
                        position += count;
                        lost += count;
                    }
                }
                Continue(())
            })
            .unwrap();
        }
        prop_assert_eq!((ring.head(), ring.tail(), ring.lost()), (number, position, lost));
        prop_assert_eq!(position, number);
        match overflow {
            Overflow::Overwrite if frames > 2 => prop_assert_eq!(refused, 0),
            Overflow::Overwrite => prop_assert!(refused <= lost),
            Overflow::Drop | Overflow::Block { .. } => prop_assert_eq!(refused, lost),
        }
    }
}
