//! What can go wrong, as facts; the host words them for its users.
#![forbid(unsafe_code)]

use thiserror::Error;

/// A refused call. Nothing has changed when one is returned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The session has been destroyed, or its handle's last owner is gone.
    #[error("the session has been destroyed")]
    SessionDead,
    /// The process has ended.
    #[error("the process has ended")]
    ProcessDead,
    /// `global` was combined with a kind that means local tracing.
    #[error("'global' can't be combined with '{0}'")]
    GlobalWith(&'static str),
    /// A change was asked for from inside another change of the same thread.
    #[error("called from inside a change of trace patterns by the same thread")]
    Reentered,
    /// A limit of this implementation was reached.
    #[error("system limit: {0}")]
    Limit(&'static str),
}
