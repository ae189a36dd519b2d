//! Terms of a real node: plain, compressed, and in old encodings.

use flate2::{write::ZlibEncoder, Compression};
use inviso_term::{
    etf::{self, DecodeError, Decoder, Limits},
    term::Term,
};
use proptest::prelude::*;
use std::io::Write;

const TERMS: &str = include_str!("../../../tests/data/gold/etf/terms.txt");

fn hex(digits: &str) -> Vec<u8> {
    digits.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// All encodings on a line are one term for the node, and here.
#[test]
fn all_encodings_of_a_term_are_one_term() {
    let mut compressed = 0;
    for line in TERMS.lines() {
        let mut forms = line.split(' ').map(hex);
        let plain = forms.next().unwrap();
        let term = etf::decode(&plain).unwrap();
        for form in forms {
            compressed += usize::from(form.get(1) == Some(&80));
            let read = etf::decode(&form).unwrap();
            if read != term {
                // a fun that was created at run time is kept in its encoding, with the atoms of its time
                assert!(read.to_string().contains("#Fun<tgen."), "{line}");
                assert_eq!(read.to_string(), term.to_string());
            }
        }
        assert_eq!(etf::decode(&etf::encode_versioned(&term)).as_ref(), Ok(&term), "{line}");
        for length in 0..plain.len() {
            assert!(etf::decode(&plain[..length]).is_err(), "{line}");
        }
    }
    assert!(compressed > 50, "{compressed}");
}

#[test]
fn damage_is_refused_or_read_as_something_else() {
    for line in TERMS.lines() {
        for form in line.split(' ').map(hex).filter(|form| form.len() < 300) {
            for at in 0..form.len() {
                for bit in [1, 16, 128] {
                    let mut damaged = form.clone();
                    damaged[at] ^= bit;
                    if let Ok(term) = etf::decode(&damaged) {
                        let _ = etf::encode(&term);
                    }
                }
            }
        }
    }
}

/// The encoding of `term_to_binary(Term, [compressed])`, with this size.
fn compressed(term: &[u8], size: usize) -> Vec<u8> {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::fast());
    out.write_all(term).unwrap();
    [&[131, 80][..], &(size as u32).to_be_bytes(), &out.finish().unwrap()].concat()
}

#[test]
fn compressed_terms_are_read_as_by_erlang() {
    let one = [97, 1];
    assert_eq!(etf::decode(&compressed(&one, 2)), Ok(Term::from(1)));
    assert_eq!(etf::decode(&compressed(&one, 3)), Err(DecodeError::Compressed));
    assert_eq!(etf::decode(&compressed(&one, 1)), Err(DecodeError::Compressed));
    // bytes after the inner term are ignored, an inner version byte is an error
    assert_eq!(etf::decode(&compressed(&[97, 1, 97, 2], 4)), Ok(Term::from(1)));
    assert_eq!(etf::decode(&compressed(&[131, 97, 1], 3)), Err(DecodeError::Tag(131)));
    // only a whole term, after its version byte
    let inner = compressed(&one, 2);
    assert_eq!(etf::decode(&inner[1..]), Err(DecodeError::Tag(80)));
    assert_eq!(etf::decode(&[&[131, 104, 1], &inner[1..]].concat()), Err(DecodeError::Tag(80)));
    assert_eq!(etf::decode(&compressed(&inner[1..], inner.len() - 1)), Err(DecodeError::Tag(80)));
    // more terms follow it
    let two = [&inner[..], &[97, 2]].concat();
    let mut decoder = Decoder::new(&two, Limits::default()).unwrap();
    assert_eq!((decoder.term(), decoder.rest()), (Ok(Term::from(1)), &[97, 2][..]));
    assert_eq!(etf::decode(&two), Err(DecodeError::Trailing));
    let mut damaged = inner.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(etf::decode(&damaged), Err(DecodeError::Compressed));
    assert_eq!(DecodeError::Compressed.to_string(), "a damaged compressed term");
}

#[test]
fn compressed_terms_have_a_limit_of_their_own() {
    let zeroes = etf::encode(&Term::Bytes(vec![0; 1 << 20].into()));
    let bytes = compressed(&zeroes, zeroes.len());
    assert!(bytes.len() < 10_000);
    let with = |inflated| {
        let limits = Limits { inflated, ..Limits::default() };
        Decoder::new(&bytes, limits).and_then(|mut decoder| decoder.term())
    };
    assert!(with(zeroes.len()).is_ok());
    assert_eq!(with(zeroes.len() - 1), Err(DecodeError::Large));
    assert_eq!(etf::decode(&[131, 80, 255, 255, 255, 255]), Err(DecodeError::Large));
}

/// Only the node that wrote these can read them.
#[test]
fn terms_for_one_node_only_are_refused() {
    for (tag, rest) in [(121, "0102030405060708 6101"), (82, "00"), (73, "00000001"), (75, "000001"), (68, "00")] {
        let bytes = [vec![131, tag], hex(&rest.replace(' ', ""))].concat();
        assert_eq!(etf::decode(&bytes), Err(DecodeError::Tag(tag)));
    }
}

proptest! {
    #[test]
    fn any_compressed_bytes_are_read_or_refused(term: Vec<u8>, size in 0usize..100, at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = compressed(&term, size);
        let _ = etf::decode(&bytes);
        let _ = etf::decode(&compressed(&term, term.len()));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let _ = etf::decode(&bytes);
    }
}
