//! Trace sessions, counters, rings and delivery, without Python.
//!
//! A [`node::Node`] is a program that is traced. Sessions are made on it, patterns say which functions they trace
//! ([`control`]), and a host reports calls through [`event`]. Counters are read at any time; messages wait in bounded
//! rings until they are drained. A Rust program can be its own host, see [`point`].
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

// The rooms are the crate's own; its users know the modules.
pub use clock::order;
pub use count::{cells, counts, latency};
pub use delivery::{drain, message};
pub use record::parts;
pub use state::{error, flags, life, names, node, plan, session, snapshot, thread, tracee, tracer, tree};
pub use sync::{current, grace, section, segments};
pub use trace::{event, happening, matching, messages, monitor, relations, seq};
