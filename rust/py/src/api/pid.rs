//! `Pid`: its attributes and methods, for Python.

use crate::{
    convert::pid::Pid,
    state::{host, process},
};
use inviso_core::host::{
    cells::FOLDED,
    sync::Unpoisoned,
    tracee::{Kind, Tracee},
};
use inviso_cpython::interpreter::calling;
use pyo3::{prelude::*, pyclass::CompareOp};
use std::sync::Arc;

impl Pid {
    /// The process, if it lives and is of this node.
    pub fn tracee(&self, py: Python<'_>) -> Option<Arc<Tracee>> {
        if !self.is_local() {
            return None;
        }
        let host = host::try_host()?;
        host.directory.living(py, host, self.id)
    }
}

#[pymethods]
impl Pid {
    /// `"thread"`, `"task"` or `"queue"`; `"folded"` for the sum over ended processes.
    #[getter]
    fn kind(&self) -> &'static str {
        if self.id == FOLDED {
            return "folded";
        }
        match Kind::of(self.id) {
            Kind::Thread => "thread",
            Kind::Task => "task",
            Kind::Queue => "queue",
            Kind::Port => "port",
        }
    }

    /// The name of the thread or task, its last one after it has ended; the class of a queue; `""` for a process of
    /// another node.
    #[getter]
    pub fn name(&self, py: Python<'_>) -> PyResult<String> {
        if self.id == FOLDED {
            return Ok("(ended processes)".to_owned());
        }
        let Some(host) = host::try_host().filter(|_| self.is_local()) else { return Ok(String::new()) };
        // a process that has emitted its end still has its name
        let Some(tracee) = self.tracee(py).or_else(|| host.node.tracee(self.id)) else {
            return Ok(host.directory.ended_name(py, self.id).unwrap_or_default());
        };
        let given = process::process(&tracee).name.lock().unpoisoned().clone();
        if let Some(name) = given {
            return Ok(name);
        }
        let Some(object) = host.directory.object(py, &tracee)? else {
            // a thread that is about to end
            return Ok(process::process(&tracee).last_name.get().cloned().unwrap_or_default());
        };
        match tracee.kind {
            Kind::Task => calling::method(&object, "get_name", ())?.extract(),
            Kind::Thread => object.getattr("name")?.extract(),
            Kind::Queue | Kind::Port => Ok(object.get_type().fully_qualified_name()?.to_string()),
        }
    }

    /// The name of the node that the process runs on.
    #[getter]
    fn node(&self) -> String {
        self.node_name()
    }

    /// Whether it is a process of this node, which is this operating system process.
    pub fn is_local(&self) -> bool {
        self.is_own()
    }

    /// Whether the process still runs.
    fn is_alive(&self, py: Python<'_>) -> bool {
        self.tracee(py).is_some_and(|t| t.is_alive())
    }

    fn __repr__(&self) -> String {
        // the numbers that Erlang prints for it
        format!("<{}.{}.{}>", self.origin.number(), self.id as u32, self.id >> 32)
    }

    fn __hash__(&self) -> u64 {
        self.id ^ self.origin.order().rotate_left(32)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> Py<PyAny> {
        let py = other.py();
        match other.cast::<Pid>() {
            Ok(other) => {
                let other = other.get();
                let answer = op.matches((self.origin.order(), self.id).cmp(&(other.origin.order(), other.id)));
                answer.into_pyobject(py).map_or_else(|e| match e {}, |b| b.to_owned().into_any().unbind())
            }
            Err(_) => py.NotImplemented(),
        }
    }

    /// In its own operating system process the same pid; in any other one a pid of another node.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, u64, u64))> {
        let make = py.import("inviso._native.process")?.getattr("pid_of_node")?;
        Ok((make, (self.node(), self.origin.creation(), self.id)))
    }
}
