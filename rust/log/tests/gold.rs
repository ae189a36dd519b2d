//! Logs of a real Erlang node are read as that node read them. Logs written here are byte for byte the same as its own.

use inviso_log::{
    damage::What,
    file::{FileLog, Options},
    frame::Record,
    ip::{self, IpPort},
    names::Names,
    reader::{Event, Reader},
    set::SetReader,
    sink::Sink,
    wrap::{Limit, WrapLog},
};
use inviso_term::term::Term;
use num_bigint::BigInt;
use serde_json::Value as Json;
use std::{
    fs,
    io::Read,
    net::TcpStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

fn samples(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/gold/ports");
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut some: Vec<_> = all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(kind)).collect();
    some.sort();
    assert!(!some.is_empty());
    some
}

fn answer(sample: &Path) -> Json {
    serde_json::from_str(&fs::read_to_string(sample.join("terms.json")).unwrap()).unwrap()
}

/// A term in the samples' JSON: pids as printed, funs by arity.
fn json(term: &Term) -> Json {
    let all = |terms: &[Term]| Json::Array(terms.iter().map(json).collect());
    let field = |name: &str, value: Json| Json::Object([(name.to_owned(), value)].into_iter().collect());
    match term {
        Term::Int(n) => match i64::try_from(n) {
            Ok(n) if n.unsigned_abs() < 1 << 53 => n.into(),
            _ => field("i", n.to_string().into()),
        },
        Term::Float(value) => field("f", (*value).into()),
        Term::Atom(name) => field("a", (&**name).into()),
        Term::Str(_) | Term::Bytes(_) => field("b", base64(term.as_binary().unwrap().0).into()),
        Term::BitString(bytes, bits) => {
            let n = (bytes.len() - 1) * 8 + usize::from(*bits);
            serde_json::json!({"bits": base64(bytes), "n": n})
        }
        Term::Tuple(elements) => field("t", all(elements)),
        Term::List(elements) => all(elements),
        Term::ImproperList(elements, tail) => serde_json::json!({"il": all(elements), "tail": json(tail)}),
        Term::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.iter().collect();
            pairs.sort_by(|(a, _), (b, _)| inviso_term::order::exact(a, b));
            field("m", pairs.iter().map(|(key, value)| Json::Array(vec![json(key), json(value)])).collect())
        }
        Term::Pid(of) => field("pid", format!("<0.{}.{}>", of.id as u32, of.id >> 32).into()),
        Term::Fun(_, _, arity) => serde_json::json!({"fun": true, "arity": arity}),
        Term::Closure(closure) => serde_json::json!({"fun": true, "arity": closure.arity()}),
        other => panic!("{other}"),
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |chunk: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        let letters = (0..4).map(move |at| char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]));
        let keep = chunk.len() + 1;
        letters.take(keep).chain(std::iter::repeat_n('=', 4 - keep)).collect::<String>()
    };
    bytes.chunks(3).map(three).collect()
}

/// Large integers of the samples need a field of their own: they exceed the numbers of this JSON crate.
#[test]
fn terms_have_the_json_of_the_samples() {
    assert_eq!(json(&Term::Int(BigInt::from(1) << 64)).to_string(), r#"{"i":"18446744073709551616"}"#);
    assert_eq!(base64(b"a") + &base64(b"ab") + &base64(b"abc"), "YQ==YWI=YWJj");
}

/// The messages of `read`, and its end.
fn messages(mut read: impl FnMut(&mut Vec<Json>) -> Option<What>) -> (Vec<Json>, Option<What>) {
    let mut found = Vec::new();
    let damage = read(&mut found);
    (found, damage)
}

fn read_file(path: &Path) -> (Vec<Json>, Option<What>) {
    messages(|found| {
        let mut reader = Reader::open(path).unwrap();
        loop {
            match reader.read().unwrap()? {
                Event::Record { record, .. } => found.push(json(&record.message().unwrap())),
                Event::Damage(damage) => return Some(damage.what),
            }
        }
    })
}

/// The messages of the node's own reader, without its `end_of_trace`.
fn expected(answer: &Json) -> Vec<Json> {
    let mut terms = answer["terms"].as_array().unwrap().clone();
    if answer["exit"].is_null() || answer["exit"]["a"] == "normal" {
        assert_eq!(terms.pop().unwrap()["a"], "end_of_trace");
    }
    terms
}

fn payloads(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let records = inviso_log::records::Records::new(&bytes).map(|record| match record.unwrap() {
        (_, Record::Term(payload)) => Some(payload.to_vec()),
        (_, Record::Dropped(_)) => None,
    });
    records.flatten().collect()
}

#[test]
fn files_and_streams_are_read_as_the_node_read_them() {
    for (kind, name) in [("plain", "trace"), ("ip", "stream.bin")] {
        for sample in samples(kind) {
            assert_eq!(read_file(&sample.join(name)), (expected(&answer(&sample)), None), "{sample:?}");
        }
    }
}

#[test]
fn damage_is_reported_where_the_node_gave_up() {
    for sample in samples("synthetic") {
        let name = sample.file_name().unwrap().to_str().unwrap().to_owned();
        let damage = match &*name {
            "synthetic-bad-tag-first" => Some(What::Op(110)),
            "synthetic-no-payload" => Some(What::Cut(5)),
            "synthetic-short-payload" => Some(What::Cut(8)),
            _ => None,
        };
        assert_eq!(read_file(&sample.join("trace")), (expected(&answer(&sample)), damage), "{name}");
    }
}

#[test]
fn wrap_sets_are_read_in_the_nodes_order() {
    for sample in samples("wrap") {
        let answer = answer(&sample);
        let names = Names::new(&sample.join("trace"), answer["kind"]["suffix"].as_str().unwrap()).unwrap();
        let found = messages(|found| {
            let mut reader = SetReader::open(names.clone(), false).unwrap();
            loop {
                match reader.read().unwrap()? {
                    Event::Record { record, .. } => found.push(json(&record.message().unwrap())),
                    Event::Damage(damage) => return Some(damage.what),
                }
            }
        });
        assert_eq!(found, (expected(&answer), None), "{sample:?}");
        let order = names.present().unwrap().into_iter().map(|number| names.path(number));
        let order: Vec<_> = order.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(serde_json::json!(order), answer["read_order"]);
    }
}

#[test]
fn files_are_written_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    for sample in samples("plain") {
        for room in [0, 100, 64 << 10] {
            let mut log = FileLog::create(&path, Options { room, ..Options::default() }).unwrap();
            payloads(&sample.join("trace")).iter().for_each(|payload| log.term(payload).unwrap());
            log.close().unwrap();
            assert_eq!(fs::read(&path).unwrap(), fs::read(sample.join("trace")).unwrap());
        }
    }
}

#[test]
fn wrap_sets_are_written_byte_for_byte() {
    for sample in samples("wrap") {
        let folder = tempfile::tempdir().unwrap();
        let kind = &answer(&sample)["kind"];
        let number = |field: &str| kind[field].as_u64().unwrap();
        let suffix = kind["suffix"].as_str().unwrap();
        let here = Names::new(&folder.path().join("trace"), suffix).unwrap();
        let there = Names::new(&sample.join("trace"), suffix).unwrap();
        let limit = Limit::Bytes(number("wrap_size"));
        let mut log = WrapLog::create(here.clone(), limit, number("wrap_cnt") as u32, Instant::now()).unwrap();
        for file in there.present().unwrap() {
            payloads(&there.path(file)).iter().for_each(|payload| log.term(payload).unwrap());
        }
        log.close().unwrap();
        assert_eq!(here.present().unwrap(), there.present().unwrap());
        for file in there.present().unwrap() {
            assert_eq!(fs::read(here.path(file)).unwrap(), fs::read(there.path(file)).unwrap(), "{sample:?}");
        }
    }
}

#[test]
fn streams_are_sent_byte_for_byte() {
    for sample in samples("ip") {
        let answer = answer(&sample);
        let mut port = IpPort::local(0, answer["kind"]["que_size"].as_u64().unwrap() as usize).unwrap();
        let stream = sample.join("stream.bin");
        payloads(&stream).iter().for_each(|payload| port.term(payload).unwrap());
        // the node dropped them one by one
        let dropped = expected(&answer).iter().filter_map(|term| term["t"][1].as_u64()).sum::<u64>();
        (0..dropped).for_each(|_| port.term(&[106]).unwrap());
        let mut client = TcpStream::connect(port.address()).unwrap();
        assert_eq!(port.close_within(Duration::from_secs(10)).unwrap(), 0);
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, fs::read(&stream).unwrap(), "{sample:?}");
        assert!(ip::connect(port.address()).is_err());
    }
}
