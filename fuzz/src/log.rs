//! The reader of logs over any bytes.

use inviso_log::{
    blocks, convert,
    damage::What,
    frame::{self, Record},
    reader::{Event, Reader},
    records::Records,
    stamp,
};
use std::io::{self, Read};

/// The result of a reader for one record.
#[derive(Debug, PartialEq)]
enum Found {
    Term(u64, Vec<u8>),
    Dropped(u64, u32),
    Damage(u64, What),
}

impl From<Event<'_>> for Found {
    fn from(event: Event<'_>) -> Found {
        match event {
            Event::Record { at, record: Record::Term(term) } => Found::Term(at, term.to_vec()),
            Event::Record { at, record: Record::Dropped(n) } => Found::Dropped(at, n),
            Event::Damage(damage) => Found::Damage(damage.at, damage.what),
        }
    }
}

/// Gives bytes in pieces whose sizes are bytes themselves; a size of 0 is a refusal.
struct Pieces<'a> {
    sizes: &'a [u8],
    bytes: &'a [u8],
    turn: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.get(self.turn % self.sizes.len().max(1)).copied().unwrap_or(1);
        self.turn += 1;
        if size == 0 && self.turn % 2 == 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = usize::from(size).max(1).min(to.len()).min(self.bytes.len());
        let (now, later) = self.bytes.split_at(n);
        to[..n].copy_from_slice(now);
        self.bytes = later;
        Ok(n)
    }
}

fn all(mut reader: Reader<impl Read>) -> Vec<Found> {
    let mut found = Vec::new();
    loop {
        match reader.read() {
            Ok(Some(event)) => found.push(event.into()),
            Ok(None) => return found,
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

/// A file of either form; the first byte chooses. The read records are written in Erlang's form, and read as the same.
pub fn log(bytes: &[u8]) {
    let [form, bytes @ ..] = bytes else { return };
    let head: &[u8] = if form % 2 == 0 { &[] } else { &blocks::MAGIC };
    let bytes = [head, bytes].concat();
    let found = all(Reader::new(&bytes[..]).limit(usize::MAX));
    if bytes.first() != Some(&blocks::MAGIC[0]) {
        let walked = Records::new(&bytes).map(|found| match found {
            Ok((at, record)) => Event::Record { at, record }.into(),
            Err(damage) => Event::Damage(damage).into(),
        });
        assert_eq!(found, walked.collect::<Vec<Found>>());
    }
    let mut erlang = Vec::new();
    let done = convert::to_erlang(&bytes[..], &mut erlang).expect("nothing is refused");
    let again = all(Reader::new(&erlang[..]));
    assert_eq!(done.records, again.len() as u64);
    assert!(again.iter().all(|found| !matches!(found, Found::Damage(..))));
}

/// A client gets the same in pieces of any size as in one piece. The first byte is the number of sizes that follow.
pub fn client(bytes: &[u8]) {
    let Some((n, rest)) = bytes.split_first() else { return };
    let (sizes, bytes) = rest.split_at(usize::from(*n % 8).min(rest.len()));
    let limit = 1 << 16;
    let pieces = Pieces { sizes, bytes, turn: 0 };
    let found = all(Reader::new(pieces).limit(limit));
    assert_eq!(found, all(Reader::new(bytes).limit(limit)));

    // a client that follows gets everything but the end, or but the records that a damaged block may hide: after the
    // report of such a block it waits for a next one, and the other client knows that no more comes
    let mut reader = Reader::new(bytes).limit(limit).follow(true);
    let mut lost = false;
    for expected in &found {
        match reader.read().expect("nothing is refused") {
            Some(event) => assert_eq!(&Found::from(event), expected),
            None => {
                assert!(
                    lost || matches!(
                        expected,
                        Found::Damage(_, What::Cut(_) | What::Block | What::Hole(_) | What::NoTerm)
                    )
                );
                break;
            }
        }
        lost = matches!(expected, Found::Damage(_, What::Block | What::Long(_)));
    }

    // a client can send on all that it got
    let mut sent = Vec::new();
    for found in &found {
        match found {
            Found::Term(_, term) => {
                let _ = stamp::stamp(term);
                frame::put_term(&mut sent, term).expect("it is short");
            }
            Found::Dropped(_, n) => frame::put_dropped(&mut sent, u64::from(*n)),
            Found::Damage(..) => {}
        }
    }
    assert!(all(Reader::new(&sent[..])).iter().all(|found| !matches!(found, Found::Damage(..))));
}
