//! Facts about this process, for `inviso.about`. Nothing in the program changes.

use crate::state::host::try_host;
use inviso_core::host::{clock::Clock, sync::barrier};
use inviso_cpython::{
    calibrate,
    hooks::alloc::{self, State},
    interpreter::{state, tls},
    layout,
    tasks::running::{self, Place},
};
use pyo3::{prelude::*, types::PyDict};

/// The facts by name; `python/inviso/_about.py` has their words. The first call of a process that has no session
/// measures the length of a tick, which may take some 10 ms.
#[pyfunction]
pub fn facts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let facts = PyDict::new(py);
    let (installed, tool) = try_host().map_or(Ok((false, None)), |host| host.hook(py))?;
    facts.set_item("monitoring", cfg!(Py_3_12))?;
    facts.set_item("installed", installed)?;
    facts.set_item("tool", tool)?;
    facts.set_item("public", layout::PUBLIC)?;
    facts.set_item("unreadable", calibrate::result(py).err())?;
    let (processors, tick) = match try_host() {
        Some(host) => (host.node.clock.is_processors(), host.node.clock.tick()),
        None => py.detach(|| {
            let clock = Clock::new();
            (clock.is_processors(), clock.tick())
        }),
    };
    facts.set_item("processors_clock", processors)?;
    facts.set_item("tick", tick)?;
    barrier::prepare();
    facts.set_item("membarrier", barrier::is_process_wide())?;
    facts.set_item("initial_exec", tls::IS_INITIAL_EXEC)?;
    facts.set_item("state_word", state::is_near())?;
    let task = match running::place() {
        Place::Unknown => "unknown",
        Place::Memory => "memory",
        Place::Asked => "asked",
    };
    facts.set_item("task", task)?;
    let allocator = match alloc::state(py) {
        State::Absent => "absent",
        State::Installed => "installed",
        State::Buried => "buried",
    };
    facts.set_item("allocator", allocator)?;
    facts.set_item("musl", cfg!(target_env = "musl"))?;
    Ok(facts)
}
