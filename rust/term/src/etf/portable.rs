//! Replaces the parts of terms that Erlang refuses.

use super::{encode::HERE, encode_versioned, measure, tag, terms::Unportable, Decoder, Limits, VERSION};
use crate::{order, term::Term};
use std::borrow::Cow;

/// The term as Erlang accepts it. Erlang refuses only two things that this crate encodes. Floats that are not finite become the
/// atoms `nan`, `infinity` and `'-infinity'`. A map with one key as text and as the same bytes (one binary for Erlang) becomes a
/// list of pairs. Other bytes stay unchanged, also bytes that are not a term. If a part was replaced, bytes after the term are
/// dropped.
///
/// ```
/// use inviso_term::{etf, term::Term};
/// let pair = |float: Term| etf::encode_versioned(&Term::Tuple(vec![Term::from(1), float]));
/// assert_eq!(etf::portable(&pair(Term::Float(0.5))), pair(Term::Float(0.5)));
/// assert_eq!(etf::portable(&pair(Term::Float(f64::NEG_INFINITY))), pair(Term::atom("-infinity")));
/// ```
#[must_use]
pub fn portable(bytes: &[u8]) -> Cow<'_, [u8]> {
    if may_be_refused(bytes) && has_what_may_be_refused(bytes) {
        rewritten(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned)
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Whether the bytes contain the beginning of such a float or of a map. They seldom do by chance.
fn may_be_refused(bytes: &[u8]) -> bool {
    // compressed bytes can't be searched
    if let [VERSION, tag::COMPRESSED, ..] = bytes {
        return true;
    }
    let mut from = 0;
    let next = |from| bytes.get(from..)?.iter().position(|byte| matches!(*byte, tag::NEW_FLOAT | tag::MAP));
    while let Some(at) = next(from).map(|at| from + at) {
        match bytes.get(at..) {
            Some([tag::NEW_FLOAT, 0x7f | 0xff, 0xf0..=0xff, ..]) => return true,
            // the end of the name that most identifiers have looks like a map
            Some([tag::MAP, 0, ..]) if !bytes.get(..=at).is_some_and(|before| before.ends_with(HERE)) => return true,
            _ => {}
        }
        from = at + 1;
    }
    false
}

/// Whether the term has such a float or map, or can't be read.
fn has_what_may_be_refused(bytes: &[u8]) -> bool {
    let term = bytes.strip_prefix(&[VERSION]).unwrap_or(bytes);
    let may = |term: &[u8]| matches!(term, [tag::NEW_FLOAT, 0x7f | 0xff, 0xf0..=0xff, ..] | [tag::MAP, ..]);
    measure::any(term, may).unwrap_or(true)
}

#[cold]
fn rewritten(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(bytes, Limits::default()).ok()?;
    let mut odd = Unportable { found: false };
    decoder.clone().read(&mut odd).ok()?;
    if !odd.found {
        return None;
    }
    let mut term = decoder.term().ok()?;
    replace(&mut term).then(|| [&encode_versioned(&term), decoder.rest()].concat())
}

/// Replaces all of them. Answers whether there were any. It goes as deep as the decoder.
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
        Term::Record(record) => record.fields.iter_mut().fold(false, |any, (_, value)| replace(value) | any),
        Term::Map(pairs) => {
            let any = pairs.iter_mut().fold(false, |any, (key, value)| replace(key) | replace(value) | any);
            if has_a_key_twice(pairs) {
                let pairs = std::mem::take(pairs).into_iter().map(|(key, value)| Term::Tuple(vec![key, value]));
                *term = Term::List(pairs.collect());
                return true;
            }
            any
        }
        _ => false,
    }
}

fn has_a_key_twice(pairs: &[(Term, Term)]) -> bool {
    let mut keys: Vec<_> = pairs.iter().map(|(key, _)| key).collect();
    keys.sort_by(|a, b| order::exact(a, b));
    keys.windows(2).any(|two| matches!(two, [a, b] if a == b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        etf::{decode, encode},
        term::Record,
    };
    use flate2::{write::ZlibEncoder, Compression};
    use std::io::Write;

    #[test]
    fn floats_that_are_not_finite_are_replaced_anywhere() {
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
    fn all_parts_of_a_container_are_replaced() {
        let record = |x: &Term| {
            let fields = vec![("f".into(), x.clone()), ("g".into(), x.clone())];
            Term::Record(Box::new(Record { module: "m".into(), name: "r".into(), exported: false, fields }))
        };
        let containers = |x: &Term, other: &Term| {
            let (x, other) = (|| x.clone(), || other.clone());
            vec![
                Term::Tuple(vec![x(), x()]),
                Term::List(vec![x(), x()]),
                Term::Set(vec![x(), other()]),
                Term::ImproperList(vec![x()], Box::new(x())),
                Term::Map(vec![(x(), x())]),
                Term::Map(vec![(Term::from(1), x()), (Term::from(2), x())]),
                Term::Map(vec![(x(), Term::from(1)), (other(), Term::from(2))]),
                record(&x()),
            ]
        };
        let before = containers(&Term::Float(f64::INFINITY), &Term::Float(f64::NEG_INFINITY));
        let after = containers(&Term::atom("infinity"), &Term::atom("-infinity"));
        for (before, after) in before.into_iter().zip(after) {
            assert_eq!(decode(&portable(&encode(&before))), Ok(after), "{before}");
        }
    }

    #[test]
    fn a_map_with_a_key_twice_is_a_list_of_pairs() {
        let with = |a: Term, b: Term| Term::Map(vec![(a, Term::from(1)), (b, Term::from(2))]);
        let (text, bytes) = (Term::str("key"), Term::Bytes((*b"key").into()));
        let pair = |key: &Term, value| Term::Tuple(vec![key.clone(), Term::from(value)]);
        let list = Term::List(vec![pair(&text, 1), pair(&bytes, 2)]);
        assert_eq!(decode(&portable(&encode(&with(text.clone(), bytes)))), Ok(list));
        let (nan, other) = (Term::Float(f64::NAN), Term::Float(-f64::NAN));
        let list = Term::List(vec![pair(&Term::atom("nan"), 1), pair(&Term::atom("nan"), 2)]);
        assert_eq!(decode(&portable(&encode(&with(nan, other)))), Ok(list));
        assert!(matches!(portable(&encode(&with(text, Term::str("other")))), Cow::Borrowed(_)));
        assert!(matches!(portable(&encode(&with(Term::from(1), Term::Float(1.0)))), Cow::Borrowed(_)));
        let many: Vec<_> = (0..300).map(|n| (Term::from(n % 299), Term::from(n))).collect();
        assert!(matches!(decode(&portable(&encode(&Term::Map(many)))), Ok(Term::List(pairs)) if pairs.len() == 300));
    }

    #[test]
    fn compressed_terms_and_records_are_searched() {
        let record = |x: Term| {
            let fields = vec![("f".into(), Term::from(1)), ("g".into(), x)];
            Term::Record(Box::new(Record { module: "m".into(), name: "r".into(), exported: false, fields }))
        };
        let bytes = encode_versioned(&record(Term::Float(f64::NAN)));
        assert_eq!(decode(&portable(&bytes)), Ok(record(Term::atom("nan"))));
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&bytes[1..]).unwrap();
        let size = (bytes.len() as u32 - 1).to_be_bytes();
        let packed = [&[VERSION, tag::COMPRESSED][..], &size, &packed.finish().unwrap()].concat();
        assert_eq!(decode(&portable(&packed)), Ok(record(Term::atom("nan"))));
    }

    #[test]
    fn bytes_that_only_look_like_such_parts_stay() {
        let bytes = encode(&Term::Bytes([70, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0].into()));
        assert!(matches!(portable(&bytes), Cow::Borrowed(_)));
        assert!(matches!(portable(&[70, 0xff, 0xff]), Cow::Borrowed(_)));
    }
}
