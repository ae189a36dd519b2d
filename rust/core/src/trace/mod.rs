//! The hot path: from the host's entry at a trace point to the record.

pub mod about;
pub mod event;
pub mod matching;
pub mod messages;
pub mod monitor;
pub mod process_events;
mod recipients;
pub mod relations;
pub mod seq;
