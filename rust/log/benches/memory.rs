//! The memory of a merge of eight logs, for ten million records and for a thousand million. Generators send the records through
//! pipes; the merge counts them. Run: `cargo bench -p inviso-log --bench memory`; `-- N` merges N records.
//!
//! | bar | measured in |
//! | --- | --- |
//! | under 1 MB a log, the same for 10^7 and 10^9 records | `VmHWM` of this process, the generators included |

use inviso_log::{frame, merge::Merge, reader::Event, source::Source};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use std::{
    fs::{self, File},
    io::{self, PipeWriter, Write},
    os::fd::AsRawFd,
    path::Path,
    thread,
    time::Instant,
};

const LOGS: u64 = 8;

/// The bytes of a record up to its last eight, which are the time.
fn record(log: u64) -> io::Result<Vec<u8>> {
    let pid = Identifier::new(4, "nonode@nohost", 77 + log as u32);
    let call = Term::Tuple(vec![
        Term::atom("shop.database"),
        Term::atom("Session.get"),
        Term::List(vec![Term::atom("an argument of some length"), Term::from(1)]),
    ]);
    let parts = vec![Term::atom("trace_ts"), Term::Pid(pid), Term::atom("call"), call, Term::from(1_i64 << 60)];
    let mut bytes = Vec::new();
    frame::put_term(&mut bytes, &etf::encode(&Term::Tuple(parts)))?;
    Ok(bytes)
}

/// Writes records whose times interleave with those of the other logs.
fn generate(mut to: PipeWriter, log: u64, records: u64) -> io::Result<()> {
    let one = record(log)?;
    let mut batch = one.repeat(512);
    for first in (0..records).step_by(512) {
        let here = (records - first).min(512) as usize;
        for (n, record) in (first..).zip(batch.chunks_exact_mut(one.len()).take(here)) {
            if let Some(time) = record.last_chunk_mut::<8>() {
                *time = ((1 << 60) + n * LOGS + log).to_le_bytes();
            }
        }
        to.write_all(batch.get(..here * one.len()).unwrap_or_default())?;
    }
    Ok(())
}

/// The peak memory of this process, in KiB.
fn most() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Merges this many records and counts them.
fn merged(records: u64) -> io::Result<u64> {
    let mut sources = Vec::new();
    let mut pipes = Vec::new();
    for log in 0..LOGS {
        let (from, to) = io::pipe()?;
        sources.push(Source::open(Path::new(&format!("/proc/self/fd/{}", from.as_raw_fd())), false)?);
        pipes.push(from);
        thread::spawn(move || generate(to, log, records / LOGS));
    }
    drop(pipes);
    let (mut merge, mut count, mut order) = (Merge::new(sources), 0, 0);
    while let Some((log, event)) = merge.read()? {
        assert!(matches!(event, Event::Record { .. }) && log as u64 == order, "{event:?} of log {log}");
        (count, order) = (count + 1, (order + 1) % LOGS);
    }
    Ok(count)
}

fn main() -> io::Result<()> {
    let most_of_all = std::env::args().skip(1).find_map(|given| given.parse().ok()).unwrap_or(1_000_000_000);
    println!("{} bytes a record; before: {} KiB", record(0)?.len(), most());
    File::open("/proc/self/status")?; // without /proc there is nothing to measure
    for records in [10_000_000, most_of_all] {
        let (began, count) = (Instant::now(), merged(records)?);
        let seconds = began.elapsed().as_secs_f64();
        println!("{count} records: {} KiB at most; {:.1} million a second", most(), count as f64 / seconds / 1e6);
    }
    Ok(())
}
