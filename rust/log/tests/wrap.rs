//! Wrap sets: their files at any time, and readers beside a writer.

use inviso_log::{
    damage::{Damage, What},
    frame::Record,
    names::Names,
    reader::Event,
    set::SetReader,
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use proptest::{collection::vec, prelude::*};
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

fn names(folder: &Path) -> Names {
    Names::new(&folder.join("trace"), ".log").unwrap()
}

/// A message with this number, of this many bytes with its header.
fn message(n: u64, bytes: usize) -> Vec<u8> {
    let mut term = vec![131, 109];
    term.extend(((bytes - 11) as u32).to_be_bytes());
    term.extend(n.to_be_bytes());
    term.resize(bytes - 5, 7);
    term
}

fn number(event: Event<'_>) -> u64 {
    match event {
        Event::Record { record: Record::Term(term), .. } => u64::from_be_bytes(*term[6..].first_chunk().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// The files of a set as a list of lists: the number and the messages of each.
struct Model {
    files: VecDeque<(u64, Vec<u64>)>,
    length: u64,
    size: u64,
    most: u64,
}

impl Model {
    fn new(size: u64, most: u64) -> Model {
        Model { files: VecDeque::from([(0, vec![])]), length: 0, size, most }
    }

    fn term(&mut self, n: u64, bytes: u64) {
        self.files.back_mut().unwrap().1.push(n);
        self.length += bytes;
        if self.length >= self.size {
            self.next();
        }
    }

    fn next(&mut self) {
        let number = (self.files.back().unwrap().0 + 1) % (self.most + 1);
        self.length = 0;
        self.files.push_back((number, vec![]));
        if self.files.len() as u64 > self.most {
            self.files.pop_front();
        }
    }

    fn messages(&self) -> Vec<u64> {
        self.files.iter().flat_map(|(_, messages)| messages.clone()).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn files_are_those_of_the_model(size in 0u64..200, most in 1u32..5, lengths in vec(19usize..120, 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        let names = names(folder.path());
        let mut log = WrapLog::create(names.clone(), Limit::Bytes(size), most, Instant::now()).unwrap();
        let mut model = Model::new(size, most.into());
        for (n, length) in lengths.into_iter().enumerate() {
            log.term(&message(n as u64, length)).unwrap();
            log.flush().unwrap();
            model.term(n as u64, length as u64);
            let files: BTreeMap<_, _> = model.files.iter().cloned().collect();
            let mut there = names.present().unwrap();
            there.sort_unstable();
            prop_assert_eq!(there, files.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(log.number(), model.files.back().unwrap().0);

            let mut reader = SetReader::open(names.clone(), false).unwrap();
            let mut found = Vec::new();
            while let Some(event) = reader.read().unwrap() {
                found.push(number(event));
            }
            prop_assert_eq!(found, model.messages());
        }
    }

    /// A reader that sometimes reads everything, beside a writer. Each message comes once and in order, or the reader gets a
    /// report that the writer has deleted its file.
    #[test]
    fn a_follower_gets_a_report_of_what_it_misses(
        size in 20u64..150, most in 1u32..4, steps in vec((19usize..80, 0u8..3, any::<bool>()), 1..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let names = names(folder.path());
        let mut log = WrapLog::create(names.clone(), Limit::Bytes(size), most, Instant::now()).unwrap();
        let mut reader = SetReader::open(names, true).unwrap();
        prop_assert_eq!(reader.read().unwrap(), None);
        let mut model = Model::new(size, most.into());
        let (mut next, mut overtaken) = (0, false);
        let mut read = |all: bool, model: &Model, next: &mut u64| {
            loop {
                match reader.read().unwrap() {
                    Some(Event::Damage(Damage { what: What::Overtaken, .. })) => overtaken = true,
                    Some(event) => {
                        let n = number(event);
                        assert!(n == *next || n > *next && overtaken, "{n} after {next}");
                        (*next, overtaken) = (n + 1, false);
                        if !all {
                            return;
                        }
                    }
                    None => {
                        // no message is left
                        assert!(model.messages().iter().all(|n| *n < *next), "{next}: {:?}", model.files);
                        return;
                    }
                }
            }
        };
        for (n, (length, reads, all)) in steps.into_iter().enumerate() {
            log.term(&message(n as u64, length)).unwrap();
            log.flush().unwrap();
            model.term(n as u64, length as u64);
            for _ in 0..reads {
                read(all, &model, &mut next);
            }
        }
        read(true, &model, &mut next);
    }
}

#[test]
fn a_time_limit_begins_a_new_file_whatever_the_size() {
    let folder = tempfile::tempdir().unwrap();
    let names = names(folder.path());
    let began = Instant::now();
    let at = |ms| began + Duration::from_millis(ms);
    let mut log = WrapLog::create(names.clone(), Limit::Time(Duration::from_millis(100)), 3, began).unwrap();
    assert_eq!(log.due(), Some(at(100)));
    log.tick(at(99)).unwrap();
    assert_eq!(names.present().unwrap(), [0]);
    for (now, there) in
        [(100, vec![0, 1]), (210, vec![0, 1, 2]), (309, vec![0, 1, 2]), (310, vec![1, 2, 3]), (999, vec![2, 3, 0])]
    {
        log.term(&message(now, 50)).unwrap();
        log.tick(at(now)).unwrap();
        assert_eq!(names.present().unwrap(), there, "{now}");
    }
    assert_eq!(log.due(), Some(at(1099)));
    log.close().unwrap();
    assert_eq!(log.due(), None);
    let mut reader = SetReader::open(names, false).unwrap();
    let mut found = vec![];
    while let Some(event) = reader.read().unwrap() {
        found.push(number(event));
    }
    assert_eq!(found, [309, 310, 999]);
}

#[test]
fn an_older_set_of_the_same_name_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let names = names(folder.path());
    for other in ["trace5.log", "trace12.log", "trace007.log", "tracex.log", "trace5.txt"] {
        fs::write(folder.path().join(other), "old").unwrap();
    }
    drop(WrapLog::create(names.clone(), Limit::default(), 8, Instant::now()).unwrap());
    let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["trace0.log", "trace5.txt", "tracex.log"]);
    assert!(WrapLog::create(names, Limit::default(), 0, Instant::now()).is_err());
}

/// Both run at full speed. The reader gets a report of what it misses, and reaches the end.
#[test]
fn a_reader_in_another_thread_keeps_order() {
    let folder = tempfile::tempdir().unwrap();
    let names = names(folder.path());
    let mut log = WrapLog::create(names.clone(), Limit::Bytes(2000), 3, Instant::now()).unwrap();
    let (done, last) = (AtomicBool::new(false), 20_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..=last {
                log.term(&message(n, 40)).unwrap();
                if n % 7 == 0 {
                    log.flush().unwrap();
                }
            }
            log.close().unwrap();
            done.store(true, SeqCst);
        });
        let mut reader = SetReader::open(names, true).unwrap();
        // it begins with the oldest existing file, which may be a later one already
        let (mut next, mut reported) = (0, true);
        while next <= last {
            let ended = done.load(SeqCst);
            match reader.read().unwrap() {
                Some(Event::Damage(Damage { what: What::Overtaken, .. })) => reported = true,
                Some(event) => {
                    let n = number(event);
                    assert!(n == next || n > next && reported, "{n} after {next}");
                    (next, reported) = (n + 1, false);
                }
                None => assert!(!ended, "stopped at {next}"),
            }
        }
    });
}
