//! The cost of a trace point, beside the cost of its indispensable part.
//!
//! | bar | measured in |
//! | --- | --- |
//! | an untraced point: at most 2 x a relaxed load | `untraced` |
//! | a counted call: at most 3 x an epoch pin | `count` |
//! | 32 bytes with a time stamp into a ring: at most 1.6 x the time stamp | `record` |
//! | two threads that count: twice one | `count on two threads` |

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use crossbeam_epoch::Collector;
use inviso_core::{
    drain,
    host::{
        drain::{drain_borrowed, Losses},
        ring::{Pushed, Ring},
    },
    kinds, Class, Flags, Op, Options, Overflow, Point, Program, Session, Who,
};
use std::{
    hint::black_box,
    sync::{
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

/// A call of an empty traced function.
#[inline(always)]
fn call(point: &Point) {
    let _call = point.enter(|out| out.int(1));
}

fn traced(kind: u16, flags: Flags) -> (Program, Point, Arc<Session>) {
    let program = Program::new();
    let point = program.point("bench", "f", 1);
    let options = Options { ring_bytes: 1 << 20, overflow: Overflow::Overwrite, ..Options::default() };
    let session = program.session("bench", options).unwrap();
    program.flags(&session, Who::All(Class::Process), true, flags).unwrap();
    program.function(&session, &[&point], kind, Op::On).unwrap();
    (program, point, session)
}

fn untraced(c: &mut Criterion) {
    let mut group = c.benchmark_group("untraced");
    let word = AtomicU8::new(0);
    group.bench_function("relaxed load", |b| b.iter(|| black_box(&word).load(Relaxed)));
    let point = Program::new().point("bench", "f", 1);
    group.bench_function("point", |b| b.iter(|| call(black_box(&point))));
    group.finish();
}

fn count(c: &mut Criterion) {
    let mut group = c.benchmark_group("count");
    let local = Collector::new().register();
    group.bench_function("epoch pin", |b| b.iter(|| drop(black_box(local.pin()))));
    let (program, point, session) = traced(kinds::COUNT, Flags::NONE);
    let mut calls = 0;
    group.bench_function("point", |b| {
        b.iter_custom(|n| {
            calls += n;
            let begun = Instant::now();
            (0..n).for_each(|_| call(black_box(&point)));
            begun.elapsed()
        });
    });
    assert_eq!(program.count(&session, &point), Some(calls), "what is timed is counted");
    group.finish();
}

fn record(c: &mut Criterion) {
    let mut group = c.benchmark_group("record");
    let clock = quanta::Clock::new();
    group.bench_function("time stamp", |b| b.iter(|| black_box(clock.raw())));
    let mut pushed = 0;
    let (mut producer, ring) = Ring::split(1 << 20, Overflow::Overwrite);
    group.bench_function("time stamp and push", |b| {
        b.iter(|| {
            pushed += 1;
            producer.push(black_box([0, clock.raw(), 2, 3]), &[])
        });
    });
    assert_eq!(ring.head(), pushed, "what is timed is written");
    let flags = Flags::CALL | Flags::ARITY | Flags::MONOTONIC_TIMESTAMP;
    let (program, point, session) = traced(kinds::LOCAL, flags);
    let mut calls = 0;
    group.bench_function("point, 32 bytes", |b| {
        b.iter_custom(|n| {
            calls += n;
            let begun = Instant::now();
            (0..n).for_each(|_| call(black_box(&point)));
            begun.elapsed()
        });
    });
    let written: u64 = session.feeds().iter().map(|feed| feed.ring.head()).sum();
    assert_eq!(written, calls, "what is timed is written");
    drain(&session, usize::MAX, |_| ()).unwrap();
    program.flags(&session, Who::All(Class::Process), false, Flags::ARITY).unwrap();
    group.bench_function("point, with an argument", |b| b.iter(|| call(black_box(&point))));
    drop(program);
    group.finish();
}

/// The longest time in which one of `threads` threads makes `calls` counted calls.
fn calls_of_threads(threads: usize, point: &Point, calls: u64) -> Duration {
    let go = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    call(point);
                    while !go.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                    let begun = Instant::now();
                    (0..calls).for_each(|_| call(black_box(point)));
                    begun.elapsed()
                })
            })
            .collect();
        go.store(true, Relaxed);
        callers.into_iter().map(|caller| caller.join().unwrap()).max().unwrap_or_default()
    })
}

fn scaling(c: &mut Criterion) {
    let mut group = c.benchmark_group("count on threads");
    group.throughput(Throughput::Elements(1));
    for threads in [1, 2] {
        let (_program, point, _session) = traced(kinds::COUNT, Flags::NONE);
        group.bench_function(format!("{threads}"), |b| {
            b.iter_custom(|n| {
                calls_of_threads(threads, &point, n.max(100_000)).mul_f64(n as f64 / n.max(100_000) as f64)
            });
        });
    }
    group.finish();
}

/// Drains of records that threads wrote in turns.
fn read(c: &mut Criterion) {
    const RECORDS: usize = 40_000;
    let mut group = c.benchmark_group("drain");
    group.throughput(Throughput::Elements(RECORDS as u64));
    for (threads, turn) in [(1, RECORDS), (8, 1_000), (8, 1)] {
        let clock = quanta::Clock::new();
        let session = Session::new(1, 0, "", 0, Options::default());
        let (mut producers, rings): (Vec<_>, Vec<_>) =
            (0..threads).map(|_| Ring::split(4 << 20, Overflow::Drop)).unzip();
        rings.into_iter().for_each(|ring| assert!(session.add_ring(ring)));
        let mut write = || {
            for number in 0..RECORDS {
                assert_eq!(producers[number / turn % threads].push([0, clock.raw(), 2, 3], &[0; 32]), Pushed::Stored);
            }
        };
        group.bench_function(format!("{threads} threads, {turn} in turn"), |b| {
            b.iter_custom(|n| {
                (0..n)
                    .map(|_| {
                        write();
                        let begun = Instant::now();
                        let took =
                            drain_borrowed(&session, usize::MAX, Losses::Between, |record| _ = black_box(record));
                        assert_eq!(took, Ok(RECORDS));
                        begun.elapsed()
                    })
                    .sum()
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = points;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(30);
    targets = untraced, count, record, read, scaling
}
criterion_main!(points);
