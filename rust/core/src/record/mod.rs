//! A record in a ring: what it holds, and what stands in each place of its message.

pub mod event;
pub mod header;
pub mod identity;
pub mod parts;
pub mod seq_event;
