//! Trace logs as Erlang's trace ports write them, byte for byte, except the bytes after terms ([`about`]): files, wrap sets, a
//! port for one client, and a reader of all of them.
//!
//! | module | contents |
//! | --- | --- |
//! | [`sink`] | the trait of all writers |
//! | [`file`](mod@file) | one file |
//! | [`wrap`] | a set of files that is written in a ring |
//! | [`ip`] | a TCP port for one client, and that client |
//! | [`frame`] | the records of all forms |
//! | [`records`] | the records of bytes in memory |
//! | [`reader`] | the records of a file or a stream, also of a growing one |
//! | [`set`] | the records of a wrap set, also of a growing one |
//! | [`names`] | the files of a wrap set and their order |
//! | [`source`] | one type for all these readers |
//! | [`stamp`] | the timestamp of a message |
//! | [`merge`] | several logs as one, by timestamps |
//! | [`shift`] | the correction of a host's wall clock to another host's |
//! | [`causal`] | matches messages between logs, for a merge in causal order |
//! | [`nodes`] | the node of a log's pids |
//! | [`ti`] | trace information files: names of processes |
//! | [`about`] | the program, its threads and functions, after terms |
//! | [`blocks`] | a compact form of a file, for this reader only, and the writer of its blocks |
//! | [`convert`] | converts a log to Erlang's form |
//! | [`damage`] | the kinds of damage of a log |
//!
//! A message is a term in the external format ([`inviso_term::etf`]). Writers do not decode it. Messages that can't be written
//! are counted, and a drop record is at their place. Damage is reported with its place, and the records before it are always
//! read.
//!
//! ```
//! use inviso_log::{file::{FileLog, Options}, frame::Record, reader::{Event, Reader}, sink::Sink};
//! use inviso_term::{etf, term::Term};
//! # fn main() -> std::io::Result<()> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("trace");
//! let message = etf::encode_versioned(&Term::Tuple(vec![Term::atom("trace"), Term::from(1)]));
//!
//! let mut log = FileLog::create(&path, Options::default())?;
//! log.term(&message)?;
//! log.dropped(3)?;
//! log.close()?;
//!
//! let mut reader = Reader::open(&path)?;
//! assert_eq!(reader.read()?, Some(Event::Record { at: 0, record: Record::Term(&message) }));
//! let at = 5 + message.len() as u64;
//! assert_eq!(reader.read()?, Some(Event::Record { at, record: Record::Dropped(3) }));
//! assert_eq!(reader.read()?, None);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod about;
pub mod blocks;
mod buffer;
pub mod causal;
pub mod convert;
pub mod damage;
pub mod file;
pub mod frame;
mod growing;
mod hole;
pub mod ip;
pub mod merge;
pub mod names;
pub mod nodes;
mod options;
mod own;
mod queue;
pub mod reader;
pub mod records;
pub mod set;
pub mod shift;
pub mod sink;
pub mod source;
pub mod stamp;
pub mod ti;
pub mod wrap;

pub use buffer::private;
