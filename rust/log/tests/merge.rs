//! Merges of several logs.

use inviso_log::{
    damage::What,
    frame::{self, Record},
    merge::Merge,
    reader::Event,
    source::Source,
    stamp::{stamp, Clock},
};
use inviso_term::{etf, term::Term};
use std::path::Path;

/// An entry of a log.
enum Entry {
    At(Term),
    Plain,
    Dropped(u32),
    Cut,
}

fn wall(seconds: i64) -> Entry {
    Entry::At(Term::Tuple(vec![Term::from(0), Term::from(seconds), Term::from(0)]))
}

fn ns(n: i64) -> Entry {
    Entry::At(Term::from(n))
}

fn log(folder: &Path, name: &str, entries: Vec<Entry>) -> Source {
    let mut bytes = Vec::new();
    for entry in entries {
        let message = |parts| etf::encode_versioned(&Term::Tuple(parts));
        match entry {
            Entry::At(stamp) => frame::put_term(&mut bytes, &message(vec![Term::atom("trace_ts"), stamp])).unwrap(),
            Entry::Plain => frame::put_term(&mut bytes, &message(vec![Term::atom("trace"), Term::from(1)])).unwrap(),
            Entry::Dropped(n) => frame::put_dropped(&mut bytes, n.into()),
            Entry::Cut => bytes.extend([0, 0]),
        }
    }
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    Source::open(&path, false).unwrap()
}

/// The records in their order, each with its log.
fn merged(merge: &mut Merge) -> Vec<(usize, &'static str)> {
    let mut order = Vec::new();
    while let Some((at, event)) = merge.read().unwrap() {
        let what = match event {
            Event::Record { record: Record::Term(term), .. } if stamp(term).is_some() => "stamped",
            Event::Record { record: Record::Term(_), .. } => "plain",
            Event::Record { record: Record::Dropped(_), .. } => "drop",
            Event::Damage(damage) => {
                assert!(matches!(damage.what, What::Cut(2)));
                "damage"
            }
        };
        order.push((at, what));
        assert_eq!(merge.last(), Some(at));
    }
    order
}

#[test]
fn a_record_without_a_time_follows_its_predecessor() {
    let folder = tempfile::tempdir().unwrap();
    let one = log(folder.path(), "one", vec![ns(5), Entry::Dropped(2), Entry::Plain, ns(9), Entry::Cut]);
    let two = log(folder.path(), "two", vec![Entry::Plain, ns(-7), ns(6), ns(3)]);
    let mut merge = Merge::new(vec![one, two]);
    let expected = [
        (1, "plain"),
        (1, "stamped"),
        (0, "stamped"),
        (0, "drop"),
        (0, "plain"),
        (1, "stamped"),
        (1, "stamped"),
        (0, "stamped"),
        (0, "damage"),
    ];
    assert_eq!(merged(&mut merge), expected);
    assert_eq!((merge.other_clock(), merge.read().unwrap()), (0, None));
    assert_eq!(merge.path(1), Some(folder.path().join("two")));
}

#[test]
fn of_equal_times_the_first_log_wins_and_other_clocks_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let one = log(folder.path(), "one", vec![wall(1), wall(2)]);
    let two = log(folder.path(), "two", vec![wall(1), ns(99_000_000_000), wall(3)]);
    let mut merge = Merge::new(vec![one, two]);
    assert_eq!(merged(&mut merge).iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 1, 0, 1]);
    assert_eq!(merge.other_clock(), 1);
    assert_eq!(merged(&mut Merge::new(Vec::new())), []);
}

#[test]
fn time_stamps_are_those_of_whole_messages_only() {
    let of = |parts: Vec<Term>| stamp(&etf::encode_versioned(&Term::Tuple(parts)));
    let inner = Term::Tuple(vec![Term::atom("trace_ts"), Term::from(1)]);
    assert_eq!(of(vec![Term::atom("trace"), inner.clone()]), None);
    assert_eq!(of(vec![Term::atom("trace_ts"), inner.clone(), Term::atom("late")]), None);
    assert_eq!(of(vec![Term::atom("trace_ts"), inner, Term::from(2)]).map(|stamp| stamp.ns), Some(2));
    let seq = |rest: Vec<Term>| of([vec![Term::atom("seq_trace"), Term::from(0), Term::from(0)], rest].concat());
    assert_eq!(seq(vec![]), None);
    let strict = Term::Tuple(vec![Term::from(4), Term::from(8)]);
    let found = seq(vec![strict]).unwrap();
    assert_eq!((found.clock, found.ns, found.unique), (Clock::Monotonic, 4, 8));
    assert_eq!(stamp(&[]), None);
    assert_eq!(stamp(&[131, 104, 2, 119, 8]), None);
}

#[test]
fn files_of_one_log_are_opened_at_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    drop(log(folder.path(), "one", vec![ns(5)]));
    let two = log(folder.path(), "other", vec![ns(6)]);
    let one = Source::files(vec![path("one"), path("gone"), path("three")]).unwrap();
    let mut merge = Merge::new(vec![one, two]);
    assert_eq!(merge.read().unwrap().map(|(at, _)| at), Some(0));
    assert_eq!((merge.path(0), merge.number(0)), (Some(path("one")), Some(0)));
    // an error loses no record, and the call can be repeated
    for _ in 0..2 {
        assert_eq!(merge.read().unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
    drop(log(folder.path(), "gone", vec![]));
    drop(log(folder.path(), "three", vec![ns(7)]));
    assert_eq!(merge.read().unwrap().map(|(at, _)| at), Some(1));
    assert_eq!(merge.read().unwrap().map(|(at, _)| at), Some(0));
    assert_eq!((merge.path(0), merge.number(0)), (Some(path("three")), Some(2)));
    assert_eq!(merge.read().unwrap(), None);
    assert_eq!(Source::files(vec![]).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(Source::files(vec![path("nowhere")]).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
