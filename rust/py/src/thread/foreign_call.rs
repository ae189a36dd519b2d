//! Functions written in C. They are found by name and seen where Python code calls them: by CALL, C_RETURN and C_RAISE,
//! or on 3.11 by a profile function.
//!
//! While a pattern names such a function, each call of a C function by Python code costs an event (on 3.11 every call
//! does). Calls from C code to C code are not seen.

use super::{backtrace, call::PyCall, late};
use crate::{
    convert::view::PyView,
    state::{host::Host, objects::Arguments, thread::RunningTask},
};
use inviso_core::host::{
    event::Activation,
    matching::Subject,
    session::{Capture, Session},
    thread::Thread,
    tracee::Tracee,
};
#[cfg(not(Py_3_12))]
use inviso_cpython::frames::frame::Frame;
use inviso_cpython::{
    capture::{self, frame_names::write_name},
    interpreter::calling,
    object::held::Held,
};
use inviso_term::{
    etf::{Encoder, Full},
    term::Term,
};
use pyo3::ffi;

/// The arguments of a call that the interpreter shows.
pub enum Shown {
    /// The call has no arguments.
    None,
    /// The first argument; there may be more.
    First(*mut ffi::PyObject),
    /// The arguments are not shown.
    #[cfg(not(Py_3_12))]
    Unknown,
}

/// A call of a function written in C, as its caller sees it.
pub struct ForeignCall<'a> {
    /// The calling Python call.
    pub caller: PyCall<'a>,
    /// Its arguments, which live as long as the call.
    pub shown: Shown,
}

impl<'a> ForeignCall<'a> {
    /// The call of this `sys.monitoring` callback; `first` is the first argument, or the mark for no argument.
    #[cfg(Py_3_12)]
    pub fn new(
        host: &'static Host, running: &'a RunningTask, tstate: *mut ffi::PyThreadState, first: *mut ffi::PyObject,
    ) -> Self {
        let shown = if first == host.missing() { Shown::None } else { Shown::First(first) };
        ForeignCall { caller: PyCall::new(host, running, tstate), shown }
    }

    /// The call of `callable` in this event of a profile function. Only the object that a method is bound to is shown.
    #[cfg(not(Py_3_12))]
    pub fn new(
        host: &'static Host, running: &'a RunningTask, tstate: *mut ffi::PyThreadState, frame: Frame,
        callable: *mut ffi::PyObject,
    ) -> Self {
        // SAFETY: the type is checked before the fields are read.
        let shown = unsafe {
            if ffi::PyCFunction_Check(callable) == 0 {
                Shown::Unknown
            } else {
                let function = callable.cast::<ffi::PyCFunctionObject>();
                let (this, flags) = ((*function).m_self, (*(*function).m_ml).ml_flags);
                let hidden = this.is_null()
                    || flags & (ffi::METH_CLASS | ffi::METH_STATIC) != 0
                    || ffi::PyModule_Check(this) != 0;
                match hidden {
                    false => Shown::First(this),
                    true if flags & ffi::METH_NOARGS != 0 => Shown::None,
                    true => Shown::Unknown,
                }
            }
        };
        ForeignCall { caller: PyCall::new(host, running, tstate, frame), shown }
    }
}

impl Subject for ForeignCall<'_> {
    type View<'v>
        = PyView<'v>
    where
        Self: 'v;

    /// The number of shown arguments; there may be more.
    fn count(&self) -> usize {
        usize::from(matches!(self.shown, Shown::First(_)))
    }

    fn argument(&self, n: usize) -> Option<PyView<'_>> {
        match self.shown {
            // SAFETY: the argument lives as long as the call.
            Shown::First(first) if n == 0 => unsafe { PyView::new(Held::borrowed(first), &self.caller.kept) },
            _ => None,
        }
    }

    /// The interpreter does not show the names of the parameters.
    fn named(&self, _name: &str) -> Option<PyView<'_>> {
        None
    }

    fn write(&self, view: PyView<'_>, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        self.caller.write(view, out, capture)
    }

    fn caller_term(&self, line: bool) -> Term {
        backtrace::caller(Some(self.caller.frame()), line)
    }

    fn stacktrace(&self, depth: usize) -> Term {
        backtrace::calls(Some(self.caller.frame()), depth)
    }

    fn describe(&self, current: &Tracee) -> Term {
        backtrace::describe(current, None, Some(self.caller.frame()))
    }

    fn node_name(&self) -> Term {
        self.caller.node_name()
    }
}

impl Activation for ForeignCall<'_> {
    /// The interpreter shows neither the value nor the exception.
    fn result(&self, out: &mut Encoder<'_>, _capture: &Capture) -> Result<(), Full> {
        out.cut("result")
    }

    fn result_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
        calling::attached(|py| {
            late::write_one(py, Arguments { values: Vec::new(), more: true }, out, session, scheduler);
        });
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn address(&self) -> usize {
        self.caller.frame().address() | 1
    }
    fn is_generator(&self) -> bool {
        false
    }
    fn identify(&self, thread: &mut Thread) {
        self.caller.identify(thread);
    }
    fn allocated(&self) -> u64 {
        self.caller.allocated()
    }
    fn is_global(&self) -> bool {
        true
    }
    /// Writes at most the first argument, and marks that there may be more. If nothing is shown, writes nothing, and
    /// the message has the arity.
    fn arguments(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        let first = match self.shown {
            Shown::None => return out.nil(),
            #[cfg(not(Py_3_12))]
            Shown::Unknown => return Ok(()),
            Shown::First(first) => first,
        };
        out.list(2)?;
        // SAFETY: the argument lives as long as the call.
        unsafe { capture::encode(first, out, &late::limits(capture))? };
        out.cut("arguments")?;
        out.nil()
    }

    #[cold]
    fn arguments_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
        let first = match self.shown {
            Shown::None => None,
            #[cfg(not(Py_3_12))]
            Shown::Unknown => return,
            Shown::First(first) => Some(first),
        };
        calling::attached(|py| {
            // SAFETY: the argument lives as long as the call; attached.
            let values: Vec<_> = first.map(|first| unsafe { late::held(py, first) }).into_iter().collect();
            let more = !values.is_empty();
            late::write(py, Arguments { values, more }, out, session, scheduler);
        });
    }

    fn name(&self, _out: &mut Encoder<'_>) -> bool {
        false
    }
    fn caller_function(&self) -> (usize, usize) {
        let caller = self.caller.frame();
        // SAFETY: the caller's frame runs.
        (caller.address(), unsafe { caller.code() } as usize)
    }
    fn caller(&self, out: &mut Encoder<'_>) -> usize {
        let caller = self.caller.frame();
        if write_name(caller, out).is_ok() {
            caller.address()
        } else {
            0
        }
    }
}
