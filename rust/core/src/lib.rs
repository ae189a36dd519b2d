//! Trace sessions, counters, rings and delivery, without Python.
//!
//! A [`Program`] has trace points, and sessions. A session traces the points that are set in it ([`Program::function`]), in the threads
//! that its flags select ([`Program::flags`]). Counters can be read at any time. Messages wait in bounded rings until they are drained
//! ([`drain`]).
//!
//! ```
//! use inviso_core::{kinds, Class, Flags, Op, Options, Program, Who};
//!
//! let program = Program::new();
//! let order = program.point("shop", "order", 1);
//! let session = program.session("first look", Options::default())?;
//! program.flags(&session, Who::All(Class::Process), true, Flags::CALL)?;
//! program.function(&session, &[&order], kinds::COUNT, Op::On)?;
//! for n in 0..3 {
//!     let _call = order.enter(|out| out.int(n));
//! }
//! assert_eq!(program.count(&session, &order), Some(3));
//! # program.destroy(&session);
//! # Ok::<(), inviso_core::Error>(())
//! ```
//!
//! The names of this page and the module [`tracer`] are the interface of programs. The module [`host`] is for a host such as inviso's
//! for CPython, which reports calls, tasks and messages of another language's programs; the rules for versions don't cover it.
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
// Pages of `host` refer to what implements them; `cargo doc --document-private-items` has both ends.
#![allow(rustdoc::private_intra_doc_links)]

mod clock;
mod control;
mod count;
mod delivery;
mod emit;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod point;
mod record;
mod ring;
mod state;
mod sync;
mod trace;

pub use control::Op;
pub use delivery::drain::{drain, lost, Event, Record, What};
#[cfg(not(loom))]
pub use point::{Call, Point, Program};
pub use ring::{Busy, Overflow};
pub use state::{
    error::Error,
    flags::Flags,
    mfa::Mfa,
    node::Who,
    session::{Capture, Options, Session},
    setting::kinds,
    tracee::{Class, Tracee},
    tracer,
};

/// What a host uses: it reports the calls, tasks and messages of programs in another language. The rules for versions don't cover it.
pub mod host {
    pub use crate::{
        count::{cells, latency},
        delivery::{drain, message},
        record::parts,
        state::{error, flags, node, plan, session, thread, tracee, tracer, tree},
        trace::{event, matching, messages, monitor, process_events, relations, seq},
    };

    /// Ticks, and what they are in the clocks of the machine.
    pub mod clock {
        pub use crate::clock::Clock;
    }

    /// Patterns: what is set, where, and who arms it.
    pub mod control {
        pub use crate::control::{Arm, Op, Target};
    }

    /// The fields of a record.
    pub mod record {
        pub use crate::record::{event, header};
    }

    /// The ring of one thread and session.
    pub mod ring {
        pub use crate::ring::{Busy, Drained, Overflow, Producer, Pushed, RecordRef, Ring, HEADER_BYTES};
    }

    /// A barrier in other threads, and locks after a panic.
    pub mod sync {
        pub use crate::sync::{barrier, Unpoisoned};
    }
}

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
