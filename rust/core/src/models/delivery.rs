//! From the rings to a consumer: one drain at a time, in order, and `delivered` only when the consumer has the records.

use super::explore;
use crate::{
    delivery::drain::{drain, spill, Drain, Losses, Mark},
    record::event::{Record, What},
    ring::{Overflow, Producer, Pushed, Ring},
    state::session::{Options, Session},
    sync::{
        thread, Arc, AtomicU64, Mutex,
        Ordering::{AcqRel, Acquire, Release},
        UnsafeCell,
    },
};

/// A session with one ring of `records` records, whose ticks are their numbers.
fn session(records: u64) -> (std::sync::Arc<Session>, Producer) {
    let session = std::sync::Arc::new(Session::new(1, 0, "", 0, Options::default()));
    let (mut producer, ring) = Ring::split_pages(64, 4, Overflow::Drop);
    assert!(session.add_ring(ring));
    for number in 0..records {
        assert_eq!(producer.push([0, number, 0, 0], &[]), Pushed::Stored);
    }
    (session, producer)
}

fn number(record: &Record) -> u64 {
    assert!(matches!(record.what, What::Event(_)), "nothing is lost here");
    record.ticks
}

#[test]
fn two_drains_keep_the_order() {
    explore(2, 8, &["one after the other", "busy", "one took all"], |seen| {
        let (session, _producer) = session(3);
        let taken = Arc::new(Mutex::new(vec![]));
        let run = |session: &Session, taken: &Mutex<Vec<u64>>| {
            drain(session, 2, |record| taken.lock().unwrap().push(number(&record)))
        };
        let other = thread::spawn({
            let (session, taken) = (session.clone(), taken.clone());
            move || run(&session, &taken)
        });
        let (mine, theirs) = (run(&session, &taken), other.join().unwrap());
        assert!(mine.is_ok() || theirs.is_ok(), "one of two gets in");
        let taken = taken.lock().unwrap();
        assert_eq!(*taken, (0..taken.len() as u64).collect::<Vec<_>>(), "the order of one thread's records");
        seen.note("one after the other", mine.is_ok() && theirs.is_ok());
        seen.note("busy", mine.is_err() || theirs.is_err());
        seen.note("one took all", taken.len() == 2);
    });
}

#[test]
fn delivered_means_taken() {
    /// The consumer writes it and the waiter reads it, without a lock.
    struct Mailbox(UnsafeCell<u64>);
    // SAFETY: loom checks the accesses; the model exists for that.
    unsafe impl Sync for Mailbox {}
    // SAFETY: loom checks the accesses.
    unsafe impl Send for Mailbox {}

    explore(3, 5, &["waiting", "delivered"], |seen| {
        let (session, mut producer) = session(2);
        let mark = Mark::of(&session);
        let _later = producer.push([0, 2, 0, 0], &[]);
        let mailbox = Arc::new(Mailbox(UnsafeCell::new(0)));
        let tracer = thread::spawn({
            let (session, mailbox) = (session.clone(), mailbox.clone());
            move || {
                for _ in 0..2 {
                    let take = |_| {
                        // SAFETY: the mark has not passed, so the waiter doesn't read it.
                        mailbox.0.with_mut(|received| unsafe { *received += 1 });
                    };
                    if drain(&session, 2, take).unwrap() == 2 {
                        break;
                    }
                }
            }
        });
        let delivered = mark.passed();
        if delivered {
            // SAFETY: the mark has passed, so the consumer has finished its last write.
            assert_eq!(mailbox.0.with(|received| unsafe { *received }), 2);
        }
        seen.note("waiting", !delivered);
        seen.note("delivered", delivered);
        tracer.join().unwrap();
        assert!(mark.passed());
    });
}

#[test]
fn a_mark_waits_for_what_was_written_before_it() {
    explore(3, 20, &["all before", "some after"], |seen| {
        let (session, mut producer) = session(0);
        let writer = thread::spawn(move || {
            for number in 0..2 {
                assert_eq!(producer.push([0, number, 0, 0], &[]), Pushed::Stored);
            }
            producer
        });
        let mut taken = vec![];
        drain(&session, 9, |record| taken.push(number(&record))).unwrap();
        let mark = Mark::of(&session);
        let before = taken.len();
        if mark.passed() {
            seen.note("all before", before == 2);
        } else {
            drain(&session, 9, |record| taken.push(number(&record))).unwrap();
            assert!(mark.passed(), "one drain that begins after the mark is enough");
            assert!(taken.len() > before);
            seen.note("some after", true);
        }
        drop(writer.join().unwrap());
        drain(&session, 9, |record| taken.push(number(&record))).unwrap();
        assert_eq!(taken, [0, 1]);
        assert!(session.feeds().is_empty(), "an ended ring that was read is dropped");
    });
}

#[test]
fn what_is_spilled_is_taken_once_and_delivered_when_it_is() {
    explore(3, 20, &["spilled first", "drained first", "delivered"], |seen| {
        let (session, mut producer) = session(2);
        let mark = Mark::of(&session);
        let other = thread::spawn({
            let session = session.clone();
            move || {
                spill(&session);
                assert_eq!(producer.push([0, 2, 0, 0], &[]), Pushed::Stored);
                spill(&session);
                producer
            }
        });
        let mut taken = vec![];
        let first = drain(&session, 1, |record| taken.push(number(&record)));
        seen.note("spilled first", first.is_ok() && session.feeds()[0].ring.tail() > 1);
        seen.note("drained first", first.is_ok() && session.feeds()[0].ring.tail() == 1);
        let delivered = mark.passed();
        assert!(!delivered, "only one of two has been taken");
        drop(other.join().unwrap());
        while drain(&session, 1, |record| taken.push(number(&record))).unwrap() > 0 {
            assert!(!mark.passed() || taken.len() >= 2);
            seen.note("delivered", mark.passed());
        }
        assert!(mark.passed());
        assert_eq!(taken, [0, 1, 2]);
        assert!(session.feeds().is_empty(), "an ended ring that was read is dropped");
    });
}

/// Two sessions. A record of one is the cause of a record of the other. The ring of the cause is created meanwhile.
#[test]
fn a_cause_is_taken_with_what_came_of_it() {
    explore(3, 50, &["nothing", "the cause", "both", "nothing came of it"], |seen| {
        let (causes, (others, mut other)) = (session(0).0, session(0));
        let (clock, caused) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let causing = thread::spawn({
            let (clock, caused, causes) = (clock.clone(), caused.clone(), causes.clone());
            move || {
                let (mut cause, ring) = Ring::split_pages(64, 4, Overflow::Drop);
                assert!(causes.add_ring(ring));
                assert_eq!(cause.push([0, clock.fetch_add(1, AcqRel), 0, 0], &[]), Pushed::Stored);
                caused.store(1, Release);
            }
        });
        let following = thread::spawn({
            let (clock, caused) = (clock.clone(), caused.clone());
            move || {
                let came = caused.load(Acquire) == 1;
                if came {
                    assert_eq!(other.push([0, clock.fetch_add(1, AcqRel), 0, 0], &[]), Pushed::Stored);
                }
                came
            }
        });
        let mut taken = vec![];
        for _ in 0..2 {
            let drain = Drain::of(&[&causes, &others], || clock.fetch_add(1, AcqRel));
            drain.run(9, Losses::Between, |of, _| taken.push(of));
            assert_ne!(taken.first(), Some(&1), "what came of a record is here before it");
            seen.note("nothing", taken.is_empty());
            seen.note("the cause", taken == [0]);
            seen.note("both", taken == [0, 1]);
        }
        causing.join().unwrap();
        seen.note("nothing came of it", !following.join().unwrap());
    });
}
