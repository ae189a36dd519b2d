//! Every case of `tests/data/gold/match_spec.jsonl` and `tests/data/live/match_spec.jsonl`, answered by a real Erlang, by the
//! compiled programs and by the reference.

use inviso_match::{
    reference,
    test::{test_at, Bench, Mode, Tested, Untested},
};
use inviso_term::term::{Identifier, Term};
use num_bigint::BigInt;
use serde_json::Value as Json;

const CASES: &str = include_str!("../../../tests/data/gold/match_spec.jsonl");
const LIVE: &str = include_str!("../../../tests/data/live/match_spec.jsonl");

fn bench() -> Bench {
    Bench { me: pid("SELF"), names: vec![("known_name".into(), pid("P1"))], ..Bench::default() }
}

fn id(n: u64) -> Identifier {
    Identifier::new(n, "nonode@nohost", 0)
}

fn pid(name: &str) -> Term {
    Term::Pid(id(match name {
        "P1" => 1,
        "P2" => 2,
        "SELF" => 3,
        other => panic!("pid {other}"),
    }))
}

/// The bytes of base64.
fn bytes(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut made, mut bits, mut n) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let value = LETTERS.iter().position(|letter| *letter == byte).expect("base64");
        (bits, n) = (bits << 6 | value as u32, n + 6);
        if n >= 8 {
            n -= 8;
            made.push((bits >> n) as u8);
        }
    }
    made
}

fn terms(json: &Json) -> Vec<Term> {
    json.as_array().expect("an array").iter().map(term).collect()
}

/// A term in the encoding of the gold files.
fn term(json: &Json) -> Term {
    let object = match json {
        Json::Array(_) => return Term::List(terms(json)),
        Json::Number(n) => return Term::Int(n.to_string().parse().expect("an integer")),
        Json::Object(object) => object,
        other => panic!("{other}"),
    };
    let text = |key: &str| object[key].as_str().expect("text");
    let (tag, value) = object.iter().next().expect("a tag");
    match tag.as_str() {
        "a" => Term::atom(text("a")),
        "i" => Term::Int(text("i").parse::<BigInt>().expect("an integer")),
        "f" => Term::Float(value.as_f64().expect("a float")),
        "b" => Term::Bytes(bytes(text("b")).into()),
        "bits" | "n" => {
            let n = object["n"].as_u64().expect("bits");
            Term::BitString(bytes(text("bits")).into(), ((n - 1) % 8 + 1) as u8)
        }
        "il" | "tail" => Term::ImproperList(terms(&object["il"]), Box::new(term(&object["tail"]))),
        "t" => Term::Tuple(terms(value)),
        "m" => {
            Term::Map(value.as_array().expect("pairs").iter().map(|pair| (term(&pair[0]), term(&pair[1]))).collect())
        }
        "pid" => pid(text("pid")),
        "ref" => Term::Ref(id(text("ref")[1..].parse().expect("a number"))),
        "port" => Term::Port(id(text("port")[1..].parse().expect("a number"))),
        "fun" | "arity" => Term::Fun("m".into(), "f".into(), object["arity"].as_u64().expect("arity")),
        other => panic!("tag {other}"),
    }
}

/// The result in the form of the gold file.
fn shown(got: &Result<Tested, Untested>) -> String {
    match got {
        Ok(tested) => {
            let flags: Vec<_> = [("exception_trace", tested.exception_trace), ("return_trace", tested.return_trace)]
                .into_iter()
                .filter_map(|(name, is)| is.then_some(name))
                .collect();
            format!("ok {:?} {flags:?} {}", tested.result, tested.warnings.len())
        }
        Err(Untested::Spec(problems)) => {
            let all: Vec<_> =
                problems.iter().map(|p| format!("{:?} {}", p.severity, p.class.name()).to_lowercase()).collect();
            format!("error {all:?}")
        }
        Err(Untested::Subject) => format!("exception {:?}", Term::atom("badarg")),
    }
}

fn agrees(got: &Result<Tested, Untested>, result: &Json) -> bool {
    if let Some(errors) = result.get("error") {
        let all: Vec<_> = errors
            .as_array()
            .expect("errors")
            .iter()
            .map(|e| format!("{} {}", e["severity"].as_str().unwrap(), e["class"].as_str().unwrap()))
            .collect();
        return shown(got) == format!("error {all:?}");
    }
    if let Some(exception) = result.get("exception") {
        return shown(got) == format!("exception {:?}", term(exception));
    }
    let Ok(tested) = got else { return false };
    let mut flags = Vec::new();
    if tested.exception_trace {
        flags.push("exception_trace");
    }
    if tested.return_trace {
        flags.push("return_trace");
    }
    tested.result == term(&result["ok"])
        && result["flags"] == serde_json::json!(flags)
        && tested.warnings.len() as u64 == result["warnings"].as_u64().expect("warnings")
}

fn each(mut with: impl FnMut(&str, &Json, &Term, &Term, Mode)) -> usize {
    let mut n = 0;
    for line in CASES.lines().chain(LIVE.lines()) {
        let case: Json = serde_json::from_str(line).expect("json");
        let mode = if case["mode"] == "table" { Mode::Table } else { Mode::Trace };
        let (subject, spec) = (term(&case["subject"]), term(&case["spec"]));
        with(case["id"].as_str().expect("id"), &case["result"], &subject, &spec, mode);
        n += 1;
    }
    n
}

#[test]
fn every_case_is_answered_as_by_erlang() {
    let (bench, mut wrong) = (bench(), Vec::new());
    let n = each(|id, result, subject, spec, mode| {
        let got = test_at(&bench, subject, spec, mode);
        if !agrees(&got, result) {
            wrong.push(format!("{id}: {}\n    instead of {result}", shown(&got)));
        }
    });
    assert!(wrong.is_empty(), "{} of {n}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n > 2000);
}

#[test]
fn the_reference_answers_every_case_too() {
    let (bench, mut wrong) = (bench(), Vec::new());
    each(|id, result, subject, spec, mode| {
        let got = reference::test_at(&bench, subject, spec, mode);
        if !agrees(&got, result) {
            wrong.push(format!("{id}: {}\n    instead of {result}", shown(&got)));
        }
    });
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A test that can't fail is useless: a part of every expectation is changed.
#[test]
fn a_changed_expectation_is_noticed() {
    let bench = bench();
    each(|id, result, subject, spec, mode| {
        let got = test_at(&bench, subject, spec, mode);
        let mut changed = result.clone();
        if let Some(errors) = changed.get_mut("error").and_then(Json::as_array_mut) {
            errors.push(serde_json::json!({"severity": "error", "class": "bad_head"}));
        } else if let Some(exception) = changed.get_mut("exception") {
            *exception = serde_json::json!({"a": "system_limit"});
        } else {
            let mut other = changed.clone();
            other["flags"] = serde_json::json!(["another"]);
            assert!(!agrees(&got, &other), "{id}");
            changed["ok"] = serde_json::json!({"t": [changed["ok"], 1]});
        }
        assert!(!agrees(&got, &changed), "{id}");
    });
}

/// A specification that is kept can be set again unchanged.
#[test]
fn a_program_knows_its_specification() {
    use inviso_match::{Context, Program};
    each(|_, _, _, spec, mode| {
        let context = if mode == Mode::Table { Context::Table } else { Context::Call };
        if let Ok(program) = Program::compile(spec, context) {
            assert_eq!(format!("{:?}", program.spec()), format!("{spec:?}"));
        }
    });
}
