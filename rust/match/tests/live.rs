//! Live objects: any form of text, attributes, and objects that contain themselves.

use inviso_match::{
    host::Refused,
    view::{Binary, Look, View},
    Context, Host, Message, Outcome, Program,
};
use inviso_term::term::Term;
use num_bigint::BigInt;

/// Objects in an arena, so that they can contain each other.
#[derive(Debug)]
enum Object {
    Int(i64),
    List(Vec<usize>),
    Tuple(Vec<usize>),
    Map(Vec<(usize, usize)>),
    Latin1(&'static [u8]),
    Ucs2(Vec<u16>),
    Ucs4(Vec<u32>),
    Instance(Vec<(&'static str, usize)>),
}

#[derive(Clone, Copy, Debug)]
struct Live<'a>(&'a [Object], usize);

impl<'a> View<'a> for Live<'a> {
    fn look(self) -> Look<'a> {
        match &self.0[self.1] {
            Object::Int(n) => Look::Int(*n),
            Object::List(parts) => Look::List(parts.len()),
            Object::Tuple(parts) => Look::Tuple(parts.len()),
            Object::Map(pairs) => Look::Map(pairs.len()),
            Object::Latin1(text) => Look::Binary(Binary::Latin1(text)),
            Object::Ucs2(text) => Look::Binary(Binary::Ucs2(text)),
            Object::Ucs4(text) => Look::Binary(Binary::Ucs4(text)),
            Object::Instance(_) => Look::Other,
        }
    }
    fn is(self, other: Self) -> bool {
        self.1 == other.1
    }
    fn big(self) -> BigInt {
        BigInt::ZERO
    }
    fn element(self, n: usize) -> Option<Self> {
        match &self.0[self.1] {
            Object::List(parts) | Object::Tuple(parts) => parts.get(n).map(|at| Live(self.0, *at)),
            _ => None,
        }
    }
    fn tail(self) -> Option<Self> {
        None
    }
    fn pair(self, at: &mut usize) -> Option<(Self, Self)> {
        let Object::Map(pairs) = &self.0[self.1] else { return None };
        let (key, value) = pairs.get(*at)?;
        *at += 1;
        Some((Live(self.0, *key), Live(self.0, *value)))
    }
    fn member(self, _: &mut usize) -> Option<Self> {
        None
    }
    fn attribute(self, name: &str) -> Option<Self> {
        let Object::Instance(fields) = &self.0[self.1] else { return None };
        fields.iter().find(|field| field.0 == name).map(|field| Live(self.0, field.1))
    }
    fn is_instance(self, name: &str) -> bool {
        matches!(&self.0[self.1], Object::Instance(_)) && name == "app.Order"
    }
    fn to_term(self) -> Term {
        match self.look() {
            Look::Int(n) => Term::from(n),
            Look::Binary(text) => Term::str(&String::from_utf8(text.bytes().collect()).expect("UTF-8")),
            _ => Term::Opaque("object".into(), self.1 as u64, None),
        }
    }
}

struct Call<'a>(&'a [Object], Vec<usize>);

impl<'a> Host<'a> for Call<'a> {
    type View = Live<'a>;
    fn count(&self) -> usize {
        self.1.len()
    }
    fn argument(&self, n: usize) -> Option<Live<'a>> {
        self.1.get(n).map(|at| Live(self.0, *at))
    }
    fn named(&self, name: &str) -> Option<Live<'a>> {
        (name == "order").then(|| Live(self.0, self.1[0]))
    }
    fn me(&self) -> Term {
        Term::atom("me")
    }
    fn node(&self) -> Term {
        Term::atom("here")
    }
    fn caller(&mut self) -> Term {
        Term::Tuple(vec![Term::atom("m"), Term::atom("f"), Term::from(2)])
    }
    fn caller_line(&mut self) -> Term {
        self.caller()
    }
    fn current_stacktrace(&mut self, _: Option<usize>) -> Term {
        Term::List(vec![self.caller()])
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
    fn switch(&mut self, _: Option<&Term>, flag: &Term, _: bool) -> Result<(), Refused> {
        assert!(matches!(flag, Term::Atom(_)), "text in the place of a flag is an atom");
        Ok(())
    }
    fn trace(&mut self, _: Option<&Term>, _: &Term, _: &Term) -> Result<bool, Refused> {
        Ok(true)
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

fn str(text: &str) -> Term {
    Term::str(text)
}

fn list<const N: usize>(parts: [Term; N]) -> Term {
    Term::List(parts.into())
}

fn call<const N: usize>(parts: [Term; N]) -> Term {
    Term::Tuple(parts.into())
}

/// The message of `(head, [guard], [("message", expr)])` for these arguments.
fn said(objects: &[Object], arguments: &[usize], head: Term, guard: Term, expr: Term) -> Option<Term> {
    let body = list([call([str("message"), call([call([expr])])])]);
    let spec = list([call([head, list([guard]), body])]);
    let program = Program::compile(&spec, Context::Call).expect("well formed");
    let mut host = Call(objects, arguments.to_vec());
    match program.run(&mut host) {
        Outcome::NoMatch => None,
        Outcome::Match { message: Message::Value(value), .. } => match value.to_term() {
            Term::Tuple(mut parts) => parts.pop(),
            other => Some(other),
        },
        Outcome::Match { .. } => None,
    }
}

fn yes() -> Term {
    Term::atom("true")
}

#[test]
fn objects_that_contain_themselves_are_compared_in_bounded_time() {
    // 0 and 1 contain themselves twice, 2 contains 3 and 3 contains 2, 4 and 5 are maps that contain themselves
    let objects = [
        Object::List(vec![0, 0]),
        Object::List(vec![1, 1]),
        Object::Tuple(vec![3, 6]),
        Object::Tuple(vec![2, 6]),
        Object::Map(vec![(6, 4), (7, 4)]),
        Object::Map(vec![(6, 5), (7, 5)]),
        Object::Int(1),
        Object::Int(2),
    ];
    let both = || list([str("$1"), str("$2")]);
    for (a, b) in [(0, 1), (2, 3), (4, 5)] {
        for with in ["==", "=:=", "<", ">", "=/=", "/="] {
            let guard = call([str(with), str("$1"), str("$2")]);
            assert_eq!(said(&objects, &[a, b], both(), guard, yes()), None, "{with}: neither true nor false");
        }
        let compared = call([str("=:="), str("$1"), str("$2")]);
        assert_eq!(said(&objects, &[a, b], both(), yes(), compared), Some(Term::atom("EXIT")));
        assert_eq!(said(&objects, &[a, b], list([str("$1"), str("$1")]), yes(), yes()), None);
        assert_eq!(said(&objects, &[a, a], list([str("$1"), str("$1")]), yes(), yes()), Some(yes()), "itself");
    }
    let inside = call([str("hd"), call([str("hd"), call([str("tl"), str("$1")])])]);
    let same = call([str("=:="), inside, str("$1")]);
    assert_eq!(said(&objects, &[0, 1], both(), same, yes()), Some(yes()));
    let pattern = list([list([list([str("$1"), str("_")]), str("$1")]), str("_")]);
    assert_eq!(said(&objects, &[0, 1], pattern, yes(), yes()), Some(yes()));
}

#[test]
fn text_is_its_utf8_in_any_form() {
    let objects = [
        Object::Latin1(b"h\xe9llo"),
        Object::Ucs2("h\u{e9}llo".encode_utf16().collect()),
        Object::Ucs4("h\u{e9}llo".chars().map(u32::from).collect()),
        Object::Latin1(b"hello"),
        Object::Map(vec![(1, 3)]),
    ];
    for n in 0..3 {
        assert_eq!(said(&objects, &[n], list([str("h\u{e9}llo")]), yes(), yes()), Some(yes()));
        let size = call([str("byte_size"), str("$1")]);
        assert_eq!(said(&objects, &[n], str("$2"), yes(), call([str("length"), str("$2")])), Some(Term::from(1)));
        assert_eq!(said(&objects, &[n], list([str("$1")]), yes(), size), Some(Term::from(6)));
        let part = call([str("binary_part"), str("$1"), Term::from(0), Term::from(3)]);
        let made = said(&objects, &[n], list([str("$1")]), yes(), part);
        assert!(matches!(made, Some(Term::Str(text)) if &*text == "h\u{e9}"), "text stays text");
        let less = call([str("<"), str("hello"), str("$1")]);
        assert_eq!(said(&objects, &[n], list([str("$1")]), less, yes()), Some(yes()));
    }
    let part = call([str("binary_part"), str("$1"), Term::from(5), Term::from(-2)]);
    let made = said(&objects, &[3], list([str("$1")]), yes(), part);
    assert!(matches!(made, Some(Term::Str(text)) if &*text == "lo"));
    let found = call([str("map_get"), str("h\u{e9}llo"), str("$1")]);
    assert_eq!(said(&objects, &[4], list([str("$1")]), yes(), found), Some(str("hello")));
}

#[test]
fn objects_have_attributes_classes_and_names() {
    let objects = [Object::Instance(vec![("total", 1), ("lines", 2)]), Object::Int(40), Object::List(vec![1])];
    let one = || list([str("$1")]);
    let attr = |name| call([str("attr"), str("$1"), str(name)]);
    let is = |name| call([str("is_instance"), str("$1"), str(name)]);
    assert_eq!(said(&objects, &[0], one(), is("app.Order"), attr("total")), Some(Term::from(40)));
    assert_eq!(said(&objects, &[0], one(), is("app.Other"), yes()), None);
    assert_eq!(said(&objects, &[0], one(), call([str(">"), attr("total"), Term::from(39)]), yes()), Some(yes()));
    assert_eq!(said(&objects, &[0], one(), call([str(">"), attr("none"), Term::from(39)]), yes()), None);
    assert_eq!(said(&objects, &[0], one(), yes(), attr("none")), Some(Term::atom("EXIT")));
    let named = call([str("hd"), call([str("attr"), call([str("arg"), str("order")]), str("lines")])]);
    assert_eq!(said(&objects, &[0], str("_"), yes(), named), Some(Term::from(40)));
    assert_eq!(said(&objects, &[0], str("_"), yes(), call([str("arg"), str("x")])), Some(Term::atom("EXIT")));
    assert_eq!(said(&objects, &[1], str("_"), yes(), call([str("enable_trace"), str("call")])), Some(yes()));
    let name = call([str("element"), Term::from(2), call([str("caller")])]);
    assert_eq!(said(&objects, &[1], str("_"), yes(), name), Some(Term::atom("f")));
}

#[test]
fn problems_are_named() {
    let wrong = |head: Term, guards: Term, body: Term, context| {
        let spec = list([call([str("_"), list([]), list([yes()])]), call([head, guards, body])]);
        let problems = Program::compile(&spec, context).expect_err("wrong");
        problems.iter().map(|p| (p.class.name(), p.to_string())).collect::<Vec<_>>()
    };
    let body = |expr| list([expr]);
    let got = wrong(str("_"), list([call([str("is_atom"), str("$1")])]), body(yes()), Context::Call);
    assert_eq!(got[0].0, "unbound_variable");
    assert!(got[0].1.starts_with("clause 2, guard 1: '$1' is not in the head"), "{}", got[0].1);
    for (expr, class) in [
        (call([str("arg"), Term::from(1)]), "bad_argument"),
        (call([str("attr"), str("$_"), str("$1")]), "bad_argument"),
        (call([str("is_instance"), str("$_"), call([str("self")])]), "bad_argument"),
        (call([str("is_instance"), str("$_")]), "wrong_arity"),
    ] {
        assert_eq!(wrong(str("_"), list([]), body(expr.clone()), Context::Call)[0].0, class, "{expr:?}");
    }
    for (name, send, receive) in [
        ("caller", false, false),
        ("caller_line", false, false),
        ("current_stacktrace", false, false),
        ("process_dump", true, false),
        ("dump", true, true),
        ("get_seq_token", true, false),
        ("is_seq_trace", true, false),
        ("return_trace", true, true),
        ("exception_trace", true, true),
        ("get_tcw", true, true),
    ] {
        for (context, allowed) in [(Context::Send, send), (Context::Receive, receive), (Context::Call, true)] {
            let spec = list([call([str("_"), list([]), body(call([str(name)]))])]);
            assert_eq!(Program::compile(&spec, context).is_ok(), allowed, "{name} {context:?}");
        }
    }
    let mut deep = Term::from(1);
    for _ in 0..300 {
        deep = call([call([deep])]);
    }
    let spec = list([call([str("_"), list([]), body(deep.clone())])]);
    let whole = list([call([list([deep]), list([]), list([])])]);
    assert_eq!(Program::compile(&whole, Context::Call).expect_err("deep")[0].class.name(), "system_limit");
    assert_eq!(Program::compile(&spec, Context::Call).expect_err("deep")[0].class.name(), "system_limit");
}

#[test]
fn uses_are_known_beforehand() {
    let uses = |clauses: Term| Program::compile(&clauses, Context::Call).expect("well formed").uses();
    let clause = |head, body| call([head, list([]), body]);
    assert!(uses(list([])).unconditional);
    assert!(uses(list([clause(str("_"), list([]))])).unconditional);
    let counted = uses(list([clause(list([str("_")]), list([]))]));
    assert!(!counted.unconditional && counted.arguments);
    let returning = || clause(str("_"), list([call([str("return_trace")])]));
    let returns = uses(list([returning()]));
    assert!(returns.return_trace && !returns.arguments && returns.unconditional && !returns.exception_trace);
    assert!(!uses(list([returning(), clause(str("_"), list([]))])).unconditional);
    let guarded = call([str("_"), list([str("false")]), list([call([str("return_trace")])])]);
    assert!(!uses(list([guarded])).unconditional);
    let nested = call([str("message"), call([call([call([str("caller")]), call([str("exception_trace")])])])]);
    let nested = uses(list([clause(str("_"), list([nested]))]));
    assert!(nested.message && nested.caller && nested.exception_trace && !nested.stacktrace && !nested.unconditional);
}

#[test]
fn the_deepest_allowed_nesting_is_compiled_and_runs() {
    let deep = |n, mut term, wrap: fn(Term) -> Term| {
        for _ in 0..n {
            term = wrap(term);
        }
        term
    };
    let arguments = [Object::Int(1)];
    let one = || list([str("$1")]);
    let sum = deep(190, str("$1"), |term| call([str("+"), term, Term::from(1)]));
    assert_eq!(said(&arguments, &[0], one(), yes(), sum), Some(Term::from(191)));
    let made = deep(90, str("$1"), |term| call([call([term])]));
    let size = call([str("tuple_size"), made.clone()]);
    assert_eq!(said(&arguments, &[0], one(), yes(), size), Some(Term::from(1)));
    let twice = call([str("=:="), made.clone(), made]);
    assert_eq!(said(&arguments, &[0], one(), twice, yes()), Some(yes()));
    let head = deep(190, str("$1"), |term| list([term]));
    assert_eq!(said(&arguments, &[0], list([head]), yes(), yes()), None);
}
