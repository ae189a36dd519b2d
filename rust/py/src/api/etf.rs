//! Terms from bytes that may come from anywhere, and back: `inviso.etf`, and the messages of logs.

use super::{match_spec, wire};
use crate::convert::{
    decode::{self, Failure, Made, Makers},
    errors::{self, LimitReached},
    terms::{self, Classes},
};
use inviso_core::host::error::Error;
use inviso_cpython::interpreter::calling::call;
use inviso_term::etf::{self, ClosureRef, DecodeError, Decoder, Limits, Node, RecordRef, MAX_DEPTH, VERSION};
use pyo3::{exceptions::PyValueError, prelude::*, types::*};
use rustc_hash::FxHashMap;
use std::{borrow::Cow, cell::RefCell};

/// Atoms are never freed. Bytes from outside can't make more of them than Erlang allows.
const ATOMS: usize = 1 << 20;

/// The number of atoms, and of pids, that a cache keeps.
const AT_HAND: usize = 1 << 16;

/// A pid, and the name of its node.
type NamedPid = (Box<str>, Py<PyAny>);

/// Objects that many messages have in common, made once.
#[derive(Default)]
pub struct Cache {
    atoms: RefCell<FxHashMap<Box<str>, Py<PyAny>>>,
    pids: RefCell<FxHashMap<(u64, u32), NamedPid>>,
}

/// Makes objects with a cache.
pub struct Cached<'a> {
    /// The classes for types that Python doesn't have.
    pub classes: &'a Classes,
    /// The objects that were made before.
    pub cache: &'a Cache,
}

/// Adds to a cache that is emptied when it is full.
fn keep<K: std::hash::Hash + Eq, V>(cache: &RefCell<FxHashMap<K, V>>, key: K, value: V) {
    // dropped after the cache is free again: a destructor may run code that uses it
    let mut old = None;
    let mut map = cache.borrow_mut();
    if map.len() >= AT_HAND {
        old = Some(std::mem::take(&mut *map));
    }
    let before = map.insert(key, value);
    drop(map);
    drop((old, before));
}

impl Makers for Cached<'_> {
    fn atom<'py>(&self, py: Python<'py>, name: &str) -> Made<'py> {
        if let Some(atom) = self.cache.atoms.borrow().get(name) {
            return Ok(atom.bind(py).clone());
        }
        let atom = self.classes.atom.bind(py);
        if !self.classes.has_atom(py, name) && atom.getattr("_all")?.len()? >= ATOMS {
            return Err(errors::raise(Error::Limit("too many atoms")));
        }
        let made = call(atom, (name,))?;
        keep(&self.cache.atoms, name.into(), made.clone().unbind());
        Ok(made)
    }

    fn pid<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        let key = (of.id, of.creation);
        if let Some((name, pid)) = self.cache.pids.borrow().get(&key) {
            if **name == *of.name {
                return Ok(pid.bind(py).clone());
            }
        }
        let made = self.classes.pid(py, of)?;
        keep(&self.cache.pids, key, (of.name.into(), made.clone().unbind()));
        Ok(made)
    }

    fn port<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        self.classes.port(py, of)
    }

    fn reference<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        self.classes.reference(py, of)
    }

    fn opaque<'py>(&self, py: Python<'py>, type_name: &str, id: u64, text: Option<&str>) -> Made<'py> {
        self.classes.opaque(py, type_name, id, text)
    }

    fn cut<'py>(&self, py: Python<'py>, what: &str) -> Made<'py> {
        self.classes.cut(py, what)
    }

    fn map<'py>(&self, pairs: Bound<'py, PyList>) -> Made<'py> {
        self.classes.map(pairs)
    }

    fn bit_string<'py>(&self, bytes: Bound<'py, PyBytes>, bits: u8) -> Made<'py> {
        self.classes.bit_string(bytes, bits)
    }

    fn improper_list<'py>(&self, elements: Bound<'py, PyList>, tail: Bound<'py, PyAny>) -> Made<'py> {
        self.classes.improper_list(elements, tail)
    }

    fn record<'py>(&self, py: Python<'py>, of: RecordRef<'_>, values: Vec<Bound<'py, PyAny>>) -> Made<'py> {
        self.classes.record_of(py, of, values, |name| self.named(py, name))
    }

    fn fun<'py>(&self, py: Python<'py>, module: &str, name: &str, arity: u64) -> Made<'py> {
        let (module, name) = (self.named(py, module)?, self.named(py, name)?);
        self.classes.fun_of(&module, &name, arity)
    }

    fn closure<'py>(&self, py: Python<'py>, of: ClosureRef<'_>) -> Made<'py> {
        let module = self.named(py, of.module)?;
        self.classes.closure_of(&module, of)
    }
}

impl Cached<'_> {
    fn named<'py>(&self, py: Python<'py>, name: &str) -> Made<'py> {
        self.classes.name(py, name, || self.atom(py, name))
    }
}

/// A term in the external term format, as any node reads it. A node with a name puts the name into its pids, as Erlang
/// does.
#[pyfunction]
pub fn dumps<'py>(py: Python<'py>, term: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    // one level less than is read: the encoder cuts a part that would not fit inside
    let term = match_spec::snapshot_to(term, MAX_DEPTH - 1)?;
    let term = if inviso_port::node::name() == "nonode@nohost" { term } else { wire::outward(term) };
    Ok(PyBytes::new(py, &etf::portable(&etf::encode_versioned(&term))))
}

/// The term of bytes in the external term format. ValueError, with the place, if they are not a term.
#[pyfunction]
pub fn loads(py: Python<'_>, data: &[u8], depth: usize, size: usize) -> PyResult<Py<PyAny>> {
    let wrong = |at: usize, why: &dyn std::fmt::Display| PyValueError::new_err(format!("at byte {at}: {why}"));
    if data.first() != Some(&VERSION) {
        return Err(wrong(0, &"no term begins so: the first byte of one is 131"));
    }
    let limits = Limits { depth, bytes: size, inflated: size };
    let mut decoder = Decoder::new(data, limits).map_err(|e| wrong(size, &e))?;
    let cache = Cache::default();
    let made = decode::next(py, &mut decoder, &Cached { classes: terms::classes(py)?, cache: &cache });
    let at = data.len() - decoder.rest().len();
    match made {
        // as Erlang does: the forms that this package uses only in its own rings are not passed on
        Ok(_) if matches!(etf::portable(data), Cow::Owned(_)) => {
            Err(wrong(0, &"a float that is not finite, or a map with a key twice"))
        }
        Ok(term) => Ok(term.unbind()),
        Err(Failure::NoTerm(e @ DecodeError::Tag(_))) => Err(wrong(at.saturating_sub(1), &e)),
        Err(Failure::NoTerm(e)) => Err(wrong(at, &e)),
        Err(Failure::Raised(e)) => Err(e),
    }
}

/// A message of a log, or the reason why the bytes are not one.
///
/// # Errors
/// The error of making it; but too many atoms are a reason.
pub fn message<'py>(
    py: Python<'py>, payload: &[u8], makers: &Cached<'_>,
) -> PyResult<Result<Bound<'py, PyAny>, String>> {
    let made = Decoder::new(payload, Limits::default()).map_err(Failure::from);
    match made.and_then(|mut decoder| decode::next(py, &mut decoder, makers)) {
        Ok(message) => Ok(Ok(message)),
        Err(Failure::NoTerm(e)) => Ok(Err(e.to_string())),
        Err(Failure::Raised(e)) if e.is_instance_of::<LimitReached>(py) => Ok(Err(e.value(py).to_string())),
        Err(Failure::Raised(e)) => Err(e),
    }
}
