//! Match specifications: they select events and define the contents of their messages.
//!
//! A specification is a list of clauses `(head, guards, body)`. It is checked and compiled once. Then it runs at a [`host::Host`]
//! over live values, which it inspects through a [`view::View`]. A program that doesn't match allocates no memory.
//!
//! | module | contents |
//! | --- | --- |
//! | [`view`], [`host`] | the traits that a user implements: the values and the trace point |
//! | [`lint`] | the functions, where they are allowed, and the kinds of problems |
//! | [`parse`], [`ast`] | terms to clauses |
//! | [`compile`] | clauses to a [`Program`] |
//! | [`vm`], [`value`] | runs a program, and its result |
//! | [`mod@test`] | runs a specification over terms, as `match_spec_test` does |
//! | [`terms`] | terms as the values of a program |
//!
//! ```
//! use inviso_match::{test::{test, Mode}, Context, Program};
//! use inviso_term::term::Term;
//!
//! // [(["$1", "_"], [(">", "$1", 10)], [("message", "$1")])]
//! let str = Term::str;
//! let head = Term::List(vec![str("$1"), str("_")]);
//! let guards = Term::List(vec![Term::Tuple(vec![str(">"), str("$1"), Term::from(10)])]);
//! let body = Term::List(vec![Term::Tuple(vec![str("message"), str("$1")])]);
//! let spec = Term::List(vec![Term::Tuple(vec![head, guards, body])]);
//!
//! let program = Program::compile(&spec, Context::Call).unwrap();
//! assert!(program.uses().message && !program.uses().return_trace);
//!
//! let arguments = |n| Term::List(vec![Term::from(n), str("x")]);
//! assert_eq!(test(&arguments(11), &spec, Mode::Trace).unwrap().result, Term::from(11));
//! assert_eq!(test(&arguments(10), &spec, Mode::Trace).unwrap().result, Term::atom("false"));
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod ast;
mod compare;
pub mod compile;
mod functions;
pub mod host;
mod instructions;
pub mod lint;
mod machine;
mod numbers;
pub mod parse;
#[cfg(any(test, feature = "reference"))]
pub mod reference;
pub mod terms;
pub mod test;
mod text;
pub mod value;
pub mod view;
pub mod vm;

pub use compile::{Program, Uses};
pub use host::Host;
pub use lint::{Class, Context, Place, Problem, Severity};
pub use value::Value;
pub use view::View;
pub use vm::{Message, Outcome};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
