//! The cost of a merge of eight logs: calls and their returns, with interleaved timestamps, records of about 100 bytes.
//!
//! | bar | measured in |
//! | --- | --- |
//! | plain logs into a plain one: at least 5 million records a second | `merge/plain` |
//! | block logs into blocks: at least 10 million | `merge/blocks` |
//!
//! `merge/walk` only reads the records in order. `merge/named` writes the nodes' names into pids. `merge/bare` is the baseline:
//! the same readers and writers copy the same bytes from file to file, log by log.

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use inviso_log::{
    file::{FileLog, Form, Options},
    frame::Record,
    merge::Merge,
    nodes::Nodes,
    reader::Event,
    sink::Sink,
    source::Source,
};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use std::{
    hint::black_box,
    path::{Path, PathBuf},
    time::Duration,
};

const LOGS: u64 = 8;

/// Records in a log.
const RECORDS: u64 = 100_000;

/// Bytes in a write.
const ROOM: usize = 256 << 10;

fn write(path: &Path, form: Form, log: u64) {
    let mut out = FileLog::create(path, Options { form, room: 1 << 20, ..Options::default() }).unwrap();
    let name = |n: u64| ["Session.get", "Pool.acquire", "encode", "Cursor.fetch", "to_json"][(n % 5) as usize];
    for n in 0..RECORDS {
        let (pid, function) = (Identifier::new(4 + n % 7, "nonode@nohost", 77 + log as u32), Term::atom(name(n / 2)));
        let at = 1_763_748_000_000_000 + (n * LOGS + log) as i64;
        let stamp = [at / 1_000_000_000_000, at / 1_000_000 % 1_000_000, at % 1_000_000].map(Term::from).to_vec();
        let last = if n % 2 == 0 { Term::List(vec![Term::from((n * 31 % 1000) as i64)]) } else { Term::from(1) };
        let mfa = Term::Tuple(vec![Term::atom("shop.database"), function, last]);
        let mut parts = vec![Term::atom("trace_ts"), Term::Pid(pid)];
        if n % 2 == 0 {
            parts.extend([Term::atom("call"), mfa]);
        } else {
            parts.extend([Term::atom("return_from"), mfa, Term::atom("ok")]);
        }
        parts.push(Term::Tuple(stamp));
        out.term(&etf::encode_versioned(&Term::Tuple(parts))).unwrap();
    }
    out.close().unwrap();
}

fn opened(paths: &[PathBuf]) -> Merge {
    Merge::new(paths.iter().map(|path| Source::open(path, false).unwrap()).collect())
}

fn walk(mut merge: Merge, mut take: impl FnMut(usize, Record<'_>)) {
    let mut n = 0;
    while let Some((log, event)) = merge.read().unwrap() {
        match event {
            Event::Record { record, .. } => take(log, record),
            Event::Damage(damage) => panic!("{damage}"),
        }
        n += 1;
    }
    assert_eq!(n, LOGS * RECORDS);
}

fn merge(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, log: u64| folder.path().join(format!("{name}{log}"));
    let logs = |name: &str, form| -> Vec<PathBuf> {
        (0..LOGS).for_each(|log| write(&path(name, log), form, log));
        (0..LOGS).map(|log| path(name, log)).collect()
    };
    let (plain, blocks) = (logs("plain", Form::Erlang), logs("blocks", Form::Blocks));
    let length = plain[0].metadata().unwrap().len() as f64 / RECORDS as f64;
    println!(
        "{length:.1} bytes a record, {:.1} in blocks",
        blocks[0].metadata().unwrap().len() as f64 / RECORDS as f64
    );
    let out = folder.path().join("out");
    let create = |form, room| FileLog::create(&out, Options { form, room, ..Options::default() }).unwrap();

    let mut group = c.benchmark_group("merge");
    group.throughput(Throughput::Elements(LOGS * RECORDS));
    group.bench_function("walk", |b| b.iter(|| walk(opened(&plain), |_, record| _ = black_box(record))));
    group.bench_function("walk blocks", |b| b.iter(|| walk(opened(&blocks), |_, record| _ = black_box(record))));
    group.bench_function("bare", |b| {
        b.iter(|| {
            let mut log = create(Form::Erlang, ROOM);
            for path in &plain {
                let mut source = Source::open(path, false).unwrap();
                while let Some(event) = source.read().unwrap() {
                    if let Event::Record { record, .. } = event {
                        log.copy(record).unwrap();
                    }
                }
            }
            log.close().unwrap();
        });
    });
    group.bench_function("plain", |b| {
        b.iter(|| {
            let mut log = create(Form::Erlang, ROOM);
            walk(opened(&plain), |_, record| log.copy(record).unwrap());
            log.close().unwrap();
        });
    });
    group.bench_function("named", |b| {
        b.iter(|| {
            let mut log = create(Form::Erlang, ROOM);
            let mut nodes = Nodes::new(["a@h", "b@h", "c@h", "d@h", "e@h", "f@h", "g@h", "h@h"]);
            let mut named = Vec::new();
            walk(opened(&plain), |at, record| {
                let Record::Term(payload) = record else { return };
                nodes.learn(at, payload);
                named.clear();
                nodes.put(at, payload, &mut named);
                log.copy(Record::Term(&named)).unwrap();
            });
            log.close().unwrap();
        });
    });
    group.bench_function("blocks", |b| {
        b.iter(|| {
            let mut log = create(Form::Blocks, 1 << 20);
            walk(opened(&blocks), |_, record| log.copy(record).unwrap());
            log.close().unwrap();
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2)).sample_size(10);
    targets = merge
}
criterion_main!(benches);
