//! Converts trace logs for other tools, message by message, in bounded memory.
//!
//! | module | contents |
//! | --- | --- |
//! | [`scan`] | walks over encoded terms |
//! | [`event`] | a parsed message |
//! | [`places`] | identities: names, programs, nodes, numbers of the operating system |
//! | [`tracks`] | the stack of calls of each process |
//! | [`pairs`] | pairs of sent and received messages |
//! | [`flows`] | the pairs as arrows |
//! | [`analysis`] | tables of calls, messages, steps |
//! | [`costs`] | own and cumulative time of each call |
//! | [`export`](mod@export) | converts records to a format |
//! | [`perfetto`], [`chrome`], [`speedscope`], [`collapsed`], [`pstats`] | the formats |
//! | [`steps`] | calls, tokens and losses as lines of JSON, for spans |
//! | [`table`] | rows and columns in Arrow's layout |
//! | [`pieces`] | tables by two threads |
//! | [`lines`] | messages as lines of text |
//! | [`erlang`] | terms in Erlang's syntax |
//! | [`counts`] | counts of a log |
//! | [`text`], [`json`], [`proto`] | the syntax of the formats |
//! | [`recent`] | a cache for recent short terms |
//!
//! ```
//! use inviso_export::{collapsed::Collapsed, export::{Export, Take}};
//! use inviso_term::{etf, term::{Identifier, Term}};
//!
//! let message = |tag: &str, parts: Vec<Term>, at: i64| {
//!     let head = vec![Term::atom("trace_ts"), Term::Pid(Identifier::own(4)), Term::atom(tag)];
//!     etf::encode_versioned(&Term::Tuple([head, parts, vec![Term::from(at)]].concat()))
//! };
//! let function = |name: &str| Term::Tuple(vec![Term::atom("shop"), Term::atom(name), Term::from(1)]);
//! let mut export = Export::new(Box::new(Collapsed::default()), Default::default(), false);
//! export.term(&message("call", vec![function("order")], 100));
//! export.term(&message("call", vec![function("price")], 110));
//! export.term(&message("return_from", vec![function("price"), Term::from(5)], 140));
//! export.term(&message("return_from", vec![function("order"), Term::atom("ok")], 150));
//! while !export.end().unwrap() {}
//! assert_eq!(String::from_utf8_lossy(&export.out), "shop:order/1 20\nshop:order/1;shop:price/1 30\n");
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod analysis;
mod batch;
pub mod chrome;
pub mod collapsed;
mod columns;
pub mod costs;
pub mod counts;
pub mod erlang;
pub mod event;
pub mod export;
pub mod flows;
pub mod json;
pub mod lines;
pub mod pairs;
pub mod perfetto;
pub mod pieces;
pub mod places;
pub mod proto;
pub mod pstats;
pub mod recent;
pub mod scan;
pub mod speedscope;
pub mod steps;
pub mod table;
pub mod text;
pub mod tracks;
