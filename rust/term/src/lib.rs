//! Terms, the external term format and trace records: plain data, without a trace of Python or of tracing.
//!
//! | module | what |
//! | --- | --- |
//! | [`term`] | any value that a message can carry |
//! | [`order`] | Erlang's order over all terms |
//! | [`etf`] | terms as bytes: written without allocation, read without trust |
//! | [`record`] | the head of a trace record in a ring |
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
