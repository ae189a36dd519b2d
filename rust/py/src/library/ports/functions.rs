//! Functions that Python calls about ports.

use super::{is_open, kinds::look, refresh, traffic::own};
use crate::convert::terms;
use inviso_core::host::tracee::Kind;
use pyo3::prelude::*;

/// The port of an object: its number, or None if the object is not a port, or is closed.
#[pyfunction]
pub fn port_of(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let host = crate::state::start::host(py)?;
    let Some(seen) = look(object).filter(|seen| seen.is_open) else { return Ok(None) };
    let port = host.directory.object_process(host, Kind::Port, object.as_ptr() as usize, None);
    own(&port).driver.get_or_init(|| seen.driver);
    if !port.is_alive() {
        return Ok(None);
    }
    terms::identity(py, port.pid).map(Some)
}

/// All open ports.
#[pyfunction]
pub fn ports(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
    let host = crate::state::start::host(py)?;
    refresh(py, host)?;
    let mut all = Vec::new();
    for port in host.node.ports() {
        if is_open(py, host, &port)? {
            all.push(terms::identity(py, port.pid)?);
        }
    }
    Ok(all)
}

/// The kind of the port of a number; None if it is closed.
#[pyfunction]
pub fn port_name(py: Python<'_>, number: u64) -> PyResult<Option<&'static str>> {
    let host = crate::state::start::host(py)?;
    let Some(port) = host.node.tracee(number << 2 | Kind::Port as u64) else { return Ok(None) };
    let Some(object) = host.directory.object(py, &port)? else { return Ok(None) };
    let open = look(&object).is_some_and(|seen| seen.is_open);
    Ok(open.then(|| own(&port).driver.get().copied().unwrap_or("port")))
}

/// The object of the port of a number; None if it is gone.
#[pyfunction]
pub fn port_object(py: Python<'_>, number: u64) -> PyResult<Option<Py<PyAny>>> {
    let host = crate::state::start::host(py)?;
    let Some(port) = host.node.tracee(number << 2 | Kind::Port as u64) else { return Ok(None) };
    Ok(host.directory.object(py, &port)?.map(Bound::unbind))
}

/// A number that no port has.
#[pyfunction]
pub fn new_port(py: Python<'_>) -> PyResult<u64> {
    Ok(crate::state::start::host(py)?.node.unused_number())
}
