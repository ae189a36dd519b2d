//! A function's name.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// A function as the program knows it: module, name, arity.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mfa {
    /// The defining module's name, which many share.
    pub module: Arc<str>,
    /// The qualified name.
    pub function: Box<str>,
    /// The number of declared parameters.
    pub arity: u32,
}
