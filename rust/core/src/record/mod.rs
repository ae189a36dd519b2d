//! A record in a ring: its fields, and the elements of its message.

pub mod event;
pub mod header;
pub mod identity;
pub mod parts;
pub mod seq_event;
