//! Python objects from terms.
//!
//! Numbers, text, bytes, tuples, lists, maps and sets become the built-in types (sets frozen, so that they can be
//! members and keys); the atoms true, false and undefined become `True`, `False` and `None`. A [`Makers`] makes all
//! other objects.

use inviso_term::etf::{self, ClosureRef, DecodeError, Decoder, Node, RecordRef, Visit};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyList, PyString, PyTuple},
};

/// A Python object, or the exception of making it.
pub type Made<'py> = PyResult<Bound<'py, PyAny>>;

/// Makes the objects for which Python has no type of its own.
pub trait Makers {
    /// An atom other than true, false and undefined.
    fn atom<'py>(&self, py: Python<'py>, name: &str) -> Made<'py>;
    /// A process.
    fn pid<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py>;
    /// A port.
    fn port<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py>;
    /// A reference.
    fn reference<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py>;
    /// An object that was not copied: its type's name, its id, and its text if the session captures texts.
    fn opaque<'py>(&self, py: Python<'py>, type_name: &str, id: u64, text: Option<&str>) -> Made<'py>;
    /// The place where a limit cut something off.
    fn cut<'py>(&self, py: Python<'py>, what: &str) -> Made<'py>;
    /// A map that a dict can't hold, as a list of pairs: some keys are equal in Python (1, 1.0, True) or can't be
    /// hashed.
    fn map<'py>(&self, pairs: Bound<'py, PyList>) -> Made<'py>;
    /// A bit string whose last byte has `bits` (1 to 7) bits, the high ones.
    fn bit_string<'py>(&self, bytes: Bound<'py, PyBytes>, bits: u8) -> Made<'py>;
    /// A list whose tail is not a list.
    fn improper_list<'py>(&self, elements: Bound<'py, PyList>, tail: Bound<'py, PyAny>) -> Made<'py>;
    /// A native record; a value for each of its fields.
    fn record<'py>(&self, py: Python<'py>, of: RecordRef<'_>, values: Vec<Bound<'py, PyAny>>) -> Made<'py>;
    /// A function by its name.
    fn fun<'py>(&self, py: Python<'py>, module: &str, name: &str, arity: u64) -> Made<'py>;
    /// A function that Erlang made at run time.
    fn closure<'py>(&self, py: Python<'py>, of: ClosureRef<'_>) -> Made<'py>;
}

/// Reads one term, which may begin with the version byte.
///
/// # Errors
/// ValueError if the bytes are not a term, else the exception of a maker.
pub fn decode<'py>(py: Python<'py>, bytes: &[u8], makers: &impl Makers) -> Made<'py> {
    let mut objects = ObjectBuilder { py, makers };
    etf::walk(bytes, etf::Limits::default(), &mut objects).map_err(|failure| match failure {
        Failure::Raised(e) => e,
        Failure::NoTerm(e) => PyValueError::new_err(e.to_string()),
    })
}

/// Reads the next term.
///
/// # Errors
/// The reason why the bytes are not a term, or the exception of a maker.
pub fn next<'py>(
    py: Python<'py>, decoder: &mut Decoder<'_>, makers: &impl Makers,
) -> Result<Bound<'py, PyAny>, Failure> {
    decoder.read(&mut ObjectBuilder { py, makers })
}

struct ObjectBuilder<'py, 'm, M> {
    py: Python<'py>,
    makers: &'m M,
}

/// The reason why there is no object.
pub enum Failure {
    /// A maker raised it.
    Raised(PyErr),
    /// The bytes are not a term.
    NoTerm(DecodeError),
}

impl From<PyErr> for Failure {
    fn from(e: PyErr) -> Failure {
        Failure::Raised(e)
    }
}

impl From<DecodeError> for Failure {
    #[cold]
    fn from(e: DecodeError) -> Failure {
        Failure::NoTerm(e)
    }
}

type Value<'py> = Result<Bound<'py, PyAny>, Failure>;

impl<'py, M: Makers> Visit for ObjectBuilder<'py, '_, M> {
    type Value = Bound<'py, PyAny>;
    type Error = Failure;

    fn int(&mut self, n: i64) -> Value<'py> {
        Ok(n.into_pyobject(self.py).map_err(PyErr::from)?.into_any())
    }

    fn big(&mut self, negative: bool, magnitude: &[u8]) -> Value<'py> {
        Ok(big(self.py, negative, magnitude)?)
    }

    fn float(&mut self, value: f64) -> Value<'py> {
        Ok(PyFloat::new(self.py, value).into_any())
    }

    fn atom(&mut self, name: &str) -> Value<'py> {
        Ok(match name {
            "true" => PyBool::new(self.py, true).to_owned().into_any(),
            "false" => PyBool::new(self.py, false).to_owned().into_any(),
            "undefined" => self.py.None().into_bound(self.py),
            _ => self.makers.atom(self.py, name)?,
        })
    }

    fn str(&mut self, text: &str) -> Value<'py> {
        Ok(PyString::new(self.py, text).into_any())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Value<'py> {
        Ok(PyBytes::new(self.py, bytes).into_any())
    }

    fn bits(&mut self, bytes: &[u8], bits: u8) -> Value<'py> {
        Ok(self.makers.bit_string(PyBytes::new(self.py, bytes), bits)?)
    }

    fn tuple(&mut self, elements: Vec<Self::Value>) -> Value<'py> {
        Ok(PyTuple::new(self.py, elements)?.into_any())
    }

    fn list(&mut self, elements: Vec<Self::Value>) -> Value<'py> {
        Ok(PyList::new(self.py, elements)?.into_any())
    }

    fn improper(&mut self, mut elements: Vec<Self::Value>, tail: Self::Value) -> Value<'py> {
        if let Ok(more) = tail.cast::<PyList>() {
            elements.extend(more.iter());
            return self.list(elements);
        }
        Ok(self.makers.improper_list(PyList::new(self.py, elements)?, tail)?)
    }

    fn map(&mut self, pairs: Vec<(Self::Value, Self::Value)>) -> Value<'py> {
        let dict = PyDict::new(self.py);
        let all = pairs.iter().try_for_each(|(key, value)| dict.set_item(key, value));
        if hashed(self.py, all)? && dict.len() == pairs.len() {
            return Ok(dict.into_any());
        }
        Ok(self.makers.map(PyList::new(self.py, pairs)?)?)
    }

    fn record(&mut self, of: RecordRef<'_>, values: Vec<Self::Value>) -> Value<'py> {
        Ok(self.makers.record(self.py, of, values)?)
    }

    /// A list if an element can't be hashed, or if two are equal in Python.
    fn set(&mut self, elements: Vec<Self::Value>) -> Value<'py> {
        match PyFrozenSet::new(self.py, &elements) {
            Ok(set) if set.len() == elements.len() => return Ok(set.into_any()),
            Ok(_) => {}
            Err(e) => drop(hashed(self.py, Err(e))?),
        }
        self.list(elements)
    }

    fn pid(&mut self, of: Node<'_>) -> Value<'py> {
        Ok(self.makers.pid(self.py, of)?)
    }

    fn port(&mut self, of: Node<'_>) -> Value<'py> {
        Ok(self.makers.port(self.py, of)?)
    }

    fn reference(&mut self, of: Node<'_>) -> Value<'py> {
        Ok(self.makers.reference(self.py, of)?)
    }

    fn fun(&mut self, module: &str, name: &str, arity: u64) -> Value<'py> {
        Ok(self.makers.fun(self.py, module, name, arity)?)
    }

    fn closure(&mut self, of: ClosureRef<'_>) -> Value<'py> {
        Ok(self.makers.closure(self.py, of)?)
    }

    fn opaque(&mut self, type_name: &str, id: u64, text: Option<&str>) -> Value<'py> {
        Ok(self.makers.opaque(self.py, type_name, id, text)?)
    }

    fn cut(&mut self, what: &str) -> Value<'py> {
        Ok(self.makers.cut(self.py, what)?)
    }
}

/// Whether all could be hashed; any exception other than "unhashable" is passed on.
fn hashed(py: Python<'_>, result: PyResult<()>) -> PyResult<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.is_instance_of::<PyTypeError>(py) => Ok(false),
        Err(e) => Err(e),
    }
}

/// An int from its sign and magnitude, lowest byte first.
fn big<'py>(py: Python<'py>, negative: bool, magnitude: &[u8]) -> Made<'py> {
    // SAFETY: the magnitude has this length, is unsigned, and its low end comes first; the result is a new reference or
    // null.
    let int = unsafe {
        #[cfg(Py_3_13)]
        let int = {
            const LITTLE_ENDIAN: std::ffi::c_int = 1;
            ffi::PyLong_FromUnsignedNativeBytes(magnitude.as_ptr().cast(), magnitude.len(), LITTLE_ENDIAN)
        };
        #[cfg(not(Py_3_13))]
        let int = ffi::_PyLong_FromByteArray(magnitude.as_ptr(), magnitude.len(), 1, 0);
        Bound::from_owned_ptr_or_err(py, int)?
    };
    if negative {
        int.neg()
    } else {
        Ok(int)
    }
}
