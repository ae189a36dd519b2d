//! Erlang's order over all terms:
//! number < atom < reference < fun < port < pid < tuple < map < nil < list < bit string.
//!
//! What Python adds comes after: set, opaque object, cut.

use crate::term::Term;
use num_bigint::BigInt;
use std::cmp::Ordering::{self, Equal, Greater, Less};

fn rank(term: &Term) -> u8 {
    match term {
        Term::Int(_) | Term::Float(_) => 0,
        Term::Atom(_) => 1,
        Term::Ref(_) => 2,
        Term::Fun(..) => 3,
        Term::Port(_) => 4,
        Term::Pid(_) => 5,
        Term::Tuple(_) => 6,
        Term::Map(_) => 7,
        Term::List(l) if l.is_empty() => 8,
        Term::List(_) | Term::ImproperList(..) => 9,
        Term::Str(_) | Term::Bytes(_) | Term::BitString(..) => 10,
        Term::Set(_) => 11,
        Term::Opaque(..) => 12,
        Term::Cut(_) => 13,
    }
}

/// The order in which 1 and 1.0 are equal (Erlang's `==`, `<`).
#[must_use]
pub fn loose(a: &Term, b: &Term) -> Ordering {
    compare(a, b, false)
}

/// The order that tells 1 from 1.0 (an integer comes before the float of its value) and -0.0 from 0.0 (Erlang's `=:=`).
#[must_use]
pub fn exact(a: &Term, b: &Term) -> Ordering {
    compare(a, b, true)
}

fn compare(a: &Term, b: &Term, exact: bool) -> Ordering {
    match (a, b) {
        (Term::Int(a), Term::Int(b)) => a.cmp(b),
        (Term::Float(a), Term::Float(b)) => {
            let by_value = a.partial_cmp(b).unwrap_or_else(|| a.total_cmp(b));
            if exact {
                by_value.then_with(|| a.total_cmp(b))
            } else {
                by_value
            }
        }
        (Term::Int(a), Term::Float(b)) => int_float(a, *b).then(if exact { Less } else { Equal }),
        (Term::Float(a), Term::Int(b)) => {
            int_float(b, *a)
                .reverse()
                .then(if exact { Greater } else { Equal })
        }
        (Term::Atom(a), Term::Atom(b)) => a.chars().cmp(b.chars()),
        (Term::Ref(a), Term::Ref(b))
        | (Term::Port(a), Term::Port(b))
        | (Term::Pid(a), Term::Pid(b)) => a.cmp(b),
        (Term::Fun(m, f, a), Term::Fun(m2, f2, a2)) => (m, f, a).cmp(&(m2, f2, a2)),
        (Term::Tuple(a), Term::Tuple(b)) => {
            a.len().cmp(&b.len()).then_with(|| elements(a, b, exact))
        }
        (Term::Map(a), Term::Map(b)) => maps(a, b, exact),
        (Term::Set(a), Term::Set(b)) => {
            let sorted = |set: &[Term]| {
                let mut sorted = set.to_vec();
                sorted.sort_by(self::exact);
                sorted
            };
            a.len()
                .cmp(&b.len())
                .then_with(|| elements(&sorted(a), &sorted(b), exact))
        }
        (Term::Opaque(t, id, _), Term::Opaque(t2, id2, _)) => (t, id).cmp(&(t2, id2)),
        (Term::Cut(a), Term::Cut(b)) => a.cmp(b),
        _ => match rank(a).cmp(&rank(b)) {
            Equal if rank(a) >= 10 => binaries(a, b),
            Equal => lists(a, b, exact),
            unequal => unequal,
        },
    }
}

/// Exactly: no integer is rounded to a float.
fn int_float(int: &BigInt, float: f64) -> Ordering {
    if float.is_nan() {
        return Less;
    }
    if float.is_infinite() {
        return if float > 0.0 { Less } else { Greater };
    }
    let whole = float.trunc();
    let truncated = big_of(whole);
    int.cmp(&truncated)
        .then_with(|| 0.0f64.partial_cmp(&(float - whole)).unwrap_or(Equal))
}

/// The integer that a whole, finite float is.
fn big_of(whole: f64) -> BigInt {
    let bits = whole.abs().to_bits();
    let exponent = (bits >> 52) as i64 - 1075;
    let mantissa = BigInt::from((bits & ((1 << 52) - 1)) | 1 << 52);
    let big = if whole == 0.0 {
        BigInt::from(0)
    } else if exponent >= 0 {
        mantissa << exponent
    } else {
        mantissa >> -exponent
    };
    if whole < 0.0 {
        -big
    } else {
        big
    }
}

fn elements(a: &[Term], b: &[Term], exact: bool) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| compare(a, b, exact))
        .find(|o| o.is_ne())
        .unwrap_or(Equal)
}

/// By size, then by keys in key order (integers before floats), then by values in that order.
fn maps(a: &[(Term, Term)], b: &[(Term, Term)], is_exact: bool) -> Ordering {
    fn sorted(map: &[(Term, Term)]) -> Vec<&(Term, Term)> {
        let mut sorted: Vec<_> = map.iter().collect();
        sorted.sort_by(|x, y| key_order(&x.0, &y.0));
        sorted
    }
    let by_size = a.len().cmp(&b.len());
    if by_size.is_ne() {
        return by_size;
    }
    let (a, b) = (sorted(a), sorted(b));
    let keys = a
        .iter()
        .zip(&b)
        .map(|(a, b)| key_order(&a.0, &b.0))
        .find(|o| o.is_ne());
    keys.or_else(|| {
        a.iter()
            .zip(&b)
            .map(|(a, b)| compare(&a.1, &b.1, is_exact))
            .find(|o| o.is_ne())
    })
    .unwrap_or(Equal)
}

/// Keys of maps: as [`exact`], but every integer before every float.
fn key_order(a: &Term, b: &Term) -> Ordering {
    match (a, b) {
        (Term::Int(_), Term::Float(_)) => Less,
        (Term::Float(_), Term::Int(_)) => Greater,
        _ => exact(a, b),
    }
}

/// Both are lists and not both proper and empty.
fn lists(a: &Term, b: &Term, exact: bool) -> Ordering {
    fn parts(term: &Term) -> (&[Term], Option<&Term>) {
        match term {
            Term::List(elements) => (elements, None),
            Term::ImproperList(elements, tail) => (elements, Some(tail)),
            _ => (&[], None),
        }
    }
    let ((a, a_tail), (b, b_tail)) = (parts(a), parts(b));
    let common = elements(a, b, exact);
    if common.is_ne() || (a.len() == b.len() && a_tail.is_none() && b_tail.is_none()) {
        return common;
    }
    let nil = Term::List(Vec::new());
    let rest = |list: &[Term], tail: Option<&Term>, at: usize| -> Term {
        match (&list[at..], tail) {
            ([], tail) => tail.unwrap_or(&nil).clone(),
            (more, None) => Term::List(more.to_vec()),
            (more, Some(tail)) => Term::ImproperList(more.to_vec(), Box::new(tail.clone())),
        }
    };
    if a.len() == b.len() {
        return compare(a_tail.unwrap_or(&nil), b_tail.unwrap_or(&nil), exact);
    }
    let at = a.len().min(b.len());
    compare(&rest(a, a_tail, at), &rest(b, b_tail, at), exact)
}

/// Bit by bit; of two that begin the same the shorter comes first.
fn binaries(a: &Term, b: &Term) -> Ordering {
    let (Some((a, a_bits)), Some((b, b_bits))) = (a.as_binary(), b.as_binary()) else {
        return Equal;
    };
    let len = |bytes: &[u8], bits: u8| {
        if bytes.is_empty() {
            0
        } else {
            (bytes.len() - 1) * 8 + bits as usize
        }
    };
    let (a_len, b_len) = (len(a, a_bits), len(b, b_bits));
    let bit = |bytes: &[u8], n: usize| bytes[n / 8] >> (7 - n % 8) & 1;
    let whole = a_len.min(b_len) / 8;
    a[..whole]
        .cmp(&b[..whole])
        .then_with(|| {
            let tail = whole * 8..a_len.min(b_len);
            tail.map(|n| bit(a, n).cmp(&bit(b, n)))
                .find(|o| o.is_ne())
                .unwrap_or(Equal)
        })
        .then(a_len.cmp(&b_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_in_erlangs_order() {
        let in_order = [
            Term::from(1),
            Term::atom("a"),
            Term::Fun("m".into(), "f".into(), 0),
            Term::Tuple(vec![]),
            Term::Map(vec![]),
            Term::List(vec![]),
            Term::List(vec![Term::from(1)]),
            Term::str(""),
        ];
        for pair in in_order.windows(2) {
            assert_eq!(loose(&pair[0], &pair[1]), Less, "{pair:?}");
        }
    }

    #[test]
    fn numbers_compare_by_value_without_rounding() {
        let big = Term::Int(BigInt::from(1u64 << 53) + 1);
        assert_eq!(loose(&big, &Term::Float((1u64 << 53) as f64)), Greater);
        assert_eq!(loose(&Term::from(1), &Term::Float(1.0)), Equal);
        assert_ne!(Term::from(1), Term::Float(1.0));
        assert_ne!(Term::Float(0.0), Term::Float(-0.0));
        assert_eq!(loose(&Term::Float(0.0), &Term::Float(-0.0)), Equal);
        assert_eq!(loose(&Term::from(-3), &Term::Float(-3.5)), Greater);
    }

    #[test]
    fn lists_go_on_into_their_tails() {
        let one = Term::from(1);
        let improper = Term::ImproperList(vec![one.clone()], Box::new(Term::from(2)));
        assert_eq!(loose(&improper, &Term::List(vec![one.clone()])), Less);
        assert_eq!(
            loose(
                &Term::List(vec![one.clone(), one.clone()]),
                &Term::List(vec![one])
            ),
            Greater
        );
    }

    #[test]
    fn text_and_bytes_are_one_kind_of_binary() {
        assert_eq!(Term::str("ab"), Term::Bytes((*b"ab").into()));
        assert_eq!(
            loose(
                &Term::BitString((*b"\xa0").into(), 3),
                &Term::Bytes((*b"\xa0").into())
            ),
            Less
        );
    }
}
