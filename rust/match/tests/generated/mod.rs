//! Generated specifications and subjects: mostly well formed, with every function and operator, nested.

use inviso_term::term::{Identifier, Term};
use num_bigint::BigInt;
use proptest::{collection::vec, prelude::*, sample::select};

fn leaf() -> impl Strategy<Value = Term> {
    prop_oneof![
        4 => (-3i64..4).prop_map(Term::from),
        2 => select(&["a", "b", "true", "false", "r", "EXIT"]).prop_map(Term::atom),
        1 => select(&[0.0, -0.0, 1.0, 2.5, -1.0, 1e300, 9.2e18]).prop_map(Term::Float),
        1 => select(&["", "a", "ab", "é€", "hello"]).prop_map(Term::str),
        1 => select(vec![&b"a"[..], b"\xff", b"hello"]).prop_map(|bytes| Term::Bytes(bytes.into())),
        1 => Just(Term::BitString([0xa0].into(), 3)),
        1 => (any::<bool>(), 60u32..70).prop_map(|(negative, bits)| {
            let n = BigInt::from(1) << bits;
            Term::Int(if negative { -n } else { n })
        }),
        1 => Just(Term::List(Vec::new())),
        1 => (1u64..4).prop_map(|n| Term::Pid(Identifier::new(n, "nonode@nohost", 0))),
        1 => select(&[0u64, 2, 1 << 40]).prop_map(|arity| Term::Fun("m".into(), "f".into(), arity)),
        1 => prop_oneof![
            Just(Term::Ref(Identifier::new(1, "nonode@nohost", 0))),
            Just(Term::Port(Identifier::new(1, "nonode@nohost", 0))),
            Just(Term::Opaque("m.C".into(), 7, None)),
        ],
    ]
}

/// A map without the later pairs of a repeated key.
fn map(pairs: Vec<(Term, Term)>) -> Term {
    let mut map: Vec<(Term, Term)> = Vec::new();
    for pair in pairs {
        if map.iter().all(|known| known.0 != pair.0) {
            map.push(pair);
        }
    }
    Term::Map(map)
}

fn set(members: Vec<Term>) -> Term {
    let mut set: Vec<Term> = Vec::new();
    for member in members {
        if !set.contains(&member) {
            set.push(member);
        }
    }
    Term::Set(set)
}

fn improper(parts: Vec<Term>, tail: Term) -> Term {
    match tail {
        Term::List(more) => Term::List([parts, more].concat()),
        Term::ImproperList(more, tail) => Term::ImproperList([parts, more].concat(), tail),
        tail => Term::ImproperList(parts, Box::new(tail)),
    }
}

fn nested(leaf: BoxedStrategy<Term>, depth: u32) -> BoxedStrategy<Term> {
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            3 => vec(inner.clone(), 0..4).prop_map(Term::Tuple),
            3 => vec(inner.clone(), 0..4).prop_map(Term::List),
            1 => (vec(inner.clone(), 1..3), inner.clone()).prop_map(|(parts, tail)| improper(parts, tail)),
            2 => vec((inner.clone(), inner.clone()), 0..3).prop_map(map),
            1 => vec(inner, 0..3).prop_map(set),
        ]
    })
    .boxed()
}

/// A value for a program to inspect.
pub fn value() -> BoxedStrategy<Term> {
    nested(leaf().boxed(), 3)
}

/// Arguments, or the subject of a table program.
pub fn subject(table: bool) -> BoxedStrategy<Term> {
    if table {
        prop_oneof![6 => vec(value(), 2).prop_map(Term::Tuple), 2 => vec(value(), 0..4).prop_map(Term::Tuple), 1 => value()].boxed()
    } else {
        prop_oneof![5 => vec(value(), 2).prop_map(Term::List), 3 => vec(value(), 0..4).prop_map(Term::List)].boxed()
    }
}

fn name(text: &str, python: bool) -> Term {
    if python {
        Term::str(text)
    } else {
        Term::atom(text)
    }
}

fn pattern(python: bool) -> BoxedStrategy<Term> {
    let leaf = prop_oneof![
        5 => select(&["$1", "$2", "$3"]).prop_map(move |text| name(text, python)),
        4 => Just(name("_", python)),
        2 => leaf(),
    ];
    leaf.prop_recursive(2, 8, 3, move |inner| {
        prop_oneof![
            2 => vec(inner.clone(), 0..3).prop_map(Term::Tuple),
            2 => vec(inner.clone(), 0..3).prop_map(Term::List),
            2 => (vec(inner.clone(), 1..3), inner.clone()).prop_map(|(parts, tail)| improper(parts, tail)),
            1 => vec((value(), inner), 0..2).prop_map(map),
        ]
    })
    .boxed()
}

const TYPES: &[&str] = &[
    "is_atom",
    "is_boolean",
    "is_float",
    "is_integer",
    "is_list",
    "is_number",
    "is_pid",
    "is_port",
    "is_reference",
    "is_tuple",
    "is_map",
    "is_binary",
    "is_bitstring",
    "is_function",
];

const ONE: &[&str] = &[
    "+",
    "-",
    "bnot",
    "abs",
    "round",
    "trunc",
    "floor",
    "ceil",
    "float",
    "hd",
    "tl",
    "length",
    "size",
    "byte_size",
    "bit_size",
    "tuple_size",
    "map_size",
    "node",
    "not",
];

const TWO: &[&str] = &[
    "<",
    "=<",
    ">",
    ">=",
    "==",
    "/=",
    "=:=",
    "=/=",
    "+",
    "-",
    "*",
    "/",
    "div",
    "rem",
    "band",
    "bor",
    "bxor",
    "bsl",
    "bsr",
    "min",
    "max",
    "xor",
    "element",
    "map_get",
    "is_map_key",
    "binary_part",
    "is_function",
];

const MANY: &[&str] = &["and", "or", "andalso", "orelse", "andthen"];

const ACTIONS: &[&str] = &[
    "return_trace",
    "exception_trace",
    "caller",
    "caller_line",
    "current_stacktrace",
    "get_seq_token",
    "get_tcw",
    "is_seq_trace",
    "process_dump",
    "dump",
];

fn call(name: Term, parts: Vec<Term>) -> Term {
    Term::Tuple([vec![name], parts].concat())
}

/// An expression with bound variables.
fn expression(python: bool, table: bool, guard: bool) -> BoxedStrategy<Term> {
    let named = move |text: &&str| name(text, python);
    let leaf = prop_oneof![
        6 => select(&["$1", "$2"]).prop_map(move |text| name(text, python)),
        1 => select(&["$_", "$$"]).prop_map(move |text| name(text, python)),
        4 => leaf(),
        1 => value().prop_map(move |term| call(name("const", python), vec![term])),
        1 => select(&["self", "node"]).prop_map(move |text| call(name(text, python), vec![])),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let functions = prop_oneof![
            4 => (select(TYPES), inner.clone()).prop_map(move |(f, a)| call(named(&f), vec![a])),
            5 => (select(ONE), inner.clone()).prop_map(move |(f, a)| call(named(&f), vec![a])),
            9 => (select(TWO), inner.clone(), inner.clone()).prop_map(move |(f, a, b)| call(named(&f), vec![a, b])),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(move |(a, b, c)| call(name("is_integer", python), vec![a, b, c])),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(move |(a, b, c)| call(name("binary_part", python), vec![a, b, c])),
            1 => (inner.clone(), 0i64..4)
                .prop_map(move |(a, n)| call(name("is_record", python), vec![a, name("r", python), Term::from(n)])),
            1 => (inner.clone(), select(&["m.C", "x"]))
                .prop_map(move |(a, text)| call(name("is_instance", python), vec![a, Term::str(text)])),
            1 => inner.clone().prop_map(move |a| call(name("attr", python), vec![a, Term::str("x")])),
            4 => (select(MANY), vec(inner.clone(), 1..4)).prop_map(move |(f, parts)| call(named(&f), parts)),
        ];
        let values = prop_oneof![
            3 => vec(inner.clone(), 0..3).prop_map(|parts| Term::Tuple(vec![Term::Tuple(parts)])),
            2 => vec(inner.clone(), 0..3).prop_map(Term::List),
            1 => (vec(inner.clone(), 1..3), inner.clone()).prop_map(|(parts, tail)| improper(parts, tail)),
            1 => vec((inner.clone(), inner.clone()), 0..3).prop_map(map),
        ];
        let acts = prop_oneof![
            3 => inner.clone().prop_map(move |a| call(name("message", python), vec![a])),
            2 => select(ACTIONS).prop_map(move |f| call(named(&f), vec![])),
            1 => inner.clone().prop_map(move |a| call(name("set_tcw", python), vec![a])),
            1 => inner.clone().prop_map(move |a| call(name("display", python), vec![a])),
            1 => inner.clone().prop_map(move |a| call(name("silent", python), vec![a])),
            1 => (select(&["enable_trace", "disable_trace"]), select(&["call", "nosuchflag"]))
                .prop_map(move |(f, flag)| call(named(&f), vec![named(&flag)])),
            1 => (inner.clone(), inner)
                .prop_map(move |(a, b)| call(name("set_seq_token", python), vec![a, b])),
        ];
        if guard || table {
            prop_oneof![7 => functions, 2 => values].boxed()
        } else {
            prop_oneof![6 => functions, 2 => values, 3 => acts].boxed()
        }
    })
    .boxed()
}

/// A guard that may be true.
fn guard(python: bool, table: bool) -> BoxedStrategy<Term> {
    let expr = || expression(python, table, true);
    let test = select(&["<", "=<", ">", ">=", "/=", "=/=", "=="]);
    prop_oneof![
        4 => (test, expr(), expr()).prop_map(move |(f, a, b)| call(name(f, python), vec![a, b])),
        1 => (select(TYPES), expr()).prop_map(move |(f, a)| call(name(f, python), vec![a])),
        1 => expr(),
    ]
    .boxed()
}

fn clause(python: bool, table: bool) -> BoxedStrategy<Term> {
    let named = move |text: &str| name(text, python);
    // most heads bind the variables of the expressions
    let head = if table {
        prop_oneof![
            4 => vec(pattern(python), 0..2).prop_map(move |more| {
                Term::Tuple([vec![named("$1"), named("$2")], more].concat())
            }),
            3 => Just(Term::Tuple(vec![named("$1"), named("$2")])),
            1 => pattern(python),
        ]
        .boxed()
    } else {
        prop_oneof![
            3 => Just(improper(vec![named("$1"), named("$2")], named("_"))),
            1 => vec(pattern(python), 0..2).prop_map(move |parts| {
                improper([vec![named("$1")], parts].concat(), named("_"))
            }),
            3 => vec(pattern(python), 0..2).prop_map(move |more| {
                Term::List([vec![named("$1"), named("$2")], more].concat())
            }),
            3 => Just(Term::List(vec![named("$1"), named("$2")])),
            1 => vec(pattern(python), 0..3).prop_map(Term::List),
            1 => select(&["_", "$1"]).prop_map(named),
        ]
        .boxed()
    };
    let bound = move |head: &Term, text: &str| format!("{head:?}").contains(&format!("\"{text}\""));
    let expr = expression(python, table, false);
    let body = match table {
        true => expr,
        false => prop_oneof![1 => expr.clone(), 2 => expr.prop_map(move |a| call(named("message"), vec![a]))].boxed(),
    };
    let guards = prop_oneof![2 => Just(Vec::new()), 2 => vec(guard(python, table), 1..3)];
    (head, guards, vec(body, usize::from(table)..3), any::<u8>())
        .prop_map(move |(head, guards, body, chance)| {
            let mut terms = [Term::List(guards), Term::List(body)];
            // most unbound variables are replaced by other terms
            for variable in ["$1", "$2"] {
                if !bound(&head, variable) && chance > 8 {
                    terms = terms.map(|term| replaced(&term, &named(variable), &Term::from(7)));
                }
            }
            let [guards, body] = terms;
            Term::Tuple(vec![head, guards, body])
        })
        .boxed()
}

fn replaced(term: &Term, old: &Term, new: &Term) -> Term {
    let all = |terms: &[Term]| terms.iter().map(|term| replaced(term, old, new)).collect::<Vec<_>>();
    match term {
        term if format!("{term:?}") == format!("{old:?}") => new.clone(),
        Term::Tuple(parts) => Term::Tuple(all(parts)),
        Term::List(parts) => Term::List(all(parts)),
        Term::ImproperList(parts, tail) => improper(all(parts), replaced(tail, old, new)),
        Term::Map(pairs) => map(pairs.iter().map(|(k, v)| (replaced(k, old, new), replaced(v, old, new))).collect()),
        other => other.clone(),
    }
}

/// A specification in either dialect.
pub fn spec(table: bool) -> BoxedStrategy<Term> {
    any::<bool>().prop_flat_map(move |python| vec(clause(python, table), 1..4).prop_map(Term::List)).boxed()
}

/// Any term, built of the words of specifications.
pub fn any_term() -> BoxedStrategy<Term> {
    let words: Vec<&'static str> = [
        &["_", "$1", "$2", "$_", "$$", "const", "is_record", "silent", "trace", "arg", "attr", "is_instance"][..],
        ONE,
        TWO,
        MANY,
        ACTIONS,
        &["message", "set_seq_token", "enable_trace"],
    ]
    .concat();
    let word = (select(words), any::<bool>()).prop_map(|(text, python)| name(text, python));
    let any = nested(prop_oneof![3 => word, 2 => leaf()].boxed(), 5);
    let clause = (any.clone(), vec(any.clone(), 0..3), vec(any.clone(), 0..3))
        .prop_map(|(head, guards, body)| Term::Tuple(vec![head, Term::List(guards), Term::List(body)]));
    prop_oneof![1 => any.clone(), 4 => vec(prop_oneof![8 => clause, 1 => any], 1..3).prop_map(Term::List)].boxed()
}
