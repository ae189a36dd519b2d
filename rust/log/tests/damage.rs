//! Any bytes are read without a panic. Records before the damage are read, and the damage is reported.

use inviso_log::{
    blocks, convert,
    damage::{Damage, What},
    file::{FileLog, Form, Options},
    frame::{self, Record},
    reader::{Event, Reader},
    records::Records,
    sink::Sink,
};
use proptest::{collection::vec, prelude::*, sample};
use std::{
    fs,
    io::{self, Read, Write},
};

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
enum Made {
    Term(Vec<u8>),
    Dropped(u32),
}

impl From<Record<'_>> for Made {
    fn from(record: Record<'_>) -> Made {
        match record {
            Record::Term(payload) => Made::Term(payload.to_vec()),
            Record::Dropped(n) => Made::Dropped(n),
        }
    }
}

fn record() -> impl Strategy<Value = Made> {
    let binary = |bytes: Vec<u8>| [&[131, 109][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat();
    prop_oneof![
        4 => vec(any::<u8>(), 0..40).prop_map(move |bytes| Made::Term(binary(bytes))),
        1 => vec(any::<u8>(), 1000..3000).prop_map(move |bytes| Made::Term(binary(bytes))),
        1 => (1u32..).prop_map(Made::Dropped),
    ]
}

fn put(sink: &mut dyn Sink, records: &[Made]) {
    for record in records {
        match record {
            Made::Term(payload) => sink.term(payload).unwrap(),
            Made::Dropped(n) => sink.dropped(u64::from(*n)).unwrap(),
        }
    }
}

/// The bytes of records, and the offset of each.
fn bytes_of(records: &[Made]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut begins) = (Vec::new(), Vec::new());
    for record in records {
        begins.push(bytes.len());
        match record {
            Made::Term(payload) => frame::put_term(&mut bytes, payload).unwrap(),
            Made::Dropped(n) => frame::put_dropped(&mut bytes, u64::from(*n)),
        }
    }
    (bytes, begins)
}

/// Returns few bytes at a time, and sometimes an error.
struct Slow<'a> {
    bytes: &'a [u8],
    step: usize,
    calls: usize,
}

impl Read for Slow<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        match self.calls % 3 {
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            1 => return Err(io::ErrorKind::Interrupted.into()),
            _ => {}
        }
        let n = self.step.min(to.len()).min(self.bytes.len());
        to[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        Ok(n)
    }
}

fn read_all(mut reader: Reader<impl Read>) -> (Vec<(u64, Made)>, Vec<Damage>) {
    let (mut records, mut damage) = (Vec::new(), Vec::new());
    loop {
        match reader.read() {
            Ok(Some(Event::Record { at, record })) => records.push((at, record.into())),
            Ok(Some(Event::Damage(found))) => damage.push(found),
            Ok(None) => return (records, damage),
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

fn walk_all(bytes: &[u8]) -> (Vec<(u64, Made)>, Vec<Damage>) {
    let (mut records, mut damage) = (Vec::new(), Vec::new());
    for found in Records::new(bytes) {
        match found {
            Ok((at, record)) => records.push((at, record.into())),
            Err(found) => damage.push(found),
        }
    }
    (records, damage)
}

/// A file in blocks, and the number of records in each block.
fn blocks_of(records: &[Made], per_block: usize) -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let options = Options { form: Form::Blocks, ..Options::default() };
    let mut log = FileLog::create(&path, options).unwrap();
    let mut ends = vec![path.metadata().unwrap().len() as usize];
    for chunk in records.chunks(per_block) {
        put(&mut log, chunk);
        log.flush().unwrap();
        ends.push(path.metadata().unwrap().len() as usize);
    }
    log.close().unwrap();
    (fs::read(&path).unwrap(), ends)
}

#[test]
fn records_without_a_term_are_not_converted() {
    let records = |payloads: &[&[u8]]| {
        let framed = |payload: &&[u8]| [&[0][..], &(payload.len() as u32).to_be_bytes(), payload].concat();
        payloads.iter().map(framed).collect::<Vec<_>>().concat()
    };
    let bytes = [records(&[&[131, 97, 1], &[131, 255], &[131, 97]]), vec![1, 0, 0, 0, 0], records(&[&[131, 97, 2]])];
    let mut erlang = Vec::new();
    let done = convert::to_erlang(&bytes.concat()[..], &mut erlang).unwrap();
    assert_eq!(erlang, [records(&[&[131, 97, 1]]), vec![1, 0, 0, 0, 0], records(&[&[131, 97, 2]])].concat());
    assert_eq!(done.records, 3);
    let reported: Vec<_> =
        done.damage.iter().map(|damage| (damage.at, damage.what.name(), damage.what.to_string())).collect();
    let short = "the bytes end in the middle of a term";
    assert_eq!(reported, [(8, "term", "unknown tag 255".into()), (15, "term", short.into())]);
}

proptest! {
    #[test]
    fn written_records_are_read_back(records in vec(record(), 0..30), room in 0usize..5000, step in 1usize..100) {
        let folder = tempfile::tempdir().unwrap();
        for form in [Form::Erlang, Form::Blocks] {
            let path = folder.path().join("trace");
            let mut log = FileLog::create(&path, Options { form, room, ..Options::default() }).unwrap();
            put(&mut log, &records);
            log.close().unwrap();
            let bytes = fs::read(&path).unwrap();
            let (found, damage) = read_all(Reader::new(Slow { bytes: &bytes, step, calls: 0 }));
            prop_assert_eq!(damage, vec![]);
            prop_assert_eq!(found.iter().map(|(_, record)| record.clone()).collect::<Vec<_>>(), records.clone());
            let begins: Vec<_> = found.iter().map(|(at, _)| *at as usize).collect();
            prop_assert_eq!(begins, bytes_of(&records).1);
            let mut erlang = Vec::new();
            let done = convert::to_erlang(&bytes[..], &mut erlang).unwrap();
            prop_assert_eq!((erlang, done.records), (bytes_of(&records).0, records.len() as u64));
        }
    }

    #[test]
    fn a_cut_costs_only_the_cut_record(records in vec(record(), 1..20), cut in any::<sample::Index>()) {
        let (bytes, begins) = bytes_of(&records);
        let length = cut.index(bytes.len());
        let whole = begins.iter().filter(|begin| **begin <= length).count() - 1;
        let (found, damage) = read_all(Reader::new(&bytes[..length]));
        prop_assert_eq!(found.len(), whole);
        let left = length - begins[whole];
        let cut = Damage { at: begins[whole] as u64, what: What::Cut(left as u64) };
        prop_assert_eq!(&damage, &if left > 0 { vec![cut] } else { vec![] });
        prop_assert_eq!(walk_all(&bytes[..length]), (found, damage));
    }

    #[test]
    fn a_changed_byte_costs_nothing_before_it(
        records in vec(record(), 1..20), at in any::<sample::Index>(), byte in any::<u8>(), step in 1usize..5000,
    ) {
        let (mut bytes, begins) = bytes_of(&records);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let before = begins.iter().filter(|begin| **begin <= at).count() - 1;
        let found = read_all(Reader::new(Slow { bytes: &bytes, step, calls: 0 }).limit(usize::MAX));
        prop_assert!(found.0.len() >= before);
        for ((_, found), made) in found.0.iter().zip(&records[..before]) {
            prop_assert_eq!(found, made);
        }
        prop_assert_eq!(walk_all(&bytes), found);
    }

    #[test]
    fn a_changed_byte_in_blocks_costs_its_block(
        records in vec(record(), 4..20), per_block in 1usize..4, at in any::<sample::Index>(), bit in 0u8..8,
    ) {
        let (mut bytes, ends) = blocks_of(&records, per_block);
        let at = at.index(bytes.len() - ends[0]) + ends[0];
        bytes[at] ^= 1 << bit;
        let block = ends.iter().filter(|end| **end <= at).count() - 1;
        let mut left = records.clone();
        left.drain(block * per_block..records.len().min((block + 1) * per_block));
        let (found, damage) = read_all(Reader::new(&bytes[..]));
        prop_assert_eq!(found.into_iter().map(|(_, record)| record).collect::<Vec<_>>(), left);
        prop_assert_eq!(damage.len(), 1);
        prop_assert_eq!(damage[0].at, ends[block] as u64);
    }

    #[test]
    fn a_cut_in_blocks_costs_only_the_last_block(records in vec(record(), 1..20), cut in any::<sample::Index>()) {
        let (bytes, ends) = blocks_of(&records, 3);
        let length = cut.index(bytes.len());
        let whole = ends.iter().filter(|end| **end <= length).count().saturating_sub(1);
        let (found, damage) = read_all(Reader::new(&bytes[..length]));
        prop_assert_eq!(found.len(), records.len().min(whole * 3));
        prop_assert_eq!(damage.is_empty(), length == 0 || ends.contains(&length));
        prop_assert!(damage.len() < 2);
    }

    #[test]
    fn a_hole_is_reported_once_and_costs_no_record(
        before in vec(record(), 0..5), after in vec(record(), 1..5), term in vec(any::<u8>(), 0..300),
        length in prop_oneof![5usize..30, 60_000usize..200_000], step in 1usize..100_000, drop: bool,
    ) {
        let term = Made::Term([&[131, 109][..], &(term.len() as u32).to_be_bytes(), &term].concat());
        let first = if drop { vec![Made::Dropped(7), term] } else { vec![term] };
        let after = [first, after].concat();
        let (begin, _) = bytes_of(&before);
        let bytes = [begin.clone(), vec![0; length], bytes_of(&after).0].concat();
        let (found, damage) = read_all(Reader::new(Slow { bytes: &bytes, step, calls: 0 }));
        let what = if length == 5 { What::NoTerm } else { What::Hole(length as u64) };
        prop_assert_eq!(&damage, &vec![Damage { at: begin.len() as u64, what }]);
        let records: Vec<_> = found.iter().map(|(_, record)| record.clone()).collect();
        prop_assert_eq!(records, [before, after].concat());
        prop_assert_eq!(walk_all(&bytes), (found, damage));
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>, tail: Vec<u8>, step in 1usize..50) {
        for start in [&[][..], &blocks::MAGIC, &[&blocks::MAGIC[..], &blocks::MARK, &[0, 0, 0]].concat()] {
            let bytes = [start, &bytes, &blocks::MARK, &tail].concat();
            read_all(Reader::new(Slow { bytes: &bytes, step, calls: 0 }).limit(1000));
            walk_all(&bytes);
            let holes = [&vec![0; step], &bytes[..], &vec![0; step], &tail].concat();
            let found = read_all(Reader::new(Slow { bytes: &holes, step, calls: 0 }).limit(usize::MAX));
            prop_assert_eq!(walk_all(&holes), found);
        }
    }

    #[test]
    fn a_follower_reads_flushed_records(records in vec((record(), any::<bool>()), 1..30), blocks: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let form = if blocks { Form::Blocks } else { Form::Erlang };
        let mut log = FileLog::create(&path, Options { form, room: 1 << 20, ..Options::default() }).unwrap();
        let mut reader = Reader::open(&path).unwrap().follow(true);
        let mut waiting = Vec::new();
        for (record, flush) in records {
            prop_assert_eq!(reader.read().unwrap(), None);
            put(&mut log, std::slice::from_ref(&record));
            waiting.push(record);
            if flush {
                log.flush().unwrap();
                for made in waiting.drain(..) {
                    let Some(Event::Record { record, .. }) = reader.read().unwrap() else { panic!("{made:?}") };
                    prop_assert_eq!(Made::from(record), made);
                }
            }
        }
    }
}

/// Its last bytes may be the first of a mark.
#[test]
fn a_damaged_last_block_is_reported_once() {
    for length in 0..blocks::MARK.len() {
        let (mut bytes, ends) = blocks_of(&[Made::Dropped(1), Made::Dropped(2)], 1);
        let end = bytes.len();
        bytes[ends[1]] ^= 1;
        bytes[end - length..].copy_from_slice(&blocks::MARK[..length]);
        let (found, damage) = read_all(Reader::new(&bytes[..]));
        assert_eq!((found.len(), damage), (1, vec![Damage { at: ends[1] as u64, what: What::Block }]));
    }
}

#[test]
fn a_long_record_is_not_waited_for() {
    let bytes = [0, 0, 0, 0, 2, 131, 106, 0, 0, 0, 4, 0, 131];
    let (found, damage) = read_all(Reader::new(&bytes[..]).limit(1023));
    assert_eq!((found.len(), damage), (1, vec![Damage { at: 7, what: What::Long(1024) }]));
    let (found, damage) = read_all(Reader::new(&bytes[..]).limit(1024));
    assert_eq!((found.len(), damage), (1, vec![Damage { at: 7, what: What::Cut(6) }]));
    assert_eq!(damage_text(), "at byte 7: a record of 1024 bytes");
}

fn damage_text() -> String {
    Damage { at: 7, what: What::Long(1024) }.to_string()
}

#[test]
fn a_cut_record_is_reported_when_following_ends() {
    let mut reader = Reader::new(&[0, 0, 0][..]).follow(true);
    assert_eq!(reader.read().unwrap(), None);
    assert_eq!(reader.read().unwrap(), None);
    reader.set_follow(false);
    assert_eq!(reader.read().unwrap(), Some(Event::Damage(Damage { at: 0, what: What::Cut(3) })));
    assert_eq!(reader.read().unwrap(), None);
}

#[test]
fn a_record_without_a_term_is_reported_and_the_next_is_read() {
    for payload in [&[][..], &[131], &[106, 106]] {
        let bytes = [&[0, 0, 0, 0, payload.len() as u8], payload, &[1, 0, 0, 0, 5]].concat();
        let found = read_all(Reader::new(&bytes[..]));
        assert_eq!(found.1, [Damage { at: 0, what: What::NoTerm }]);
        assert_eq!(found.0, [(5 + payload.len() as u64, Made::Dropped(5))]);
        assert_eq!(walk_all(&bytes), found);
    }
}

/// The bytes after the zeros are not known yet, and no damage is reported twice.
#[test]
fn a_hole_is_waited_for_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut file = fs::File::create(&path).unwrap();
    let mut reader = Reader::open(&path).unwrap().follow(true);
    let record = [0, 0, 0, 0, 3, 131, 97, 7];
    for bytes in [&[0; 100_003][..], &[0; 4], &record[..6]] {
        file.write_all(bytes).unwrap();
        assert_eq!(reader.read().unwrap(), None);
        assert_eq!(reader.read().unwrap(), None);
    }
    file.write_all(&record[6..]).unwrap();
    let hole = Damage { at: 0, what: What::Hole(100_007) };
    assert_eq!(reader.read().unwrap(), Some(Event::Damage(hole)));
    assert_eq!(reader.read().unwrap(), Some(Event::Record { at: 100_007, record: Record::Term(&[131, 97, 7]) }));
    assert_eq!(reader.read().unwrap(), None);
    file.write_all(&[0; 13]).unwrap();
    assert_eq!(reader.read().unwrap(), None);
    reader.set_follow(false);
    assert_eq!(reader.read().unwrap(), Some(Event::Damage(Damage { at: 100_015, what: What::Hole(13) })));
    assert_eq!(reader.read().unwrap(), None);
    assert_eq!(hole.to_string(), "at byte 0: a hole of 100007 zero bytes");
}

/// The first bytes of the file are gone.
#[test]
fn blocks_are_read_from_the_first_one_that_there_is() {
    let (bytes, ends) = blocks_of(&[Made::Dropped(1), Made::Dropped(2)], 1);
    for step in [1, 5, 1000] {
        let (found, damage) = read_all(Reader::new(Slow { bytes: &bytes[ends[1]..], step, calls: 0 }));
        assert_eq!((found, damage), (vec![(0, Made::Dropped(2))], vec![]));
    }
}
