//! A function that was found.

use inviso_core::host::{control::Target, plan::Mfa};
use pyo3::prelude::*;
use std::sync::Arc;

/// A function that was found.
pub struct Found {
    /// Its key for the core: the address of its code object, or of its definition if it is written in C.
    pub key: usize,
    /// Its code object, held; for a function written in C, the function itself.
    pub code: Py<PyAny>,
    /// Module, qualified name, arity.
    pub name: Arc<Mfa>,
    /// Whether a global pattern matches it.
    pub exported: bool,
    /// Whether it is written in C.
    pub foreign: bool,
}

impl Found {
    /// The function as the core knows it.
    pub fn target(&self) -> Target {
        let Found { key, exported, foreign, .. } = *self;
        Target { key, name: self.name.clone(), exported, foreign, is_gone: false }
    }
}
