//! From the rings to whoever takes the records, and from a record to its message.

pub mod drain;
pub mod message;
