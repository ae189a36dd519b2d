//! Merges and names of processes, compared with slow models.

use inviso_log::{
    file::{FileLog, Form, Options},
    frame::{self, Record},
    merge::{Merge, Order},
    nodes::Origin,
    reader::Event,
    sink::Sink,
    source::Source,
    stamp::{Clock, Stamp},
    ti::Aliases,
};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use proptest::prelude::*;
use std::path::Path;

/// A record of a log, without its number.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// A message of this many elements with a wall-clock time.
    Wall(usize, i64),
    Seq(i64),
    /// A time of another clock.
    Monotonic(i64),
    Untimed,
    Dropped,
    /// A record without a valid term.
    Bad,
}

impl Entry {
    fn time(self, order: Order) -> Option<i64> {
        match self {
            Entry::Wall(n, time) if order == Order::Follow || matches!(n, 5 | 6) => Some(time),
            Entry::Seq(time) if order == Order::Follow => Some(time),
            _ => None,
        }
    }

    fn record(self, number: u32, out: &mut Vec<u8>) {
        let wall = |time: i64| Term::Tuple(vec![Term::from(0), Term::from(time), Term::from(0)]);
        let message = |head: &str, n: usize, stamp: Option<Term>| {
            let mut parts = vec![Term::atom(head), Term::from(i64::from(number))];
            parts.resize(n - usize::from(stamp.is_some()), Term::atom("part"));
            parts.extend(stamp);
            etf::encode_versioned(&Term::Tuple(parts))
        };
        match self {
            Entry::Wall(n, time) => frame::put_term(out, &message("trace_ts", n, Some(wall(time)))).unwrap(),
            Entry::Seq(time) => frame::put_term(out, &message("seq_trace", 4, Some(wall(time)))).unwrap(),
            Entry::Monotonic(time) => {
                frame::put_term(out, &message("trace_ts", 5, Some(Term::from(time)))).unwrap();
            }
            Entry::Untimed => frame::put_term(out, &message("trace", 4, None)).unwrap(),
            Entry::Dropped => out.extend([&[1][..], &number.to_be_bytes()].concat()),
            Entry::Bad => out.extend([&[0, 0, 0, 0, 6, 131, 255][..], &number.to_be_bytes()].concat()),
        }
    }
}

/// The number of the record that was read.
fn number(event: Event<'_>, records: &[u8]) -> u32 {
    match event {
        Event::Record { record: Record::Dropped(n), .. } => n,
        Event::Record { record: Record::Term(payload), .. } => match etf::decode(payload).unwrap() {
            Term::Tuple(parts) => parts[1].to_string().parse().unwrap(),
            other => panic!("{other}"),
        },
        Event::Damage(damage) => {
            let at = damage.at as usize + 7;
            u32::from_be_bytes(records[at..at + 4].try_into().unwrap())
        }
    }
}

/// How the records of a log are split into files.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Blocks,
    /// Two files, one after the other.
    Files,
}

fn log(folder: &Path, name: usize, kind: Kind, records: &[Vec<u8>]) -> Source {
    let path = |part: usize| folder.join(format!("{name}-{part}"));
    match kind {
        Kind::Plain => {
            std::fs::write(path(0), records.concat()).unwrap();
            Source::open(&path(0), false).unwrap()
        }
        Kind::Blocks => {
            // small blocks, so that there are several
            let options = Options { form: Form::Blocks, room: 200, ..Options::default() };
            let mut log = FileLog::create(&path(0), options).unwrap();
            for record in records {
                let frame::Next::Record(record, _) = frame::next(record) else { panic!() };
                log.copy(record).unwrap();
            }
            log.close().unwrap();
            Source::open(&path(0), false).unwrap()
        }
        Kind::Files => {
            let (first, second) = records.split_at(records.len() / 2);
            std::fs::write(path(0), first.concat()).unwrap();
            std::fs::write(path(1), second.concat()).unwrap();
            Source::files(vec![path(0), path(1)]).unwrap()
        }
    }
}

/// Takes the log with the smallest next record, again and again.
fn model(logs: &[Vec<Entry>], order: Order) -> Vec<(usize, usize)> {
    let mut heads = vec![0; logs.len()];
    let mut latest = vec![None; logs.len()];
    let mut all = Vec::new();
    loop {
        let mut least: Option<(Option<i64>, usize)> = None;
        for (log, entries) in logs.iter().enumerate() {
            let Some(entry) = entries.get(heads[log]) else { continue };
            let time = entry.time(order);
            let key = if order == Order::Follow { time.max(latest[log]) } else { time };
            if least.is_none_or(|(other, _)| key < other) {
                least = Some((key, log));
            }
        }
        let Some((_, log)) = least else { return all };
        latest[log] = latest[log].max(logs[log][heads[log]].time(order));
        all.push((log, heads[log]));
        heads[log] += 1;
    }
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let one = prop_oneof![
        8 => (5_usize..=6, 0_i64..30).prop_map(|(n, time)| Entry::Wall(n, time)),
        1 => (3_usize..=9, 0_i64..30).prop_map(|(n, time)| Entry::Wall(n, time)),
        1 => (0_i64..30).prop_map(Entry::Seq),
        1 => (0_i64..i64::MAX).prop_map(Entry::Monotonic),
        1 => Just(Entry::Untimed),
        1 => Just(Entry::Dropped),
        1 => Just(Entry::Bad),
    ];
    (proptest::collection::vec(one, 0..20), any::<bool>()).prop_map(|(mut entries, is_sorted)| {
        if is_sorted {
            entries.sort_by_key(|entry| entry.time(Order::Follow));
        }
        entries
    })
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Plain), Just(Kind::Blocks), Just(Kind::Files)]
}

proptest! {
    #[test]
    fn the_least_head_is_next(logs in proptest::collection::vec((entries(), kinds()), 0..6), inviso in any::<bool>()) {
        let order = if inviso { Order::Inviso } else { Order::Follow };
        // the first timestamp selects the clock
        let logs: Vec<_> = logs.into_iter().map(|(mut entries, kind)| {
            entries.insert(0, Entry::Wall(5, 0));
            (entries, kind)
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        let written: Vec<Vec<Vec<u8>>> = logs.iter().map(|(entries, _)| {
            entries.iter().enumerate().map(|(number, entry)| {
                let mut record = Vec::new();
                entry.record(number as u32, &mut record);
                record
            }).collect()
        }).collect();
        let sources = logs.iter().zip(&written).enumerate().map(|(n, ((_, kind), records))| log(folder.path(), n, *kind, records));
        let mut merge = Merge::ordered(sources.collect(), order);
        let expected = model(&logs.iter().map(|(entries, _)| entries.clone()).collect::<Vec<_>>(), order);
        for (log, at) in expected {
            let (entries, kind) = &logs[log];
            // offsets of damage are within a file
            let half = at >= entries.len() / 2;
            let bytes = match kind {
                Kind::Files if half => written[log][entries.len() / 2..].concat(),
                _ => written[log].concat(),
            };
            let found = merge.read_stamped().unwrap();
            let found = found.map(|(log, event, stamps)| (log, number(event, &bytes), stamps.shifted.map(|stamp| stamp.ns)));
            let time = entries[at].time(order).map(|s| i128::from(s) * 1_000_000_000);
            prop_assert_eq!(found, Some((log, at as u32, time)));
        }
        prop_assert!(merge.read().unwrap().is_none());
        let others = logs.iter().flat_map(|(entries, _)| entries).filter(|entry| matches!(entry, Entry::Monotonic(_))).count();
        prop_assert_eq!(merge.other_clock(), others as u64);
    }

    #[test]
    fn a_process_has_the_aliases_that_no_entry_ended(
        entries in proptest::collection::vec((0_u64..4, 0_i64..3, 0_i64..12, any::<bool>()), 0..25),
        looks in proptest::collection::vec((1_u64..4, 0_i64..14), 1..20),
    ) {
        let stamp = |second: i64| Stamp { clock: Clock::Wall, ns: i128::from(second) * 1_000_000_000, unique: 0 };
        let mut aliases = Aliases::default();
        let mut all = Vec::new();
        for (pid, alias, second, is_alias) in entries {
            // only an `unalias` can be for all processes
            let is_alias = is_alias && pid > 0;
            all.push((pid, alias, second, is_alias));
            let who = if pid == 0 { Term::atom("undefined") } else { Term::Pid(Identifier::own(pid)) };
            let what = Term::atom(if is_alias { "alias" } else { "unalias" });
            let now = Term::Tuple(vec![Term::from(0), Term::from(second), Term::from(0)]);
            let term = etf::encode_versioned(&Term::Tuple(vec![who, Term::from(alias), what, now]));
            aliases.read(&[&[0][..], &(term.len() as u32).to_be_bytes(), &term].concat());
        }
        prop_assert_eq!(&aliases.damage, &[]);
        let here = Origin { node: "nonode@nohost".into(), creation: 0 };
        for (pid, now) in looks {
            let is_there = |&&(of, alias, begun, is_alias): &&(u64, i64, i64, bool)| {
                let ends = |&(who, which, ended, is_alias): &(u64, i64, i64, bool)| {
                    !is_alias && which == alias && (who == pid || who == 0) && begun < ended && ended < now
                };
                is_alias && of == pid && begun < now && !all.iter().any(ends)
            };
            let expected: Vec<_> = all.iter().filter(is_there).map(|(_, alias, ..)| Term::from(*alias)).collect();
            let found: Vec<_> = aliases.of(&here, pid, stamp(now)).to_vec();
            let found: Vec<_> = found.into_iter().map(|number| aliases.name(number).unwrap().clone()).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
