//! Trace sessions, counters, rings and delivery, without Python.
//!
//! A [`node::Node`] is a program that is traced. Sessions are made on it, patterns say which functions they trace
//! ([`control`]), and a host reports calls through [`event`]. Counters are read at any time; messages wait in bounded
//! rings until they are drained. A Rust program can be its own host, see [`point`].
//!
//! Its files stand in rooms, which are private: state below, behaviour above. Lowest first:
//!
//! | room | holds |
//! | --- | --- |
//! | `sync` | atomics and locks, barriers, sections, the current snapshot |
//! | `clock`, `ring`, `count` | ticks and the order of records; rings; cells, counters, histograms |
//! | `record` | what a record holds, and what stands in each place of its message |
//! | `state` | what a node, its sessions, processes and threads keep |
//! | `delivery` | from the rings to the taker, and from a record to its message |
//! | `emit` | from an event to its ring, or to a tracer module after the section |
//! | `trace` | the hot path: calls, messages, tokens, what happens to processes |
//! | `control` | patterns, flags, sessions: publish, arm, wait, retire |
//! | `point` | a Rust program as its own host |
//!
//! `tests/python/test_layout.py` has the table of who imports whom.
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

// Users name the modules, whatever room they stand in.
pub use clock::order;
pub use count::{cells, counts, latency};
pub use delivery::{drain, message};
pub use record::parts;
pub use state::{error, flags, life, names, node, plan, session, snapshot, thread, tracee, tracer, tree};
pub use sync::{current, grace, section, segments};
pub use trace::{event, matching, messages, monitor, process_events, relations, seq};
