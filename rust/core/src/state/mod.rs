//! What a node, its sessions, processes and threads keep. The rooms above act on it.

pub(crate) mod call_cache;
pub(crate) mod control;
pub(crate) mod deferred;
pub mod error;
pub mod flags;
pub(crate) mod gate;
pub mod life;
pub(crate) mod limits;
pub(crate) mod links;
pub(crate) mod mfa;
pub mod names;
pub mod node;
pub(crate) mod patterns;
pub mod plan;
pub(crate) mod registry;
pub(crate) mod seq;
pub mod session;
pub mod snapshot;
pub(crate) mod suspended_calls;
pub mod thread;
pub mod token;
pub(crate) mod token_liveness;
pub mod tracee;
pub mod tracer;
pub mod tree;
