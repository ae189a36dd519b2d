//! Erlang's order over all terms:
//! number < atom < reference < fun < port < pid < tuple < native record < map < nil < list < bit string.
//!
//! Values that only Python has come after: set, opaque object, cut.
//!
//! ```
//! use inviso_term::{order, term::Term};
//! let mut terms = [Term::str("a"), Term::Float(1.5), Term::atom("a"), Term::from(2)];
//! terms.sort_by(order::loose);
//! assert_eq!(terms, [Term::Float(1.5), Term::from(2), Term::atom("a"), Term::str("a")]);
//! ```

use crate::term::{Identifier, Record, Term};
use num_bigint::BigInt;
use std::cmp::Ordering::{self, Equal, Greater, Less};

/// The order of Erlang's `==`, `<` and `lists:sort/1`. Numbers compare by value, so 1 equals 1.0.
#[must_use]
pub fn loose(a: &Term, b: &Term) -> Ordering {
    compare(a, b, Mode::Loose)
}

/// The order of map keys, whose equality is `=:=`. At any depth every integer comes before every float, and -0.0 before 0.0.
#[must_use]
pub fn exact(a: &Term, b: &Term) -> Ordering {
    compare(a, b, Mode::Exact)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Loose,
    Exact,
}

const NIL: u8 = 10;
const LIST: u8 = 11;

fn rank(term: &Term) -> u8 {
    match term {
        Term::Int(_) | Term::Float(_) => 0,
        Term::Atom(_) => 1,
        Term::Ref(_) => 2,
        Term::Closure(_) => 3,
        Term::Fun(..) => 4,
        Term::Port(_) => 5,
        Term::Pid(_) => 6,
        Term::Tuple(_) => 7,
        Term::Record(_) => 8,
        Term::Map(_) => 9,
        Term::List(elements) if elements.is_empty() => NIL,
        Term::List(_) | Term::ImproperList(..) => LIST,
        Term::Str(_) | Term::Bytes(_) | Term::BitString(..) => 12,
        Term::Set(_) => 13,
        Term::Opaque(..) => 14,
        Term::Cut(_) => 15,
    }
}

fn compare(a: &Term, b: &Term, mode: Mode) -> Ordering {
    match (a, b) {
        // a list with only a tail is that tail
        (Term::ImproperList(none, a), b) if none.is_empty() => compare(a, b, mode),
        (a, Term::ImproperList(none, b)) if none.is_empty() => compare(a, b, mode),
        (Term::Int(a), Term::Int(b)) => a.cmp(b),
        (Term::Float(a), Term::Float(b)) => floats(*a, *b, mode),
        (Term::Int(_), Term::Float(_)) if mode == Mode::Exact => Less,
        (Term::Float(_), Term::Int(_)) if mode == Mode::Exact => Greater,
        (Term::Int(a), Term::Float(b)) => int_float(a, *b),
        (Term::Float(a), Term::Int(b)) => int_float(b, *a).reverse(),
        // the order of UTF-8 is the order of characters
        (Term::Atom(a), Term::Atom(b)) => a.cmp(b),
        (Term::Pid(a), Term::Pid(b)) => number(a).cmp(&number(b)).then_with(|| node(a).cmp(&node(b))),
        (Term::Ref(a), Term::Ref(b)) | (Term::Port(a), Term::Port(b)) => {
            node(a).cmp(&node(b)).then_with(|| number(a).cmp(&number(b)))
        }
        (Term::Fun(m, f, a), Term::Fun(m2, f2, a2)) => (m, f, a).cmp(&(m2, f2, a2)),
        (Term::Closure(a), Term::Closure(b)) => {
            (&a.module, a.index, a.unique, &a.encoded).cmp(&(&b.module, b.index, b.unique, &b.encoded))
        }
        (Term::Tuple(a), Term::Tuple(b)) => a.len().cmp(&b.len()).then_with(|| elements(a, b, mode)),
        (Term::Map(a), Term::Map(b)) => a.len().cmp(&b.len()).then_with(|| maps(a, b, mode)),
        (Term::Record(a), Term::Record(b)) => records(a, b, mode),
        (Term::Set(a), Term::Set(b)) => a.len().cmp(&b.len()).then_with(|| sets(a, b)),
        (Term::Opaque(t, id, text), Term::Opaque(t2, id2, text2)) => (t, id, text).cmp(&(t2, id2, text2)),
        (Term::Cut(a), Term::Cut(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)).then_with(|| match (parts(a), parts(b)) {
            (Some(a), Some(b)) => lists(a, b, mode),
            _ => binaries(a, b),
        }),
    }
}

/// NaN, which Erlang doesn't have, comes after all numbers.
fn floats(a: f64, b: f64, mode: Mode) -> Ordering {
    match mode {
        Mode::Loose => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        Mode::Exact => a.is_nan().cmp(&b.is_nan()).then_with(|| a.total_cmp(&b)),
    }
}

/// By value, without rounding the integer to a float.
fn int_float(int: &BigInt, float: f64) -> Ordering {
    if float.is_nan() || float == f64::INFINITY {
        return Less;
    }
    if float == f64::NEG_INFINITY {
        return Greater;
    }
    let whole = float.trunc();
    int.cmp(&integer(whole)).then_with(|| whole.partial_cmp(&float).unwrap_or(Equal))
}

/// The integer of a whole, finite float.
fn integer(whole: f64) -> BigInt {
    if whole.abs() < (1u64 << 63) as f64 {
        return BigInt::from(whole as i64);
    }
    let bits = whole.to_bits();
    let mantissa = (bits & ((1 << 52) - 1)) | 1 << 52;
    let magnitude = BigInt::from(mantissa) << ((bits >> 52 & 0x7ff) as usize).saturating_sub(1075);
    if whole < 0.0 {
        -magnitude
    } else {
        magnitude
    }
}

fn number(of: &Identifier) -> (u128, u64) {
    (of.rest, of.id)
}

fn node(of: &Identifier) -> (&str, u32) {
    (&of.node, of.creation)
}

fn elements(a: &[Term], b: &[Term], mode: Mode) -> Ordering {
    a.iter().zip(b).map(|(a, b)| compare(a, b, mode)).find(|o| o.is_ne()).unwrap_or(Equal)
}

/// The order of maps of one size: by keys in key order, then by values in that order.
fn maps(a: &[(Term, Term)], b: &[(Term, Term)], mode: Mode) -> Ordering {
    fn sorted(map: &[(Term, Term)]) -> Vec<&(Term, Term)> {
        let mut sorted: Vec<_> = map.iter().collect();
        sorted.sort_by(|a, b| exact(&a.0, &b.0).then_with(|| exact(&a.1, &b.1)));
        sorted
    }
    let (a, b) = (sorted(a), sorted(b));
    let pairs = || a.iter().zip(&b);
    let keys = pairs().map(|(a, b)| exact(&a.0, &b.0)).find(|o| o.is_ne());
    keys.or_else(|| pairs().map(|(a, b)| compare(&a.1, &b.1, mode)).find(|o| o.is_ne())).unwrap_or(Equal)
}

/// The order of sets of one size: as maps with these keys.
fn sets(a: &[Term], b: &[Term]) -> Ordering {
    fn sorted(set: &[Term]) -> Vec<&Term> {
        let mut sorted: Vec<_> = set.iter().collect();
        sorted.sort_by(|a, b| exact(a, b));
        sorted
    }
    let (a, b) = (sorted(a), sorted(b));
    a.iter().zip(&b).map(|(a, b)| exact(a, b)).find(|o| o.is_ne()).unwrap_or(Equal)
}

/// By definition: module, name, private before exported, number of fields, their names. Then by the values.
fn records(a: &Record, b: &Record, mode: Mode) -> Ordering {
    let defined = |of: &Record| (of.exported, of.fields.len());
    let names = || a.fields.iter().map(|(name, _)| name).cmp(b.fields.iter().map(|(name, _)| name));
    let mut values = a.fields.iter().zip(&b.fields).map(|((_, a), (_, b))| compare(a, b, mode));
    (&a.module, &a.name)
        .cmp(&(&b.module, &b.name))
        .then_with(|| defined(a).cmp(&defined(b)))
        .then_with(names)
        .then_with(|| values.find(|o| o.is_ne()).unwrap_or(Equal))
}

/// The elements and the tail of a list; no tail is the empty list.
type Parts<'a> = (&'a [Term], Option<&'a Term>);

fn parts(list: &Term) -> Option<Parts<'_>> {
    match list {
        Term::List(elements) => Some((elements, None)),
        Term::ImproperList(elements, tail) => Some((elements, Some(tail))),
        _ => None,
    }
}

/// Element by element. At the end of one list its tail is compared with the rest of the other.
fn lists(a: Parts<'_>, b: Parts<'_>, mode: Mode) -> Ordering {
    let common = elements(a.0, b.0, mode);
    if common.is_ne() {
        return common;
    }
    let at = a.0.len().min(b.0.len());
    rest((&a.0[at..], a.1), (&b.0[at..], b.1), mode)
}

/// Compares two lists, at least one of them without elements.
fn rest(a: Parts<'_>, b: Parts<'_>, mode: Mode) -> Ordering {
    match (a, b) {
        (([], None), ([], None)) => Equal,
        (([], Some(a)), ([], Some(b))) => compare(a, b, mode),
        // a tail may itself be a list
        (([], Some(a)), b) => match parts(a) {
            Some(a) => lists(a, b, mode),
            None => rank(a).cmp(if b.0.is_empty() { &NIL } else { &LIST }),
        },
        (a, ([], Some(_))) => rest(b, a, mode).reverse(),
        (([], None), _) => Less,
        (_, _) => Greater,
    }
}

/// Bit by bit. Of two with the same beginning the shorter comes first.
fn binaries(a: &Term, b: &Term) -> Ordering {
    let (Some((a, a_bits)), Some((b, b_bits))) = (a.as_binary(), b.as_binary()) else {
        return Equal;
    };
    let size = |bytes: &[u8], bits: u8| (bytes.len() * 8).saturating_sub(8 - usize::from(bits.min(8)));
    let (a_size, b_size) = (size(a, a_bits), size(b, b_bits));
    let common = a_size.min(b_size);
    let (whole, bits) = (common / 8, common % 8);
    let last = |bytes: &[u8]| bytes.get(whole).map_or(0, |byte| u16::from(*byte) >> (8 - bits));
    a[..whole].cmp(&b[..whole]).then_with(|| last(a).cmp(&last(b)).then(a_size.cmp(&b_size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Term as T;

    fn int(n: i64) -> T {
        T::from(n)
    }

    fn id(n: u64, node: &str) -> Identifier {
        Identifier::new(n, node, 0)
    }

    /// Each comes before the next, in both orders or in the one of `only`.
    fn ascending(terms: &[T], only: Option<Mode>) {
        for mode in [Mode::Loose, Mode::Exact].into_iter().filter(|mode| only.is_none_or(|only| only == *mode)) {
            for (i, a) in terms.iter().enumerate() {
                for (j, b) in terms.iter().enumerate() {
                    assert_eq!(compare(a, b, mode), i.cmp(&j), "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn types_are_in_erlangs_order() {
        ascending(
            &[
                int(1),
                T::atom("a"),
                T::Ref(id(1, "a")),
                T::Fun("m".into(), "f".into(), 0),
                T::Port(id(1, "a")),
                T::Pid(id(1, "a")),
                T::Tuple(vec![]),
                record("m", "r", false, &[]),
                T::Map(vec![]),
                T::List(vec![]),
                T::List(vec![int(1)]),
                T::str(""),
                T::Set(vec![]),
                T::Opaque("a".into(), 1, None),
                T::Cut("a".into()),
            ],
            None,
        );
    }

    #[test]
    fn numbers_compare_by_value_without_rounding() {
        let two_53 = 1i64 << 53;
        let huge = T::Int(BigInt::from(1) << 1100);
        let max = T::Int(integer(f64::MAX));
        ascending(
            &[
                T::Float(f64::NEG_INFINITY),
                T::Float(f64::MIN),
                int(i64::MIN),
                T::Float(-3.5),
                int(-3),
                T::Float(5e-324),
                int(two_53),
                int(two_53 + 1),
                T::Float((two_53 + 2) as f64),
                T::Float(9.3e18),
                T::Int(BigInt::from(u64::MAX)),
                T::Float(f64::MAX),
                huge,
                T::Float(f64::INFINITY),
                T::Float(f64::NAN),
            ],
            Some(Mode::Loose),
        );
        let two_63 = T::Int(BigInt::from(1) << 63);
        for (a, b) in [
            (int(two_53), two_53 as f64),
            (two_63, (1u64 << 63) as f64),
            (max, f64::MAX),
            (int(i64::MIN), i64::MIN as f64),
            (int(0), -0.0),
        ] {
            assert_eq!(loose(&a, &T::Float(b)), Equal);
            assert_ne!(a, T::Float(b));
        }
        assert_eq!(loose(&T::Float(0.0), &T::Float(-0.0)), Equal);
        ascending(&[int(1), int(2), T::Float(-0.0), T::Float(0.0), T::Float(1.0)], Some(Mode::Exact));
    }

    fn record(module: &str, name: &str, exported: bool, fields: &[(&str, T)]) -> T {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        T::Record(Box::new(Record { module: module.into(), name: name.into(), exported, fields }))
    }

    /// As OTP 29 sorts them.
    #[test]
    fn records_compare_by_definition_then_values() {
        let q = |exported, fields: &[(&str, i64)]| {
            let fields: Vec<_> = fields.iter().map(|(name, n)| (*name, int(*n))).collect();
            record("m", "q", exported, &fields)
        };
        ascending(
            &[
                record("m", "p", true, &[]),
                q(false, &[]),
                q(false, &[("a", 9)]),
                q(false, &[("b", 1)]),
                q(false, &[("a", 1), ("b", 2)]),
                q(false, &[("a", 5), ("b", 1)]),
                q(false, &[("a", 1), ("c", 0)]),
                q(false, &[("b", 0), ("a", 0)]),
                q(true, &[]),
                q(true, &[("a", 0)]),
                record("n", "a", false, &[]),
            ],
            None,
        );
        let with = |value| record("m", "q", false, &[("a", value)]);
        assert_eq!(loose(&with(int(1)), &with(T::Float(1.0))), Equal);
        ascending(&[with(int(2)), with(T::Float(1.5))], Some(Mode::Exact));
    }

    #[test]
    fn maps_compare_by_size_then_keys_then_values() {
        let map = |pairs: &[(T, i64)]| T::Map(pairs.iter().map(|(k, v)| (k.clone(), int(*v))).collect());
        let float = || T::Float(1.0);
        ascending(
            &[
                map(&[(float(), 9)]),
                map(&[(int(1), 7), (int(2), 1)]),
                map(&[(int(2), 1), (int(1), 8)]),
                map(&[(int(1), 0), (float(), 0)]),
            ],
            None,
        );
        // by the smallest key in key order: an integer before any float
        ascending(&[map(&[(float(), 0), (int(2), 0)]), map(&[(T::Float(0.5), 0), (int(3), 0)])], None);
        ascending(&[map(&[(int(1), 5), (float(), 3)]), map(&[(int(1), 7), (float(), 9)])], None);
        // integer keys come first, at any depth
        ascending(&[map(&[(int(2), 0)]), map(&[(float(), 0)])], None);
        ascending(&[map(&[(T::Tuple(vec![int(2)]), 0)]), map(&[(T::Tuple(vec![float()]), 0)])], None);
        let value = |value| T::Map(vec![(int(1), value)]);
        assert_eq!(loose(&value(int(1)), &value(float())), Equal);
        assert_eq!(map(&[(int(1), 7), (int(2), 1)]), map(&[(int(2), 1), (int(1), 7)]));
    }

    #[test]
    fn pythons_own_values_have_an_order() {
        let set = |elements: &[i64]| T::Set(elements.iter().copied().map(T::from).collect());
        let opaque = |class: &str, id, text: Option<&str>| T::Opaque(class.into(), id, text.map(Into::into));
        let of_objects = [
            opaque("a", 1, None),
            opaque("a", 1, Some("x")),
            opaque("a", 1, Some("y")),
            opaque("a", 2, None),
            opaque("b", 0, None),
        ];
        ascending(&of_objects, None);
        ascending(&[set(&[9]), set(&[1, 2]), set(&[3, 1]), set(&[2, 3])], None);
        assert_eq!(set(&[1, 2]), set(&[2, 1]));
        ascending(&[T::Cut("depth".into()), T::Cut("items".into())], None);
    }

    #[test]
    fn functions_compare_by_module_then_name_then_arity() {
        let fun = |module: &str, name: &str, arity| T::Fun(module.into(), name.into(), arity);
        ascending(&[fun("a", "f", 2), fun("a", "g", 0), fun("a", "g", 1), fun("b", "a", 0)], None);
    }

    #[test]
    fn tails_are_compared_with_elements() {
        let list = |n: &[i64]| T::List(n.iter().copied().map(T::from).collect());
        let improper = |n: &[i64], tail: T| T::ImproperList(n.iter().copied().map(T::from).collect(), tail.into());
        ascending(
            &[improper(&[1], int(2)), list(&[1]), list(&[1, 1]), list(&[1, 2]), improper(&[1], T::str("")), list(&[2])],
            None,
        );
        assert_eq!(improper(&[1], list(&[2])), list(&[1, 2]));
        assert_eq!(improper(&[], list(&[])), list(&[]));
        assert_eq!(improper(&[1, 2], list(&[])), improper(&[1], improper(&[2], list(&[]))));
    }

    #[test]
    fn bit_strings_compare_bit_by_bit() {
        let bits = |byte: u8, bits| T::BitString([byte].into(), bits);
        ascending(
            &[
                T::str(""),
                bits(0, 1),
                bits(0b0100_0000, 3),
                bits(0b0101_0000, 4),
                T::str("a"),
                T::str("ab"),
                bits(0xff, 1),
            ],
            None,
        );
        assert_eq!(T::str("ab"), T::Bytes((*b"ab").into()));
        assert_eq!(bits(0b1010_0000, 3), bits(0b1011_1111, 3));
        assert_ne!(bits(0xa0, 3), T::Bytes([0xa0].into()));
    }

    #[test]
    fn pids_are_ordered_by_number_references_and_ports_by_node() {
        ascending(&[T::Pid(id(1, "b")), T::Pid(id(2, "a"))], None);
        ascending(&[T::Port(id(2, "a")), T::Port(id(1, "b"))], None);
        let far = Identifier { rest: 1, ..id(0, "a") };
        ascending(&[T::Ref(id(2, "a")), T::Ref(far), T::Ref(id(1, "b"))], None);
    }

    #[test]
    fn an_earlier_start_of_a_node_comes_first() {
        let of = |n, node, creation| Identifier::new(n, node, creation);
        for of_kind in [T::Ref, T::Port] {
            ascending(&[of(9, "a", 1), of(1, "a", 2), of(2, "a", 2), of(0, "b", 1)].map(of_kind), None);
        }
        // pids are ordered by number first
        ascending(&[of(1, "a", 2), of(1, "b", 1), of(9, "a", 1)].map(T::Pid), None);
    }
}
