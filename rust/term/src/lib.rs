//! Terms, the external term format and trace records: plain data that knows neither Python nor tracing.
//!
//! | module | contents |
//! | --- | --- |
//! | [`term`] | any value of a message |
//! | [`order`] | Erlang's order over all terms |
//! | [`etf`] | terms as bytes: written without allocation, read without trust |
//! | [`record`] | the head of a trace record in a ring, and the shapes of messages |
//!
//! ```
//! use inviso_term::{etf, term::Term};
//! let term = Term::Tuple(vec![Term::atom("ok"), Term::from(42)]);
//! assert_eq!(etf::decode(&etf::encode(&term)).unwrap(), term);
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod etf;
pub mod order;
pub mod record;
mod show;
pub mod term;

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
