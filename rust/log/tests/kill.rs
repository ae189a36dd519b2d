//! A process that is killed during a write leaves whole records: all flushed ones, in order.
//!
//! The writer is this test program, started again with [`WHERE`] set.

use inviso_log::{
    damage::What,
    file::{FileLog, Form, Options},
    frame::Record,
    names::Names,
    reader::{Event, Reader},
    set::SetReader,
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

/// The kind and the path of the writer's log.
const WHERE: &str = "INVISO_LOG_KILL";

fn message(n: u64) -> Vec<u8> {
    let mut term = vec![131, 109];
    let bytes = 8 + (n % 50) as usize;
    term.extend((bytes as u32).to_be_bytes());
    term.extend(n.to_be_bytes());
    term.resize(6 + bytes, n as u8);
    term
}

fn number(term: &[u8]) -> u64 {
    let n = u64::from_be_bytes(*term[6..].first_chunk().unwrap());
    assert_eq!(term, message(n));
    n
}

/// Writes until it is killed, and prints how many messages were flushed. Does nothing in a normal run.
#[test]
fn writer() {
    let Ok(what) = env::var(WHERE) else { return };
    let (kind, path) = what.split_once(':').unwrap();
    let path = Path::new(path);
    let options = |form| Options { form, room: 10_000, ..Options::default() };
    let mut log: Box<dyn Sink> = match kind {
        "file" => Box::new(FileLog::create(path, options(Form::Erlang)).unwrap()),
        "blocks" => Box::new(FileLog::create(path, options(Form::Blocks)).unwrap()),
        _ => Box::new(WrapLog::create(names(path), Limit::Bytes(5000), 4, Instant::now()).unwrap()),
    };
    for n in 0.. {
        log.term(&message(n)).unwrap();
        if n % 97 == 0 {
            log.flush().unwrap();
            println!("\nflushed {}", n + 1);
            std::io::stdout().flush().unwrap();
        }
    }
}

fn names(path: &Path) -> Names {
    Names::new(path, ".log").unwrap()
}

/// Kills a writer after this many lines of flushed messages. Answers the number in the last line.
fn killed(kind: &str, path: &Path, after: usize) -> u64 {
    let mut writer = Command::new(env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture", "--test-threads=1"])
        .env(WHERE, format!("{kind}:{}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut flushed = BufReader::new(writer.stdout.take().unwrap()).lines().filter_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("flushed ").map(|n| n.parse::<u64>().unwrap())
    });
    let mut last = flushed.nth(after).unwrap();
    writer.kill().unwrap();
    for n in flushed {
        last = n;
    }
    writer.wait().unwrap();
    last
}

fn kill_often(times: u64) {
    let folder = tempfile::tempdir().unwrap();
    // the moment varies because the writer doesn't wait; this varies it more
    let mut state = u64::from(std::process::id());
    let mut random = move |most: u64| {
        state = (state ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31);
        state % most
    };
    for n in 0..times {
        let kind = ["file", "blocks", "wrap"][(n % 3) as usize];
        let path = folder.path().join(format!("{kind}{n}."));
        let flushed = killed(kind, &path, random(40) as usize);
        let (mut next, mut cut) = (0, 0);
        let mut take = |event: Event<'_>, begin: bool| match event {
            Event::Record { record: Record::Term(term), .. } => {
                let n = number(term);
                assert!(n == next || begin, "{kind}: {n} after {next}");
                next = n + 1;
            }
            Event::Damage(damage) if matches!(damage.what, What::Cut(_)) => cut += 1,
            other => panic!("{kind}: {other:?}"),
        };
        if kind == "wrap" {
            let mut reader = SetReader::open(names(&path), false).unwrap();
            let mut begin = true;
            while let Some(event) = reader.read().unwrap() {
                take(event, begin);
                begin = false;
            }
        } else {
            let mut reader = Reader::open(&path).unwrap();
            while let Some(event) = reader.read().unwrap() {
                take(event, false);
            }
        }
        assert!(next >= flushed, "{kind}: {flushed} flushed, {next} read");
        assert!(cut <= 1, "{kind}");
    }
}

#[test]
fn nothing_that_was_flushed_is_lost() {
    if env::var(WHERE).is_err() {
        kill_often(20);
    }
}

#[test]
#[ignore = "a thousand times, some minutes"]
fn nothing_that_was_flushed_is_lost_a_thousand_times() {
    kill_often(1000);
}
