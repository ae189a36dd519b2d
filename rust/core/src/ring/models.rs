//! The ring under loom: each policy, partial reads, closing, two drains, `delivered`.
//!
//! Every record has its number in the order of production. So a reader can check each next record. A
//! model names outcomes, each of which some execution must reach, and the least number of
//! executions. `mutants.rs` lists the bugs that make a model fail. `INVISO_LOOM=long` explores with
//! two more preemptions.

use std::{
    ops::ControlFlow,
    sync::{Arc as StdArc, Mutex as StdMutex},
    time::Duration,
};

use super::{Drained, Overflow, Producer, Pushed, RecordRef, Ring, HEADER_BYTES};
use crate::{
    models::exploration::{self, Seen},
    sync::{thread, Arc, AtomicBool, Ordering, UnsafeCell},
};

/// The size of a page for one record, and for two, without payload.
const ONE: usize = HEADER_BYTES;
const TWO: usize = 2 * HEADER_BYTES;
const FOREVER: Overflow = Overflow::Block { limit: Duration::MAX };
const A_WHILE: Overflow = Overflow::Block { limit: Duration::from_secs(1) };

/// As [`exploration::explore`]; the long form has two more preemptions.
fn explore(preemptions: usize, least: usize, outcomes: &[&'static str], model: impl Fn(&Seen) + Sync + Send + 'static) {
    exploration::explore(preemptions..=preemptions + 2, least, outcomes, model);
}

/// A producer that numbers its records and keeps the outcome of each push.
struct Numbered {
    producer: Producer,
    stored: Vec<u64>,
    lost: Vec<u64>,
    closed: usize,
}

impl Numbered {
    fn new(producer: Producer) -> Numbered {
        Numbered { producer, stored: vec![], lost: vec![], closed: 0 }
    }

    fn push(&mut self, payload: &[u8]) -> Pushed {
        let number = (self.stored.len() + self.lost.len()) as u64;
        let pushed = self.producer.push([0, number, !number, 7], payload);
        match pushed {
            Pushed::Stored => self.stored.push(number),
            Pushed::Lost => self.lost.push(number),
            Pushed::Closed => self.closed += 1,
        }
        pushed
    }

    fn push_all(mut self, records: u64) -> Numbered {
        for _ in 0..records {
            let _ = self.push(&[]);
        }
        self
    }
}

/// A reader that checks the order and keeps the numbers that it got.
#[derive(Default)]
struct Checked {
    position: u64,
    events: Vec<u64>,
    lost: Vec<u64>,
}

impl Checked {
    fn take(&mut self, record: RecordRef<'_>) {
        match record {
            RecordRef::Event { header, payload } => {
                assert_eq!(header[1..], [self.position, !self.position, 7], "out of order");
                assert_eq!(header[0] as u32 as usize, HEADER_BYTES + payload.len());
                assert!(payload.iter().all(|byte| *byte == 0xa5), "payload");
                self.events.push(self.position);
                self.position += 1;
            }
            RecordRef::Drop { count } => {
                assert!(count > 0);
                self.lost.extend(self.position..self.position + count);
                self.position += count;
            }
        }
    }

    fn drain(&mut self, ring: &Ring, max: usize) -> Drained {
        let before = (self.events.len(), self.lost.len());
        let drained = ring.drain(max, |record| {
            self.take(record);
            ControlFlow::Continue(())
        });
        let drained = drained.expect("nobody else drains");
        let after = (before.0 + drained.events as usize, before.1 + drained.lost as usize);
        assert_eq!(after, (self.events.len(), self.lost.len()));
        assert_eq!(ring.tail(), self.position);
        drained
    }

    /// Reads to the end. The producer has pushed `produced` records and has ended.
    fn finish(&mut self, ring: &Ring, produced: u64) {
        assert!(self.drain(ring, usize::MAX).empty);
        assert_eq!((ring.head(), ring.tail(), self.position), (produced, produced, produced));
        assert_eq!(ring.lost(), self.lost.len() as u64, "lost");
        assert_eq!(self.events.len() as u64 + ring.lost(), produced, "read + lost = produced");
    }
}

#[test]
fn drop_keeps_the_oldest_and_marks_the_loss() {
    let outcomes = ["nothing lost", "lost at the end", "lost in between", "read half a page", "reused a page"];
    explore(3, 1_000, &outcomes, |seen| {
        let (producer, ring) = Ring::split_pages(TWO, 2, Overflow::Drop);
        let pusher = thread::spawn(move || Numbered::new(producer).push_all(6));
        let mut reader = Checked::default();
        reader.drain(&ring, 1);
        seen.note("read half a page", reader.events.len() == 1);
        reader.drain(&ring, usize::MAX);
        let pushed = pusher.join().unwrap();
        reader.finish(&ring, 6);
        assert_eq!((&reader.events, &reader.lost), (&pushed.stored, &pushed.lost));
        assert_eq!(pushed.stored[..4], [0, 1, 2, 3], "the oldest fit");
        seen.note("nothing lost", pushed.lost.is_empty());
        seen.note("lost at the end", pushed.lost.ends_with(&[5]));
        seen.note("lost in between", pushed.lost.first().is_some_and(|lost| pushed.stored.ends_with(&[lost + 1])));
        seen.note("reused a page", pushed.stored.len() > 4);
    });
}

#[test]
fn records_have_any_length() {
    explore(3, 300, &["all fit", "short of room"], |seen| {
        // a page fits 32 + 40 bytes, or 48
        let (producer, ring) = Ring::split_pages(TWO + 8, 2, Overflow::Drop);
        let pusher = thread::spawn(move || {
            let mut numbered = Numbered::new(producer);
            for length in [0, 5, 16, 41, 0] {
                let _ = numbered.push(&[0xa5; 41][..length]);
            }
            numbered
        });
        let mut reader = Checked::default();
        reader.drain(&ring, 2);
        reader.drain(&ring, usize::MAX);
        let pushed = pusher.join().unwrap();
        reader.finish(&ring, 5);
        assert_eq!((&reader.events, &reader.lost), (&pushed.stored, &pushed.lost));
        assert!(pushed.lost.contains(&3), "41 bytes don't fit in any page");
        seen.note("all fit", pushed.lost.len() == 1);
        seen.note("short of room", pushed.lost.len() == 2);
    });
}

#[test]
fn overwrite_keeps_the_newest() {
    let outcomes = ["nothing lost", "overwrote an unread page", "overwrote a half-read page", "refused by the reader"];
    explore(3, 1_000, &outcomes, |seen| {
        let (producer, ring) = Ring::split_pages(TWO, 2, Overflow::Overwrite);
        let pusher = thread::spawn(move || Numbered::new(producer).push_all(5));
        let mut reader = Checked::default();
        reader.drain(&ring, 1);
        let taken = reader.events.len();
        reader.drain(&ring, 2);
        let pushed = pusher.join().unwrap();
        reader.finish(&ring, 5);
        // with two pages, a push is refused while the reader holds the other one
        assert!(pushed.lost.iter().all(|lost| reader.lost.contains(lost)));
        assert!(pushed.lost.contains(&4) || reader.events.ends_with(&[4]), "the newest is there");
        seen.note("nothing lost", reader.lost.is_empty());
        seen.note("overwrote an unread page", reader.lost == [0, 1]);
        seen.note("overwrote a half-read page", taken == 1 && reader.lost == [1]);
        seen.note("refused by the reader", !pushed.lost.is_empty());
    });
}

#[test]
fn overwrite_passes_by_the_page_that_a_reader_holds() {
    let outcomes = ["nothing lost", "overwrote the oldest", "passed by a held page", "kept a page and lost the next"];
    explore(3, 1_000, &outcomes, |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 3, Overflow::Overwrite);
        let pusher = thread::spawn(move || Numbered::new(producer).push_all(5));
        let mut reader = Checked::default();
        let mut passed = false;
        ring.drain(1, |record| {
            let before = ring.produced.current.load(Ordering::Relaxed);
            reader.take(record);
            passed = before == 3 && ring.produced.current.load(Ordering::Relaxed) == 5;
            ControlFlow::Continue(())
        })
        .unwrap();
        reader.drain(&ring, 1);
        let pushed = pusher.join().unwrap();
        assert!(pushed.lost.is_empty(), "with three pages there is always one to take");
        reader.finish(&ring, 5);
        assert!(reader.events.ends_with(&[3, 4]), "the newest two are there");
        seen.note("nothing lost", reader.lost.is_empty());
        seen.note("overwrote the oldest", reader.lost.starts_with(&[0]));
        seen.note("passed by a held page", passed);
        seen.note("kept a page and lost the next", reader.lost == [1]);
    });
}

#[test]
fn overwrite_finds_a_page_behind_a_reader_that_goes_on() {
    explore(4, 500, &["in order", "out of order"], |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 3, Overflow::Overwrite);
        let full = Numbered::new(producer).push_all(3);
        let pusher = thread::spawn(move || full.push_all(1));
        let mut reader = Checked::default();
        reader.drain(&ring, usize::MAX);
        let pushed = pusher.join().unwrap();
        assert!(pushed.lost.is_empty(), "with three pages there is always one to take");
        reader.finish(&ring, 4);
        assert!(reader.events.ends_with(&[2, 3]), "the newest two are there");
        let current = ring.produced.current.load(Ordering::Relaxed);
        seen.note("in order", current == 4);
        seen.note("out of order", current == 5);
    });
}

#[test]
fn block_loses_nothing_while_it_may_wait() {
    explore(2, 300, &["had to wait"], |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 2, FOREVER);
        let pusher = thread::spawn(move || Numbered::new(producer).push_all(4));
        let mut reader = Checked::default();
        while reader.position < 4 {
            reader.drain(&ring, 2);
            seen.note("had to wait", ring.head() == 2);
            thread::yield_now();
        }
        let pushed = pusher.join().unwrap();
        assert_eq!(pushed.stored, [0, 1, 2, 3]);
        reader.finish(&ring, 4);
    });
}

#[test]
fn block_gives_up_after_its_limit() {
    explore(3, 300, &["found room in time", "gave up", "gave up and found room later"], |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 2, A_WHILE);
        let pusher = thread::spawn(move || Numbered::new(producer).push_all(4));
        let mut reader = Checked::default();
        reader.drain(&ring, 2);
        reader.drain(&ring, usize::MAX);
        let pushed = pusher.join().unwrap();
        reader.finish(&ring, 4);
        assert_eq!((&reader.events, &reader.lost), (&pushed.stored, &pushed.lost));
        seen.note("found room in time", pushed.lost.is_empty());
        seen.note("gave up", pushed.lost == [2, 3]);
        seen.note("gave up and found room later", pushed.lost == [2]);
    });
}

#[test]
fn closing_refuses_what_comes_later_and_keeps_the_rest() {
    explore(3, 100, &["all stored", "some refused", "all refused"], |seen| {
        let (producer, ring) = Ring::split_pages(TWO, 2, Overflow::Drop);
        let is_closed = Arc::new(AtomicBool::new(false));
        let pusher = thread::spawn({
            let is_closed = Arc::clone(&is_closed);
            move || {
                let mut numbered = Numbered::new(producer);
                for _ in 0..3 {
                    let refused = is_closed.load(Ordering::Acquire);
                    let pushed = numbered.push(&[]);
                    assert!(!refused || pushed == Pushed::Closed, "the close came before the push");
                    assert!(numbered.closed == 0 || pushed == Pushed::Closed, "closed is for ever");
                }
                (numbered.stored.len() as u64, numbered.lost.len(), numbered.closed)
            }
        });
        let mut reader = Checked::default();
        reader.drain(&ring, 1);
        ring.close();
        is_closed.store(true, Ordering::Release);
        reader.drain(&ring, 1);
        let (stored, lost, closed) = pusher.join().unwrap();
        assert_eq!((stored + closed as u64, lost), (3, 0));
        assert!(ring.is_closed() && ring.is_ended());
        reader.finish(&ring, stored);
        seen.note("all stored", closed == 0);
        seen.note("some refused", closed == 1);
        seen.note("all refused", closed == 3);
    });
}

#[test]
fn closing_ends_a_wait() {
    explore(3, 50, &["refused while it waited", "refused at once"], |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 2, FOREVER);
        let pusher = thread::spawn(move || Numbered::new(producer).push_all(4));
        ring.close();
        let pushed = pusher.join().unwrap();
        assert_eq!((pushed.lost.len(), pushed.stored.len() + pushed.closed), (0, 4));
        let mut reader = Checked::default();
        reader.finish(&ring, pushed.stored.len() as u64);
        seen.note("refused while it waited", pushed.closed == 2);
        seen.note("refused at once", pushed.closed == 4);
    });
}

#[test]
fn nothing_comes_after_the_end() {
    explore(4, 20, &["still open", "ended"], |seen| {
        let (producer, ring) = Ring::split_pages(TWO, 2, Overflow::Drop);
        let pusher = thread::spawn(move || drop(Numbered::new(producer).push_all(3)));
        let mut reader = Checked::default();
        let ended = ring.is_ended();
        reader.drain(&ring, usize::MAX);
        assert!(!ended || reader.position == 3, "the end was seen before the last record");
        seen.note("still open", !ended);
        seen.note("ended", ended);
        pusher.join().unwrap();
        assert!(ring.is_ended());
        reader.finish(&ring, 3);
    });
}

#[test]
fn two_drains_take_each_record_once() {
    explore(2, 500, &["busy", "both drained", "one took all"], |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 2, Overflow::Drop);
        let mut numbered = Numbered::new(producer);
        let _ = numbered.push(&[]);
        // loom runs one thread at a time and never switches while this lock is held, so the lock adds
        // no edge
        let reader = StdArc::new(StdMutex::new(Checked::default()));
        let drain = |ring: &Ring, reader: &StdMutex<Checked>| {
            let take = |record: RecordRef<'_>| {
                reader.lock().unwrap().take(record);
                ControlFlow::Continue(())
            };
            ring.drain(2, take).map(|drained| drained.events)
        };
        let other = thread::spawn({
            let (ring, reader) = (Arc::clone(&ring), StdArc::clone(&reader));
            move || drain(&ring, &reader)
        });
        let third = thread::spawn(move || numbered.push_all(2));
        let (mine, theirs) = (drain(&ring, &reader), other.join().unwrap());
        let pushed = third.join().unwrap();
        seen.note("busy", mine.is_err() || theirs.is_err());
        seen.note("both drained", mine.is_ok_and(|n| n > 0) && theirs.is_ok_and(|n| n > 0));
        seen.note("one took all", mine == Ok(0) || theirs == Ok(0));
        assert!(mine.is_ok() || theirs.is_ok(), "one of two gets in");
        let mut reader = reader.lock().unwrap();
        reader.finish(&ring, 3);
        assert_eq!(reader.events, pushed.stored);
    });
}

#[test]
fn delivered_means_that_the_tracer_has_it() {
    /// The closure writes it and the waiter reads it, without a lock.
    struct Mailbox(UnsafeCell<u64>);
    // SAFETY: loom checks the accesses; the model exists for that
    unsafe impl Sync for Mailbox {}
    // SAFETY: loom checks the accesses
    unsafe impl Send for Mailbox {}

    explore(4, 10, &["waiting", "delivered"], |seen| {
        let (producer, ring) = Ring::split_pages(ONE, 2, Overflow::Drop);
        let mut numbered = Numbered::new(producer);
        let _ = numbered.push(&[]);
        let _ = numbered.push(&[]);
        let position = ring.head();
        let mailbox = Arc::new(Mailbox(UnsafeCell::new(0)));
        let tracer = thread::spawn({
            let (ring, mailbox) = (Arc::clone(&ring), Arc::clone(&mailbox));
            move || {
                let take = |_: RecordRef<'_>| {
                    mailbox.0.with_mut(|received| {
                        // SAFETY: `tail` hasn't passed `position`, so the waiter doesn't read it
                        unsafe { *received += 1 }
                    });
                    ControlFlow::Continue(())
                };
                ring.drain(usize::MAX, take).unwrap();
            }
        });
        let delivered = ring.tail() >= position;
        if delivered {
            // SAFETY: `tail` has passed `position`, so the closure has finished its last write
            assert_eq!(mailbox.0.with(|received| unsafe { *received }), 2);
        }
        seen.note("waiting", !delivered);
        seen.note("delivered", delivered);
        tracer.join().unwrap();
        assert_eq!(ring.tail(), position);
    });
}
