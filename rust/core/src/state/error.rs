//! Errors as facts. The host words them for its users.
#![forbid(unsafe_code)]

use thiserror::Error;

/// The reason of a refused call. A refused call changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The session has been destroyed, or its last strong handle is gone.
    #[error("the session has been destroyed")]
    SessionDead,
    /// The process has ended.
    #[error("the process has ended")]
    ProcessDead,
    /// `global` was combined with a kind of local tracing.
    #[error("'global' can't be combined with '{0}'")]
    GlobalWith(&'static str),
    /// The same thread is inside another change.
    #[error("called from inside a change of trace patterns by the same thread")]
    Reentered,
    /// A limit of this implementation is reached.
    #[error("system limit: {0}")]
    Limit(&'static str),
}
