//! From the rings to the consumer of a session, and from a record to its message.

pub mod drain;
mod mark;
pub mod message;
