//! Loom models of the protocols that this crate's other files only state.
