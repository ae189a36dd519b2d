//! A running Python call, as the core sees it. Reads from the interpreter only what an event needs.

use super::{backtrace, late};
use crate::{
    convert::view::{Kept, PyView},
    state::{host::Host, objects::Arguments, thread::RunningTask},
};
use inviso_core::host::{
    event::Activation,
    matching::Subject,
    session::{Capture, Session},
    thread::Thread,
    tracee::Tracee,
};
use inviso_cpython::{
    capture::{
        self,
        frame_names::{write_arguments, write_name},
        Limits, Raised,
    },
    frames::{
        code,
        frame::{CodeLayout, Frame},
    },
    interpreter::calling,
};
use inviso_term::{
    etf::{Encoder, Full},
    term::Term,
};
use pyo3::ffi::{PyObject, PyThreadState};

/// How a call ends: the value or exception that the interpreter shows, borrowed.
#[derive(Clone, Copy)]
pub enum End {
    /// The call has not ended, or the interpreter shows nothing.
    Hidden,
    /// The returned value.
    Value(*mut PyObject),
    /// The exception that leaves it.
    #[cfg(Py_3_12)]
    Error(*mut PyObject),
    /// The exception that leaves it; its object may not exist yet.
    #[cfg(not(Py_3_12))]
    Error(Raised),
}

impl End {
    fn raised(self) -> Option<Raised> {
        match self {
            #[cfg(Py_3_12)]
            // SAFETY: the interpreter holds the exception while it unwinds.
            End::Error(error) => Some(unsafe { Raised::made(error) }),
            #[cfg(not(Py_3_12))]
            End::Error(error) => Some(error),
            _ => None,
        }
    }
}

/// The call of the current event.
pub struct PyCall<'a> {
    /// The host.
    pub host: &'static Host,
    /// The task that its thread runs, as last seen.
    pub running: &'a RunningTask,
    /// The interpreter's state of its thread.
    pub tstate: *mut PyThreadState,
    /// The frame, which the hook passes (3.11).
    #[cfg(not(Py_3_12))]
    pub frame: Frame,
    /// How it ends.
    pub end: End,
    /// Values that match specs look at.
    pub kept: Kept,
}

impl<'a> PyCall<'a> {
    /// The call of the current event on this thread, whose state `tstate` is.
    #[cfg(Py_3_12)]
    #[inline(always)]
    pub fn new(host: &'static Host, running: &'a RunningTask, tstate: *mut PyThreadState) -> Self {
        PyCall { host, running, tstate, end: End::Hidden, kept: Kept::default() }
    }

    /// The call of a frame on this thread, whose state `tstate` is.
    #[cfg(not(Py_3_12))]
    #[inline(always)]
    pub fn new(host: &'static Host, running: &'a RunningTask, tstate: *mut PyThreadState, frame: Frame) -> Self {
        PyCall { host, running, tstate, frame, end: End::Hidden, kept: Kept::default() }
    }

    /// The same call, with its end.
    #[inline(always)]
    pub fn ending(self, end: End) -> Self {
        PyCall { end, ..self }
    }

    /// The frame of the call.
    #[inline(always)]
    pub fn frame(&self) -> Frame {
        #[cfg(not(Py_3_12))]
        return self.frame;
        #[cfg(Py_3_12)]
        // SAFETY: a monitoring callback runs attached, with the event's frame as the thread's current frame.
        unsafe {
            Frame::of_event(self.tstate)
        }
    }

    /// The frame that called this one.
    pub fn caller_frame(&self) -> Option<Frame> {
        #[cfg(not(Py_3_12))]
        // SAFETY: the hook runs attached. Before the call goes on, the thread's current frame is its caller, or there
        // is no frame if C code has called: the frame's own link is not set yet. At the call's end this holds again.
        return match unsafe { Frame::current(self.tstate) } {
            // SAFETY: the frame is the thread's current one, so its link is set.
            Some(current) if current.address() == self.frame.address() => unsafe { self.frame.caller() },
            current => current,
        };
        #[cfg(Py_3_12)]
        // SAFETY: the event's frame runs, so its `previous` is valid.
        unsafe {
            self.frame().caller()
        }
    }
}

/// Writes a tuple of an exception's class (`error`, `exit` or `throw`) and its value.
pub fn write_exception(error: Raised, out: &mut Encoder<'_>, limits: &Limits) -> Result<(), Full> {
    out.tuple(2)?;
    // SAFETY: attached, with no exception set; the code that raised the exception holds it.
    unsafe {
        out.atom(capture::exception_class(error))?;
        capture::exception(error, out, limits)
    }
}

impl Subject for PyCall<'_> {
    type View<'v>
        = PyView<'v>
    where
        Self: 'v;

    #[inline]
    fn count(&self) -> usize {
        // SAFETY: the event's frame runs, and its code lives as long.
        unsafe { CodeLayout::read(self.frame().code()).arity() }
    }

    #[inline(always)]
    fn argument(&self, n: usize) -> Option<PyView<'_>> {
        let frame = self.frame();
        // SAFETY: callbacks run attached; the frame keeps its code and its arguments during the event.
        unsafe {
            let layout = CodeLayout::read(frame.code());
            if n >= layout.positional as usize && n >= layout.arity() {
                return None;
            }
            PyView::new(frame.argument(&layout, n), &self.kept)
        }
    }

    fn named(&self, name: &str) -> Option<PyView<'_>> {
        let frame = self.frame();
        // SAFETY: callbacks run attached; the frame keeps its code and its arguments during the event.
        unsafe {
            let code = frame.code();
            let layout = CodeLayout::read(code);
            let n = (0..layout.arity()).find(|n| code::is_parameter(code, layout.index(*n), name))?;
            PyView::new(frame.argument(&layout, n), &self.kept)
        }
    }

    fn write(&self, view: PyView<'_>, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        // SAFETY: the viewed object stands during the event; attached.
        unsafe { capture::encode(view.as_ptr(), out, &late::limits(capture)) }
    }

    fn caller_term(&self, line: bool) -> Term {
        backtrace::caller(self.caller_frame(), line)
    }

    fn stacktrace(&self, depth: usize) -> Term {
        backtrace::calls(self.caller_frame(), depth)
    }

    fn describe(&self, current: &Tracee) -> Term {
        backtrace::describe(current, Some(self.frame()), self.caller_frame())
    }

    fn node_name(&self) -> Term {
        Term::atom(&inviso_port::node::name())
    }
}

impl Activation for PyCall<'_> {
    fn result(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        match (self.end, self.end.raised()) {
            // SAFETY: the interpreter holds the value during the event; attached.
            (End::Value(value), _) => unsafe { capture::encode(value, out, &late::limits(capture)) },
            (_, Some(error)) => write_exception(error, out, &late::limits(capture)),
            _ => out.cut("result"),
        }
    }

    #[cold]
    fn result_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
        let End::Value(value) = self.end else { return };
        calling::attached(|py| {
            // SAFETY: the interpreter holds the value during the event; attached.
            let values = vec![unsafe { late::held(py, value) }];
            late::write_one(py, Arguments { values, more: false }, out, session, scheduler);
        });
    }

    fn is_left_by(&self, class: usize) -> bool {
        // SAFETY: the session's handle holds the class; attached.
        self.end.raised().is_some_and(|error| unsafe { error.is_a(class as *mut pyo3::ffi::PyObject) })
    }

    fn is_closing(&self) -> bool {
        // SAFETY: the classes live for ever; attached.
        self.is_generator() && self.end.raised().is_some_and(|e| unsafe { e.is_a(pyo3::ffi::PyExc_GeneratorExit) })
    }

    #[inline(always)]
    fn address(&self) -> usize {
        self.frame().address()
    }

    #[inline(always)]
    fn is_generator(&self) -> bool {
        // SAFETY: the event's frame runs.
        unsafe { self.frame().is_generator_frame() }
    }

    fn is_coroutine(&self) -> bool {
        // SAFETY: the event's frame runs, and its code lives as long.
        unsafe { CodeLayout::read(self.frame().code()).is_coroutine() }
    }

    #[inline(always)]
    fn identify(&self, thread: &mut Thread) {
        // SAFETY: callbacks run attached, and the core passes back the thread that it was given.
        unsafe { self.running.identify_on(self.tstate, self.host, thread) }
    }

    #[inline(always)]
    fn allocated(&self) -> u64 {
        inviso_cpython::interpreter::tls::bytes()
    }

    fn is_global(&self) -> bool {
        // SAFETY: both frames run.
        self.caller_frame().is_none_or(|caller| unsafe { caller.globals() != self.frame().globals() })
    }

    #[inline]
    fn arguments(&self, out: &mut Encoder<'_>, capture: &Capture) -> Result<(), Full> {
        write_arguments(self.frame(), out, &late::limits(capture))
    }

    #[cold]
    fn arguments_late(&self, out: &mut Vec<u8>, session: &Session, scheduler: u16) {
        let frame = self.frame();
        calling::attached(|py| {
            // SAFETY: the thread is attached; the frame keeps its code and its arguments during the event.
            let values = unsafe {
                let layout = CodeLayout::read(frame.code());
                (0..layout.arity()).map(|n| late::held(py, frame.argument(&layout, n).as_ptr())).collect()
            };
            late::write(py, Arguments { values, more: false }, out, session, scheduler);
        });
    }

    fn name(&self, out: &mut Encoder<'_>) -> bool {
        write_name(self.frame(), out).is_ok()
    }

    #[inline]
    fn caller_function(&self) -> (usize, usize) {
        // SAFETY: the caller's frame runs.
        self.caller_frame().map_or((0, 0), |caller| (caller.address(), unsafe { caller.code() } as usize))
    }

    fn caller(&self, out: &mut Encoder<'_>) -> usize {
        match self.caller_frame() {
            Some(caller) if write_name(caller, out).is_ok() => caller.address(),
            _ => 0,
        }
    }
}

/// The code object of a call, as the core's key.
#[inline(always)]
pub fn key(code: *mut PyObject) -> usize {
    code as usize
}
