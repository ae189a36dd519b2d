//! What an instrument is made of: when it is needed, the functions that it watches, the modules that it waits for.

use super::{host::Host, thread::ThreadState, wants::Wants};
use inviso_core::host::plan::events;
use inviso_cpython::{capture::Raised, frames::frame::Frame};
use pyo3::{ffi::PyObject, prelude::*};
use std::sync::atomic::AtomicBool;

/// One instrument.
pub struct Instrument {
    /// Whether sessions need it.
    pub needed: fn(&Wants) -> bool,
    /// Installs it.
    pub begin: fn(Python<'_>, &'static Host) -> PyResult<()>,
    /// Removes it.
    pub end: fn(Python<'_>, &'static Host) -> PyResult<()>,
    /// Removes in a forked child whatever is not a watched function. The host must not be used.
    pub forget: fn(Python<'_>),
    /// Whether it is installed.
    pub on: AtomicBool,
}

impl Instrument {
    /// An instrument that is not installed.
    pub const fn new(
        needed: fn(&Wants) -> bool, begin: fn(Python<'_>, &'static Host) -> PyResult<()>,
        end: fn(Python<'_>, &'static Host) -> PyResult<()>, forget: fn(Python<'_>),
    ) -> Instrument {
        Instrument { needed, begin, end, forget, on: AtomicBool::new(false) }
    }
}

/// How a watched call ends.
#[derive(Clone, Copy)]
pub enum Ended {
    /// It returns this value, borrowed.
    Returned(*mut PyObject),
    /// This exception leaves it.
    Raised(Raised),
}

impl Ended {
    /// The exception, if one leaves it.
    pub fn error(self) -> Option<Raised> {
        match self {
            Ended::Returned(_) => None,
            Ended::Raised(error) => Some(error),
        }
    }
}

/// A function that is called at an event of a watched call, with the event's frame, which stands.
pub type OnEvent = fn(&mut ThreadState, Frame);

/// A function that is called when a watched call ends.
pub type OnEnd = fn(&mut ThreadState, Frame, Ended);

/// What an instrument does at the events of a function.
pub struct Handler {
    /// The call begins.
    pub begin: Option<OnEvent>,
    /// It resumes after a suspension.
    pub resume: Option<OnEvent>,
    /// It is suspended.
    pub pause: Option<OnEvent>,
    /// It returns, or an exception leaves it.
    pub end: Option<OnEnd>,
    /// Only ends by an exception count.
    pub raises_only: bool,
}

impl Handler {
    /// Does nothing.
    pub const NONE: Handler = Handler { begin: None, resume: None, pause: None, end: None, raises_only: false };

    /// The events that it needs, see [`events`].
    pub fn needs(&self) -> u8 {
        let mut needs = 0;
        if self.begin.is_some() {
            needs |= events::CALL;
        }
        if self.end.is_some() {
            needs |= if self.raises_only { events::RAISE } else { events::END };
        }
        if self.pause.is_some() || self.resume.is_some() {
            needs |= events::PAUSE;
        }
        needs
    }
}

/// A module, and the function that an instrument calls when it is imported.
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Called with the module.
    pub adopt: fn(Python<'_>, &'static Host, &Bound<'_, PyAny>) -> PyResult<()>,
    /// Whether an instrument waits for it.
    pub awaited: AtomicBool,
}

impl Module {
    /// A module that no instrument waits for.
    pub const fn new(
        name: &'static str, adopt: fn(Python<'_>, &'static Host, &Bound<'_, PyAny>) -> PyResult<()>,
    ) -> Module {
        Module { name, adopt, awaited: AtomicBool::new(false) }
    }
}
