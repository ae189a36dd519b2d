//! Functions written in Python, taken at their call: every call comes to a wrapper, and the function object stays what it was.
//!
//! The word that is changed is the function's `vectorcall`, through which the interpreter calls a function whose frame it does not
//! make itself; it makes none itself where the word is not its own, and forgets what it knew of the function's calls
//! (`PyFunction_SetVectorcall`, 3.12 on). When the function is given back its version is, too, so that its calls are as fast as
//! they were. Under the GIL only.

use super::layout::{self, at as read, code as co};
use pyo3::{exceptions::PyRuntimeError, ffi, prelude::*};
use std::sync::{
    atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release},
    Mutex,
};

/// What a function is called by: itself, its arguments, their number (see [`super::vectorcall::nargs`]), the names of the last ones.
pub type Vectorcall = super::vectorcall::Function;

extern "C" {
    fn PyFunction_SetVectorcall(function: *mut ffi::PyObject, vectorcall: Vectorcall);
    fn _PyInterpreterState_GetEvalFrameFunc(interpreter: *mut ffi::PyInterpreterState) -> *const ();
    fn _PyEval_EvalFrameDefault(thread: *mut ffi::PyThreadState, frame: *mut (), throws: i32) -> *mut ffi::PyObject;
}

/// A function whose calls may be taken. One for each, as a `static`, which the wrapper names.
pub struct Function {
    original: AtomicPtr<()>,
    /// The addresses of its parts, which are held in `taken`.
    parts: [AtomicPtr<ffi::PyObject>; 3],
    taken: Mutex<Option<Taken>>,
}

/// What a function was when it was taken.
struct Taken {
    function: Py<PyAny>,
    /// Its version, by which the interpreter knows it; 0 or 1 for none.
    version: u32,
    /// What a version stands for.
    parts: [Option<Py<PyAny>>; 3],
}

impl Function {
    /// One whose calls are not taken.
    pub const fn new() -> Function {
        let parts = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];
        Function { original: AtomicPtr::new(std::ptr::null_mut()), parts, taken: Mutex::new(None) }
    }

    /// Takes the calls of a function.
    ///
    /// # Errors
    /// RuntimeError if it is no plain function, or somebody else takes its calls already.
    ///
    /// # Safety
    /// The wrapper keeps to the contract of [`Vectorcall`], and calls the original on or does what it would.
    pub unsafe fn take(&self, function: &Bound<'_, PyAny>, wrapper: Vectorcall) -> PyResult<()> {
        let refused = || PyRuntimeError::new_err("the calls of a function can't be taken");
        let plain = function.py().get_type::<pyo3::types::PyFunction>();
        // it runs Python, and so gives the GIL away: whoever gets it may want the lock
        let probe = super::calling::eval(function.py(), c"lambda: None")?;
        let mut taken = self.lock();
        if taken.as_ref().is_some_and(|taken| taken.function.is(function)) {
            return Ok(());
        }
        // SAFETY: an exact function, whose fields lie where its type says that they do; attached.
        unsafe {
            if taken.is_some() || !function.get_type().is(&plain) {
                return Err(refused());
            }
            let there = word(function).read();
            if there != word(&probe).read() || there.is_null() {
                return Err(refused());
            }
            let was = version(function).read();
            let parts = parts(function.as_ptr());
            self.original.store(there, Release);
            self.parts.iter().zip(parts).for_each(|(known, part)| known.store(part, Release));
            PyFunction_SetVectorcall(function.as_ptr(), wrapper);
            let is_known = version(function).read() <= NO_VERSION || was <= NO_VERSION;
            let version = if is_known { was } else { 0 };
            let parts = parts.map(|part| Bound::from_borrowed_ptr_or_opt(function.py(), part).map(Bound::unbind));
            *taken = Some(Taken { function: function.clone().unbind(), version, parts });
        }
        Ok(())
    }

    /// Whether it is this function whose calls are taken.
    pub fn is_taken(&self, function: &Bound<'_, PyAny>) -> bool {
        self.lock().as_ref().is_some_and(|taken| taken.function.is(function))
    }

    /// Whether a function that is taken has the code and the defaults that it had then.
    ///
    /// # Safety
    /// To be called by the wrapper only, with the function that it stands before.
    #[inline(always)]
    pub unsafe fn is_as_taken(&self, function: *mut ffi::PyObject) -> bool {
        // SAFETY: an exact function, which `take` looked at; attached, as wrappers are called.
        let parts = unsafe { parts(function) };
        self.parts.iter().zip(parts).all(|(known, part)| known.load(Acquire) == part)
    }

    /// Gives the function back. A wrapper that someone else has put in since stays, and ours under it.
    pub fn give_back(&self, py: Python<'_>, wrapper: Vectorcall) {
        // held by nobody who is still there: sessions change what they ask for one after the other, and a forked child is alone
        let taken = match self.taken.try_lock() {
            Ok(mut taken) => taken.take(),
            Err(std::sync::TryLockError::Poisoned(taken)) => taken.into_inner().take(),
            Err(std::sync::TryLockError::WouldBlock) => None,
        };
        let Some(taken) = taken else { return };
        let function = taken.function.into_bound(py);
        // SAFETY: as `take` found it; attached.
        unsafe {
            if word(&function).read() != wrapper as *mut () {
                return;
            }
            word(&function).write(self.original.load(Acquire));
            let is_as_taken = self.is_as_taken(function.as_ptr());
            if taken.version > NO_VERSION && version(&function).read() <= NO_VERSION && is_as_taken {
                version(&function).write(taken.version);
            }
        }
    }

    /// What the wrapper stands before.
    ///
    /// # Safety
    /// To be called by the wrapper only.
    #[inline(always)]
    pub unsafe fn original(&self) -> Vectorcall {
        // SAFETY: stored by `take`, which looked that it is the interpreter's own for every function.
        unsafe { std::mem::transmute::<*mut (), Vectorcall>(self.original.load(Acquire)) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The greatest number that is no version (3.14 has one for a version that was taken away).
const NO_VERSION: u32 = 1;

/// Where a function keeps its `vectorcall`.
///
/// # Safety
/// An exact function; attached.
unsafe fn word(function: &Bound<'_, PyAny>) -> *mut *mut () {
    // SAFETY: the type says how far behind the object's beginning it is.
    unsafe {
        let offset = ffi::PyFunction_Type.tp_vectorcall_offset as usize;
        function.as_ptr().cast::<u8>().add(offset).cast()
    }
}

/// Where it keeps its version: behind that.
///
/// # Safety
/// As [`word`].
unsafe fn version(function: &Bound<'_, PyAny>) -> *mut u32 {
    // SAFETY: the next field of the structure on every version that has such a call.
    unsafe { word(function).add(1).cast() }
}

/// Code, defaults, defaults by name: borrowed, read where they lie.
///
/// # Safety
/// As [`word`].
#[inline(always)]
unsafe fn parts(function: *mut ffi::PyObject) -> [*mut ffi::PyObject; 3] {
    // SAFETY: the caller's promise.
    unsafe {
        let function = function.cast::<ffi::PyFunctionObject>();
        [(*function).func_code, (*function).func_defaults, (*function).func_kwdefaults]
    }
}

/// Whether the interpreter evaluates frames itself, and not a function of another tool's (PEP 523).
///
/// # Safety
/// Attached.
#[inline(always)]
pub unsafe fn is_evaluated_plainly() -> bool {
    // SAFETY: the main interpreter, the only one that is traced, is there as long as anybody is attached. The function is not called.
    let by = unsafe { _PyInterpreterState_GetEvalFrameFunc(ffi::PyInterpreterState_Main()) };
    by == _PyEval_EvalFrameDefault as *const ()
}

/// Whether nobody gets events (other than those of exceptions) of a code object that does not run, as far as `beside` knows, the code of a frame
/// that runs: no tool
/// wants any, and the code was looked at since the last time that one changed what it wants.
///
/// # Safety
/// Both are code objects, and the offsets are checked.
#[inline(always)]
pub unsafe fn is_unwatched(code: *mut ffi::PyObject, beside: *mut ffi::PyObject) -> bool {
    // SAFETY: plain words of code objects.
    unsafe {
        read::<usize>(code.cast(), co::INSTRUMENTATION_VERSION)
            == read::<usize>(beside.cast(), co::INSTRUMENTATION_VERSION)
            && !has_events(code)
    }
}

/// Whether some tool gets an event of a code object, other than those of exceptions.
///
/// # Safety
/// As [`is_unwatched`].
#[inline(always)]
pub unsafe fn has_events(code: *mut ffi::PyObject) -> bool {
    const { assert!(co::EVENTS >= 8 && co::EVENTS <= 16) };
    // SAFETY: null, or what belongs to the code as long as that lives; the bytes of all events, some of them read twice.
    unsafe {
        let monitoring: *mut u8 = read(code.cast(), co::MONITORING);
        if monitoring.is_null() {
            return false;
        }
        let active = monitoring.add(co::ACTIVE);
        let (first, last) = (active.cast::<u64>(), active.add(co::EVENTS - 8).cast::<u64>());
        first.read_unaligned() | last.read_unaligned() != 0
    }
}

/// Whether the words that [`is_unwatched`] reads are where they should be; `watched` is a code object with events. Before 3.15 false in the
/// midst of an event's callback, in which the interpreter looks at no code.
///
/// # Errors
/// What the interpreter raises.
pub fn check(py: Python<'_>, watched: &Bound<'_, PyAny>) -> PyResult<bool> {
    let probe = super::calling::eval(py, c"lambda: None")?;
    let code = probe.getattr("__code__")?;
    // SAFETY: code objects; the words are inside them, and what they say is believed if the rest of the offsets is right.
    let version = || unsafe { read::<usize>(code.as_ptr().cast(), co::INSTRUMENTATION_VERSION) };
    let before = version();
    super::calling::call(&probe, ())?;
    // SAFETY: as above.
    let events = || unsafe { has_events(watched.as_ptr()) && !has_events(code.as_ptr()) };
    // from 3.15 on it stays 0 until some tool wants an event of all code
    let counts = cfg!(Py_3_15) || version() != 0;
    Ok(layout::raw_ok() && before == 0 && counts && events())
}
