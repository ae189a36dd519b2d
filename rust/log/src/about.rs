//! Which program wrote a log, and which of its threads is which: behind terms, where Erlang does not look.
//!
//! Erlang's `binary_to_term/1` reads one term and leaves what is behind it alone. There the first record of a file has a list of items, its
//! length (4 bytes, high end first) and [`MARK`]; a later record has one where a thread comes that was not told of. The number of a message
//! ([`numbered`]) stands between its term and the list.
//!
//! | item | what |
//! | --- | --- |
//! | `{program, OsPid, Name}` | the process of the record's tracee |
//! | `{thread, Number, OsTid, Name}` | a thread of it: the number of its pid, the operating system's, its name, or no text |

use crate::frame::HEADER;
use inviso_term::{etf, record::numbered, term::Term};
use num_traits::ToPrimitive;
use std::collections::VecDeque;

/// The last bytes of a record that has items.
pub const MARK: [u8; 4] = *b"\xb1who";

/// Threads whose items come again in the next file of a set: the latest.
const AGAIN: usize = 256;

/// Bytes of a name that are written.
const NAME: usize = 400;

/// What is behind a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The program.
    Program {
        /// The operating system's number of its process.
        os_pid: u32,
        /// Its name.
        name: String,
    },
    /// A thread.
    Thread {
        /// The number in its pid.
        id: u64,
        /// The operating system's.
        os_tid: u64,
        /// Its name; "" where that was not known.
        name: String,
    },
}

impl Item {
    /// As it is written.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = |n: u64| Term::from(i64::try_from(n).unwrap_or(0));
        let term = match self {
            Item::Program { os_pid, name } => {
                Term::Tuple(vec![Term::atom("program"), number((*os_pid).into()), Term::str(cut(name))])
            }
            Item::Thread { id, os_tid, name } => {
                Term::Tuple(vec![Term::atom("thread"), number(*id), number(*os_tid), Term::str(cut(name))])
            }
        };
        etf::encode(&term)
    }

    fn of(term: &Term) -> Option<Item> {
        let number = |term: &Term| match term {
            Term::Int(n) => n.to_u64(),
            _ => None,
        };
        let text = |term: &Term| match term {
            Term::Str(name) => Some(name.to_string()),
            Term::Bytes(name) => String::from_utf8(name.to_vec()).ok(),
            _ => None,
        };
        let Term::Tuple(parts) = term else { return None };
        match &parts[..] {
            [Term::Atom(tag), os_pid, name] if &**tag == "program" => {
                Some(Item::Program { os_pid: u32::try_from(number(os_pid)?).ok()?, name: text(name)? })
            }
            [Term::Atom(tag), id, os_tid, name] if &**tag == "thread" => {
                Some(Item::Thread { id: number(id)?, os_tid: number(os_tid)?, name: text(name)? })
            }
            _ => None,
        }
    }
}

fn cut(name: &str) -> &str {
    let most = (0..=NAME.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.get(..most.unwrap_or(0)).unwrap_or_default()
}

/// The term of a record, with its message's number, and the list behind; no bytes where there is none.
#[inline]
#[must_use]
pub fn split(payload: &[u8]) -> (&[u8], &[u8]) {
    if payload.ends_with(&MARK) {
        split_marked(payload).unwrap_or((payload, &[]))
    } else {
        (payload, &[])
    }
}

#[cold]
fn split_marked(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let behind = payload.len().checked_sub(list_length(payload)? + TAIL)?;
    // the mark may be the end of somebody's text: then the term ends there, too
    let version = usize::from(payload.first() == Some(&etf::VERSION));
    let term = version + etf::length(payload.get(version..)?)?;
    // between both the number of a message may stand
    let number = payload.get(term..behind)?;
    (number.len() == numbered::length(number)).then(|| payload.split_at(behind))
}

/// Bytes of the length and the mark.
const TAIL: usize = 4 + MARK.len();

/// Bytes of the list that ends these.
fn list_length(behind: &[u8]) -> Option<usize> {
    let (_, length) = behind.strip_suffix(&MARK)?.split_last_chunk::<4>()?;
    Some(u32::from_be_bytes(*length) as usize)
}

/// The bytes of the list.
fn list(behind: &[u8]) -> Option<&[u8]> {
    let list = behind.get(..behind.len().checked_sub(TAIL)?)?;
    (list_length(behind)? == list.len()).then_some(list)
}

/// The items behind a term, those that are known here.
#[must_use]
pub fn items(behind: &[u8]) -> Vec<Item> {
    match list(behind).map(etf::decode) {
        Some(Ok(Term::List(items))) => items.iter().filter_map(Item::of).collect(),
        _ => Vec::new(),
    }
}

/// What was told of a log's program.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    program: Vec<u8>,
    threads: VecDeque<Vec<u8>>,
    /// Items that no record has yet, and how many.
    new: (Vec<u8>, u32),
}

impl Heads {
    pub(crate) fn add(&mut self, item: &[u8]) {
        self.new.0.extend_from_slice(item);
        self.new.1 += 1;
        if self.program.is_empty() {
            self.program = item.to_vec();
            return;
        }
        if self.threads.len() == AGAIN {
            self.threads.pop_front();
        }
        self.threads.push_back(item.to_vec());
    }

    #[inline]
    pub(crate) fn has_new(&self) -> bool {
        self.new.1 > 0
    }

    /// A new file was begun.
    pub(crate) fn again(&mut self) {
        self.new = (self.program.clone(), u32::from(!self.program.is_empty()));
        for thread in &self.threads {
            self.new.0.extend_from_slice(thread);
            self.new.1 += 1;
        }
    }

    /// Adds what is new to the record of a term that begins at `begin` and is the last one.
    #[cold]
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, begin: usize) {
        const LIST: u8 = 108;
        const NIL: u8 = 106;
        let (items, count) = std::mem::take(&mut self.new);
        let list = [&[LIST][..], &count.to_be_bytes(), &items, &[NIL]].concat();
        out.extend_from_slice(&list);
        out.extend_from_slice(&(list.len() as u32).to_be_bytes());
        out.extend_from_slice(&MARK);
        let length = (out.len() - begin - HEADER) as u32;
        if let Some(place) = out.get_mut(begin + 1..begin + HEADER) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        file::{FileLog, Form, Options},
        frame::Record,
        names::Names,
        reader::{Event, Reader},
        sink::Sink,
        wrap::{Limit, WrapLog},
    };

    fn program() -> Item {
        Item::Program { os_pid: 4711, name: "shop.py".into() }
    }

    fn thread(n: u64) -> Item {
        Item::Thread { id: 4 * n, os_tid: 5000 + n, name: format!("worker {n}") }
    }

    /// The items of each record of a file.
    fn read(path: &std::path::Path) -> Vec<Vec<Item>> {
        let (mut reader, mut all) = (Reader::open(path).unwrap(), Vec::new());
        while let Some(event) = reader.read().unwrap() {
            let Event::Record { record: Record::Term(payload), .. } = event else { panic!("{event:?}") };
            let (term, behind) = split(payload);
            assert_eq!((term, Record::Term(payload).check().is_ok()), (&[131, 106][..], true));
            all.push(items(behind));
        }
        all
    }

    #[test]
    fn items_stand_behind_the_next_term_in_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        for form in [Form::Erlang, Form::Blocks] {
            let mut log = FileLog::create(&path, Options { form, ..Options::default() }).unwrap();
            log.about(&program().to_bytes());
            log.about(&thread(1).to_bytes());
            log.term(&[131, 106]).unwrap();
            log.term(&[131, 106]).unwrap();
            log.about(&thread(2).to_bytes());
            log.term(&[131, 106]).unwrap();
            log.close().unwrap();
            assert_eq!(read(&path), [vec![program(), thread(1)], vec![], vec![thread(2)]]);
        }
    }

    #[test]
    fn each_file_of_a_set_tells_of_the_program_and_of_the_latest_threads() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::new(&folder.path().join("t"), ".log").unwrap();
        let mut log = WrapLog::create(names.clone(), Limit::Bytes(1), 9, std::time::Instant::now()).unwrap();
        log.about(&program().to_bytes());
        let all = AGAIN as u64 + 10;
        (0..all).for_each(|n| log.about(&thread(n).to_bytes()));
        log.term(&[131, 106]).unwrap();
        log.term(&[131, 106]).unwrap();
        log.close().unwrap();
        assert_eq!(read(&names.path(0))[0].len() as u64, all + 1);
        let again: Vec<_> = std::iter::once(program()).chain((10..all).map(thread)).collect();
        assert_eq!(read(&names.path(1))[0], again);
    }

    #[test]
    fn what_looks_like_it_is_somebodys_text() {
        let text = [&b"text"[..], &MARK].concat();
        let payload = etf::encode_versioned(&Term::Bytes(text.into()));
        assert!(payload.ends_with(&MARK));
        assert_eq!(split(&payload), (&payload[..], &[][..]));
        for bytes in [&MARK[..], &[131, 106, 0, 0, 0, 9, 0xb1, b'w', b'h', b'o'], &[0, 0, 0, 0, 0xb1, b'w', b'h', b'o']]
        {
            assert_eq!(split(bytes), (bytes, &[][..]));
            assert_eq!(items(bytes), []);
        }
        let long = Item::Program { os_pid: 1, name: "é".repeat(300) };
        let Some(Item::Program { name, .. }) = Item::of(&etf::decode(&long.to_bytes()).unwrap()) else { panic!() };
        assert_eq!(name, "é".repeat(200));
    }
}
