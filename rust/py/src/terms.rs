//! The package's own classes for terms: how the decoder makes them, and how the encoder knows them.

use crate::{
    capture,
    decode::{self, Made, Makers},
    ffi::calling::call,
    pid::Pid,
};
use inviso_term::etf::Node;
use pyo3::{ffi, prelude::*, sync::PyOnceLock, types::*, PyTypeInfo};

/// The classes of `inviso.terms`.
pub struct Classes {
    /// `Atom`.
    pub atom: Py<PyAny>,
    opaque: Py<PyAny>,
    cut: Py<PyAny>,
    map: Py<PyAny>,
    bit_string: Py<PyAny>,
    improper_list: Py<PyAny>,
    reference: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// The classes; imported, and made known to the encoder, at first use.
///
/// # Errors
/// What importing the package's own module raises.
pub fn classes(py: Python<'_>) -> PyResult<&Classes> {
    CLASSES.get_or_try_init(py, || {
        let module = py.import("inviso.terms")?;
        let class = |name: &str| module.getattr(name).map(Bound::unbind);
        let classes = Classes {
            atom: class("Atom")?,
            opaque: class("Opaque")?,
            cut: class("Cut")?,
            map: class("Map")?,
            bit_string: class("BitString")?,
            improper_list: class("ImproperList")?,
            reference: class("Ref")?,
        };
        // SAFETY: both classes are kept for ever, the first by `CLASSES`; `number` only reads a field of a frozen object.
        unsafe {
            capture::register_atom(classes.atom.as_ptr().cast());
            capture::register_pid(Pid::type_object_raw(py), number);
        }
        Ok(classes)
    })
}

/// # Safety
/// `pid` is a Pid, and the calling thread is attached.
unsafe fn number(pid: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: the caller's promise.
    let pid = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), pid) };
    pid.cast::<Pid>().ok().map(|pid| pid.get()).filter(|pid| pid.is_local()).map(|pid| pid.id)
}

/// The object of a term.
///
/// # Errors
/// What making it raises.
pub fn object(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    Ok(decode::decode(py, bytes, classes(py)?)?.unbind())
}

/// Where a limit cut something off.
///
/// # Errors
/// What making it raises.
pub fn cut<'py>(py: Python<'py>, what: &str) -> Made<'py> {
    classes(py)?.cut(py, what)
}

impl Makers for Classes {
    fn atom<'py>(&self, py: Python<'py>, name: &str) -> Made<'py> {
        call(self.atom.bind(py), (name,))
    }
    fn pid<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        Ok(Bound::new(py, Pid::new(of.id))?.into_any())
    }
    fn port<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        call(self.opaque.bind(py), ("port", of.id))
    }
    fn reference<'py>(&self, py: Python<'py>, _of: Node<'_>) -> Made<'py> {
        call(self.reference.bind(py), ())
    }
    fn opaque<'py>(&self, py: Python<'py>, type_name: &str, id: u64, text: Option<&str>) -> Made<'py> {
        call(self.opaque.bind(py), (type_name, id, text))
    }
    fn cut<'py>(&self, py: Python<'py>, what: &str) -> Made<'py> {
        call(self.cut.bind(py), (what,))
    }
    fn map<'py>(&self, pairs: Bound<'py, PyList>) -> Made<'py> {
        call(self.map.bind(pairs.py()), (&pairs,))
    }
    fn bit_string<'py>(&self, bytes: Bound<'py, PyBytes>, bits: u8) -> Made<'py> {
        call(self.bit_string.bind(bytes.py()), (&bytes, bits))
    }
    fn improper_list<'py>(&self, elements: Bound<'py, PyList>, tail: Bound<'py, PyAny>) -> Made<'py> {
        call(self.improper_list.bind(tail.py()), (&elements, &tail))
    }
    fn fun<'py>(&self, py: Python<'py>, module: &str, name: &str, arity: u8) -> Made<'py> {
        let atom = self.atom.bind(py);
        Ok((call(atom, (module,))?, call(atom, (name,))?, arity).into_pyobject(py)?.into_any())
    }
}
