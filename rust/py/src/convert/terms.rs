//! The package's own classes for terms: the decoder makes them, and the encoder recognises them.

use super::{
    decode::{self, Made, Makers},
    pid::Pid,
    view::looked_at,
};
use inviso_core::host::tracee::Kind;
use inviso_cpython::{
    capture,
    interpreter::calling::{self, call},
};
use inviso_match::View;
use inviso_port::origin::Origin;
use inviso_term::{
    etf::{self, ClosureRef, Node, RecordRef, MAX_ATOM},
    term::{Identifier, Record, Term},
};
use pyo3::{exceptions::PyTypeError, ffi, prelude::*, sync::PyOnceLock, types::*, PyTypeInfo};
use std::ptr;

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
    port: Py<PyAny>,
    record: Py<PyAny>,
    fun: Py<PyAny>,
    local_fun: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// The classes. They are imported, and registered with the encoder, at first use.
///
/// # Errors
/// The error of importing the package's own module.
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
            port: class("Port")?,
            record: class("Record")?,
            fun: class("Fun")?,
            local_fun: class("LocalFun")?,
        };
        // SAFETY: both classes are kept for ever, the first by `CLASSES`; `number` and `away` only read the fields of a
        // frozen object.
        unsafe {
            capture::register_atom(classes.atom.as_ptr().cast());
            capture::register_pid(Pid::type_object_raw(py), number, away);
            let special =
                [&classes.map, &classes.bit_string, &classes.improper_list, &classes.port, &classes.reference];
            capture::register_special_types(special.map(|class| class.as_ptr().cast()), || Origin::own().order());
        }
        Ok(classes)
    })
}

/// # Safety
/// `pid` is a Pid, and the calling thread is attached.
unsafe fn number(pid: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: the caller promises that `pid` is a Pid, and the calling thread is attached.
    let pid = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), pid) };
    pid.cast::<Pid>().ok().map(|pid| pid.get()).filter(|pid| pid.is_local()).map(|pid| pid.id)
}

/// # Safety
/// As [`number`].
unsafe fn away(pid: *mut ffi::PyObject) -> Option<Identifier> {
    // SAFETY: the caller promises that `pid` is a Pid, and the calling thread is attached.
    let pid = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), pid) };
    pid.cast::<Pid>().ok().map(|pid| pid.get()).filter(|pid| !pid.is_local()).map(Pid::identifier)
}

/// The object of a term.
///
/// # Errors
/// The error of making it.
pub fn object(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    Ok(decode::decode(py, bytes, classes(py)?)?.unbind())
}

/// An atom.
///
/// # Errors
/// The error of making it.
pub fn atom(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    Ok(call(classes(py)?.atom.bind(py), (text,))?.unbind())
}

/// The pid or port of a number.
///
/// # Errors
/// The error of making it.
pub fn identity(py: Python<'_>, id: u64) -> PyResult<Py<PyAny>> {
    if Kind::of(id) == Kind::Port {
        return Ok(calling::method(classes(py)?.port.bind(py), "_of", (id >> 2,))?.unbind());
    }
    Ok(Py::new(py, Pid::new(id))?.into_any())
}

/// An atom as [`atom`] makes it, but not the registered one of that name. Making it runs no Python code.
///
/// # Errors
/// The error of making it.
pub fn plain_atom<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    let args = PyTuple::new(py, [text])?;
    let class = classes(py)?.atom.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: the class is a subclass of str, and makes an instance out of a str; a new reference or null.
    unsafe {
        let make =
            ffi::PyUnicode_Type.tp_new.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("str can't be made"))?;
        Bound::from_owned_ptr_or_err(py, make(class, args.as_ptr(), std::ptr::null_mut()))
    }
}

/// The same as [`identity`], without running Python code.
///
/// # Errors
/// The error of making it.
pub fn plain_identity(py: Python<'_>, id: u64) -> PyResult<Py<PyAny>> {
    if Kind::of(id) != Kind::Port {
        return identity(py, id);
    }
    let class = classes(py)?.port.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: instances of the class have only two slots, which the generic way of making objects leaves empty; a new
    // reference or null.
    let port =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericNew(class, ptr::null_mut(), ptr::null_mut())) }?;
    port.setattr("_number", id >> 2)?;
    port.setattr("_origin", crate::convert::pid::origin())?;
    Ok(port.unbind())
}

/// The number of a pid or port of this node, by which the core knows it.
pub fn local_number(object: &Bound<'_, PyAny>) -> Option<u64> {
    if let Ok(pid) = object.cast::<Pid>() {
        return Some(pid.get()).filter(|pid| pid.is_local()).map(|pid| pid.id);
    }
    // SAFETY: the object is held, and the token `object.py()` says that the thread is attached.
    match unsafe { capture::special_type(object.as_ptr(), ffi::Py_TYPE(object.as_ptr())) } {
        Some(capture::SpecialType::Port(number)) => Some(number << 2 | Kind::Port as u64),
        _ => None,
    }
}

/// The mark of a place where a limit cut something off.
///
/// # Errors
/// The error of making it.
pub fn cut<'py>(py: Python<'py>, what: &str) -> Made<'py> {
    classes(py)?.cut(py, what)
}

/// Makes the term of a part.
type TermOf<'a> = dyn FnMut(&Bound<'_, PyAny>) -> PyResult<Term> + 'a;

impl Classes {
    /// The term of an object of one of the classes; `term` makes those of its parts.
    ///
    /// # Errors
    /// TypeError, naming it, for any other object.
    pub fn special_type(&self, object: &Bound<'_, PyAny>, term: &mut TermOf<'_>) -> PyResult<Term> {
        // SAFETY: two types.
        let is = |class: &Py<PyAny>| unsafe {
            ffi::PyType_IsSubtype(object.get_type_ptr(), class.as_ptr().cast::<ffi::PyTypeObject>()) != 0
        };
        if is(&self.improper_list) {
            return improper_list_in(object, term);
        }
        if is(&self.map) {
            return map_in(object, term);
        }
        if is(&self.bit_string) {
            return bit_string_in(object);
        }
        if is(&self.port) {
            return port_in(object);
        }
        if is(&self.reference) {
            return reference_in(object);
        }
        if is(&self.record) {
            return record_in(object, term);
        }
        if is(&self.fun) {
            return fun_in(object);
        }
        if is(&self.local_fun) {
            return local_fun_in(object);
        }
        let mut buffer = [0; 256];
        // SAFETY: the object stands and holds its class; the thread is attached.
        let class = unsafe { capture::type_name(object.get_type_ptr(), &mut buffer) };
        Err(PyTypeError::new_err(format!("an object of class {class} is not a term")))
    }
}

fn improper_list_in(object: &Bound<'_, PyAny>, term: &mut TermOf<'_>) -> PyResult<Term> {
    let elements = field(object, "elements")?.cast_into::<PyList>()?;
    let elements = elements.iter().map(|item| term(&item)).collect::<PyResult<Vec<_>>>()?;
    Ok(Term::ImproperList(elements, Box::new(term(&field(object, "tail")?)?)))
}

fn map_in(object: &Bound<'_, PyAny>, term: &mut TermOf<'_>) -> PyResult<Term> {
    let pair = |pair: Bound<'_, PyAny>| match pair.cast::<PyTuple>()?.as_slice() {
        [key, value] => Ok((term(key)?, term(value)?)),
        _ => Err(PyTypeError::new_err("the pairs of a Map are tuples (key, value)")),
    };
    let pairs = field(object, "pairs")?.cast_into::<PyList>()?;
    Ok(Term::Map(pairs.iter().map(pair).collect::<PyResult<_>>()?))
}

fn bit_string_in(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    let data = field(object, "data")?.cast_into::<PyBytes>()?;
    let bits = number_of(object, "bits")?;
    let bits = u8::try_from(bits).ok().filter(|bits| (1..8).contains(bits) && !data.as_bytes().is_empty());
    let bits = bits.ok_or_else(|| PyTypeError::new_err("a BitString has bytes, and 1 to 7 bits of the last"))?;
    Ok(Term::BitString(data.as_bytes().into(), bits))
}

fn port_in(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    let (number, origin) = (number_of(object, "_number")?, Origin::by_order(number_of(object, "_origin")?));
    if origin == Origin::own() {
        return Ok(Term::Port(Identifier::own(number)));
    }
    let name = origin.foreign_name().unwrap_or_default();
    Ok(Term::Port(Identifier::new(number, &name, origin.creation() as u32)))
}

fn reference_in(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    let id = number_of(object, "_number")?;
    let node = field(object, "_node")?;
    if node.is_none() {
        return Ok(Term::Ref(Identifier::own(id)));
    }
    let (rest, node, creation) = node.extract::<(u128, String, u32)>()?;
    Ok(Term::Ref(Identifier { rest, ..Identifier::new(id, &node, creation) }))
}

fn record_in(object: &Bound<'_, PyAny>, term: &mut TermOf<'_>) -> PyResult<Term> {
    let name = |of: Bound<'_, PyAny>| {
        let name = of.cast::<PyString>().ok().and_then(|name| name.to_str().ok());
        let name = name.filter(|name| name.chars().nth(MAX_ATOM).is_none()).map(Into::into);
        name.ok_or_else(|| PyTypeError::new_err("names of a Record are str of at most 255 characters"))
    };
    let fields = field(object, "fields")?.cast_into::<PyDict>()?;
    // a list first: making terms of the values may change the dict
    let fields = fields.items().iter().map(|pair| match pair.cast::<PyTuple>()?.as_slice() {
        [field, value] => Ok((name(field.clone())?, term(value)?)),
        _ => Err(PyTypeError::new_err("the fields of a Record are a dict")),
    });
    Ok(Term::Record(Box::new(Record {
        fields: fields.collect::<PyResult<_>>()?,
        module: name(field(object, "module")?)?,
        name: name(field(object, "name")?)?,
        exported: field(object, "exported")?.is(PyBool::new(object.py(), true)),
    })))
}

fn fun_in(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    let name = |of: &str| field(object, of)?.extract::<String>();
    let arity = Some(number_of(object, "arity")?).filter(|arity| *arity <= etf::SMALL as u64);
    let arity = arity.ok_or_else(|| PyTypeError::new_err("the arity of a Fun is 0 to 2**59 - 1"))?;
    Ok(Term::Fun(name("module")?.into(), name("name")?.into(), arity))
}

fn local_fun_in(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    let encoded = field(object, "_encoded")?;
    let term = etf::decode(encoded.cast::<PyBytes>()?.as_bytes());
    term.ok()
        .filter(|term| matches!(term, Term::Closure(_)))
        .ok_or_else(|| PyTypeError::new_err("this LocalFun does not come from Erlang, and nothing else can make one"))
}

impl Classes {
    /// The term of an object that a snapshot, or a limit, left in place of another; `None` for any other object.
    pub fn left_over(&self, object: &Bound<'_, PyAny>) -> Option<Term> {
        let class = object.get_type();
        let text = |name: &str| field(object, name).ok()?.cast_into::<PyString>().ok()?.extract::<String>().ok();
        if class.is(self.cut.bind(object.py())) {
            return Some(Term::Cut(text("what")?.into()));
        }
        if class.is(self.opaque.bind(object.py())) {
            return Some(Term::Opaque(
                text("type")?.into(),
                number_of(object, "id").ok()?,
                text("text").map(Into::into),
            ));
        }
        None
    }

    /// Whether there is an atom of this name. An atom's name has no surrogates.
    pub fn has_atom(&self, py: Python<'_>, name: &str) -> bool {
        self.atom.bind(py).getattr("_all").and_then(|all| all.contains(name)).unwrap_or(false)
    }
}

impl Classes {
    /// The name of a module or function: an atom, which `atom` makes, or a str for a name that is another object in
    /// Python.
    ///
    /// # Errors
    /// The error of making it.
    pub fn name<'py>(&self, py: Python<'py>, name: &str, atom: impl FnOnce() -> Made<'py>) -> Made<'py> {
        match name {
            "true" | "false" | "undefined" => Ok(PyString::new(py, name).into_any()),
            _ => atom(),
        }
    }

    /// A native record; `named` makes the atoms of its names.
    ///
    /// # Errors
    /// The error of making it.
    pub fn record_of<'py>(
        &self, py: Python<'py>, of: RecordRef<'_>, values: Vec<Bound<'py, PyAny>>, named: impl Fn(&str) -> Made<'py>,
    ) -> Made<'py> {
        let fields = PyDict::new(py);
        for (field, value) in of.fields.iter().zip(values) {
            fields.set_item(named(field)?, value)?;
        }
        call(self.record.bind(py), (named(of.module)?, named(of.name)?, fields, of.exported))
    }

    /// A function by its name; its atoms exist.
    ///
    /// # Errors
    /// The error of making it.
    pub fn fun_of<'py>(&self, module: &Bound<'py, PyAny>, name: &Bound<'py, PyAny>, arity: u64) -> Made<'py> {
        call(self.fun.bind(module.py()), (module, name, arity))
    }

    /// A function that Erlang made at run time, in a module whose atom exists.
    ///
    /// # Errors
    /// The error of making it.
    pub fn closure_of<'py>(&self, module: &Bound<'py, PyAny>, of: ClosureRef<'_>) -> Made<'py> {
        let py = module.py();
        let make = self.local_fun.bind(py).getattr("_of")?;
        call(&make, (module, of.arity, of.index, of.unique, PyBytes::new(py, of.encoded())))
    }
}

/// A slot of an object of one of the classes, without running its code.
fn field<'py>(object: &Bound<'py, PyAny>, name: &str) -> Made<'py> {
    looked_at(object, |view| {
        let found = view.attribute(name).ok_or_else(|| PyTypeError::new_err(format!("it has no {name}")))?;
        // SAFETY: the viewed object stands, and is held from then on.
        Ok(unsafe { Bound::from_borrowed_ptr(object.py(), found.as_ptr()) })
    })
}

fn number_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    let number = field(object, name)?.cast_into::<PyInt>()?;
    let number = looked_at(&number, |view| Ok(view.big()))?;
    u64::try_from(number).map_err(|_| PyTypeError::new_err(format!("its {name} is out of range")))
}

impl Makers for Classes {
    fn atom<'py>(&self, py: Python<'py>, name: &str) -> Made<'py> {
        call(self.atom.bind(py), (name,))
    }
    fn pid<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        Ok(Bound::new(py, Pid::of_term(of))?.into_any())
    }
    fn port<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        let port = call(&self.port.bind(py).getattr("_of")?, (of.id,))?;
        if of.creation != 0 || of.name != "nonode@nohost" {
            port.setattr("_origin", Origin::of_term(of.name, of.creation).order())?;
        }
        Ok(port)
    }
    fn reference<'py>(&self, py: Python<'py>, of: Node<'_>) -> Made<'py> {
        let own = of.rest == 0 && (of.creation == 0 && of.name == "nonode@nohost" || Origin::is_own(of.creation));
        let make = self.reference.bind(py).getattr("_of")?;
        if own {
            return call(&make, (of.id,));
        }
        call(&make, (of.id, (of.rest, of.name, of.creation)))
    }
    fn closure<'py>(&self, py: Python<'py>, of: ClosureRef<'_>) -> Made<'py> {
        self.closure_of(&self.name(py, of.module, || call(self.atom.bind(py), (of.module,)))?, of)
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
    fn record<'py>(&self, py: Python<'py>, of: RecordRef<'_>, values: Vec<Bound<'py, PyAny>>) -> Made<'py> {
        self.record_of(py, of, values, |name| self.name(py, name, || call(self.atom.bind(py), (name,))))
    }
    fn fun<'py>(&self, py: Python<'py>, module: &str, name: &str, arity: u64) -> Made<'py> {
        let named = |name: &str| self.name(py, name, || call(self.atom.bind(py), (name,)));
        self.fun_of(&named(module)?, &named(name)?, arity)
    }
}
