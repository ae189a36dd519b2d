//! Drains against a sorted list: every record comes once, in the order of time, for any size of a drain.

use inviso_core::host::{
    drain::{drain, drain_all, drain_borrowed, spill, Losses, Mark, What},
    ring::{Overflow, Producer, Pushed, Ring},
    session::{Options, Session},
};
use proptest::prelude::*;

/// A session with this many rings.
fn session(id: u64, rings: usize) -> (Session, Vec<Producer>) {
    let session = Session::new(id, 0, "", 0, Options::default());
    let producers = (0..rings)
        .map(|_| {
            let (producer, ring) = Ring::split(1 << 20, Overflow::Drop);
            assert!(session.add_ring(ring));
            producer
        })
        .collect();
    (session, producers)
}

/// Ticks of a record, and its payload.
type Seen = (u64, Vec<u8>);

fn seen(ticks: u64, what: &What<&[u8]>) -> Seen {
    match what {
        What::Event(event) => (ticks, event.payload.to_vec()),
        What::Lost(count) => panic!("{count} lost"),
    }
}

fn push(producer: &mut Producer, ticks: u64, payload: &[u8]) {
    assert_eq!(producer.push([0, ticks, 0, 0], payload), Pushed::Stored);
}

proptest! {
    #[test]
    fn drains_of_any_size_keep_the_order_of_time(
        steps in prop::collection::vec((0usize..4, 0u64..3), 0..200),
        sizes in prop::collection::vec(1usize..20, 1..8),
    ) {
        // two sessions with two rings each; within a ring, ticks never decrease
        let (sessions, producers): (Vec<_>, Vec<_>) = [(1, 2), (2, 2)].map(|(id, rings)| session(id, rings)).into_iter().unzip();
        let mut producers: Vec<_> = producers.into_iter().flatten().collect();
        let (mut ticks, mut written) = (1, vec![]);
        for (number, (ring, step)) in steps.into_iter().enumerate() {
            ticks += step;
            let payload = number.to_le_bytes();
            push(&mut producers[ring], ticks, &payload);
            // the newer session first; within a session, ring by ring
            written.push(((ticks, 1 - ring / 2, ring, number), (ticks, payload.to_vec())));
        }
        written.sort_unstable();
        let written: Vec<Seen> = written.into_iter().map(|(_, seen)| seen).collect();
        let all: Vec<_> = sessions.iter().collect();
        let mut taken = vec![];
        for max in sizes.into_iter().cycle() {
            let before = taken.len();
            let drained = drain_all(&all, max, Losses::Between, |_, record| taken.push(seen(record.ticks, &record.what)));
            prop_assert_eq!(taken.len() - before, drained.took);
            prop_assert!(drained.took <= max);
            prop_assert_eq!(drained.until.is_some(), taken.len() < written.len());
            let left = written.get(taken.len()).map(|(ticks, _)| *ticks);
            prop_assert_eq!(drained.until, left, "the ticks of the oldest remaining record");
            if left.is_none() {
                break;
            }
        }
        let ticks = |seen: &[Seen]| seen.iter().map(|(ticks, _)| *ticks).collect::<Vec<_>>();
        prop_assert_eq!(ticks(&taken), ticks(&written));
        taken.sort_unstable();
        let mut every = written;
        every.sort_unstable();
        prop_assert_eq!(taken, every, "every record, once");
    }
}

/// A step of a program with two threads and two sessions.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes the next record into this ring.
    Write(usize),
    /// Spills the rings of this session.
    Spill(usize),
    /// Takes this many records of both sessions.
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![6 => (0usize..4).prop_map(Step::Write), 1 => (0usize..2).prop_map(Step::Spill), 1 => (0usize..9).prop_map(Step::Take)]
}

proptest! {
    #[test]
    fn what_is_spilled_comes_in_its_turn(steps in prop::collection::vec(step(), 0..300)) {
        let (sessions, producers): (Vec<_>, Vec<_>) = [(1, 2), (2, 2)].map(|(id, rings)| session(id, rings)).into_iter().unzip();
        let mut producers: Vec<_> = producers.into_iter().flatten().collect();
        let all: Vec<_> = sessions.iter().collect();
        let (mut written, mut taken, mut marks, mut newest) = (0, vec![], vec![], [0; 2]);
        let take = |taken: &mut Vec<u64>, max| {
            drain_all(&all, max, Losses::Between, |_, record| {
                let (ticks, payload) = seen(record.ticks, &record.what);
                assert_eq!(payload, ticks.to_le_bytes());
                taken.push(ticks);
            })
        };
        for step in steps.into_iter().chain([Step::Take(usize::MAX)]) {
            match step {
                Step::Write(ring) => {
                    written += 1;
                    newest[ring / 2] = written;
                    push(&mut producers[ring], written, &written.to_le_bytes());
                }
                Step::Spill(session) => {
                    spill(&sessions[session]);
                    marks.push((newest[session], Mark::of(&sessions[session])));
                }
                Step::Take(max) => {
                    let drained = take(&mut taken, max);
                    prop_assert!(drained.took <= max);
                }
            }
            let last = taken.last().copied().unwrap_or(0);
            for (until, mark) in &marks {
                prop_assert!(!mark.passed() || last >= *until, "not before it has been taken");
            }
        }
        prop_assert_eq!(taken, (1..=written).collect::<Vec<_>>());
        prop_assert!(marks.iter().all(|(_, mark)| mark.passed()));
    }
}

#[test]
fn a_ring_that_is_spilled_in_time_loses_nothing() {
    let session = Session::new(1, 0, "", 0, Options::default());
    let (mut producer, ring) = Ring::split(1 << 18, Overflow::Drop);
    assert!(session.add_ring(ring));
    for ticks in 1..=100_000 {
        push(&mut producer, ticks, &[0; 16]);
        if producer.take_pressure() {
            spill(&session);
        }
    }
    let mark = Mark::of(&session);
    drop(producer);
    let mut taken = vec![];
    while drain(&session, 999, |record| taken.push(record.ticks)).unwrap() > 0 {
        assert_eq!(mark.passed(), taken.len() == 100_000);
    }
    assert_eq!(taken, (1..=100_000).collect::<Vec<_>>());
    assert!(session.feeds().is_empty());
}

#[test]
fn one_drain_of_all_takes_the_newer_session_first_where_the_time_is_the_same() {
    let ((older, mut first), (newer, mut second)) = (session(1, 2), session(2, 1));
    push(&mut first[0], 5, b"older, first ring");
    push(&mut first[1], 5, b"older, second ring");
    push(&mut second[0], 5, b"newer");
    push(&mut second[0], 4, b"newer, written late");
    let mut taken = vec![];
    let drained = drain_all(&[&older, &newer], 9, Losses::Between, |at, record| {
        taken.push((at, seen(record.ticks, &record.what).1))
    });
    assert_eq!((drained.took, drained.until), (4, None));
    let order: Vec<_> = taken.iter().map(|(at, payload)| (*at, std::str::from_utf8(payload).unwrap())).collect();
    assert_eq!(order, [(1, "newer, written late"), (1, "newer"), (0, "older, first ring"), (0, "older, second ring")]);
}

#[test]
fn a_ring_that_lags_holds_the_others_back() {
    let (session, mut producers) = session(1, 2);
    (1..=100).for_each(|ticks| push(&mut producers[0], 10 * ticks, &[]));
    push(&mut producers[1], 995, &[]);
    let mut taken = vec![];
    while drain(&session, 7, |record| taken.push(record.ticks)).unwrap() > 0 {}
    assert_eq!(taken.len(), 101);
    assert!(taken.is_sorted(), "{taken:?}");
}

#[test]
fn what_is_written_after_a_drain_began_is_left() {
    let (session, mut producers) = session(1, 1);
    push(&mut producers[0], 1, &[]);
    push(&mut producers[0], u64::MAX, &[]);
    let mut taken = vec![];
    assert_eq!(drain(&session, 9, |record| taken.push(record.ticks)), Ok(1));
    assert_eq!(taken, [1]);
}

#[test]
fn a_loss_stands_where_it_happened() {
    let session = Session::new(1, 0, "", 0, Options::default());
    let (mut producers, rings): (Vec<_>, Vec<_>) = (0..2).map(|_| Ring::split(1 << 15, Overflow::Drop)).unzip();
    rings.into_iter().for_each(|ring| assert!(session.add_ring(ring)));
    let mut stored = 0;
    while producers[0].push([0, 10 + stored, 0, 0], &[]) == Pushed::Stored {
        stored += 1;
    }
    push(&mut producers[1], 9, &[]);
    push(&mut producers[1], 11 + stored, &[]);
    let mut taken = vec![];
    let mut take = |max| {
        drain(&session, max, |record| {
            taken.push((record.ticks, if let What::Lost(count) = record.what { count } else { 0 }));
        })
        .unwrap()
    };
    // the drain ends just before the loss, so the next drain begins with the loss
    assert_eq!(take(1 + stored as usize), 1 + stored as usize);
    assert_eq!(take(1), 1);
    assert_eq!(take(9), 1);
    // after the loss there is space again
    push(&mut producers[0], 20 + stored, &[]);
    assert_eq!(take(9), 1);
    assert_eq!(taken[0], (9, 0));
    assert_eq!(taken[stored as usize..], [(9 + stored, 0), (0, 1), (11 + stored, 0), (20 + stored, 0)]);
}

/// A record that is too long for a page is lost at its place, even if the ring is empty.
#[test]
fn losses_stand_at_their_places_among_several_rings() {
    let events_and_losses = |losses| {
        let (session, mut producers) = session(1, 3);
        let longest = vec![0; 1 << 20];
        let mut put = |ring: usize, ticks, lost| {
            let expected = if lost { Pushed::Lost } else { Pushed::Stored };
            assert_eq!(producers[ring].push([0, ticks, 0, 0], if lost { &longest } else { &[] }), expected);
        };
        [(10, false), (0, true), (0, true), (30, false)].into_iter().for_each(|(ticks, lost)| put(0, ticks, lost));
        [(0, true), (0, true), (0, true), (40, false)].into_iter().for_each(|(ticks, lost)| put(1, ticks, lost));
        [(5, false), (20, false), (0, true)].into_iter().for_each(|(ticks, lost)| put(2, ticks, lost));
        let mut taken = vec![];
        drain_borrowed(&session, 99, losses, |record| {
            taken.push((record.ticks, if let What::Lost(count) = record.what { count } else { 0 }));
        })
        .unwrap();
        taken
    };
    let timed = [(5, 0), (10, 0), (10, 2), (20, 0), (20, 1), (30, 0)];
    assert_eq!(events_and_losses(Losses::Between), [&timed[..], &[(40, 3), (40, 0)]].concat());
    assert_eq!(events_and_losses(Losses::First), [&[(0, 3)], &timed[..], &[(40, 0)]].concat());
}
