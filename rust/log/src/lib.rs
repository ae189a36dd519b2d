//! Trace logs, byte for byte as Erlang's trace ports write them, but for what stands behind terms ([`about`]): files, wrap sets,
//! and a port that one client listens to; and
//! a reader for what they, or a real node, wrote.
//!
//! | module | what |
//! | --- | --- |
//! | [`sink`] | where messages go: the one thing that all writers are |
//! | [`file`](mod@file) | one file |
//! | [`wrap`] | a set of files that is written round and round |
//! | [`ip`] | a TCP port that one client reads from, and that client |
//! | [`frame`] | the records that all of them are made of |
//! | [`records`] | the records of bytes in memory |
//! | [`reader`] | the records of a file or a stream, also while it is being written |
//! | [`set`] | the records of a wrap set, also while it is being written |
//! | [`names`] | which files are a wrap set, and in what order they are read |
//! | [`source`] | any of these readers, as one |
//! | [`stamp`] | the time stamp of a message |
//! | [`merge`] | several logs as one, by time stamps |
//! | [`nodes`] | which node a log's pids are of |
//! | [`ti`] | trace information files: names of processes |
//! | [`about`] | which program wrote a log, behind its first term |
//! | [`blocks`] | a smaller form of a file, for this reader only, and back to Erlang's |
//! | [`damage`] | what can be wrong with a log |
//!
//! A message is a term in the external format ([`inviso_term::etf`]); nothing here takes it apart. What can't be written is
//! counted, and a drop record stands at its place. What can't be read is told, with its place, and never costs what stands
//! before it.
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
pub mod damage;
pub mod file;
pub mod frame;
mod growing;
mod hole;
pub mod ip;
pub mod merge;
pub mod names;
pub mod nodes;
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
