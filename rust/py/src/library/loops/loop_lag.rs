//! The lag of an event loop: the time from handing a callback to the loop until the loop runs it. The callback is the
//! package's own, and no trace shows it.
//!
//! # Roles
//! The thread that measures makes a [`LoopProbe`] and reads it. The loop's thread calls it.
//!
//! # States
//! `after` is 0 until the loop runs the probe, and then never changes.
//!
//! # Orderings
//! `after` is relaxed: no other data depend on it.
//!
//! # Checked by
//! `tests/python/test_loop_lag.py`.

use inviso_cpython::{
    capture,
    frames::{
        frame::{code_qualname, module_of, CodeLayout},
        stacks,
    },
};
use pyo3::{ffi::PyObject, prelude::*};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// A callback for `call_soon_threadsafe` that records when the loop runs it.
#[pyclass(frozen, module = "inviso._native.interpreter")]
pub struct LoopProbe {
    made: Instant,
    /// Nanoseconds after `made`, or 0 before the loop has run it. The loop's thread writes it once.
    after: AtomicU64,
}

#[pymethods]
impl LoopProbe {
    #[new]
    fn new() -> Self {
        LoopProbe { made: Instant::now(), after: AtomicU64::new(0) }
    }

    fn __call__(&self) {
        self.after.store(self.passed().max(1), Ordering::Relaxed);
    }

    /// Whether the loop has run it.
    #[getter]
    fn came(&self) -> bool {
        self.after.load(Ordering::Relaxed) != 0
    }

    /// Nanoseconds that it waited, or has been waiting.
    #[getter]
    fn waited(&self) -> u64 {
        match self.after.load(Ordering::Relaxed) {
            0 => self.passed(),
            after => after,
        }
    }
}

impl LoopProbe {
    fn passed(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Whether an object is a [`LoopProbe`].
///
/// # Safety
/// The object stands; the calling thread is attached.
pub unsafe fn is_probe(py: Python<'_>, object: *mut PyObject) -> bool {
    // SAFETY: the object is null or stands; attached.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, object) }
        .is_some_and(|object| object.is_exact_instance_of::<LoopProbe>())
}

/// The methods that run an event loop: module, qualified name, and the attribute with the loop if the method's own
/// object is not the loop.
const RUNNERS: [(&str, &str, Option<&str>); 2] =
    [("asyncio.base_events", "BaseEventLoop.run_forever", None), ("asyncio.runners", "Runner.run", Some("_loop"))];

/// The event loops that threads run now: asyncio's own, and other loops that `asyncio.run` or a `Runner` runs.
///
/// # Errors
/// An error that the interpreter raises if it has no memory.
#[pyfunction]
pub fn event_loops(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let mut runs = Vec::new();
    stacks::visit(py, |frame| {
        // SAFETY: the frame stands, and its code holds its name; attached.
        let runner = RUNNERS.iter().find(|(_, name, _)| unsafe { capture::is_text(code_qualname(frame.code()), name) });
        let Some(runner) = runner else { return };
        // SAFETY: the frame stands, and it holds its code.
        if unsafe { CodeLayout::read(frame.code()) }.positional == 0 {
            return;
        }
        // SAFETY: the frame holds its globals, and its first parameter if that is still bound. Both are held from here
        // on.
        runs.extend(unsafe {
            let globals = Bound::from_borrowed_ptr(py, frame.globals());
            Bound::from_borrowed_ptr_or_opt(py, frame.local(0)).map(|object| (globals, object, runner))
        });
    });
    let mut found: Vec<Bound<'_, PyAny>> = Vec::new();
    for (globals, object, (module, _, field)) in runs {
        // SAFETY: the globals are held; attached.
        if !unsafe { capture::is_text(module_of(globals.as_ptr()).as_ptr(), module) } {
            continue;
        }
        let event_loop = match field {
            None => object,
            Some(field) => object.getattr(*field)?,
        };
        if !event_loop.is_none() && !found.iter().any(|other| other.is(&event_loop)) {
            found.push(event_loop);
        }
    }
    Ok(found)
}
