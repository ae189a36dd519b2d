//! Items that describe the program of a log, its threads, tasks, functions and channels. They follow a term, where Erlang does
//! not look.
//!
//! Erlang's `binary_to_term/1` reads one term and ignores the bytes after it. In the first record of a file these bytes are a
//! list of items, its length (4 bytes, big-endian) and [`MARK`]. A later record has a list if there are new items. The number of
//! a message ([`numbered`]) comes between its term and the list. Readers skip unknown items.
//!
//! | item | meaning |
//! | --- | --- |
//! | `{program, OsPid, Name}` | the process that wrote the log |
//! | `{thread, Number, OsTid, Name}` | a thread: the number in its pid, the operating system's number, its name (may be empty) |
//! | `{task, Number, Name}` | a task. A later item of the same task renames it |
//! | `{function, Module, Name, Arity, Kind, File, Line}` | a traced function. `Kind` is `python` or `c`. `File` is empty and `Line` 0 if it has no source |
//! | `{channel, Number, Class, Name, MaxSize}` | a queue: its class, its name (may be empty), and its capacity, or the empty list if it has none |
//!
//! Only other crates of the workspace use it.

use crate::frame::HEADER;
use inviso_term::{
    etf::{self, tag},
    record::numbered,
    term::Term,
};
use num_traits::ToPrimitive;
use std::sync::Arc;

/// The last bytes of a record with items.
pub const MARK: [u8; 4] = *b"\xb1who";

/// The longest name that is written, in bytes.
const NAME: usize = 400;

/// The longest path that is written, in bytes.
const PATH: usize = 4096;

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The program.
    Program {
        /// The process id of the operating system.
        os_pid: u32,
        /// Its name.
        name: String,
    },
    /// A thread.
    Thread {
        /// The number in its pid.
        id: u64,
        /// The operating system's number.
        os_tid: u64,
        /// Its name; "" if it was not known.
        name: String,
    },
    /// A task.
    Task {
        /// The number in its pid.
        id: u64,
        /// Its name.
        name: String,
    },
    /// A function.
    Function(Function),
    /// A queue.
    Channel {
        /// The number in its pid.
        id: u64,
        /// Its properties.
        about: Channel,
    },
}

/// The name and the source of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The defining module.
    pub module: String,
    /// The qualified name.
    pub name: String,
    /// The number of declared parameters.
    pub arity: u32,
    /// Whether it is written in C.
    pub is_c: bool,
    /// The file and the line where it begins; "" and 0 without source.
    pub source: (Arc<str>, u32),
}

/// The properties of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The qualified name of its class.
    pub class: String,
    /// Its own name; "" without a name.
    pub name: String,
    /// Its capacity, 0 for any number of items; `None` if the class has no capacity.
    pub maxsize: Option<i64>,
}

impl Item {
    /// The item as a term's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = |n: u64| Term::from(i64::try_from(n).unwrap_or(0));
        let text = |name: &str| Term::str(cut(name, NAME));
        let term = match self {
            Item::Program { os_pid, name } => {
                Term::Tuple(vec![Term::atom("program"), number((*os_pid).into()), text(name)])
            }
            Item::Thread { id, os_tid, name } => {
                Term::Tuple(vec![Term::atom("thread"), number(*id), number(*os_tid), text(name)])
            }
            Item::Task { id, name } => Term::Tuple(vec![Term::atom("task"), number(*id), text(name)]),
            Item::Function(Function { module, name, arity, is_c, source: (file, line) }) => Term::Tuple(vec![
                Term::atom("function"),
                text(module),
                text(name),
                number((*arity).into()),
                Term::atom(if *is_c { "c" } else { "python" }),
                Term::str(cut(file, PATH)),
                number((*line).into()),
            ]),
            Item::Channel { id, about: Channel { class, name, maxsize } } => Term::Tuple(vec![
                Term::atom("channel"),
                number(*id),
                text(class),
                text(name),
                maxsize.map_or(Term::List(Vec::new()), Term::from),
            ]),
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
            [Term::Atom(tag), id, name] if &**tag == "task" => Some(Item::Task { id: number(id)?, name: text(name)? }),
            [Term::Atom(tag), module, name, arity, Term::Atom(kind), file, line] if &**tag == "function" => {
                let small = |term| u32::try_from(number(term)?).ok();
                Some(Item::Function(Function {
                    module: text(module)?,
                    name: text(name)?,
                    arity: small(arity)?,
                    is_c: &**kind == "c",
                    source: (text(file)?.into(), small(line)?),
                }))
            }
            [Term::Atom(tag), id, class, name, maxsize] if &**tag == "channel" => {
                let maxsize = match maxsize {
                    Term::Int(n) => Some(n.to_i64()?),
                    _ => None,
                };
                let about = Channel { class: text(class)?, name: text(name)?, maxsize };
                Some(Item::Channel { id: number(id)?, about })
            }
            _ => None,
        }
    }
}

fn cut(name: &str, most: usize) -> &str {
    let most = (0..=most.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.get(..most.unwrap_or(0)).unwrap_or_default()
}

/// Splits a record into the term with its message's number, and the list after it (empty if there is none).
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
    let after_term = payload.len().checked_sub(list_length(payload)? + TAIL)?;
    // the mark may be the end of a text: then the term ends there, too
    let version = usize::from(payload.first() == Some(&etf::VERSION));
    let term = version + etf::length(payload.get(version..)?)?;
    // the number of a message may be between them
    let number = payload.get(term..after_term)?;
    (number.len() == numbered::length(number)).then(|| payload.split_at(after_term))
}

/// Bytes of the length and the mark.
const TAIL: usize = 4 + MARK.len();

/// The length of the list that ends these bytes.
fn list_length(after_term: &[u8]) -> Option<usize> {
    let (_, length) = after_term.strip_suffix(&MARK)?.split_last_chunk::<4>()?;
    Some(u32::from_be_bytes(*length) as usize)
}

/// The bytes of the list.
fn list(after_term: &[u8]) -> Option<&[u8]> {
    let list = after_term.get(..after_term.len().checked_sub(TAIL)?)?;
    (list_length(after_term)? == list.len()).then_some(list)
}

/// The known items after a term.
#[must_use]
pub fn items(after_term: &[u8]) -> Vec<Item> {
    match list(after_term).map(etf::decode) {
        Some(Ok(Term::List(items))) => items.iter().filter_map(Item::of).collect(),
        _ => Vec::new(),
    }
}

/// Items for the next record, and their count.
#[derive(Debug, Default)]
pub(crate) struct Heads(Vec<u8>, u32);

impl Heads {
    pub(crate) fn add(&mut self, item: &Item) {
        self.0.extend_from_slice(&item.to_bytes());
        self.1 += 1;
    }

    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        self.1 > 0
    }

    /// Appends the items to the last record, whose term begins at `begin`.
    #[cold]
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, begin: usize) {
        let Heads(items, count) = std::mem::take(self);
        let list = [&[tag::LIST][..], &count.to_be_bytes(), &items, &[tag::NIL]].concat();
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
        reader::{Event, Reader},
        sink::Sink,
    };

    fn program() -> Item {
        Item::Program { os_pid: 4711, name: "shop.py".into() }
    }

    fn thread(n: u64) -> Item {
        Item::Thread { id: 4 * n, os_tid: 5000 + n, name: format!("worker {n}") }
    }

    /// The items of each record in a file.
    fn read(path: &std::path::Path) -> Vec<Vec<Item>> {
        let (mut reader, mut all) = (Reader::open(path).unwrap(), Vec::new());
        while let Some(event) = reader.read().unwrap() {
            let Event::Record { record: Record::Term(payload), .. } = event else { panic!("{event:?}") };
            let (term, after_term) = split(payload);
            assert_eq!((term, Record::Term(payload).check().is_ok()), (&[131, 106][..], true));
            all.push(items(after_term));
        }
        all
    }

    #[test]
    fn items_follow_the_next_term_in_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        for form in [Form::Erlang, Form::Blocks] {
            let mut log = FileLog::create(&path, Options { form, ..Options::default() }).unwrap();
            log.about(&program());
            log.about(&thread(1));
            log.term(&[131, 106]).unwrap();
            log.term(&[131, 106]).unwrap();
            log.about(&thread(2));
            log.term(&[131, 106]).unwrap();
            log.close().unwrap();
            assert_eq!(read(&path), [vec![program(), thread(1)], vec![], vec![thread(2)]]);
        }
    }

    #[test]
    fn an_item_is_read_back() {
        let function = |is_c, source: (&str, u32)| {
            let (module, name) = ("shop".into(), "Shop.order".into());
            Item::Function(Function { module, name, arity: 2, is_c, source: (source.0.into(), source.1) })
        };
        let channel = |name: &str, maxsize| {
            let about = Channel { class: "queue.Queue".into(), name: name.into(), maxsize };
            Item::Channel { id: 6, about }
        };
        let task = Item::Task { id: 5, name: "räuber".into() };
        let functions = [function(false, ("/shop.py", 7)), function(true, ("", 0))];
        for item in
            [program(), thread(1), task, channel("", None), channel("box", Some(3))].into_iter().chain(functions)
        {
            assert_eq!(Item::of(&etf::decode(&item.to_bytes()).unwrap()), Some(item));
        }
        assert_eq!(Item::of(&Term::Tuple(vec![Term::atom("later"), Term::from(1)])), None);
    }

    #[test]
    fn a_text_that_looks_like_items_is_a_text() {
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
