//! The bodies of the fuzz targets: each takes any bytes and panics at an error.
//!
//! | target | what must hold |
//! | --- | --- |
//! | [`etf`] | any bytes are a term or refused; a term that was read is written and read again as the same, in any room |
//! | [`order`] | Erlang's order over any terms is an order, and agrees with equality |
//! | [`header`] | any record header is taken apart and put together again; only numbers of kinds are kinds |
//! | [`match_compile`] | any term is a match specification or refused, with problems that can be shown |
//! | [`match_run`] | a compiled program gives the result of the slow interpreter |
//! | [`log`] | any bytes are a log: records are read, damage is reported; the records can be written and read again |
//! | [`client`] | a client reads the same records, whatever the pieces in which the bytes come |
//! | [`ring`] | pushes and drains in any sequence agree with a slow list; read + lost = produced |
#![forbid(unsafe_code)]

mod log;
mod programs;
mod ring;
pub use log::{client, log};
pub use programs::{match_compile, match_run};
pub use ring::ring;

use std::{borrow::Cow, cmp::Ordering};

use inviso_term::{
    etf::{self, Decoder, Encoder, Limits},
    order::exact,
    record::{Header, Kind},
    term::Term,
};

/// The external term format. The first two bytes choose the limits and the room.
pub fn etf(bytes: &[u8]) {
    let _ = etf::decode(bytes);
    if let Ok(term) = etf::decode(&etf::portable(bytes)) {
        assert!(matches!(etf::portable(&etf::encode(&term)), Cow::Borrowed(_)), "{term:?}");
    }
    let [depth, room, rest @ ..] = bytes else { return };
    let limits = Limits { depth: usize::from(*depth), ..Limits::default() };
    let Ok(term) = Decoder::new(rest, limits).and_then(|mut decoder| decoder.term()) else { return };
    let written = etf::encode(&term);
    let again = etf::decode(&written).expect("what was written can be read");
    // as text, because equality doesn't tell text from bytes
    assert_eq!(format!("{again:?}"), format!("{term:?}"));
    assert_eq!(etf::encode(&again), written);

    let mut buffer = vec![0; usize::from(*room)];
    let mut out = Encoder::new(&mut buffer);
    assert_eq!(out.term(&term).is_ok(), written.len() <= usize::from(*room));
    assert!(out.is_empty() || out.written() == written);
}

/// Erlang's order, over the terms that stand in the bytes one after the other.
pub fn order(bytes: &[u8]) {
    let mut terms = Vec::new();
    for part in bytes.split(|byte| *byte == 255).take(8) {
        terms.extend(etf::decode(part).ok());
    }
    terms.push(Term::from(0));
    for a in &terms {
        assert_eq!(exact(a, a), Ordering::Equal);
        for b in &terms {
            assert_eq!(exact(a, b), exact(b, a).reverse());
            assert_eq!(exact(a, b).is_eq(), a == b);
            for c in &terms {
                if exact(a, b).is_le() && exact(b, c).is_le() {
                    assert!(exact(a, c).is_le(), "{a:?} {b:?} {c:?}");
                }
            }
        }
    }
}

/// Record headers, 32 bytes each.
pub fn header(bytes: &[u8]) {
    for record in bytes.chunks_exact(Header::SIZE) {
        let mut words = [0; 4];
        for (word, part) in words.iter_mut().zip(record.chunks_exact(8)) {
            *word = u64::from_ne_bytes(part.try_into().expect("eight bytes"));
        }
        let header = Header::from_words(words);
        assert_eq!(header.words(), words);
        match header.kind() {
            Some(kind) => assert_eq!(kind as u8, header.kind),
            None => assert!(Kind::ALL.iter().all(|kind| *kind as u8 != header.kind)),
        }
        assert_eq!(Header::from_words(Header { len: header.len, ..header }.words()), header);
    }
}
