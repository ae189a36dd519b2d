//! Trace sessions, counters, rings and delivery, without Python.
//!
//! A [`node::Node`] is a traced program. It has sessions. Patterns select the functions that a session traces ([`control`]). A host
//! reports calls through [`event`]. Counters can be read at any time. Messages wait in bounded rings until they are drained. A Rust
//! program can be its own host, see [`point`].
//!
//! ```
//! use inviso_core::{control::Op, flags::Flags, node::Who, plan::kinds, point::Program, session::Options, tracee::Class};
//!
//! let program = Program::new();
//! let order = program.point("shop", "order", 1);
//! let session = program.session("first look", Options::default())?;
//! program.node().flags(&session, Who::All(Class::Process), true, Flags::CALL)?;
//! program.function(&session, &[&order], kinds::COUNT, Op::On)?;
//! for n in 0..3 {
//!     let _call = order.enter(|out| out.int(n));
//! }
//! assert_eq!(program.count(&session, &order), Some(3));
//! # program.destroy(&session);
//! # Ok::<(), inviso_core::error::Error>(())
//! ```
//!
//! The files are in private rooms: state below, behaviour above. The lowest room is first:
//!
//! | room | holds |
//! | --- | --- |
//! | `sync` | atomics and locks, barriers, sections, the current snapshot |
//! | `clock`, `ring`, `count` | ticks; rings; cells, counters, histograms |
//! | `record` | the fields of a record, and the elements of its message |
//! | `state` | the data of a node, its sessions, processes and threads |
//! | `delivery` | from the rings to the consumer, and from a record to its message |
//! | `emit` | from an event to its ring, or after the section to a tracer module |
//! | `trace` | the hot path: calls, messages, tokens, events of processes |
//! | `control` | patterns, flags, sessions: publish, arm, wait, retire |
//! | `point` | a Rust program as its own host |
//!
//! `tests/python/test_layout.py` has the table of the allowed imports.
#![deny(missing_docs)]

pub mod clock;
pub mod control;
mod count;
mod delivery;
mod emit;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
pub mod point;
pub mod record;
pub mod ring;
mod state;
pub mod sync;
mod trace;

// Users name these modules without their rooms.
pub use count::{cells, counts, latency};
pub use delivery::{drain, message};
pub use record::parts;
pub use state::{error, flags, life, names, node, plan, session, snapshot, thread, tracee, tracer, tree};
pub use sync::{current, grace, section, segments};
pub use trace::{event, matching, messages, monitor, process_events, relations, seq};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
