//! The order of terms, compared with a slow model, and the laws of an order.

use inviso_term::{
    order,
    term::{Identifier, Record, Term},
};
use num_bigint::BigInt;
use proptest::{collection::vec, prelude::*, sample};
use std::cmp::Ordering;

/// Few values, so that many are equal or nearly equal.
fn term() -> impl Strategy<Value = Term> {
    let two_53 = 1i64 << 53;
    let ints = [-1, 0, 1, 2, two_53, two_53 + 1, i64::MAX, i64::MIN].map(Term::from);
    let bigs = [BigInt::from(1) << 63, BigInt::from(u64::MAX), BigInt::from(-1) << 1030].map(Term::Int);
    let floats = [-1.0, -0.0, 0.0, 0.5, 1.0, two_53 as f64, (1u64 << 63) as f64, -1.7e308, 5e-324].map(Term::Float);
    let atoms = ["", "a", "aa", "b", "\u{ff}", "\u{100}", "\u{10000}"].map(Term::atom);
    let texts = ["", "a", "ab", "\u{e4}"].map(Term::str);
    let bytes = [&b""[..], b"a", b"\x80", b"ab"].map(|bytes| Term::Bytes(bytes.into()));
    let bits = [(b"\x80", 1), (b"\x80", 2), (b"\x7f", 1), (b"a", 7)].map(|(b, n)| Term::BitString((*b).into(), n));
    let id = |id, node, creation| Identifier::new(id, node, creation);
    let others = [
        Term::Pid(id(1, "b", 0)),
        Term::Pid(id(2, "a", 0)),
        Term::Port(id(1, "b", 0)),
        Term::Port(id(2, "a", 1)),
        Term::Ref(id(1, "a", 1)),
        Term::Ref(Identifier { rest: 1, ..id(0, "a", 1) }),
        Term::Fun("m".into(), "f".into(), 1),
        Term::Fun("m".into(), "g".into(), 0),
        Term::Opaque("t".into(), 1, None),
        Term::Opaque("t".into(), 1, Some("".into())),
        Term::Cut("depth".into()),
    ];
    let numbers = [ints.to_vec(), bigs.to_vec(), floats.to_vec()].concat();
    let rest = [atoms.to_vec(), texts.to_vec(), bytes.to_vec(), bits.to_vec(), others.to_vec()].concat();
    let leaf = prop_oneof![3 => sample::select(numbers), 2 => sample::select(rest)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let some = vec(inner.clone(), 0..3);
        prop_oneof![
            some.clone().prop_map(Term::Tuple),
            some.clone().prop_map(Term::List),
            some.clone().prop_map(|elements| Term::Set(distinct(elements, |e| e))),
            (some, inner.clone()).prop_map(|(front, tail)| Term::ImproperList(front, Box::new(tail))),
            record(inner.clone()),
            vec((inner.clone(), inner), 0..3).prop_map(|pairs| Term::Map(distinct(pairs, |pair| &pair.0))),
        ]
    })
}

fn record(value: impl Strategy<Value = Term>) -> impl Strategy<Value = Term> {
    let fields = sample::subsequence(vec!["a", "b", "c"], 0..3).prop_shuffle();
    let head = (sample::select(vec!["m", "n"]), sample::select(vec!["q", "r"]), any::<bool>());
    (head, fields, vec(value, 3)).prop_map(|((module, name, exported), names, values)| {
        let fields = names.into_iter().map(Into::into).zip(values).collect();
        Term::Record(Box::new(Record { module: module.into(), name: name.into(), exported, fields }))
    })
}

/// Maps of one size whose keys have another order as numbers than as keys.
fn map_of_numbers() -> impl Strategy<Value = Term> {
    let keys = [1, 2, 3].map(Term::from).into_iter().chain([0.5, 1.0, 2.0].map(Term::Float)).collect::<Vec<_>>();
    (sample::subsequence(keys, 2), vec(0i64..4, 2))
        .prop_map(|(keys, values)| Term::Map(keys.into_iter().zip(values.into_iter().map(Term::from)).collect()))
}

fn distinct<T>(all: Vec<T>, key: impl Fn(&T) -> &Term) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        if kept.iter().all(|other| key(other) != key(&one)) {
            kept.push(one);
        }
    }
    kept
}

/// Erlang's order by its rules, without regard to speed.
fn model(a: &Term, b: &Term, exact: bool) -> Ordering {
    let kind = |term: &Term| match term {
        Term::Int(_) | Term::Float(_) => "0 number",
        Term::Atom(_) => "1 atom",
        Term::Ref(_) => "2 reference",
        Term::Fun(..) | Term::Closure(_) => "3 fun",
        Term::Port(_) => "4 port",
        Term::Pid(_) => "5 pid",
        Term::Tuple(_) => "6 tuple",
        Term::Record(_) => "6b record",
        Term::Map(_) => "7 map",
        Term::List(_) | Term::ImproperList(..) if cons(term).is_none() => "8 nil",
        Term::List(_) | Term::ImproperList(..) => "9 list",
        Term::Str(_) | Term::Bytes(_) | Term::BitString(..) => "a bit string",
        Term::Set(_) => "b set",
        Term::Opaque(..) => "c opaque",
        Term::Cut(_) => "d cut",
    };
    let (a, b) = (&unwrapped(a), &unwrapped(b));
    kind(a).cmp(kind(b)).then_with(|| match (a, b) {
        (Term::Int(_) | Term::Float(_), _) => {
            let is_float = |term: &Term| matches!(term, Term::Float(_));
            let minus_zero = |term: &Term| matches!(term, Term::Float(f) if *f == 0.0 && f.is_sign_negative());
            let by_type = is_float(a).cmp(&is_float(b));
            let by_value = scaled(a).cmp(&scaled(b));
            match exact {
                true => by_type.then(by_value).then(minus_zero(b).cmp(&minus_zero(a))),
                false => by_value,
            }
        }
        (Term::Atom(a), Term::Atom(b)) => a.chars().cmp(b.chars()),
        (Term::Pid(a), Term::Pid(b)) => (a.id, &a.node, a.creation).cmp(&(b.id, &b.node, b.creation)),
        (Term::Port(a), Term::Port(b)) | (Term::Ref(a), Term::Ref(b)) => {
            (&a.node, a.creation, a.rest, a.id).cmp(&(&b.node, b.creation, b.rest, b.id))
        }
        (Term::Fun(m, f, a), Term::Fun(n, g, b)) => (m, f, a).cmp(&(n, g, b)),
        (Term::Tuple(a), Term::Tuple(b)) => a.len().cmp(&b.len()).then_with(|| pairwise(a, b, exact)),
        (Term::Map(a), Term::Map(b)) => {
            let (a, b) = (by_key(a), by_key(b));
            let of = |pairs: &[(Term, Term)], second: bool| -> Vec<Term> {
                pairs.iter().map(|(k, v)| if second { v.clone() } else { k.clone() }).collect()
            };
            let keys = || pairwise(&of(&a, false), &of(&b, false), true);
            a.len().cmp(&b.len()).then_with(keys).then_with(|| pairwise(&of(&a, true), &of(&b, true), exact))
        }
        (Term::Record(a), Term::Record(b)) => {
            let fields = |of: &Record| of.fields.iter().map(|(name, _)| Term::Atom((&**name).into())).collect();
            let values = |of: &Record| of.fields.iter().map(|(_, value)| value.clone()).collect();
            let parts = |of: &Record| {
                let head = [Term::atom(&of.module), Term::atom(&of.name), Term::from(i64::from(of.exported))];
                [head.to_vec(), vec![Term::Tuple(fields(of)), Term::Tuple(values(of))]].concat()
            };
            pairwise(&parts(a), &parts(b), exact)
        }
        (Term::Set(a), Term::Set(b)) => {
            let keys = |set: &[Term]| Term::Map(set.iter().map(|key| (key.clone(), Term::from(0))).collect());
            model(&keys(a), &keys(b), exact)
        }
        (Term::Opaque(t, id, text), Term::Opaque(u, jd, other)) => (t, id, text).cmp(&(u, jd, other)),
        (Term::Cut(a), Term::Cut(b)) => a.cmp(b),
        _ => match (cons(a), cons(b)) {
            (Some((head, tail)), Some((other, rest))) => {
                model(&head, &other, exact).then_with(|| model(&tail, &rest, exact))
            }
            _ => bits(a).cmp(&bits(b)),
        },
    })
}

/// The term without a list around it that has only a tail.
fn unwrapped(term: &Term) -> Term {
    match term {
        Term::ImproperList(front, tail) if front.is_empty() => unwrapped(tail),
        other => other.clone(),
    }
}

/// Head and tail, as Erlang builds lists.
fn cons(list: &Term) -> Option<(Term, Term)> {
    match list {
        Term::List(all) => all.split_first().map(|(head, rest)| (head.clone(), Term::List(rest.to_vec()))),
        Term::ImproperList(all, tail) => match all.split_first() {
            Some((head, rest)) => Some((head.clone(), Term::ImproperList(rest.to_vec(), tail.clone()))),
            None => cons(tail),
        },
        _ => None,
    }
}

fn pairwise(a: &[Term], b: &[Term], exact: bool) -> Ordering {
    a.iter().zip(b).fold(Ordering::Equal, |order, (a, b)| order.then_with(|| model(a, b, exact)))
}

/// Insertion by the model's own order of keys.
fn by_key(map: &[(Term, Term)]) -> Vec<(Term, Term)> {
    let mut sorted: Vec<(Term, Term)> = Vec::new();
    for pair in map {
        let at = sorted.iter().filter(|other| model(&other.0, &pair.0, true).is_lt()).count();
        sorted.insert(at, pair.clone());
    }
    sorted
}

fn bits(term: &Term) -> Vec<bool> {
    let Some((bytes, last)) = term.as_binary() else { return Vec::new() };
    let all = bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1 == 1));
    all.take((bytes.len() * 8).saturating_sub(8 - usize::from(last))).collect()
}

/// A finite number times 2 to the power of 1074, which makes every float an integer.
fn scaled(number: &Term) -> BigInt {
    match number {
        Term::Int(n) => n << 1074,
        Term::Float(f) => {
            let bits = f.abs().to_bits();
            let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
            let magnitude = match exponent {
                0 => BigInt::from(fraction),
                _ => BigInt::from(fraction | 1 << 52) << (exponent - 1),
            };
            if *f < 0.0 {
                -magnitude
            } else {
                magnitude
            }
        }
        _ => BigInt::from(0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_order_is_erlangs(a in term(), b in term()) {
        prop_assert_eq!(order::loose(&a, &b), model(&a, &b, false));
        prop_assert_eq!(order::exact(&a, &b), model(&a, &b, true));
        prop_assert_eq!(a == b, model(&a, &b, true).is_eq());
    }

    #[test]
    fn maps_are_ordered_by_their_keys_in_key_order(a in map_of_numbers(), b in map_of_numbers()) {
        prop_assert_eq!(order::loose(&a, &b), model(&a, &b, false));
        prop_assert_eq!(order::exact(&a, &b), model(&a, &b, true));
    }

    #[test]
    fn the_order_is_total(a in term(), b in term(), c in term()) {
        for compare in [order::loose, order::exact] {
            prop_assert!(compare(&a, &a).is_eq());
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            let mut sorted = [&a, &b, &c];
            sorted.sort_by(|a, b| compare(a, b));
            prop_assert!(compare(sorted[0], sorted[1]).is_le());
            prop_assert!(compare(sorted[1], sorted[2]).is_le());
            prop_assert!(compare(sorted[0], sorted[2]).is_le());
            if compare(&a, &b).is_eq() {
                prop_assert_eq!(compare(&a, &c), compare(&b, &c));
            }
        }
        if order::exact(&a, &b).is_eq() {
            prop_assert!(order::loose(&a, &b).is_eq());
        }
    }

    #[test]
    fn any_floats_and_integers_compare_by_value(f in any::<f64>(), n in any::<i64>(), shift in 0u32..1100) {
        let (float, int) = (Term::Float(f), Term::Int(BigInt::from(n) << shift));
        if f.is_finite() {
            prop_assert_eq!(order::loose(&int, &float), scaled(&int).cmp(&scaled(&float)));
            prop_assert_eq!(order::loose(&float, &int), scaled(&float).cmp(&scaled(&int)));
        }
    }
}
