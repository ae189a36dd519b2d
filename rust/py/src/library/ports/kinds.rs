//! The kinds of ports: which object is a port, and whether it is open.
//!
//! # Roles
//! Any attached thread looks at an object.
//!
//! # States
//! The classes are empty until the first look, and then stay.
//!
//! # Orderings
//! Those of `PyOnceLock`.
//!
//! # Checked by
//! `tests/python/test_ports.py`.

use inviso_cpython::interpreter::generic::attribute;
use pyo3::{ffi, prelude::*, sync::PyOnceLock};

/// The kind of a port, and whether it is open.
pub struct Seen {
    /// Its kind, in Erlang's words.
    pub driver: &'static str,
    /// Whether it is open.
    pub is_open: bool,
}

/// Looks at an object that may be a port; `None` if it is not. Runs no code of the program.
pub fn look(object: &Bound<'_, PyAny>) -> Option<Seen> {
    look_at_socket(object).or_else(|| look_at_subprocess(object)).or_else(|| look_at_transport(object))
}

/// The classes and methods by which sockets are examined.
pub struct SocketClasses {
    /// `_socket.socket`.
    pub class: Py<PyAny>,
    /// Its method `fileno`.
    pub fileno: Py<PyAny>,
    /// Its method `gettimeout`.
    pub timeout: Py<PyAny>,
    /// Its attribute `type`.
    pub kind: Py<PyAny>,
}

/// Those of sockets.
pub static SOCKETS: PyOnceLock<SocketClasses> = PyOnceLock::new();

/// Those of sockets; imports `_socket`.
///
/// # Errors
/// The error of the import.
pub fn socket_classes(py: Python<'_>) -> PyResult<&'static SocketClasses> {
    SOCKETS.get_or_try_init(py, || {
        let class = py.import("_socket")?.getattr("socket")?;
        let of = |name: &str| class.getattr(name).map(Bound::unbind);
        Ok(SocketClasses {
            fileno: of("fileno")?,
            timeout: of("gettimeout")?,
            kind: of("type")?,
            class: class.unbind(),
        })
    })
}

/// Examines a socket; `None` for any other object, and for sockets without the class that Python programs use.
pub fn look_at_socket(object: &Bound<'_, PyAny>) -> Option<Seen> {
    let py = object.py();
    // SAFETY: the types of two objects that are held; reads a type's words.
    unsafe {
        let class = SOCKETS.get(py).map(|classes| classes.class.as_ptr().cast::<ffi::PyTypeObject>());
        let class = match class {
            Some(class) => class,
            None => {
                // no program has a socket before the module is imported
                py.import("sys").ok()?.getattr("modules").ok()?.get_item("_socket").ok()?;
                socket_classes(py).ok()?.class.as_ptr().cast()
            }
        };
        let own = ffi::Py_TYPE(object.as_ptr());
        if own == class || ffi::PyType_IsSubtype(own, class) == 0 || (*own).tp_weaklistoffset == 0 {
            return None;
        }
    }
    let classes = socket_classes(py).ok()?;
    let is_open = classes.fileno.bind(py).call1((object,)).ok()?.extract::<i64>().ok()? >= 0;
    let kind = classes.kind.bind(py).call_method1("__get__", (object,)).and_then(|kind| kind.extract::<i64>());
    // without the bits that Linux adds
    let driver = match kind.map(|kind| kind & 15) {
        Ok(1) => "tcp_inet",
        Ok(2) => "udp_inet",
        Ok(5) => "sctp_inet",
        _ => "inet",
    };
    Some(Seen { driver, is_open })
}

/// `subprocess.Popen`.
pub static SUBPROCESSES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Examines a subprocess; `None` for any other object.
pub fn look_at_subprocess(object: &Bound<'_, PyAny>) -> Option<Seen> {
    let py = object.py();
    let class = match SUBPROCESSES.get(py) {
        Some(class) => class,
        None => {
            let module = py.import("sys").ok()?.getattr("modules").ok()?.get_item("subprocess").ok()?;
            let found = module.getattr("Popen").ok()?.unbind();
            SUBPROCESSES.get_or_init(py, || found)
        }
    };
    // SAFETY: two types of objects that are held; then plain attributes of an instance.
    unsafe {
        if ffi::PyType_IsSubtype(ffi::Py_TYPE(object.as_ptr()), class.as_ptr().cast()) == 0 {
            return None;
        }
        // one that was not started has no pid yet
        let started = attribute(py, object.as_ptr(), "pid").is_some_and(|pid| !pid.is_none());
        let runs = attribute(py, object.as_ptr(), "returncode").is_some_and(|status| status.is_none());
        Some(Seen { driver: "spawn", is_open: started && runs })
    }
}

/// The classes by which transports are examined.
pub struct TransportClasses {
    /// Of transports over sockets.
    pub selector: Py<PyAny>,
    /// Of transports of pipes that are read, and of those that are written.
    pub pipes: [Py<PyAny>; 2],
    /// Protocols of a subprocess's pipes.
    pub of_subprocess: Py<PyAny>,
    /// Of the TLS over a transport.
    pub tls: Py<PyAny>,
    /// Of event loops with sockets.
    pub event_loop: Py<PyAny>,
}

/// Those of transports.
pub static TRANSPORTS: PyOnceLock<TransportClasses> = PyOnceLock::new();

/// The classes, if asyncio is imported and has them. This imports nothing that another thread may be importing: each
/// thread would wait for the other, and one of them would get half a module.
pub fn transport_classes(py: Python<'_>) -> Option<&'static TransportClasses> {
    if let Some(known) = TRANSPORTS.get(py) {
        return Some(known);
    }
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let asyncio = modules.get_item("asyncio").ok()?;
    if asyncio.getattr("__spec__").and_then(|spec| spec.getattr("_initializing")?.is_truthy()).unwrap_or(false) {
        return None;
    }
    modules.get_item("asyncio.unix_events").ok()?;
    let make = || -> PyResult<TransportClasses> {
        let of = |module: &str, name: &str| py.import(module)?.getattr(name).map(Bound::unbind);
        Ok(TransportClasses {
            selector: of("asyncio.selector_events", "_SelectorTransport")?,
            pipes: [
                of("asyncio.unix_events", "_UnixReadPipeTransport")?,
                of("asyncio.unix_events", "_UnixWritePipeTransport")?,
            ],
            of_subprocess: of("asyncio.base_subprocess", "WriteSubprocessPipeProto")?,
            tls: of("asyncio.sslproto", "SSLProtocol")?,
            event_loop: of("asyncio.selector_events", "BaseSelectorEventLoop")?,
        })
    };
    TRANSPORTS.get_or_try_init(py, make).ok()
}

/// Whether an object is of a class, or of one that derives from it.
pub fn is_one_of(object: *mut ffi::PyObject, class: &Py<PyAny>) -> bool {
    // SAFETY: the callers' objects stand; two types.
    unsafe { ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class.as_ptr().cast()) != 0 }
}

/// Examines a transport of a pipe; `None` for any other object, and for the pipes of subprocesses.
pub fn look_at_transport(object: &Bound<'_, PyAny>) -> Option<Seen> {
    let py = object.py();
    let classes = transport_classes(py)?;
    if !classes.pipes.iter().any(|class| is_one_of(object.as_ptr(), class)) {
        return None;
    }
    // SAFETY: plain attributes of an instance that is held.
    unsafe {
        if attribute(py, object.as_ptr(), "_protocol").is_some_and(|it| is_one_of(it.as_ptr(), &classes.of_subprocess))
        {
            return None;
        }
        let is_open = attribute(py, object.as_ptr(), "_pipe").is_some_and(|pipe| !pipe.is_none());
        Some(Seen { driver: "fd", is_open })
    }
}
