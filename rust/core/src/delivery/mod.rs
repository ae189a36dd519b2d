//! From the rings to whoever takes the records, and from a record to its message.

pub mod drain;
mod mark;
pub mod message;
