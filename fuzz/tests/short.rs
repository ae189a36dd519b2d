//! The short form: every body over random bytes, half of them of the kind that it is likely to make something of.

use inviso_term::{etf, term::Term};
use proptest::{collection::vec, prelude::*};

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let term = prop_oneof![
        any::<i64>().prop_map(Term::from),
        any::<f64>().prop_map(Term::Float),
        "[a-z$.]{0,9}".prop_map(|name| Term::atom(&name)),
        ".{0,5}".prop_map(|text| Term::str(&text)),
        vec(any::<i64>().prop_map(Term::from), 0..4).prop_map(Term::List),
        vec((any::<i64>().prop_map(Term::from), any::<bool>().prop_map(|b| Term::from(i64::from(b)))), 0..2)
            .prop_map(Term::Map),
    ];
    prop_oneof![
        3 => term.prop_map(|term| etf::encode(&term)),
        2 => (70u8..=131).prop_map(|tag| vec![tag]),
        2 => (0u8..6).prop_map(|n| vec![0, 0, 0, n]),
        2 => (0u8..6).prop_map(|n| vec![n]),
        1 => Just(vec![255]),
    ]
}

fn term_like() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![any::<Vec<u8>>(), vec(piece(), 0..20).prop_map(|pieces| pieces.concat())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn etf_takes_any_bytes(depth in 0u8..20, room: u8, bytes in term_like()) {
        inviso_fuzz::etf(&[&[depth, room], &bytes[..]].concat());
    }

    #[test]
    fn order_is_one(bytes in term_like()) {
        inviso_fuzz::order(&bytes);
    }

    #[test]
    fn header_takes_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        inviso_fuzz::header(&bytes);
    }

    #[test]
    fn ring_agrees_with_the_list(bytes in vec(any::<u8>(), 0..200)) {
        inviso_fuzz::ring(&bytes);
    }
}
