//! The cost of a program, without the cost of fetching its arguments.
//!
//! | bar | measured in |
//! | --- | --- |
//! | a specification that rejects an integer: well below 25 ns | `reject` |
//! | 20 clauses that all fail: below 150 ns | `reject` |
//! | 100 clauses compiled: below 1 ms | `compile` |

use criterion::{criterion_group, criterion_main, Criterion};
use inviso_match::{
    host::Refused,
    view::{Look, View},
    Context, Host, Outcome, Program,
};
use inviso_term::{
    etf::Encoder,
    term::{Identifier, Term},
};
use num_bigint::BigInt;
use std::hint::black_box;

/// A value that is nearly free to inspect, like a live one.
#[derive(Clone, Copy, Debug)]
enum Live {
    Int(i64),
    Name(&'static str),
}

impl View<'static> for Live {
    #[inline]
    fn look(self) -> Look<'static> {
        match self {
            Live::Int(n) => Look::Int(n),
            Live::Name(name) => Look::Atom(name),
        }
    }
    fn is(self, _: Self) -> bool {
        false
    }
    fn big(self) -> BigInt {
        BigInt::ZERO
    }
    fn element(self, _: usize) -> Option<Self> {
        None
    }
    fn tail(self) -> Option<Self> {
        None
    }
    fn pair(self, _: &mut usize) -> Option<(Self, Self)> {
        None
    }
    fn member(self, _: &mut usize) -> Option<Self> {
        None
    }
    fn attribute(self, _: &str) -> Option<Self> {
        None
    }
    fn is_instance(self, _: &str) -> bool {
        false
    }
    fn to_term(self) -> Term {
        match self {
            Live::Int(n) => Term::from(n),
            Live::Name(name) => Term::atom(name),
        }
    }
}

struct Call([Live; 2]);

impl Host<'static> for Call {
    type View = Live;
    #[inline]
    fn count(&self) -> usize {
        2
    }
    #[inline]
    fn argument(&self, n: usize) -> Option<Live> {
        self.0.get(n).copied()
    }
    fn named(&self, _: &str) -> Option<Live> {
        None
    }
    fn me(&self) -> Term {
        Term::Pid(Identifier::new(1, "nonode@nohost", 0))
    }
    fn node(&self) -> Term {
        Term::atom("nonode@nohost")
    }
    fn caller(&mut self) -> Term {
        Term::atom("undefined")
    }
    fn caller_line(&mut self) -> Term {
        Term::atom("undefined")
    }
    fn current_stacktrace(&mut self, _: Option<usize>) -> Term {
        Term::List(Vec::new())
    }
    fn display(&mut self, _: &Term) {}
    fn process_dump(&mut self) -> Term {
        Term::List(Vec::new())
    }
    fn control_word(&mut self) -> u64 {
        0
    }
    fn set_control_word(&mut self, _: u64) -> u64 {
        0
    }
    fn silent(&mut self, _: bool) {}
    fn switch(&mut self, _: Option<&Term>, _: &Term, _: bool) -> Result<(), Refused> {
        Ok(())
    }
    fn trace(&mut self, _: Option<&Term>, _: &Term, _: &Term) -> Result<bool, Refused> {
        Ok(false)
    }
    fn is_seq_trace(&mut self) -> bool {
        false
    }
    fn seq_token(&mut self) -> Term {
        Term::List(Vec::new())
    }
    fn set_seq_token(&mut self, _: &Term, _: &Term) -> Result<Term, Refused> {
        Err(Refused)
    }
}

fn tuple(parts: impl IntoIterator<Item = Term>) -> Term {
    Term::Tuple(parts.into_iter().collect())
}

fn list(parts: impl IntoIterator<Item = Term>) -> Term {
    Term::List(parts.into_iter().collect())
}

/// `(["$1", "_"], [(">", "$1", n)], body)`
fn above(n: i64, body: Term) -> Term {
    let head = list([Term::str("$1"), Term::str("_")]);
    tuple([head, list([tuple([Term::str(">"), Term::str("$1"), Term::from(n)])]), body])
}

/// `("message", {{"$1", "here", "$2"}})`
fn message() -> Term {
    let made = tuple([tuple([Term::str("$1"), Term::str("here"), Term::str("$1")])]);
    list([tuple([Term::str("message"), made])])
}

fn compiled(spec: Term) -> Program {
    Program::compile(&spec, Context::Call).expect("well formed")
}

fn is_match<V>(outcome: &Outcome<'_, V>) -> bool {
    matches!(outcome, Outcome::Match { .. })
}

fn reject(c: &mut Criterion) {
    let mut group = c.benchmark_group("reject");
    let mut call = Call([Live::Int(10), Live::Name("x")]);
    let empty = || list([]);
    group.bench_function("fetching an argument", |b| {
        b.iter(|| matches!(black_box(&call).argument(0).map(View::look), Some(Look::Int(n)) if n > 10));
    });
    let one = compiled(list([above(10, empty())]));
    assert!(!is_match(&one.run(&mut call)));
    group.bench_function("one clause, an integer", |b| b.iter(|| is_match(&black_box(&one).run(black_box(&mut call)))));
    let twenty = compiled(list((10..30).map(|n| above(n, empty()))));
    assert!(!is_match(&twenty.run(&mut call)));
    group.bench_function("20 clauses", |b| b.iter(|| is_match(&black_box(&twenty).run(black_box(&mut call)))));
    let sum = tuple([Term::str("+"), Term::str("$1"), Term::from(1)]);
    let guard = tuple([Term::str(">"), sum, Term::from(11)]);
    let computed = compiled(list([tuple([list([Term::str("$1"), Term::str("_")]), list([guard]), empty()])]));
    assert!(!is_match(&computed.run(&mut call)));
    group.bench_function("one clause, a sum", |b| b.iter(|| is_match(&black_box(&computed).run(black_box(&mut call)))));
    group.finish();
}

fn accept(c: &mut Criterion) {
    let mut group = c.benchmark_group("accept");
    let mut call = Call([Live::Int(11), Live::Name("x")]);
    let plain = compiled(list([above(10, list([]))]));
    assert!(is_match(&plain.run(&mut call)));
    group.bench_function("no body", |b| b.iter(|| is_match(&black_box(&plain).run(black_box(&mut call)))));
    let with_message = compiled(list([above(10, message())]));
    let mut room = [0; 256];
    group.bench_function("a message of three, written", |b| {
        b.iter(|| {
            let mut out = Encoder::new(&mut room);
            if let Outcome::Match { message: inviso_match::Message::Value(value), .. } =
                with_message.run(black_box(&mut call))
            {
                let mut view = |view: Live, out: &mut Encoder<'_>| match view {
                    Live::Int(n) => out.int(n),
                    Live::Name(name) => out.atom(name),
                };
                value.write(&mut out, &mut view).expect("room");
            }
            assert!(out.len() > 10);
        });
    });
    group.finish();
}

fn compile(c: &mut Criterion) {
    let spec = list((0..100).map(|n| above(n, message())));
    c.bench_function("compile/100 clauses", |b| b.iter(|| Program::compile(black_box(&spec), Context::Call)));
}

criterion_group!(benches, reject, accept, compile);
criterion_main!(benches);
