//! The hot path: what happens at a call, at its end, at a suspension. Each file is readable top to bottom.
//!
//! A host calls one of the `on_*` functions for each interpreter event and passes an [`Activation`], through which the
//! rest is looked at only when it is needed. Nothing here allocates, locks, formats or panics but in the functions
//! marked cold, which run once for a thread, process or suspended call.
#![forbid(unsafe_code)]

mod accepted;
mod activation;
mod call;
mod caught;
mod exit;
mod frames;
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
