//! What a node, its sessions, processes and threads keep. The rooms above act on it.

pub(crate) mod call_cache;
pub mod error;
pub mod flags;
pub mod life;
pub mod names;
pub mod node;
pub mod plan;
pub(crate) mod registry;
pub mod session;
pub mod snapshot;
pub(crate) mod suspended_calls;
pub mod thread;
pub(crate) mod token_liveness;
pub mod tracee;
pub mod tracer;
pub mod tree;
