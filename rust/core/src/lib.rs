//! Trace sessions, counters, rings and delivery, without Python.
//!
//! A [`node::Node`] is a program that is traced. Sessions are made on it, patterns say which functions they trace
//! ([`control`]), and a host reports calls through [`event`]. Counters are read at any time; messages wait in bounded
//! rings until they are drained. A Rust program can be its own host, see [`point`].
#![deny(missing_docs)]

mod asking;
mod barrier;
pub mod cells;
mod census;
pub mod counts;
pub mod current;
pub mod flags;
pub mod grace;
#[cfg(all(test, loom))]
mod models;
mod mutants;
pub mod ring;
pub mod section;
pub mod segments;
pub mod sync;
pub mod tracee;

pub mod clock;
pub mod control;
pub mod drain;
pub mod emit;
pub mod error;
pub mod event;
pub mod happening;
mod in_place;
mod kept;
mod late;
pub mod latency;
pub mod life;
pub mod matching;
mod memory;
pub mod message;
pub mod messages;
pub mod monitor;
pub mod names;
pub mod node;
pub mod order;
pub mod parts;
pub mod plan;
#[cfg(not(loom))]
pub mod point;
mod population;
pub mod relations;
pub mod seq;
pub mod seq_event;
pub mod session;
pub mod slots;
pub mod thread;
pub mod tracer;
pub mod tree;
mod tsc;
