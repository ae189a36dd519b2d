//! The atoms that callbacks of tracer modules are called with.

use crate::convert::terms;
use pyo3::{prelude::*, sync::PyOnceLock};
use rustc_hash::FxHashMap;

/// Atoms by their names.
pub struct Atoms(FxHashMap<&'static str, Py<PyAny>>);

static WORDS: PyOnceLock<Atoms> = PyOnceLock::new();

/// The atoms that callbacks are called with.
pub fn words(py: Python<'_>) -> PyResult<&Atoms> {
    use inviso_core::host::tracer;
    WORDS.get_or_try_init(py, || {
        let tags = inviso_term::record::Kind::ALL.map(|kind| kind.tag()).into_iter();
        let stamps = ["timestamp", "cpu_timestamp", "monotonic", "strict_monotonic"];
        let all = tags.chain(stamps).chain([tracer::TRACE_STATUS]);
        Ok(Atoms(all.map(|word| Ok((word, terms::atom(py, word)?))).collect::<PyResult<_>>()?))
    })
}

impl Atoms {
    /// An atom; None for an unknown word.
    pub fn of(&self, py: Python<'_>, word: &'static str) -> Py<PyAny> {
        self.0.get(word).map_or_else(|| py.None(), |atom| atom.clone_ref(py))
    }
}
