//! Terms, the external term format and trace records: plain data, without a trace of Python or of tracing.
//!
//! ```
//! use inviso_term::{etf, term::Term};
//! let term = Term::Tuple(vec![Term::atom("ok"), Term::Int(42.into())]);
//! assert_eq!(etf::decode(&etf::encode(&term)).unwrap(), term);
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod etf;
pub mod order;
pub mod record;
pub mod term;
