//! The cost of writing and reading a log of calls and returns, with timestamps and two arguments.
//!
//! | bar | measured in |
//! | --- | --- |
//! | a walk over at least 5 million records a second | `read/records`, `read/reader`, `read/blocks` |
//! | a call and its return take at most 40 bytes in blocks | printed, and checked |
//!
//! `read/messages` also decodes each record.

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use inviso_log::{
    file::{FileLog, Form, Options},
    ip::IpPort,
    names::Names,
    reader::{Event, Reader},
    records::Records,
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

/// Pairs of a call and its return, like those of a program that calls a dozen functions in four processes.
const PAIRS: u64 = 50_000;

fn messages() -> Vec<Vec<u8>> {
    const NAMES: [&str; 12] = [
        "Session.get",
        "Session.put",
        "connect",
        "Pool.acquire",
        "Pool.release",
        "encode",
        "decode",
        "Cursor.execute",
        "Cursor.fetch",
        "Row.__getitem__",
        "to_json",
        "handle",
    ];
    let mut clock = 1_763_748_000_000_000_000_i64;
    let mut state = 1_u64;
    let mut random = move |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut all = Vec::new();
    for _ in 0..PAIRS {
        let name = NAMES[random(12) as usize];
        let (module, function) = (Term::atom("shop.backend.database"), Term::atom(name));
        let pid = Term::Pid(Identifier::own(2 + random(4)));
        let mut message = |tag: &str, parts: Vec<Term>| {
            clock += 300 + random(3000) as i64;
            let head = [Term::atom("trace_ts"), pid.clone(), Term::atom(tag)];
            let message = head.into_iter().chain(parts).chain([Term::from(clock)]).collect();
            all.push(etf::encode_versioned(&Term::Tuple(message)));
        };
        let arguments = Term::List(vec![Term::from(random_id(name)), Term::str("customers")]);
        message("call", vec![Term::Tuple(vec![module.clone(), function.clone(), arguments])]);
        let arity = Term::Tuple(vec![module, function, Term::from(2)]);
        message("return_from", vec![arity, Term::atom("ok")]);
    }
    all
}

/// An argument that depends on the function, so that some repeat.
fn random_id(name: &str) -> i64 {
    name.len() as i64 * 7919
}

fn write(path: &Path, form: Form, messages: &[Vec<u8>]) {
    let mut log = FileLog::create(path, Options { form, ..Options::default() }).unwrap();
    messages.iter().for_each(|message| log.term(message).unwrap());
    log.close().unwrap();
}

fn count(path: &Path, mut each: impl FnMut(Event<'_>)) {
    let mut reader = Reader::open(path).unwrap();
    let mut n = 0;
    while let Some(event) = reader.read().unwrap() {
        each(event);
        n += 1;
    }
    assert_eq!(n, 2 * PAIRS);
}

fn read(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let messages = messages();
    let (erlang, blocks) = (folder.path().join("erlang"), folder.path().join("blocks"));
    write(&erlang, Form::Erlang, &messages);
    write(&blocks, Form::Blocks, &messages);
    let bytes = fs::read(&erlang).unwrap();
    let per_pair = |path: &Path| path.metadata().unwrap().len() as f64 / PAIRS as f64;
    println!("a call and its return: {:.1} bytes, {:.1} in blocks", per_pair(&erlang), per_pair(&blocks));
    assert!(per_pair(&blocks) < 40.0);

    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Elements(2 * PAIRS));
    group.bench_function("records", |b| {
        b.iter(|| {
            let n = Records::new(&bytes).filter(|record| black_box(record).is_ok()).count();
            assert_eq!(n as u64, 2 * PAIRS);
        });
    });
    group.bench_function("reader", |b| b.iter(|| count(&erlang, |event| _ = black_box(event))));
    group.bench_function("blocks", |b| b.iter(|| count(&blocks, |event| _ = black_box(event))));
    group.bench_function("messages", |b| {
        b.iter(|| {
            count(&erlang, |event| match event {
                Event::Record { record, .. } => drop(black_box(record.message().unwrap())),
                Event::Damage(damage) => panic!("{damage}"),
            });
        });
    });
    group.finish();
}

fn written(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let messages = messages();
    let mut group = c.benchmark_group("write");
    group.throughput(Throughput::Elements(2 * PAIRS));
    group.bench_function("erlang", |b| b.iter(|| write(&path, Form::Erlang, &messages)));
    group.bench_function("blocks", |b| b.iter(|| write(&path, Form::Blocks, &messages)));
    let names = Names::new(&path, ".log").unwrap();
    group.bench_function("wrap", |b| {
        b.iter(|| {
            let mut log = WrapLog::create(names.clone(), Limit::default(), 8, Instant::now()).unwrap();
            messages.iter().for_each(|message| log.term(message).unwrap());
            log.close().unwrap();
        });
    });
    // no client: the cost of a dropped message
    let mut port = IpPort::local(0, 50).unwrap();
    group.bench_function("ip, full", |b| b.iter(|| messages.iter().for_each(|message| port.term(message).unwrap())));
    group.finish();
}

criterion_group! {
    name = records;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = read, written
}
criterion_main!(records);
