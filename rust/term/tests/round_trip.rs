//! Every term comes back as it was written, no bytes do harm, and the order is an order.

use inviso_term::{
    etf::{self, Encoder},
    order,
    term::{Identifier, Term},
};
use num_bigint::BigInt;
use proptest::prelude::*;

fn term() -> impl Strategy<Value = Term> {
    let name = "\\PC{0,6}|\\$*inviso\\.(set|cut|opaque)";
    let identifier = (any::<u64>(), any::<u32>()).prop_map(|(id, creation)| Identifier {
        id,
        node: "n@h".into(),
        creation,
    });
    let leaf = prop_oneof![
        any::<i64>().prop_map(Term::from),
        any::<(i128, bool)>().prop_map(|(n, far)| Term::Int(if far {
            BigInt::from(n) << 2100
        } else {
            BigInt::from(n)
        })),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Term::Float),
        name.prop_map(|n| Term::atom(&n)),
        "\\PC{0,8}".prop_map(|t| Term::str(&t)),
        any::<Vec<u8>>().prop_map(|b| Term::Bytes(b.into())),
        (1u8..8, 1usize..4).prop_map(|(bits, n)| Term::BitString(vec![0x80; n].into(), bits)),
        identifier.clone().prop_map(Term::Pid),
        identifier.clone().prop_map(Term::Port),
        identifier.prop_map(Term::Ref),
        ("[a-z]{1,3}", "[a-z]{1,3}", any::<u8>()).prop_map(|(m, f, a)| Term::Fun(
            m.into(),
            f.into(),
            a
        )),
        (
            "[a-z.]{1,9}",
            any::<u64>(),
            proptest::option::of("[a-z]{0,4}")
        )
            .prop_map(|(t, id, text)| Term::Opaque(t.into(), id, text.map(Into::into))),
        "[a-z]{1,9}".prop_map(|w| Term::Cut(w.into())),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let some = proptest::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            some.clone().prop_map(Term::Tuple),
            some.clone().prop_map(Term::List),
            some.clone().prop_map(Term::Set),
            (proptest::collection::vec(inner.clone(), 1..4), any::<i64>())
                .prop_map(|(l, t)| Term::ImproperList(l, Box::new(Term::from(t)))),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Term::Map),
        ]
    })
}

proptest! {
    #[test]
    fn a_term_comes_back(term in term()) {
        let back = etf::decode(&etf::encode(&term)).unwrap();
        prop_assert_eq!(format!("{:?}", back), format!("{:?}", term));
        prop_assert_eq!(&etf::decode(&etf::encode_versioned(&term)).unwrap(), &term);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        let _ = etf::decode(&bytes);
    }

    #[test]
    fn damaged_terms_are_read_or_refused(term in term(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = etf::encode(&term);
        let n = at.index(bytes.len());
        bytes[n] = byte;
        let _ = etf::decode(&bytes);
        let _ = etf::decode(&bytes[..n]);
    }

    #[test]
    fn a_buffer_without_room_is_full(term in term(), room in 0usize..64) {
        let all = etf::encode(&term);
        let mut buffer = vec![0; room];
        let mut out = Encoder::new(&mut buffer);
        prop_assert_eq!(out.term(&term).is_ok(), all.len() <= room);
        prop_assert!(out.len() <= room);
    }

    #[test]
    fn the_order_is_an_order(a in term(), b in term(), c in term()) {
        for compare in [order::loose, order::exact] {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert!(compare(&a, &a).is_eq());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
