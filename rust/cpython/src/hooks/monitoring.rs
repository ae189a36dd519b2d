//! `sys.monitoring` (3.12 on): one tool id, its callbacks, and events by code object or for all code.
//!
//! The functions are the interpreter's Python-level ones (there are no others), looked up once and called by
//! vectorcall: some 0.2 µs a call. Event numbers are read from `sys.monitoring.events` by name, and a trial shows which
//! events can be set for a single code object, since both differ between versions.

use std::fmt;
use std::ptr;

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The ids that are tried, in this order. 0, 1, 2 and 5 are by convention a debugger's, coverage's, a profiler's and an
/// optimiser's.
pub const IDS: [u8; 2] = [4, 3];

/// An event of `sys.monitoring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Event {
    /// A function is entered by a call (a generator's: by its first resume).
    PyStart,
    /// A generator or coroutine resumes.
    PyResume,
    /// A function returns.
    PyReturn,
    /// A generator or coroutine yields.
    PyYield,
    /// A call is about to be made; C_RETURN and C_RAISE come with it.
    Call,
    /// A new line is about to run.
    Line,
    /// An instruction is about to run.
    Instruction,
    /// An unconditional jump.
    Jump,
    /// A conditional branch (up to 3.13; after that the two below).
    Branch,
    /// A conditional branch that goes on with the next instruction (3.14 on).
    BranchLeft,
    /// A conditional branch that jumps (3.14 on).
    BranchRight,
    /// An artificial StopIteration.
    StopIteration,
    /// An exception is raised.
    Raise,
    /// An exception is raised again.
    Reraise,
    /// An exception is caught.
    ExceptionHandled,
    /// A function is left by an exception.
    PyUnwind,
    /// A generator or coroutine resumes by `throw` or `close`.
    PyThrow,
    /// A function written in C has returned; comes with CALL.
    CReturn,
    /// A function written in C has raised; comes with CALL.
    CRaise,
}

/// Every event with the name that `sys.monitoring.events` has for it.
pub const EVENTS: [(Event, &str); 19] = [
    (Event::PyStart, "PY_START"),
    (Event::PyResume, "PY_RESUME"),
    (Event::PyReturn, "PY_RETURN"),
    (Event::PyYield, "PY_YIELD"),
    (Event::Call, "CALL"),
    (Event::Line, "LINE"),
    (Event::Instruction, "INSTRUCTION"),
    (Event::Jump, "JUMP"),
    (Event::Branch, "BRANCH"),
    (Event::BranchLeft, "BRANCH_LEFT"),
    (Event::BranchRight, "BRANCH_RIGHT"),
    (Event::StopIteration, "STOP_ITERATION"),
    (Event::Raise, "RAISE"),
    (Event::Reraise, "RERAISE"),
    (Event::ExceptionHandled, "EXCEPTION_HANDLED"),
    (Event::PyUnwind, "PY_UNWIND"),
    (Event::PyThrow, "PY_THROW"),
    (Event::CReturn, "C_RETURN"),
    (Event::CRaise, "C_RAISE"),
];

/// The reason why there is no tool.
#[derive(Debug)]
pub enum ToolError {
    /// Other tools hold every id in [`IDS`]: (id, name).
    Taken(Vec<(u8, String)>),
    /// `sys.monitoring` raised something else.
    Raised(PyErr),
}

/// A tool id that this package holds, until [`Tool::free`].
#[derive(Debug)]
pub struct Tool {
    id: u8,
    id_object: Py<PyAny>,
    bits: [u32; EVENTS.len()],
    local: u32,
    set_local_events: Py<PyAny>,
    set_events: Py<PyAny>,
    register_callback: Py<PyAny>,
    free_tool_id: Py<PyAny>,
    get_tool: Py<PyAny>,
    name: String,
}

impl Tool {
    /// Takes the first free id of [`IDS`] under `name`.
    ///
    /// # Errors
    /// No id is free, or `sys.monitoring` raised.
    pub fn claim(py: Python<'_>, name: &str) -> Result<Tool, ToolError> {
        let monitoring = py.import("sys")?.getattr("monitoring")?;
        let id = claim_id(&monitoring, name)?;
        match Tool::of_id(&monitoring, id, name) {
            Ok(tool) => Ok(tool),
            Err(e) => {
                monitoring.call_method1("free_tool_id", (id,))?;
                Err(e.into())
            }
        }
    }

    /// In a forked child, whose parent's threads may have been anywhere: ends the tools of this name.
    ///
    /// # Errors
    /// The first exception; everything is tried nevertheless.
    pub fn abandon(py: Python<'_>, name: &str) -> PyResult<()> {
        let monitoring = py.import("sys")?.getattr("monitoring")?;
        let mut result = Ok(());
        for id in IDS {
            if monitoring.call_method1("get_tool", (id,))?.eq(name)? {
                result = result.and(Tool::of_id(&monitoring, id, name).and_then(|tool| tool.free(py, [])));
            }
        }
        result
    }

    /// The id.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// The bit of `event` in a mask; 0 if this version has no such event.
    #[inline]
    pub fn bit(&self, event: Event) -> u32 {
        self.bits[event as usize]
    }

    /// The bits of `events` together.
    pub fn mask(&self, events: &[Event]) -> u32 {
        events.iter().fold(0, |mask, &event| mask | self.bit(event))
    }

    /// The bits of all events that [`Tool::set_local_events`] takes. The others can only be set for all code, or
    /// (C_RETURN, C_RAISE) come with CALL.
    #[inline]
    pub fn local_mask(&self) -> u32 {
        self.local
    }

    /// Sets the events of one code object to `mask` and switches others off. Stops the world on a free-threaded build.
    ///
    /// # Errors
    /// ValueError for an event that is not local, TypeError if `code` is not a code object.
    pub fn set_local_events(&self, code: &Bound<'_, PyAny>, mask: u32) -> PyResult<()> {
        let py = code.py();
        let mask = int(py, mask)?;
        call(py, &self.set_local_events, &[self.id_object.as_ptr(), code.as_ptr(), mask.as_ptr()]).map(drop)
    }

    /// Sets the events of all code to `mask` and switches others off (those of single code objects stay). Stops the
    /// world on a free-threaded build.
    ///
    /// # Errors
    /// ValueError for bits that are not events.
    pub fn set_events(&self, py: Python<'_>, mask: u32) -> PyResult<()> {
        let mask = int(py, mask)?;
        call(py, &self.set_events, &[self.id_object.as_ptr(), mask.as_ptr()]).map(drop)
    }

    /// Makes `callback` the one of `event`, or removes it (`None`). An event that this version lacks is ignored.
    ///
    /// # Errors
    /// The exception of `register_callback` (an audit hook's).
    pub fn register(&self, py: Python<'_>, event: Event, callback: Option<&Py<PyAny>>) -> PyResult<()> {
        self.exchange(py, event, callback).map(drop)
    }

    /// The same; returns the former callback.
    fn exchange<'py>(
        &self, py: Python<'py>, event: Event, callback: Option<&Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.bit(event) == 0 {
            return Ok(py.None().into_bound(py));
        }
        let bit = int(py, self.bit(event))?;
        // SAFETY: None always exists.
        let callback = callback.map_or_else(|| unsafe { ffi::Py_None() }, Py::as_ptr);
        call(py, &self.register_callback, &[self.id_object.as_ptr(), bit.as_ptr(), callback])
    }

    /// Gives the id back. `codes` are all code objects that have had local events. Their events are cleared first,
    /// since some versions leave them for the id's next holder.
    ///
    /// # Errors
    /// The first exception; everything is tried nevertheless.
    pub fn free<'py>(self, py: Python<'py>, codes: impl IntoIterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        let mut result = self.set_events(py, 0);
        for code in codes {
            result = result.and(self.set_local_events(&code, 0));
        }
        for (event, _) in EVENTS {
            result = result.and(self.register(py, event, None));
        }
        result.and(call(py, &self.free_tool_id, &[self.id_object.as_ptr()]).map(drop))
    }

    /// Whether the id is still ours: any code may free it.
    ///
    /// # Errors
    /// The exception of `get_tool`.
    pub fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        let holder = call(py, &self.get_tool, &[self.id_object.as_ptr()])?;
        Ok(holder.cast::<PyString>().is_ok_and(|holder| holder.to_string_lossy() == self.name))
    }

    /// Removes the rest of this tool under an id that other code has freed; `codes` are as in [`Tool::free`]. If
    /// another tool has the id meanwhile, the rest is our callbacks.
    ///
    /// # Errors
    /// As [`Tool::free`].
    pub fn leave<'py>(self, py: Python<'py>, codes: impl IntoIterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        if call(py, &self.get_tool, &[self.id_object.as_ptr()])?.is_none() {
            py.import("sys")?.getattr("monitoring")?.call_method1("use_tool_id", (self.id, self.name.as_str()))?;
            return self.free(py, codes);
        }
        for (event, _) in EVENTS {
            let there = self.exchange(py, event, None)?;
            if !there.is_none() && !super::vectorcall::is_callable(py, &there)? {
                self.register(py, event, Some(&there.unbind()))?;
            }
        }
        Ok(())
    }

    fn of_id(monitoring: &Bound<'_, PyAny>, id: u8, name: &str) -> PyResult<Tool> {
        let py = monitoring.py();
        let events = monitoring.getattr("events")?;
        let mut bits = [0; EVENTS.len()];
        for (event, name) in EVENTS {
            if let Some(number) = events.getattr_opt(name)? {
                bits[event as usize] = number.extract()?;
            }
        }
        let function = |name: &str| monitoring.getattr(name).map(Bound::unbind);
        let mut tool = Tool {
            id,
            id_object: int(py, id.into())?.unbind(),
            bits,
            local: 0,
            set_local_events: function("set_local_events")?,
            set_events: function("set_events")?,
            register_callback: function("register_callback")?,
            free_tool_id: function("free_tool_id")?,
            get_tool: function("get_tool")?,
            name: name.into(),
        };
        tool.local = tool.find_local(py)?;
        Ok(tool)
    }

    /// Tries each event on a code object that never runs.
    fn find_local(&self, py: Python<'_>) -> PyResult<u32> {
        // made without running code: the caller holds locks that a signal's handler may want
        // SAFETY: the thread is attached; two strings that end with 0.
        let code = unsafe {
            let code = ffi::Py_CompileString(c"0".as_ptr(), c"<inviso>".as_ptr(), ffi::Py_eval_input);
            Bound::from_owned_ptr_or_err(py, code)?
        };
        let mut local = 0;
        for bit in self.bits {
            if bit != 0 && self.set_local_events(&code, bit).is_ok() {
                local |= bit;
            }
        }
        self.set_local_events(&code, 0)?;
        Ok(local)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::Taken(holders) => {
                f.write_str("no tool id of sys.monitoring is free:")?;
                for (i, (id, name)) in holders.iter().enumerate() {
                    write!(f, "{} {id} is held by {name:?}", if i == 0 { "" } else { "," })?;
                }
                f.write_str("; end one of them (sys.monitoring.free_tool_id)")
            }
            ToolError::Raised(e) => write!(f, "sys.monitoring: {e}"),
        }
    }
}

impl std::error::Error for ToolError {}

impl From<PyErr> for ToolError {
    fn from(e: PyErr) -> ToolError {
        ToolError::Raised(e)
    }
}

fn claim_id(monitoring: &Bound<'_, PyAny>, name: &str) -> Result<u8, ToolError> {
    let mut holders = Vec::new();
    for id in IDS {
        let mut holder = monitoring.call_method1("get_tool", (id,))?;
        if holder.is_none() {
            match monitoring.call_method1("use_tool_id", (id, name)) {
                Ok(_) => return Ok(id),
                // another thread was faster
                Err(_) => holder = monitoring.call_method1("get_tool", (id,))?,
            }
        }
        let holder = holder.cast::<PyString>().map_or_else(|_| "?".into(), |name| name.to_string_lossy().into_owned());
        holders.push((id, holder));
    }
    Err(ToolError::Taken(holders))
}

fn int(py: Python<'_>, n: u32) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: a new reference or null.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromUnsignedLong(n.into())) }
}

fn call<'py>(py: Python<'py>, function: &Py<PyAny>, arguments: &[*mut PyObject]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the caller's values hold the arguments during the call; the result is a new reference or null.
    unsafe {
        let result = ffi::PyObject_Vectorcall(function.as_ptr(), arguments.as_ptr(), arguments.len(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, result)
    }
}
