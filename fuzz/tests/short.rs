//! The short form: every body over random bytes, half of them of a kind that it probably accepts. Bodies that read
//! foreign bytes do so for INVISO_FUZZ_SECONDS, if that is set.

use inviso_term::{etf, term::Term};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{TestError, TestRunner},
};
use std::time::{Duration, Instant};

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

fn argument() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![(-3i64..3).prop_map(Term::from), "[ab]".prop_map(|name| Term::atom(&name))];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![vec(inner.clone(), 0..3).prop_map(Term::Tuple), vec(inner, 0..3).prop_map(Term::List)]
    })
}

/// A specification of one clause, or nearly one, and at times with a byte changed.
fn specification() -> impl Strategy<Value = Vec<u8>> {
    let words = &["_", "$1", "$_", "$$", ">", "+", "hd", "tl", "message", "and", "is_list", "const", "return_trace"];
    let word = prop_oneof![3 => proptest::sample::select(words).prop_map(Term::atom), 1 => argument()];
    let expression = word.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![4 => vec(inner.clone(), 1..4).prop_map(Term::Tuple), 1 => vec(inner, 0..3).prop_map(Term::List)]
    });
    let expressions = || vec(expression.clone(), 0..3).prop_map(Term::List);
    let head = prop_oneof![2 => Just(Term::List(vec![Term::atom("$1")])), 1 => expression.clone()];
    (head, expressions(), expressions(), any::<u16>(), prop::option::weighted(0.2, any::<u8>())).prop_map(
        |(head, guards, body, at, byte)| {
            let mut bytes = etf::encode(&Term::List(vec![Term::Tuple(vec![head, guards, body])]));
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte.unwrap_or(bytes[at]);
            bytes
        },
    )
}

/// Records, blocks, and bytes that are nearly such.
fn log_like() -> impl Strategy<Value = Vec<u8>> {
    let payload = || prop_oneof![term_like(), vec(any::<u8>(), 0..9).prop_map(|rest| [vec![131], rest].concat())];
    let piece = prop_oneof![
        6 => payload().prop_map(|payload| [&[0][..], &(payload.len() as u32).to_be_bytes(), &payload].concat()),
        2 => any::<u32>().prop_map(|n| [&[1][..], &n.to_be_bytes()].concat()),
        1 => (payload(), any::<u32>()).prop_map(|(payload, n)| [&[0][..], &n.to_be_bytes(), &payload].concat()),
        1 => payload(),
        1 => Just(inviso_log::blocks::MAGIC.to_vec()),
        1 => Just(inviso_log::blocks::MARK.to_vec()),
    ];
    let bytes = vec(piece, 0..20).prop_map(|pieces| pieces.concat());
    let blocks = (vec(bytes.clone(), 0..4), any::<u16>(), prop::option::weighted(0.5, any::<u8>()));
    prop_oneof![
           2 => bytes,
           1 => blocks.prop_map(|(blocks, at, byte)| {
               let mut all = inviso_log::blocks::MAGIC.to_vec();
               let mut packer = inviso_log::blocks::Packer::default();
    blocks.iter().for_each(|block| packer.put(&mut all, block));
               let at = usize::from(at) % all.len();
               all[at] = byte.unwrap_or(all[at]);
               all
           }),
       ]
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Once at least, and again until the time is over; each time with other bytes.
fn for_a_while<S: Strategy>(name: &str, strategy: S, body: impl Fn(S::Value)) {
    let seconds = std::env::var("INVISO_FUZZ_SECONDS")
        .map_or(0, |seconds| seconds.parse().expect("INVISO_FUZZ_SECONDS is a number"));
    let (end, mut runs) = (Instant::now() + Duration::from_secs(seconds), 0);
    loop {
        let found = TestRunner::new(config()).run(&strategy, |value| {
            body(value);
            Ok(())
        });
        match found {
            Ok(()) => runs += config().cases,
            Err(TestError::Fail(why, value)) => panic!("{name}: {why}\n{value:?}"),
            Err(TestError::Abort(why)) => panic!("{name}: {why}"),
        }
        if Instant::now() >= end {
            break;
        }
    }
    println!("{name}: {runs} runs");
}

#[test]
fn etf_takes_any_bytes() {
    let bytes =
        (0u8..20, any::<u8>(), term_like()).prop_map(|(depth, room, bytes)| [&[depth, room], &bytes[..]].concat());
    for_a_while("etf", bytes, |bytes| inviso_fuzz::etf(&bytes));
}

#[test]
fn logs_are_read() {
    let log = (any::<u8>(), log_like()).prop_map(|(form, bytes)| [&[form], &bytes[..]].concat());
    for_a_while("log", prop_oneof![3 => log, 1 => any::<Vec<u8>>()], |bytes| inviso_fuzz::log(&bytes));
}

#[test]
fn clients_read_the_same_in_pieces() {
    let pieces = (vec(any::<u8>(), 0..8), log_like())
        .prop_map(|(sizes, bytes)| [&[sizes.len() as u8], &sizes[..], &bytes[..]].concat());
    for_a_while("client", pieces, |bytes| inviso_fuzz::client(&bytes));
}

/// Found by the test above: bytes like a long block after a damaged one hide a whole block from a client that waits.
#[test]
fn a_client_that_follows_waits_for_what_may_be_a_block() {
    let mut packer = inviso_log::blocks::Packer::default();
    let mut block = Vec::new();
    packer.put(&mut block, &[1, 0, 0, 0, 9]);
    let mut damaged = block.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let long = [&inviso_log::blocks::MARK[..], &[0, 0, 1, 0].repeat(2), &[7; 4]].concat();
    inviso_fuzz::client(&[&[1, 200], &inviso_log::blocks::MAGIC[..], &damaged, &long, &block].concat());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn order_is_one(bytes in term_like()) {
        inviso_fuzz::order(&bytes);
    }

    #[test]
    fn header_takes_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        inviso_fuzz::header(&bytes);
    }

    #[test]
    fn match_specifications_are_compiled_or_refused(bytes in term_like(), spec in specification()) {
        inviso_fuzz::match_compile(&bytes);
        inviso_fuzz::match_compile(&spec);
    }

    #[test]
    fn programs_agree_with_the_interpreter(spec in specification(), subjects in vec(argument(), 1..4)) {
        let subjects = subjects.iter().flat_map(|subject| etf::encode(&Term::List(vec![subject.clone()])));
        inviso_fuzz::match_run(&[spec, subjects.collect()].concat());
    }

    #[test]
    fn ring_agrees_with_the_list(bytes in vec(any::<u8>(), 0..200)) {
        inviso_fuzz::ring(&bytes);
    }
}
