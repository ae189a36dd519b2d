//! A function's name.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// A function's module, name and number of parameters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mfa {
    /// The name of the defining module, shared by its functions.
    pub module: Arc<str>,
    /// The qualified name.
    pub function: Box<str>,
    /// The number of declared parameters.
    pub arity: u32,
}
