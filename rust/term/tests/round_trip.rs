//! Every term is read back as it was written, and any bytes are read or refused.

use inviso_term::{
    etf::{self, DecodeError, Decoder, Encoder, Limits},
    term::{Identifier, Record, Term},
};
use num_bigint::BigInt;
use proptest::{
    collection::{hash_map, vec},
    option,
    prelude::*,
    sample,
};

fn identifier() -> impl Strategy<Value = Identifier> {
    (any::<u64>(), "\\PC{1,6}", any::<u32>()).prop_map(|(id, node, creation)| Identifier::new(id, &node, creation))
}

fn reference() -> impl Strategy<Value = Identifier> {
    (identifier(), prop_oneof![Just(0), 0u128..1 << 18, 0u128..1 << 96])
        .prop_map(|(of, rest)| Identifier { rest, ..of })
}

fn leaf() -> impl Strategy<Value = Term> {
    let name = "\\PC{0,6}|\\$*inviso\\.(set|cut|opaque|)|ä{250,255}";
    prop_oneof![
        any::<i64>().prop_map(Term::from),
        (-300i64..300).prop_map(Term::from),
        (any::<i128>(), prop_oneof![Just(0), 1..100, 1900..2200])
            .prop_map(|(n, shift)| Term::Int(BigInt::from(n) << shift)),
        any::<f64>().prop_map(Term::Float),
        name.prop_map(|name| Term::atom(&name)),
        "\\PC{0,8}".prop_map(|text| Term::str(&text)),
        any::<Vec<u8>>().prop_map(|bytes| Term::Bytes(bytes.into())),
        (1u8..8, vec(any::<u8>(), 1..4)).prop_map(|(bits, bytes)| Term::BitString(bytes.into(), bits)),
        identifier().prop_map(Term::Pid),
        identifier().prop_map(Term::Port),
        reference().prop_map(Term::Ref),
        ("\\PC{1,3}", "\\PC{1,3}", 0..=etf::SMALL as u64).prop_map(|(m, f, a)| Term::Fun(m.into(), f.into(), a)),
        ("\\PC{0,9}", any::<u64>(), option::of("\\PC{0,4}")).prop_map(|(name, id, text)| Term::Opaque(
            name.into(),
            id,
            text.map(Into::into)
        )),
        "[a-z]{1,9}".prop_map(|what| Term::Cut(what.into())),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    leaf().prop_recursive(4, 40, 6, |inner| {
        let some = vec(inner.clone(), 0..6);
        let mark = "\\$inviso\\.(set|cut|opaque)".prop_map(|name| Term::atom(&name));
        prop_oneof![
            some.clone().prop_map(Term::Tuple),
            some.clone().prop_map(Term::List),
            some.clone().prop_map(Term::Set),
            (mark, vec(inner.clone(), 1..4))
                .prop_map(|(mark, rest)| { Term::Tuple([mark].into_iter().chain(rest).collect()) }),
            (vec(inner.clone(), 1..4), leaf()).prop_map(|(front, tail)| Term::ImproperList(front, Box::new(tail))),
            record(inner.clone()),
            vec((inner.clone(), inner), 0..4).prop_map(Term::Map),
        ]
    })
}

fn record(value: impl Strategy<Value = Term>) -> impl Strategy<Value = Term> {
    let name = || "\\PC{0,4}|ä{250,255}";
    let fields = hash_map(name(), value, 0..4);
    (name(), name(), any::<bool>(), fields).prop_map(|(module, name, exported, fields)| {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Term::Record(Box::new(Record { module: module.into(), name: name.into(), exported, fields }))
    })
}

/// Bytes that are more often the beginning of a term than random ones.
fn term_like() -> impl Strategy<Value = Vec<u8>> {
    let mark = sample::select(vec!["$inviso.set", "$inviso.cut", "$inviso.opaque", "n@h"])
        .prop_map(|name| [&[119, name.len() as u8], name.as_bytes()].concat());
    let piece = prop_oneof![
        4 => (67u8..=131).prop_map(|tag| vec![tag]),
        4 => (0u8..6).prop_map(|n| vec![n]),
        2 => (0u8..6).prop_map(|n| vec![0, 0, 0, n]),
        1 => mark,
        1 => any::<u8>().prop_map(|n| vec![n]),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The text of a term. It distinguishes text from bytes, which `==` does not.
fn shown(term: &Term) -> String {
    format!("{term:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_term_is_read_back(term in term()) {
        let back = etf::decode(&etf::encode(&term)).unwrap();
        prop_assert_eq!(shown(&back), shown(&term));
        prop_assert_eq!(&back, &term);
        prop_assert_eq!(&etf::decode(&etf::encode_versioned(&term)).unwrap(), &term);
    }

    #[test]
    fn a_term_that_can_be_read_can_be_written(bytes in term_like()) {
        if let Ok(term) = Decoder::new(&bytes, Limits::default()).and_then(|mut decoder| decoder.term()) {
            prop_assert_eq!(shown(&etf::decode(&etf::encode(&term)).unwrap()), shown(&term));
        }
    }

    #[test]
    fn a_plain_term_can_be_read(bytes in term_like(), term in term(), at in any::<sample::Index>(), byte: u8) {
        let mut damaged = etf::encode(&term);
        prop_assert!(etf::is_whole(&damaged));
        let at = at.index(damaged.len());
        damaged[at] = byte;
        for bytes in [bytes, damaged] {
            let read = Decoder::new(&bytes, Limits::default()).and_then(|mut decoder| decoder.skip());
            if etf::is_plain(&bytes) {
                prop_assert!(matches!(read, Ok(()) | Err(DecodeError::Deep)));
            }
            prop_assert!(read.is_err() || etf::is_whole(&bytes) || bytes.contains(&131) || bytes.contains(&117));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        let _ = etf::decode(&bytes);
    }

    #[test]
    fn damaged_terms_are_read_or_refused(term in term(), at in any::<sample::Index>(), byte in any::<u8>()) {
        let mut bytes = etf::encode(&term);
        let n = at.index(bytes.len());
        prop_assert!(etf::decode(&bytes[..n]).is_err());
        bytes[n] = byte;
        let _ = etf::decode(&bytes);
    }

    #[test]
    fn a_buffer_without_room_is_full(term in term(), first in term(), room in 0usize..200) {
        let (before, all) = (etf::encode(&first), etf::encode(&term));
        let mut buffer = vec![0; room];
        let mut out = Encoder::new(&mut buffer);
        prop_assert_eq!(out.term(&first).is_ok(), before.len() <= room);
        let mark = out.mark();
        prop_assert_eq!(out.term(&term).is_ok(), mark + all.len() <= room);
        if out.len() > mark {
            prop_assert_eq!(&out.written()[mark..], all);
        }
        prop_assert_eq!(out.room() + out.len(), room);
        out.truncate(mark);
        prop_assert_eq!(out.len(), mark);
    }
}

fn nested(depth: usize) -> Term {
    (1..depth).fold(Term::from(7), |term, _| Term::List(vec![term]))
}

/// On a thread with little stack, as an interpreter's threads may have. Unoptimized code takes more.
fn with_little_stack(run: impl FnOnce() + Send + 'static) {
    let size = if cfg!(debug_assertions) { 2 << 20 } else { 256 << 10 };
    std::thread::Builder::new().stack_size(size).spawn(run).unwrap().join().unwrap();
}

#[test]
fn nesting_ends_at_the_limit() {
    with_little_stack(|| {
        let deepest = nested(etf::MAX_DEPTH);
        assert_eq!(etf::decode(&etf::encode(&deepest)), Ok(deepest));

        // deeper parts are cut in writing
        let bytes = etf::encode(&nested(etf::MAX_DEPTH + 50));
        let mut inner = &etf::decode(&bytes).unwrap();
        let mut levels = 1;
        while let Term::List(elements) = inner {
            (inner, levels) = (&elements[0], levels + 1);
        }
        assert_eq!((inner, levels), (&Term::Cut("depth".into()), etf::MAX_DEPTH));

        // and refused in reading, whatever the limit
        let mut bytes = [108, 0, 0, 0, 1].repeat(100_000);
        bytes.push(106);
        let limits = Limits { depth: usize::MAX, ..Limits::default() };
        assert_eq!(Decoder::new(&bytes, limits).unwrap().term(), Err(DecodeError::Deep));
        let set = [&[104, 2, 119, 11][..], b"$inviso.set", &[108, 0, 0, 0, 1]].concat();
        let record = [67, 0, 0, 0, 1, 1, 119, 1, 109, 119, 1, 114, 119, 1, 102];
        for piece in [&[116, 0, 0, 0, 1][..], &[104, 1], &[105, 0, 0, 0, 1], &[108, 0, 0, 0, 1, 106], &set, &record] {
            assert_eq!(etf::decode(&piece.repeat(10_000)), Err(DecodeError::Deep));
        }
    });
}

#[test]
fn limits_are_kept() {
    let bytes = etf::encode(&nested(3));
    let with = |limits| Decoder::new(&bytes, limits).and_then(|mut decoder| decoder.term());
    assert_eq!(with(Limits { depth: 3, bytes: bytes.len(), inflated: 0 }), Ok(nested(3)));
    assert_eq!(with(Limits { depth: 2, ..Limits::default() }), Err(DecodeError::Deep));
    assert_eq!(with(Limits { depth: 0, ..Limits::default() }), Err(DecodeError::Deep));
    assert_eq!(with(Limits { bytes: bytes.len() - 1, ..Limits::default() }), Err(DecodeError::Large));
}

#[test]
fn a_count_that_the_bytes_cannot_hold_takes_no_memory() {
    for head in [
        &[105, 255, 255, 255, 255][..],
        &[108, 255, 255, 255, 255],
        &[116, 255, 255, 255, 255],
        &[67, 255, 255, 255, 255, 0, 119, 0, 119, 0],
    ] {
        assert_eq!(etf::decode(head), Err(DecodeError::Short));
    }
}
