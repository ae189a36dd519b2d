//! The events that are armed, and the code objects that are held for them.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// The events that are armed now. Changed under the lock of [`Host`] only.
#[derive(Default)]
pub struct Armed {
    /// Code objects that have events or are about to get them, each with the number of changes under way for it. They
    /// are held, so their addresses are not reused.
    pub codes: FxHashMap<usize, (Py<PyAny>, u32)>,
    /// Code that instruments watch, with the events that they need.
    pub watched: FxHashMap<usize, u8>,
    /// The events that plans need, by code.
    pub planned: FxHashMap<usize, u8>,
    #[cfg(Py_3_12)]
    pub tool: Option<inviso_cpython::hooks::monitoring::Tool>,
    /// All code gets its events through global events. Used on free-threaded builds, where each local change stops the
    /// world.
    #[cfg(Py_3_12)]
    pub everywhere: bool,
    #[cfg(Py_3_12)]
    pub global: u32,
}
