//! What Erlang has no floats for, as atoms.

use super::{encode_versioned, tag, Decoder, Limits};
use crate::term::Term;
use std::borrow::Cow;

/// The same term for Erlang, whose floats are all finite: the others become the atoms `nan`, `infinity` and `'-infinity'`.
/// Bytes without any come back as they are, and so do bytes that are no term; nothing but the term stays of others.
///
/// ```
/// use inviso_term::{etf, term::Term};
/// let pair = |float: Term| etf::encode_versioned(&Term::Tuple(vec![Term::from(1), float]));
/// assert_eq!(etf::portable(&pair(Term::Float(0.5))), pair(Term::Float(0.5)));
/// assert_eq!(etf::portable(&pair(Term::Float(f64::NEG_INFINITY))), pair(Term::atom("-infinity")));
/// ```
#[must_use]
pub fn portable(bytes: &[u8]) -> Cow<'_, [u8]> {
    if may_have_others(bytes) {
        rewritten(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned)
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Whether three bytes stand somewhere that could begin such a float: hardly ever by chance.
fn may_have_others(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == tag::NEW_FLOAT) {
        rest = rest.get(at + 1..).unwrap_or_default();
        if matches!(rest, [0x7f | 0xff, 0xf0..=0xff, ..]) {
            return true;
        }
    }
    false
}

#[cold]
fn rewritten(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut term = Decoder::new(bytes, Limits::default()).and_then(|mut decoder| decoder.term()).ok()?;
    replace(&mut term).then(|| encode_versioned(&term))
}

/// Whether there was any. As deep as the decoder goes.
fn replace(term: &mut Term) -> bool {
    let all = |terms: &mut [Term]| terms.iter_mut().fold(false, |any, term| replace(term) | any);
    match term {
        Term::Float(value) if !value.is_finite() => {
            *term = Term::atom(match *value {
                f64::INFINITY => "infinity",
                f64::NEG_INFINITY => "-infinity",
                _ => "nan",
            });
            true
        }
        Term::Tuple(elements) | Term::List(elements) | Term::Set(elements) => all(elements),
        Term::ImproperList(elements, tail) => all(elements) | replace(tail),
        Term::Map(pairs) => pairs.iter_mut().fold(false, |any, (key, value)| replace(key) | replace(value) | any),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etf::{decode, encode};

    #[test]
    fn only_what_is_not_finite_is_replaced_wherever_it_is() {
        let around = |x: Term| {
            let pairs = vec![(x.clone(), x.clone()), (Term::from(1), Term::Float(f64::MAX))];
            let improper = Term::ImproperList(vec![x.clone()], Box::new(x.clone()));
            Term::List(vec![Term::Map(pairs), improper, Term::Tuple(vec![x.clone()]), Term::Set(vec![x])])
        };
        for (value, name) in [(f64::NAN, "nan"), (f64::INFINITY, "infinity"), (f64::NEG_INFINITY, "-infinity")] {
            let bytes = encode(&around(Term::Float(value)));
            assert_eq!(decode(&portable(&bytes)).unwrap(), around(Term::atom(name)));
        }
        for value in [0.0, f64::MAX, f64::MIN, f64::EPSILON] {
            assert!(matches!(portable(&encode(&around(Term::Float(value)))), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn bytes_that_only_look_so_stay() {
        let bytes = encode(&Term::Bytes([70, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0].into()));
        assert!(matches!(portable(&bytes), Cow::Borrowed(_)));
        assert!(matches!(portable(&[70, 0xff, 0xff]), Cow::Borrowed(_)));
    }
}
