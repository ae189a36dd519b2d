//! The hot path: what happens when a call begins, ends, is suspended or is resumed.
//!
//! A host calls one of the `on_*` functions for each interpreter event and passes an [`Activation`], whose methods run only when they
//! are needed. A call's way from there to the ring:
//!
//! | step | file |
//! | --- | --- |
//! | [`on_call`] enters the section, finds the cached call and runs its actions | `call.rs` |
//! | the first call of a function in a snapshot: its plan becomes a cached call | `remember.rs` |
//! | a message that no fast form covers: match specification, arguments, meta tracing | `message.rs` |
//! | the record's header and timestamp | `crate::emit` |
//! | the record in the thread's ring of the session | `Thread::push`, `crate::ring` |
//! | after the section: the program's code, or a tracer module's | `accepted.rs`, `crate::emit::deferred` |
//! | [`on_exit`], [`on_resume`]: charges, and messages about results | `exit.rs`, `finish.rs`, `resume.rs` |
//! | an exception that leaves calls, until a frame handles it | `caught.rs` |
//!
//! Only functions that are marked cold, or that run once for a thread, process or suspended call, allocate or take a lock. A match
//! specification may do so, too.
#![forbid(unsafe_code)]

mod accepted;
mod activation;
mod call;
mod caught;
mod context;
mod exit;
mod finish;
mod frames;
mod measure;
mod message;
mod remember;
mod resume;
mod switch;
#[cfg(all(test, not(loom)))]
mod tests;

pub use activation::{Activation, Exit};
pub use call::on_call;
pub use caught::on_handled;
pub use exit::on_exit;
pub use resume::{on_resume, on_throw};
pub use switch::{on_switch, Suspended};
