//! Whole exports: of a real node's logs, of any bytes, in both forms of a log, and of more than fits in memory.

use inviso_export::{
    analysis::{self, Analysis},
    chrome::Chrome,
    collapsed::Collapsed,
    event::{Event, What},
    export::{Export, Input, Take, Write},
    perfetto::Perfetto,
    pstats::Pstats,
    scan::Scan,
    speedscope::Speedscope,
    table::{Batch, Data, Table, Values},
    text,
};
use inviso_log::{
    file::{FileLog, Form, Options},
    sink::Sink,
};
use inviso_term::{
    etf,
    term::{Identifier, Term},
};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn writers(temporary: &Path) -> Vec<Box<dyn Write>> {
    vec![
        Box::new(Perfetto::new(100)),
        Box::new(Chrome::new(100)),
        Box::new(Speedscope::new(temporary.join("events"))),
        Box::new(Collapsed::default()),
        Box::new(Pstats::default()),
    ]
}

fn exported(writer: Box<dyn Write>, erlang: bool, give: impl FnOnce(&mut Export)) -> Export {
    let mut export = Export::new(writer, Default::default(), erlang);
    give(&mut export);
    while !export.end().unwrap() {}
    export
}

fn message(tag: &str, parts: Vec<Term>, at: i64) -> Vec<u8> {
    let head = vec![Term::atom("trace_ts"), Term::Pid(Identifier::own(4)), Term::atom(tag)];
    etf::encode_versioned(&Term::Tuple([head, parts, vec![Term::from(at)]].concat()))
}

fn function(name: &str) -> Term {
    Term::Tuple(vec![Term::atom("shop"), Term::atom(name), Term::from(1)])
}

/// The text of a row in a column of names or of bytes.
fn text_of(batch: &Batch, column: usize, row: usize) -> String {
    let (ends, data, at) = match &batch.columns[column].data {
        Data::Names(codes, names) => (&names.ends[..], &names.data, codes[row] as usize),
        Data::Bytes(ends, data) => (&ends[..], data, row),
        _ => panic!("no text"),
    };
    String::from_utf8(data[ends[at] as usize..ends[at + 1] as usize].to_vec()).unwrap()
}

/// The texts of a column of names or of bytes.
fn texts(table: &mut Table, column: usize) -> Vec<String> {
    let batch = table.batch();
    batch.iter().flat_map(|batch| (0..batch.rows).map(|row| text_of(batch, column, row))).collect()
}

#[test]
fn logs_of_a_real_node_are_exported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/gold/ports");
    let temporary = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for sample in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = sample.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("synthetic") {
            continue;
        }
        let answer: Json = serde_json::from_str(&fs::read_to_string(sample.join("terms.json")).unwrap()).unwrap();
        let terms: Vec<&Json> =
            answer["terms"].as_array().unwrap().iter().filter(|term| term.get("t").is_some()).collect();
        let tags: Vec<&str> = terms.iter().map(|term| term["t"][0]["a"].as_str().unwrap()).collect();
        let files: Vec<PathBuf> =
            answer["read_order"].as_array().unwrap().iter().map(|file| sample.join(file.as_str().unwrap())).collect();
        let mut table = Table::new(Values::Text);
        for file in &files {
            assert!(!Input::file(file).unwrap().read(&mut table, |_| false).unwrap());
        }
        let dropped = tags.iter().filter(|tag| **tag == "drop").count() as u64;
        assert_eq!(table.summary.messages + dropped, tags.len() as u64, "{name}");
        assert_eq!((table.summary.unknown, table.summary.damaged), (0, 0), "{name}");
        // the tags and tracees of Erlang's own reader
        let kinds: Vec<&str> = tags
            .iter()
            .map(|tag| match *tag {
                "trace" | "trace_ts" => "trace",
                other => other,
            })
            .collect();
        let mut again = Table::new(Values::Text);
        for file in &files {
            Input::file(file).unwrap().read(&mut again, |_| false).unwrap();
        }
        assert_eq!(texts(&mut again, 3), kinds, "{name}");
        let pids = texts(&mut table, 5);
        for (term, pid) in terms.iter().zip(pids) {
            if term["t"][0]["a"].as_str().unwrap().starts_with("trace") {
                assert_eq!(term["t"][1]["pid"].as_str().unwrap(), pid, "{name}");
            }
        }
        for writer in writers(temporary.path()) {
            let export = exported(writer, true, |export| {
                for file in &files {
                    assert!(!Input::file(file).unwrap().read(export, |_| false).unwrap());
                }
            });
            assert_eq!((export.summary.messages, export.summary.unknown), (table.summary.messages, 0), "{name}");
        }
        seen += 1;
    }
    assert!(seen >= 10);
}

#[test]
fn both_forms_of_a_log_give_the_same_export() {
    let folder = tempfile::tempdir().unwrap();
    let write = |form: Form| {
        let path = folder.path().join(format!("{form:?}"));
        let mut log = FileLog::create(&path, Options { form, ..Options::default() }).unwrap();
        for n in 0..10_000 {
            log.term(&message("call", vec![function("order")], 10 * n)).unwrap();
            log.term(&message("return_from", vec![function("order"), Term::from(n)], 10 * n + 3)).unwrap();
        }
        log.close().unwrap();
        path
    };
    let (erlang, blocks) = (write(Form::Erlang), write(Form::Blocks));
    assert!(erlang.metadata().unwrap().len() > 10 * blocks.metadata().unwrap().len());
    let out = |path: &Path| {
        let give = |export: &mut Export| assert!(!Input::file(path).unwrap().read(export, |_| false).unwrap());
        exported(Box::new(Collapsed::default()), false, give).out
    };
    assert_eq!(out(&erlang), b"shop:order/1 30000\n");
    assert_eq!(out(&erlang), out(&blocks));
}

#[test]
fn a_profile_that_does_not_fit_in_memory_waits_in_a_file() {
    const CALLS: i64 = 400_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let mut export = Export::new(Box::new(Speedscope::new(path.clone())), Default::default(), false);
    let mut waited = false;
    for n in 0..CALLS {
        export.term(&message("call", vec![function("order")], 10 * n));
        export.term(&message("return_from", vec![function("order"), Term::from(1)], 10 * n + 3));
        waited |= path.exists();
    }
    assert!(waited && export.out.is_empty());
    let mut out = Vec::new();
    while !export.end().unwrap() {
        assert!(export.out.len() < 32 << 20);
        out.append(&mut export.out);
    }
    out.append(&mut export.out);
    assert!(!path.exists());
    let read: Json = serde_json::from_slice(&out).unwrap();
    let events = read["profiles"][0]["events"].as_array().unwrap();
    assert_eq!(events.len() as i64, 2 * CALLS);
    for (n, two) in events.chunks(2).enumerate() {
        assert_eq!((two[0]["type"].as_str(), two[0]["at"].as_i64()), (Some("O"), Some(10 * n as i64)));
        assert_eq!((two[1]["type"].as_str(), two[1]["at"].as_i64()), (Some("C"), Some(10 * n as i64 + 3)));
    }
}

#[test]
fn text_is_as_in_python() {
    for (term, shown) in [
        (Term::from(-70), "-70"),
        (Term::from(i64::MIN), "-9223372036854775808"),
        (Term::Float(1.5), "1.5"),
        (Term::atom("undefined"), "None"),
        (Term::atom("it's"), "\"it's\""),
        (Term::str("a\nb"), "'a\\nb'"),
        (Term::Bytes(b"\xff'".as_slice().into()), "b\"\\xff'\""),
        (Term::Bytes(b"".as_slice().into()), "b''"),
        (Term::Tuple(vec![]), "()"),
        (Term::Tuple(vec![Term::from(1)]), "(1,)"),
        (Term::List(vec![Term::from(1), Term::List(vec![])]), "[1, []]"),
        (Term::ImproperList(vec![Term::from(1)], Box::new(Term::from(2))), "[1 | 2]"),
        (Term::Map(vec![(Term::from(1), Term::from(2))]), "{1: 2}"),
        (Term::Set(vec![Term::from(1)]), "{1}"),
        (Term::Set(vec![]), "frozenset()"),
        (Term::Cut("items".into()), "<cut: items>"),
        (Term::Opaque("a.B".into(), 255, None), "<a.B at 0xff>"),
        (Term::Opaque("a.B".into(), u64::MAX, Some("text".into())), "<a.B text>"),
        (Term::Pid(Identifier::own(4 * 7)), "<0.28.0>"),
        (Term::Port(Identifier::own(7)), "#Port<0.7>"),
        (Term::Tuple(vec![Term::atom("$inviso.set"), Term::from(1)]), "('$$inviso.set', 1)"),
    ] {
        let mut text = String::new();
        text::show(&etf::encode(&term), 1000, &mut text);
        assert_eq!(text, shown);
    }
}

fn any_term() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Term::from),
        any::<f64>().prop_map(Term::Float),
        "[a-z$.]{0,6}".prop_map(|name| Term::atom(&name)),
        ".{0,6}".prop_map(|text| Term::str(&text)),
        (0..9u64).prop_map(|id| Term::Pid(Identifier::own(id))),
        Just(Term::atom("call")),
        Just(Term::atom("trace_ts")),
        Just(function("f")),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        let many = prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            many.clone().prop_map(Term::Tuple),
            many.clone().prop_map(Term::List),
            many.clone().prop_map(Term::Set),
            (prop::collection::vec(inner.clone(), 1..3), 0..9i64)
                .prop_map(|(elements, tail)| Term::ImproperList(elements, Box::new(Term::from(tail)))),
        ]
    })
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop::sample::select(vec![
        "call",
        "return_from",
        "exception_from",
        "return_to",
        "send",
        "receive",
        "spawn",
        "spawned",
        "exit",
        "in",
        "out",
        "link",
        "open",
        "closed",
        "gc_minor_start",
        "register",
    ]);
    let part = prop_oneof![any_term(), Just(function("f")), Just(function("g"))];
    (tag, prop::collection::vec(part, 0..5), any::<i64>()).prop_map(|(tag, parts, at)| message(tag, parts, at))
}

proptest! {
    #[test]
    fn every_term_is_skipped_whole(term in any_term()) {
        let bytes = etf::encode(&term);
        let mut scan = Scan(&bytes);
        prop_assert_eq!(scan.term(), Some(&bytes[..]));
        prop_assert!(scan.0.is_empty());
    }

    #[test]
    fn any_bytes_are_exported_or_refused(mut bytes in any_message(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut text = String::new();
        text::show(&bytes[1..], 50, &mut text);
        prop_assert!(text.len() < 200);
        if let Some(Event { what: What::Term(term), .. }) = Event::parse(&bytes) {
            prop_assert!(term.len() <= bytes.len());
        }
        let temporary = std::env::temp_dir();
        for writer in writers(&temporary) {
            exported(writer, false, |export| {
                export.term(&bytes);
                export.dropped(3);
                export.damage("none");
                export.term(&bytes);
            });
        }
        let mut table = Table::new(Values::Text);
        table.term(&bytes);
        prop_assert_eq!(table.batch().map(|batch| batch.columns.len()), Some(19));
        for name in ["calls", "messages", "processes", "functions", "steps", "gc", "losses", "profile", "path", "blockers", "depths"] {
            let mut made = Analysis::new(name, Default::default(), analysis::Options::default()).unwrap();
            made.term(&bytes);
            made.end();
            let columns = made.fields().len();
            prop_assert!(made.batch().is_none_or(|batch| batch.columns.len() == columns));
        }
    }

    #[test]
    fn each_row_has_its_own_names_and_values(
        rows in prop::collection::vec((0..40u64, "[a-c]{1,3}", any_term()), 0..60),
        turns in 1..20usize,
        every in 1..5usize,
    ) {
        // 4 modules with long and short names, pids of several nodes, values that repeat and values that do not
        let pid = |n: u64| match n % 3 {
            0 => Term::Pid(Identifier::own(n)),
            _ => Term::Pid(Identifier { node: format!("node{}@{}", n % 3, "host".repeat(n as usize % 5)).into(), ..Identifier::own(n) }),
        };
        let module = |n: u64| "shop.backend.".repeat(n as usize % 4 + 1);
        let mut table = Table::new(Values::Text);
        for turn in 0..turns {
            for (n, name, value) in &rows {
                let value = if n % 2 == 0 { value.clone() } else { Term::from((turn as u64 * n) as i64) };
                let of = Term::Tuple(vec![Term::atom(&module(*n)), Term::atom(name), Term::from(1)]);
                table.term(&etf::encode(&Term::Tuple(vec![Term::atom("trace"), pid(*n), Term::atom("return_from"), of, value])));
            }
            let Some(batch) = (turn % every == 0).then(|| table.batch()).flatten() else { continue };
            for row in 0..batch.rows {
                let (n, name, value) = &rows[row % rows.len()];
                let turn = turn + 1 - batch.rows / rows.len() + row / rows.len();
                let value = if n % 2 == 0 { value.clone() } else { Term::from((turn as u64 * n) as i64) };
                let mut shown = String::new();
                text::show(&etf::encode(&value), usize::MAX / 2, &mut shown);
                let answer: Vec<_> = [5, 6, 7, 11].map(|column| text_of(&batch, column, row)).into();
                prop_assert_eq!(answer, [text::who(&etf::encode(&pid(*n))), module(*n), name.clone(), shown]);
            }
        }
    }

    #[test]
    fn json_is_json_and_nests(messages in prop::collection::vec(any_message(), 0..30)) {
        let temporary = std::env::temp_dir();
        let give = |export: &mut Export| messages.iter().for_each(|message| export.term(message));
        let chrome = exported(Box::new(Chrome::new(50)), false, give);
        let read: Json = serde_json::from_slice(&chrome.out).unwrap();
        let mut open: Vec<(u64, String)> = Vec::new();
        for event in read["traceEvents"].as_array().unwrap() {
            let (lane, name) = (event["tid"].as_u64().unwrap(), event["name"].as_str().unwrap_or_default().to_owned());
            match event["ph"].as_str().unwrap() {
                "B" => open.push((lane, name)),
                "E" => {
                    let last = open.iter().rposition(|(other, _)| *other == lane);
                    prop_assert_eq!(last.map(|last| open.remove(last).1), Some(name));
                }
                _ => {}
            }
        }
        let speedscope = exported(Box::new(Speedscope::new(temporary.join("unused"))), false, give);
        let read: Json = serde_json::from_slice(&speedscope.out).unwrap();
        for profile in read["profiles"].as_array().unwrap() {
            let mut open = Vec::new();
            let mut last = i128::MIN;
            for event in profile["events"].as_array().unwrap() {
                let at: i128 = event["at"].to_string().parse().unwrap_or(i128::MAX);
                prop_assert!(at >= last);
                last = at;
                if event["type"] == "O" {
                    open.push(event["frame"].clone());
                } else {
                    prop_assert_eq!(open.pop(), Some(event["frame"].clone()));
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
