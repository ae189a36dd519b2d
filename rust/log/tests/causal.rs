//! The causal order of a merge, compared with a slow model.

use inviso_log::{about, causal::Passages, frame, merge::Merge, reader::Event, source::Source};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use proptest::prelude::*;
use std::{collections::HashMap, path::Path};

/// A record of a log: the action on the message of this number, and its time by the log's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Sends(i64),
    Takes(i64),
    Nothing,
}

type Log = Vec<(Does, i64)>;

fn record(does: Does, time: i64, sender: usize, out: &mut Vec<u8>) {
    let pid = |log: usize| Term::Pid(Identifier::new(4, "nonode@nohost", 1 + log as u32));
    let stamp = Term::Tuple(vec![Term::from(0), Term::from(time / 1_000_000), Term::from(time % 1_000_000)]);
    let message = |what: &str, serial: i64| {
        let serial = Term::Tuple(vec![Term::from(serial - 1), Term::from(serial)]);
        let info = Term::Tuple(vec![Term::atom(what), serial, pid(sender), pid(0), Term::atom("hello")]);
        Term::Tuple(vec![Term::atom("seq_trace"), Term::from(7), info, stamp.clone()])
    };
    let term = match does {
        Does::Sends(serial) => message("send", serial),
        Does::Takes(serial) => message("receive", serial),
        Does::Nothing => {
            Term::Tuple(vec![Term::atom("trace_ts"), Term::from(1), Term::atom("x"), Term::atom("y"), stamp.clone()])
        }
    };
    let mut payload = etf::encode(&term);
    if out.is_empty() {
        // as a file port does: the first record of a log says who wrote it
        let program = Term::Tuple(vec![Term::atom("program"), Term::from(1), Term::atom("x")]);
        let list = etf::encode(&Term::List(vec![program]));
        payload.extend_from_slice(&list);
        payload.extend_from_slice(&(list.len() as u32).to_be_bytes());
        payload.extend_from_slice(&about::MARK);
    }
    frame::put_term(out, &payload).unwrap();
}

/// Opens logs. The sender of each message is the log in `senders`.
fn opened(folder: &Path, logs: &[Log], senders: &HashMap<i64, usize>) -> Vec<Source> {
    let one = |(n, log): (usize, &Log)| {
        let mut bytes = Vec::new();
        for (does, time) in log {
            let sender = match does {
                Does::Sends(_) => n,
                Does::Takes(serial) => senders.get(serial).copied().unwrap_or(99),
                Does::Nothing => n,
            };
            record(*does, *time, sender, &mut bytes);
        }
        let path = folder.join(n.to_string());
        std::fs::write(&path, bytes).unwrap();
        Source::open(&path, false).unwrap()
    };
    logs.iter().enumerate().map(one).collect()
}

/// The result: the records by log and number, and the moved receipts of each log with time and move in microseconds.
type Merged = (Vec<(usize, usize)>, Vec<Vec<(i64, i64)>>, u64);

fn merged(logs: &[Log], senders: &HashMap<i64, usize>) -> Merged {
    let folder = tempfile::tempdir().unwrap();
    let sources = || opened(folder.path(), logs, senders);
    let mut merge = Merge::new(sources()).causal(Passages::of(sources()).unwrap());
    let (mut order, mut next) = (Vec::new(), vec![0; logs.len()]);
    while let Some((log, event)) = merge.read().unwrap() {
        assert!(matches!(event, Event::Record { .. }));
        order.push((log, next[log]));
        next[log] += 1;
    }
    let micros = |ns: i128| i64::try_from(ns / 1000).unwrap();
    let moved = merge.moved().iter().map(|moved| {
        assert_eq!(moved.receipts, moved.first.len() as u64);
        assert_eq!(moved.most, moved.first.iter().map(|(_, by)| *by).max().unwrap_or(0));
        moved.first.iter().map(|(when, by)| (micros(*when), micros(*by))).collect()
    });
    (order, moved.collect(), merge.unordered())
}

/// The smallest times at which no receipt is before its sending and no record before its predecessor, found by repetition. Then
/// the log whose next record is allowed and has the smallest time, again and again.
fn model(logs: &[Log], senders: &HashMap<i64, usize>) -> Merged {
    let mut times: Vec<Vec<i64>> = logs.iter().map(|log| log.iter().map(|(_, time)| *time).collect()).collect();
    let place = |serial: i64| {
        let log = *senders.get(&serial)?;
        Some((log, logs[log].iter().position(|(does, _)| *does == Does::Sends(serial))?))
    };
    loop {
        let before = times.clone();
        for (log, entries) in logs.iter().enumerate() {
            for (n, (does, _)) in entries.iter().enumerate() {
                let after = n.checked_sub(1).map(|n| times[log][n]);
                let sent = match does {
                    Does::Takes(serial) => place(*serial).map(|(log, n)| times[log][n]),
                    _ => None,
                };
                times[log][n] = times[log][n].max(after.unwrap_or(0)).max(sent.unwrap_or(0));
            }
        }
        if times == before {
            break;
        }
    }
    let mut moved = vec![Vec::new(); logs.len()];
    for (log, entries) in logs.iter().enumerate() {
        for (does, time) in entries {
            let Does::Takes(serial) = does else { continue };
            let Some((from, n)) = place(*serial).filter(|(from, _)| *from != log) else { continue };
            if times[from][n] > *time {
                moved[log].push((*time, times[from][n] - time));
            }
        }
    }
    let (mut order, mut next) = (Vec::new(), vec![0; logs.len()]);
    loop {
        let may = |log: usize| match logs[log].get(next[log])?.0 {
            Does::Takes(serial) => match place(serial).filter(|(from, _)| *from != log) {
                Some((from, n)) if next[from] <= n => None,
                _ => Some(times[log][next[log]]),
            },
            _ => Some(times[log][next[log]]),
        };
        let Some((_, log)) = (0..logs.len()).filter_map(|log| Some((may(log)?, log))).min() else { break };
        order.push((log, next[log]));
        next[log] += 1;
    }
    (order, moved, 0)
}

/// A program of several nodes that could really run: at each step a node acts or takes a message that was sent. Then the nodes'
/// clocks are set wrong, and run fast.
fn programs() -> impl Strategy<Value = (Vec<Log>, HashMap<i64, usize>)> {
    let steps = proptest::collection::vec((0_usize..4, 0_u8..3, 0_usize..8, 1_i64..50), 1..120);
    let clocks = proptest::collection::vec((0_i64..2000, -20_i64..20), 4);
    (steps, clocks, any::<u64>()).prop_map(|(steps, clocks, lost)| {
        let (mut logs, mut senders, mut way, mut now) = (vec![Log::new(); 4], HashMap::new(), Vec::new(), 0);
        for (at, (node, what, which, later)) in steps.into_iter().enumerate() {
            now += later;
            let time = clocks[node].0 + now + now * clocks[node].1 / 100;
            let does = match what {
                0 => {
                    let serial = at as i64 + 1;
                    way.push(serial);
                    senders.insert(serial, node);
                    Does::Sends(serial)
                }
                1 if !way.is_empty() => Does::Takes(way.remove(which % way.len())),
                _ => Does::Nothing,
            };
            // some were not recorded
            if lost & 1 << (at % 64) == 0 || at % 5 != 0 {
                logs[node].push((does, time));
            }
        }
        (logs, senders)
    })
}

proptest! {
    #[test]
    fn times_change_as_little_as_they_can((logs, senders) in programs()) {
        let found = merged(&logs, &senders);
        prop_assert_eq!(&found, &model(&logs, &senders));
        prop_assert_eq!(found.0.len(), logs.iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn one_log_stays_as_it_is((logs, senders) in programs()) {
        for log in &logs {
            let (order, moved, unordered) = merged(std::slice::from_ref(log), &senders);
            prop_assert!(order.into_iter().eq((0..log.len()).map(|n| (0, n))));
            prop_assert_eq!((moved, unordered), (vec![vec![]], 0));
        }
    }
}

use Does::{Nothing, Sends, Takes};

#[test]
fn a_repeated_serial_is_another_message() {
    let senders = HashMap::from([(1, 0)]);
    let sender = vec![(Sends(1), 10), (Nothing, 20), (Sends(1), 30)];
    let taker = vec![(Takes(1), 1), (Takes(1), 2), (Nothing, 3)];
    let (order, moved, _) = merged(&[sender.clone(), taker], &senders);
    assert_eq!(order, [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (1, 2)]);
    assert_eq!(moved, [vec![], vec![(1, 9), (2, 28)]]);
    // one receipt more than sendings: the first one may be of a lost sending
    let (order, moved, _) = merged(&[sender, vec![(Takes(1), 1), (Takes(1), 2), (Takes(1), 3)]], &senders);
    assert_eq!(order, [(1, 0), (0, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
    assert_eq!(moved, [vec![], vec![(2, 8), (3, 27)]]);
}

#[test]
fn a_message_may_have_several_receivers() {
    let senders = HashMap::from([(1, 0)]);
    let (order, moved, _) = merged(&[vec![(Sends(1), 10)], vec![(Takes(1), 1)], vec![(Takes(1), 11)]], &senders);
    assert_eq!(order, [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(moved, [vec![], vec![(1, 9)], vec![]]);
}

/// Erlang's nodes without a name have neither names nor creations.
#[test]
fn nodes_that_cannot_be_distinguished_are_left_alone() {
    let senders = HashMap::from([(1, 0)]);
    let logs = [vec![(Sends(1), 10), (Takes(1), 11)], vec![(Sends(1), 2), (Takes(1), 3)]];
    let write = |n: usize, name: &Path| {
        let mut bytes = Vec::new();
        for (does, time) in &logs[n] {
            record(*does, *time, 0, &mut bytes);
        }
        std::fs::write(name, bytes).unwrap();
        Source::open(name, false).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let sources = || (0..2).map(|n| write(n, &folder.path().join(n.to_string()))).collect::<Vec<_>>();
    assert!(Passages::of(sources()).unwrap().is_empty());
    assert_eq!(
        Passages::of(opened(folder.path(), &[vec![(Sends(1), 1)], vec![(Takes(1), 1)]], &senders)).unwrap().len(),
        1
    );
}

#[test]
fn logs_that_contradict_each_other_are_merged_all_the_same() {
    let senders = HashMap::from([(1, 0), (2, 1)]);
    let one = vec![(Takes(2), 5), (Sends(1), 6)];
    let other = vec![(Nothing, 1), (Takes(1), 3), (Sends(2), 4)];
    let (order, _, unordered) = merged(&[one, other], &senders);
    assert_eq!(order, [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1)]);
    assert_eq!(unordered, 1);
}
