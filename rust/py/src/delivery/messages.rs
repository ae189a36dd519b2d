//! From a record in a ring to the tuple that a tracer gets, with the elements that the table of shapes
//! ([`Kind::shape`]) names.
//!
//! # Roles
//! Attached threads make messages.
//!
//! # States
//! A name's entry is made at first use and stays.
//!
//! # Orderings
//! The mutex orders the entries. It is not locked while objects are made.
//!
//! # Checked by
//! `tests/python/test_message_shapes.py`.

use crate::{
    convert::terms,
    state::{mailbox::Delivery, objects::Arguments},
};
use inviso_core::host::{
    drain::{Event, Record, What},
    node::Node,
    parts::{self, part, Part, Time},
    session::Takes,
    sync::Unpoisoned,
};
use inviso_cpython::interpreter::calling::call;
use inviso_term::record::{Element, Kind, TRACE, TRACE_TS};
use pyo3::{prelude::*, sync::PyOnceLock, types::*, IntoPyObjectExt};
use std::{collections::HashMap, sync::Mutex};

/// Module and function, as atoms, and the arity.
type FunctionName = (Py<PyAny>, Py<PyAny>, u32);

/// The atoms that messages are made of.
pub struct MessageAtoms {
    atom: Py<PyAny>,
    trace: Py<PyAny>,
    trace_ts: Py<PyAny>,
    /// In the order of [`Kind::ALL`].
    tags: Vec<Py<PyAny>>,
    names: Mutex<HashMap<u32, FunctionName>>,
}

static WORDS: PyOnceLock<MessageAtoms> = PyOnceLock::new();

impl MessageAtoms {
    /// The one set of words.
    ///
    /// # Errors
    /// The error of importing this package's own terms.
    pub fn get(py: Python<'_>) -> PyResult<&MessageAtoms> {
        WORDS.get_or_try_init(py, || {
            let atom = terms::classes(py)?.atom.bind(py);
            let word = |text: &str| call(atom, (text,)).map(Bound::unbind);
            Ok(MessageAtoms {
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
    fn name(&self, py: Python<'_>, node: &Node, number: u32) -> PyResult<FunctionName> {
        let copy = |(m, f, a): &FunctionName| (m.clone_ref(py), f.clone_ref(py), *a);
        if let Some(known) = self.names.lock().unpoisoned().get(&number) {
            return Ok(copy(known));
        }
        let name =
            node.name(number).ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("a record without a name"))?;
        let atom = self.atom.bind(py);
        let made = (call(atom, (&*name.module,))?.unbind(), call(atom, (&*name.function,))?.unbind(), name.arity);
        let answer = copy(&made);
        let _of_another_thread = self.names.lock().unpoisoned().insert(number, made);
        Ok(answer)
    }
}

/// The message of a record of this outlet's session. `stale` gets objects that no message needs any more, which the
/// caller drops outside every lock.
///
/// # Errors
/// The error of making Python objects (no memory).
pub fn message(
    py: Python<'_>, node: &Node, record: &Record, delivery: &Delivery, stale: &mut Vec<Arguments>,
) -> PyResult<Py<PyAny>> {
    let event = match &record.what {
        What::Event(event) => event,
        What::Lost(count) => {
            let tag = MessageAtoms::get(py)?.tag(py, Kind::Drop)?;
            return Ok((tag, *count).into_pyobject(py)?.into_any().unbind());
        }
    };
    let kind = Kind::from_u8(event.kind).ok_or_else(unknown)?;
    let mut elements = Vec::with_capacity(8);
    let mut making =
        MessageMaker { py, words: MessageAtoms::get(py)?, node, kind, ticks: record.ticks, event, delivery, stale };
    making.each(kind.shape().elements, |element| elements.push(element))?;
    if elements.is_empty() {
        return Err(unknown());
    }
    Ok(PyTuple::new(py, elements)?.into_any().unbind())
}

fn unknown() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("a record of an unknown kind")
}

/// The elements of an event's message that belong to its kind; no kind has more than two.
///
/// # Errors
/// The error of making Python objects (no memory).
pub fn own(
    py: Python<'_>, node: &Node, kind: Kind, event: &Event, delivery: &Delivery, stale: &mut Vec<Arguments>,
) -> PyResult<[Option<Py<PyAny>>; 2]> {
    let mut own = [None, None];
    let mut places = own.iter_mut();
    let mut making = MessageMaker { py, words: MessageAtoms::get(py)?, node, kind, ticks: 0, event, delivery, stale };
    making.each(kind.shape().own, |element| {
        if let Some(place) = places.next() {
            *place = Some(element);
        }
    })?;
    Ok(own)
}

/// The material of a message's elements.
struct MessageMaker<'a, 'py> {
    py: Python<'py>,
    words: &'a MessageAtoms,
    node: &'a Node,
    kind: Kind,
    ticks: u64,
    event: &'a Event,
    delivery: &'a Delivery,
    stale: &'a mut Vec<Arguments>,
}

impl MessageMaker<'_, '_> {
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
                Part::Stamp => match parts::time(&self.node.clock, self.ticks, self.event) {
                    Time::Monotonic(ns) => ns.into_py_any(py)?,
                    Time::Strict(ns, unique) => (ns, unique).into_py_any(py)?,
                    Time::Wall(megas, seconds, micros) => (megas, seconds, micros).into_py_any(py)?,
                },
            };
            put(element);
        }
        Ok(())
    }

    /// The object that these bytes identify, if the session takes objects, or their term.
    fn value(
        &mut self, bytes: &[u8], object: impl FnOnce(Arguments, Python<'_>) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        match objects(bytes, self.delivery) {
            Some(number) => match self.delivery.objects.take(self.event.scheduler, number, self.stale) {
                Some(value) => object(value, self.py),
                None => Ok(terms::cut(self.py, "objects")?.unbind()),
            },
            None => terms::object(self.py, bytes),
        }
    }
}

/// The number of the objects that these bytes identify, if the session takes objects and they were kept.
fn objects(bytes: &[u8], delivery: &Delivery) -> Option<u64> {
    if delivery.session.options.capture.takes != Takes::Objects {
        return None;
    }
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}
