//! The speed of conversion of a log to a table and to a Perfetto trace: calls with returns, timestamps and two arguments, from a
//! file.
//!
//! The bar is 10 million messages a second into columns, with values as text (`table/text`), in binary form or without values.

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use inviso_export::{
    export::{Export, Input, Take, Write},
    perfetto::Perfetto,
    pstats::Pstats,
    table::{Table, Values},
};
use inviso_log::{
    file::{FileLog, Form, Options},
    sink::Sink,
};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use std::{path::Path, time::Duration};

const PAIRS: u64 = 50_000;

/// `kinds` is the number of different first arguments.
fn write(path: &Path, form: Form, kinds: u64) {
    let mut log = FileLog::create(path, Options { form, ..Options::default() }).unwrap();
    let mut clock = 1_763_748_000_000_000_000_i64;
    for n in 0..PAIRS {
        let (module, function) =
            (Term::atom("shop.backend.database"), Term::atom(&format!("Row.method_{}", n * n % 13)));
        let pid = Term::Pid(Identifier::own(4 * (2 + n * 7 % 5)));
        let mut message = |tag: &str, parts: Vec<Term>| {
            clock += 300 + (n * 7919 % 3000) as i64;
            let head = [Term::atom("trace_ts"), pid.clone(), Term::atom(tag)];
            let message = head.into_iter().chain(parts).chain([Term::from(clock)]).collect();
            log.term(&etf::encode_versioned(&Term::Tuple(message))).unwrap();
        };
        let arguments = Term::List(vec![Term::from((n % kinds * 7919) as i64), Term::str("customers")]);
        message("call", vec![Term::Tuple(vec![module.clone(), function.clone(), arguments])]);
        message("return_from", vec![Term::Tuple(vec![module, function, Term::from(2)]), Term::atom("ok")]);
    }
    log.close().unwrap();
}

fn tables(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let (erlang, blocks) = (folder.path().join("erlang"), folder.path().join("blocks"));
    let different = folder.path().join("different");
    write(&erlang, Form::Erlang, 12);
    write(&blocks, Form::Blocks, 12);
    write(&different, Form::Erlang, PAIRS);
    let mut group = c.benchmark_group("table");
    group.throughput(Throughput::Elements(2 * PAIRS));
    for (name, path, values) in [
        ("none", &erlang, Values::None),
        ("binary", &erlang, Values::Binary),
        ("text", &erlang, Values::Text),
        ("text, arguments that never come again", &different, Values::Text),
        ("binary, blocks", &blocks, Values::Binary),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let (mut input, mut table, mut rows) = (Input::file(path).unwrap(), Table::new(values), 0);
                loop {
                    let more = input.read(&mut table, Table::is_full).unwrap();
                    rows += table.batch().map_or(0, |batch| batch.rows as u64);
                    if !more {
                        break;
                    }
                }
                assert_eq!(rows, 2 * PAIRS);
            });
        });
    }
    group.finish();
}

fn formats(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("erlang");
    write(&path, Form::Erlang, 12);
    let mut group = c.benchmark_group("format");
    group.throughput(Throughput::Elements(2 * PAIRS));
    let writer = |name: &str| -> Box<dyn Write> {
        match name {
            "perfetto" => Box::new(Perfetto::new(200)),
            _ => Box::new(Pstats::default()),
        }
    };
    for name in ["perfetto", "pstats"] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut export = Export::new(writer(name), Default::default(), false);
                export.dropped(0);
                let mut input = Input::file(&path).unwrap();
                while input.read(&mut export, |export| export.out.len() > 1 << 20).unwrap() {
                    export.out.clear();
                }
                while !export.end().unwrap() {}
                assert_eq!(export.summary.messages, 2 * PAIRS);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = exports;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2)).sample_size(20);
    targets = tables, formats
}
criterion_main!(exports);
