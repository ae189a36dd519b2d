//! From a record in a ring to the tuple that a tracer gets: the elements that the table of shapes ([`Kind::shape`]) names.

use crate::{convert::terms, host::outlet::Outlet, instrument::objects::Arguments};
use inviso_core::{
    drain::{Event, Record, What},
    node::Node,
    parts::{self, part, Part, Time},
    session::Takes,
};
use inviso_cpython::interpreter::calling::call;
use inviso_term::record::{Element, Kind, TRACE, TRACE_TS};
use pyo3::{prelude::*, sync::PyOnceLock, types::*, IntoPyObjectExt};
use std::{collections::HashMap, sync::Mutex};

/// Module and function, as atoms, and the arity.
type Name = (Py<PyAny>, Py<PyAny>, u32);

/// The atoms that messages are made of.
pub struct Words {
    atom: Py<PyAny>,
    trace: Py<PyAny>,
    trace_ts: Py<PyAny>,
    /// In the order of [`Kind::ALL`].
    tags: Vec<Py<PyAny>>,
    names: Mutex<HashMap<u32, Name>>,
}

static WORDS: PyOnceLock<Words> = PyOnceLock::new();

impl Words {
    /// The one set of words.
    ///
    /// # Errors
    /// What importing this package's own terms raises.
    pub fn get(py: Python<'_>) -> PyResult<&Words> {
        WORDS.get_or_try_init(py, || {
            let atom = terms::classes(py)?.atom.bind(py);
            let word = |text: &str| call(atom, (text,)).map(Bound::unbind);
            Ok(Words {
                trace: word(TRACE)?,
                trace_ts: word(TRACE_TS)?,
                tags: Kind::ALL.into_iter().map(|kind| word(kind.tag())).collect::<PyResult<_>>()?,
                atom: atom.clone().unbind(),
                names: Mutex::default(),
            })
        })
    }

    /// The atom of a kind's tag.
    fn tag(&self, py: Python<'_>, kind: Kind) -> PyResult<Py<PyAny>> {
        let at = Kind::ALL.iter().position(|known| *known == kind).ok_or_else(unknown)?;
        Ok(self.tags[at].clone_ref(py))
    }

    /// Module and function of a name, as atoms, and the arity.
    fn name(&self, py: Python<'_>, node: &Node, number: u32) -> PyResult<Name> {
        let copy = |(m, f, a): &Name| (m.clone_ref(py), f.clone_ref(py), *a);
        if let Some(known) = self.names.lock().unwrap_or_else(|e| e.into_inner()).get(&number) {
            return Ok(copy(known));
        }
        let name =
            node.name(number).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a record without a name"))?;
        let atom = self.atom.bind(py);
        let made = (call(atom, (&*name.module,))?.unbind(), call(atom, (&*name.function,))?.unbind(), name.arity);
        let answer = copy(&made);
        let _of_another_thread = self.names.lock().unwrap_or_else(|e| e.into_inner()).insert(number, made);
        Ok(answer)
    }
}

/// The message of a record of this outlet's session. `stale` gets objects that nobody waits for any more, to be let go of
/// outside every lock.
///
/// # Errors
/// What making Python objects raises (no memory).
pub fn message(
    py: Python<'_>, node: &Node, record: &Record, outlet: &Outlet, stale: &mut Vec<Arguments>,
) -> PyResult<Py<PyAny>> {
    let event = match &record.what {
        What::Event(event) => event,
        What::Lost(count) => {
            let tag = Words::get(py)?.tag(py, Kind::Drop)?;
            return Ok((tag, *count).into_pyobject(py)?.into_any().unbind());
        }
    };
    let kind = Kind::from_u8(event.kind).ok_or_else(unknown)?;
    let mut elements = Vec::with_capacity(8);
    let mut making = Making { py, words: Words::get(py)?, node, kind, ticks: record.ticks, event, outlet, stale };
    making.each(kind.shape().elements, |element| elements.push(element))?;
    if elements.is_empty() {
        return Err(unknown());
    }
    Ok(PyTuple::new(py, elements)?.into_any().unbind())
}

fn unknown() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("a record of an unknown kind")
}

/// The elements of an event's message that are its kind's own; of no kind there are more than two.
///
/// # Errors
/// What making Python objects raises (no memory).
pub fn own(
    py: Python<'_>, node: &Node, kind: Kind, event: &Event, outlet: &Outlet, stale: &mut Vec<Arguments>,
) -> PyResult<[Option<Py<PyAny>>; 2]> {
    let mut own = [None, None];
    let mut places = own.iter_mut();
    let mut making = Making { py, words: Words::get(py)?, node, kind, ticks: 0, event, outlet, stale };
    making.each(kind.shape().own, |element| {
        if let Some(place) = places.next() {
            *place = Some(element);
        }
    })?;
    Ok(own)
}

/// What the elements of a message are made from.
struct Making<'a, 'py> {
    py: Python<'py>,
    words: &'a Words,
    node: &'a Node,
    kind: Kind,
    ticks: u64,
    event: &'a Event,
    outlet: &'a Outlet,
    stale: &'a mut Vec<Arguments>,
}

impl Making<'_, '_> {
    fn each(&mut self, elements: &[Element], mut put: impl FnMut(Py<PyAny>)) -> PyResult<()> {
        let (py, words) = (self.py, self.words);
        for part in elements.iter().filter_map(|element| part(*element, self.event)) {
            let element = match part {
                Part::Trace(stamped) => if stamped { &words.trace_ts } else { &words.trace }.clone_ref(py),
                Part::Tag => words.tag(py, self.kind)?,
                Part::Identity(id) => terms::identity(py, id)?,
                Part::Function(name) => words.name(py, self.node, name as u32)?.into_py_any(py)?,
                Part::Call(name, arguments) => {
                    let (module, function, _) = words.name(py, self.node, name as u32)?;
                    let arguments = self.value(arguments, Arguments::list)?;
                    (module, function, arguments).into_py_any(py)?
                }
                Part::Term(bytes) => terms::object(py, bytes)?,
                Part::Value(bytes) => self.value(bytes, Arguments::one)?,
                Part::Pair(bytes) => {
                    let (first, second) = terms::object(py, &bytes)?.extract(py)?;
                    put(first);
                    second
                }
                Part::Number(n) => n.into_py_any(py)?,
                Part::Stamp => match parts::time(self.node, self.ticks, self.event) {
                    Time::Monotonic(ns) => ns.into_py_any(py)?,
                    Time::Strict(ns, unique) => (ns, unique).into_py_any(py)?,
                    Time::Wall(megas, seconds, micros) => (megas, seconds, micros).into_py_any(py)?,
                },
            };
            put(element);
        }
        Ok(())
    }

    /// The object that these bytes stand for, if the session takes objects, or their term.
    fn value(
        &mut self, bytes: &[u8], object: impl FnOnce(Arguments, Python<'_>) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        match objects(bytes, self.outlet) {
            Some(number) => match self.outlet.objects.take(self.event.scheduler, number, self.stale) {
                Some(value) => object(value, self.py),
                None => Ok(terms::cut(self.py, "objects")?.unbind()),
            },
            None => terms::object(self.py, bytes),
        }
    }
}

/// The number of the objects that these bytes stand for, if the session takes them so and they were kept.
fn objects(bytes: &[u8], outlet: &Outlet) -> Option<u64> {
    if outlet.session.options.capture.takes != Takes::Objects {
        return None;
    }
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}
