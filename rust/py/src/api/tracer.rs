//! Tracer modules: Python objects whose callbacks are called where an event happens. A callback runs in the tracee's
//! thread, with nothing locked. Its exceptions are counted, and the first one is reported.
//!
//! # Roles
//! Traced threads call the callbacks, attached. The session's holder installs and releases them.
//!
//! # States
//! A module is installed, then released, for ever. `session` is empty until the session exists.
//!
//! # Orderings
//! The locks order everything. A callback keeps the module by a reference of its own and runs after the lock is free.
//!
//! # Checked by
//! `tests/python/test_tracer_modules.py`.

use super::{library::Library, tracer_abi::attached};
use crate::{
    convert::terms,
    delivery::{messages, tracer_words::words},
    state::{
        host,
        mailbox::Delivery,
        objects,
        tracer_module::{Callbacks, Installed, NewSession},
    },
};
use inviso_core::host::{
    node::Node,
    sync::Unpoisoned,
    tracer::{Answer, Event, Group, Module, Tracer},
};
use inviso_cpython::interpreter::calling::call;
use pyo3::{
    exceptions::PyValueError,
    gc::{PyTraverseError, PyVisit},
    intern,
    prelude::*,
    types::*,
};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// A module, its state, and its callbacks: for each of [`Group::NAMES`] one `enabled` and one `trace`, None if the
/// module lacks it. For a shared library the first is the library itself.
pub type ModuleParts<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<Option<Py<PyAny>>>);

/// Makes a tracer module for a session.
///
/// # Errors
/// TypeError if the state can't be given to a shared library.
pub fn make(py: Python<'_>, given: ModuleParts<'_>) -> PyResult<NewSession> {
    let (module, state, callbacks) = given;
    let library = callbacks.first().and_then(|first| first.as_ref()?.bind(py).cast::<Library>().ok().cloned());
    let mut callbacks = callbacks.into_iter();
    let pairs = std::iter::from_fn(|| Some((callbacks.next()?, callbacks.next()?))).collect();
    let callbacks = Callbacks { module: module.unbind(), state: state.clone().unbind(), pairs };
    let installed = Arc::new(Installed { module: RwLock::new(Some(Arc::new(callbacks))), session: OnceLock::new() });
    let module: Arc<dyn Tracer> = match library {
        Some(library) => Arc::new(library.get().tracing(&state, &installed)?),
        None => Arc::new(PyTracer(installed.clone())),
    };
    let module = Module(module);
    words(py)?;
    Ok(NewSession { module, installed })
}

/// The answer of a callback.
fn answer(said: &Bound<'_, PyAny>) -> PyResult<Answer> {
    let word = said.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
    match word {
        Some("trace") => Ok(Answer::Trace),
        Some("discard") => Ok(Answer::Discard),
        Some("remove") => Ok(Answer::Remove),
        _ => {
            let class = said.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
            let shown = word.map_or(format!("an object of class {class}"), |word| format!("{word:?}"));
            Err(PyValueError::new_err(format!("a tracer answers 'trace', 'discard' or 'remove', and not {shown}")))
        }
    }
}

/// A tracer that is a Python object.
struct PyTracer(Arc<Installed>);

impl Tracer for PyTracer {
    fn enabled(&self, tag: &'static str, tracee: Option<u64>) -> Answer {
        self.ask(Group::General, tag, tracee)
    }

    fn trace(&self, event: &Event<'_>) {
        self.emit(Group::General, event);
    }

    fn ask(&self, group: Group, tag: &'static str, tracee: Option<u64>) -> Answer {
        let asked = attached(|py| {
            let known = self.0.callbacks()?;
            let callback = known.of(group).0?.bind(py);
            let said = (|| {
                let tracee = tracee.map_or_else(|| Ok(py.None()), |id| terms::identity(py, id))?;
                answer(&call(callback, (words(py)?.of(py, tag), &known.state, tracee))?)
            })();
            said.map_err(|error| self.0.failed(py, error, callback)).ok()
        });
        asked.flatten().unwrap_or(Answer::Discard)
    }

    fn emit(&self, group: Group, event: &Event<'_>) {
        attached(|py| {
            let known = self.0.callbacks()?;
            let callback = known.of(group).1?.bind(py);
            let host = host::try_host()?;
            let delivery = host.deliveries.of(event.session)?;
            let mut stale = Vec::new();
            let told = (|| {
                let (who, term, opts) = arguments(py, &host.node, event, &delivery, &mut stale)?;
                call(callback, (words(py)?.of(py, event.tag()), &known.state, who, term, opts)).map(drop)
            })();
            told.map_err(|error| self.0.failed(py, error, callback)).ok()
        });
    }
}

/// The tracee of an event, or its label; its term; its options.
fn arguments<'py>(
    py: Python<'py>, node: &Node, event: &Event<'_>, delivery: &Delivery, stale: &mut Vec<objects::Arguments>,
) -> PyResult<(Py<PyAny>, Py<PyAny>, Bound<'py, PyDict>)> {
    let opts = PyDict::new(py);
    if let Some(stamp) = event.timestamp() {
        opts.set_item(intern!(py, "timestamp"), words(py)?.of(py, stamp.name()))?;
    }
    let [first, second] = messages::own(py, node, event.kind(), event.record, delivery, stale)?;
    let (who, term, extra) = match event.tracee() {
        Some(tracee) => (Some(terms::identity(py, tracee)?), first, second),
        None => (first, second, None),
    };
    if let Some(extra) = extra {
        opts.set_item(intern!(py, "extra"), extra)?;
    }
    if !event.record.extra.is_empty() {
        opts.set_item(intern!(py, "match_spec_result"), terms::object(py, &event.record.extra)?)?;
    }
    if let Some(number) = event.scheduler_id() {
        opts.set_item(intern!(py, "scheduler_id"), number)?;
    }
    let or_none = |object: Option<Py<PyAny>>| object.unwrap_or_else(|| py.None());
    Ok((or_none(who), or_none(term), opts))
}

/// The function of a callable tracer. The session owns it, and the process that calls it refers to it.
#[pyclass(frozen, module = "inviso._native.trace")]
pub struct TracerFunction {
    function: Arc<Mutex<Option<Py<PyAny>>>>,
    is_owner: bool,
}

#[pymethods]
impl TracerFunction {
    #[new]
    fn new(function: Py<PyAny>) -> Self {
        TracerFunction { function: Arc::new(Mutex::new(Some(function))), is_owner: true }
    }

    /// A handle that keeps nothing alive.
    fn weak(&self) -> Self {
        TracerFunction { function: self.function.clone(), is_owner: false }
    }

    /// The function; None if its owner is gone.
    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.function.lock().unpoisoned().as_ref().map(|function| function.clone_ref(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.function.try_lock() {
            Ok(function) if self.is_owner => visit.call(&*function),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        let function = self.function.lock().unpoisoned().take();
        drop(function);
    }
}

impl Drop for TracerFunction {
    fn drop(&mut self) {
        if self.is_owner {
            self.__clear__();
        }
    }
}

/// The suffixes of the names of the pairs of callbacks, in the order of [`ModuleParts`]; the general pair's is empty.
#[pyfunction]
pub fn tracer_pairs() -> Vec<&'static str> {
    Group::NAMES.iter().map(|(_, name)| *name).collect()
}
