//! The hook for calls of functions written in C on CPython 3.11: a profile function in front of the program's own.
//!
//! A thread has one profile function and an object for it. Ours replaces the function and leaves the object, so
//! `sys.getprofile()` returns the program's, and ours passes every event on to the program's function. There are
//! several copies of ours; the copy that is in place shows which function that is. So nothing is kept for a thread, and
//! a program that sets or removes its own function meets nothing of ours. It removes ours with it; [`ensure`] restores
//! it.
//!
//! The interpreter reports the return of `sys.setprofile` to the new function if there was a former one, and ours was
//! one. So `sys.setprofile` is replaced, too, and that return is not passed on. After it ours is installed again at
//! once.
//!
//! # Roles
//! Attached threads install and remove it. Every thread calls its own profile function.
//!
//! # States
//! `ON`: threads have ours. A slot of `BEHIND` is null, then one function for ever. `SETPROFILE` is null while the
//! original is in place.
//!
//! # Orderings
//! The GIL orders all of them. `HANDLER` is stored `Release` before `ON`.
//!
//! # Checked by
//! `tests/python/test_trace_foreign.py`, `tests/python/test_trace_host.py`.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject, PyThreadState};
use pyo3::prelude::*;

use crate::layout::{at, thread};

/// A function that is called at each event of a function written in C, with PyTrace_C_CALL, _C_RETURN or _C_EXCEPTION,
/// and the function, bound to its object if it is a method.
pub type Handler = unsafe fn(what: c_int, callable: *mut PyObject);

/// A profile function, through which a thread may be unwound.
type ProfileFunction =
    unsafe extern "C-unwind" fn(*mut PyObject, *mut ffi::PyFrameObject, c_int, *mut PyObject) -> c_int;

extern "C" {
    fn _PyEval_SetProfile(
        tstate: *mut PyThreadState, function: Option<ProfileFunction>, object: *mut PyObject,
    ) -> c_int;
    fn PySys_Audit(event: *const c_char, format: *const c_char, ...) -> c_int;
}

/// The most different profile functions of a program, with one place for none. Threads with further ones are left
/// alone.
const COPIES: usize = 8;

/// Our copies, by the function behind them.
static FRONTS: [ProfileFunction; COPIES] =
    [front::<0>, front::<1>, front::<2>, front::<3>, front::<4>, front::<5>, front::<6>, front::<7>];

/// The function that each copy calls: none for the first; the others, once set, never change.
static BEHIND: [AtomicPtr<c_void>; COPIES] = [const { AtomicPtr::new(ptr::null_mut()) }; COPIES];

/// A function of one argument, written in C.
type OneArgument = unsafe extern "C-unwind" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

/// The interpreter's own `sys.setprofile`; null while it is in its place.
static SETPROFILE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Whether the thread's last call of `sys.setprofile` was made while the program had no profile function.
    static FIRST: Cell<bool> = const { Cell::new(false) };
}

static HANDLER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static ON: AtomicBool = AtomicBool::new(false);

/// Whether threads shall have ours.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Makes sure that ours can be installed, before any change that needs it: the thread's state has its
/// function and object where [`thread`] says, and no audit hook objects.
///
/// # Errors
/// An audit hook's exception; RuntimeError if the fields are elsewhere.
pub fn check(py: Python<'_>) -> PyResult<()> {
    if is_on() {
        return Ok(());
    }
    let set = py.import("sys")?.getattr("getprofile")?.call0()?;
    // SAFETY: the thread is attached; the words lie inside the calling thread's state, and the change is taken back at
    // once.
    let found = unsafe {
        let tstate = ffi::PyThreadState_Get();
        let object: *mut PyObject = at(tstate.cast(), thread::PROFILE_OBJECT);
        if set.is_none() && object.is_null() && function_of(tstate).is_null() {
            if _PyEval_SetProfile(tstate, Some(FRONTS[0]), ptr::null_mut()) < 0 {
                return Err(PyErr::fetch(py));
            }
            let found = function_of(tstate) == FRONTS[0] as *mut c_void;
            if _PyEval_SetProfile(tstate, None, ptr::null_mut()) < 0 {
                return Err(PyErr::fetch(py));
            }
            found
        } else {
            if PySys_Audit(c"sys.setprofile".as_ptr(), ptr::null()) < 0 {
                return Err(PyErr::fetch(py));
            }
            !function_of(tstate).is_null() && (object == set.as_ptr() || object.is_null() && set.is_none())
        }
    };
    if found {
        Ok(())
    } else {
        Err(PyRuntimeError::new_err("this interpreter's profile function is not where it is expected"))
    }
}

/// Installs ours for every existing thread. The first observer of a new thread [`ensure`]s it.
///
/// # Safety
/// [`check`] has passed, and `handler` is never unloaded and leaves no exception.
pub unsafe fn begin(py: Python<'_>, handler: Handler) {
    HANDLER.store(handler as *mut (), Ordering::Release);
    ON.store(true, Ordering::Release);
    watch_setprofile();
    each_thread(py, |tstate| {
        // SAFETY: the thread is attached, so no other thread runs, and a thread state in the list stands.
        unsafe { ensure(tstate) }
    });
}

/// Gives every thread its own function back.
pub fn end(py: Python<'_>) {
    if !ON.swap(false, Ordering::AcqRel) {
        return;
    }
    leave_setprofile();
    each_thread(py, |tstate| {
        // SAFETY: the thread is attached, so no other thread runs, and a thread state in the list stands. The copy in
        // place replaced the function behind it.
        unsafe {
            if let Some(n) = copy(function_of(tstate)) {
                put(tstate, BEHIND[n].load(Ordering::Relaxed));
            }
        }
    });
}

/// Installs ours for a thread that lacks it: the thread is new, or its program has set another function since.
///
/// # Safety
/// The calling thread is attached, `tstate` stands, and [`check`] has passed.
#[inline(always)]
pub unsafe fn ensure(tstate: *mut PyThreadState) {
    // SAFETY: the caller promises that the calling thread is attached, `tstate` stands, and [`check`] has passed.
    unsafe {
        let there = function_of(tstate);
        if there != FRONTS[0] as *mut c_void {
            put_in_front(tstate, there);
        }
    }
}

/// Installs ours in front of the present function, unless that is ours.
///
/// # Safety
/// As [`ensure`]; `there` is the thread's function, or null.
#[inline(never)]
unsafe fn put_in_front(tstate: *mut PyThreadState, there: *mut c_void) {
    if copy(there).is_some() {
        return;
    }
    // SAFETY: the caller promises that the thread is attached, `tstate` stands, and [`check`] has passed.
    unsafe {
        if let Some(n) = place(there) {
            put(tstate, FRONTS[n] as *mut c_void);
        }
    }
}

/// The copy of ours that a function is.
fn copy(function: *mut c_void) -> Option<usize> {
    FRONTS.iter().position(|front| *front as *mut c_void == function)
}

/// The copy for the function behind it; `None` if all copies have others. Attached, so no other thread runs this
/// meanwhile.
fn place(behind: *mut c_void) -> Option<usize> {
    if behind.is_null() {
        return Some(0);
    }
    let n = (1..COPIES).find(|n| {
        let there = BEHIND[*n].load(Ordering::Relaxed);
        there == behind || there.is_null()
    })?;
    BEHIND[n].store(behind, Ordering::Release);
    Some(n)
}

/// The profile function of a thread, or null.
///
/// # Safety
/// The calling thread is attached, and `tstate` stands.
unsafe fn function_of(tstate: *mut PyThreadState) -> *mut c_void {
    // SAFETY: a word inside the thread's state.
    unsafe { at(tstate.cast(), thread::PROFILE_FUNCTION) }
}

/// Exchanges the function; the object stays.
///
/// # Safety
/// As [`ensure`]; `function` is null, or takes the present object.
unsafe fn put(tstate: *mut PyThreadState, function: *mut c_void) {
    // SAFETY: the thread is attached, so the thread of this state doesn't run; the word holds a profile function or
    // null, and `function` takes the present object. Entering and leaving tracing makes the evaluation loop look at the
    // word.
    unsafe {
        tstate.cast::<u8>().add(thread::PROFILE_FUNCTION).cast::<*mut c_void>().write(function);
        ffi::PyThreadState_EnterTracing(tstate);
        ffi::PyThreadState_LeaveTracing(tstate);
    }
}

/// Every thread state of this interpreter. New ones come in at the front, and none goes while this thread is attached.
fn each_thread(_py: Python<'_>, mut with: impl FnMut(*mut PyThreadState)) {
    // SAFETY: the thread is attached.
    unsafe {
        let mut tstate = ffi::PyInterpreterState_ThreadHead(ffi::PyInterpreterState_Get());
        while !tstate.is_null() {
            with(tstate);
            tstate = ffi::PyThreadState_Next(tstate);
        }
    }
}

/// The profile function: ours runs next to the call, the program's around it.
///
/// # Safety
/// Only the interpreter calls it, as a thread's profile function.
unsafe extern "C-unwind" fn front<const N: usize>(
    object: *mut PyObject, frame: *mut ffi::PyFrameObject, what: c_int, callable: *mut PyObject,
) -> c_int {
    // SAFETY: the interpreter's arguments; the function behind is of this type, made for this very object.
    unsafe {
        if what == ffi::PyTrace_C_RETURN || what == ffi::PyTrace_C_EXCEPTION {
            handle(what, callable);
        }
        let behind = BEHIND[N].load(Ordering::Acquire);
        let unheard = what == ffi::PyTrace_C_RETURN && FIRST.get() && is_setprofile(callable);
        if !behind.is_null() && !unheard {
            let answer = std::mem::transmute::<*mut c_void, ProfileFunction>(behind)(object, frame, what, callable);
            if answer != 0 {
                return answer; // an exception: a call that was to begin doesn't
            }
        }
        if what == ffi::PyTrace_C_CALL {
            handle(what, callable);
        }
    }
    0
}

/// Calls the handler, if ours is on.
///
/// # Safety
/// Only a profile function calls it, with the interpreter's arguments.
#[inline(always)]
unsafe fn handle(what: c_int, callable: *mut PyObject) {
    if is_on() {
        // SAFETY: stored by `begin` before `ON` was set.
        unsafe { std::mem::transmute::<*mut (), Handler>(HANDLER.load(Ordering::Acquire))(what, callable) }
    }
}

/// The definition of `sys.setprofile`, if it is the interpreter's.
fn definition() -> Option<*mut ffi::PyMethodDef> {
    // SAFETY: attached (all callers are); borrowed, and its type is checked before its fields are read. Definitions are
    // never freed.
    unsafe {
        let function = ffi::PySys_GetObject(c"setprofile".as_ptr());
        if function.is_null() || ffi::PyCFunction_CheckExact(function) == 0 {
            return None;
        }
        let definition = (*function.cast::<ffi::PyCFunctionObject>()).m_ml;
        let named = CStr::from_ptr((*definition).ml_name) == c"setprofile";
        (named && (*definition).ml_flags == ffi::METH_O).then_some(definition)
    }
}

/// The word of the function that a definition calls.
fn method<'a>(definition: *mut ffi::PyMethodDef) -> &'a AtomicPtr<c_void> {
    // SAFETY: one word of a structure that stays, which the interpreter reads at each call.
    unsafe { AtomicPtr::from_ptr((&raw mut (*definition).ml_meth).cast()) }
}

fn watch_setprofile() {
    let Some(definition) = definition() else { return };
    let there = method(definition).load(Ordering::Acquire);
    if there != setprofile as *mut c_void {
        SETPROFILE.store(there, Ordering::Release);
        method(definition).store(setprofile as *mut c_void, Ordering::Release);
    }
}

fn leave_setprofile() {
    let Some(definition) = definition() else { return };
    let original = SETPROFILE.load(Ordering::Acquire);
    let _ =
        method(definition).compare_exchange(setprofile as *mut c_void, original, Ordering::AcqRel, Ordering::Acquire);
}

/// Whether it is `sys.setprofile`, replaced by ours.
///
/// # Safety
/// `callable` stands.
unsafe fn is_setprofile(callable: *mut PyObject) -> bool {
    // SAFETY: the type is checked before its fields are read.
    unsafe {
        ffi::PyCFunction_CheckExact(callable) != 0
            && method((*callable.cast::<ffi::PyCFunctionObject>()).m_ml).load(Ordering::Relaxed)
                == setprofile as *mut c_void
    }
}

/// `sys.setprofile`, after which ours is in front again.
///
/// # Safety
/// Only the interpreter calls it, for the function that it was put into.
unsafe extern "C-unwind" fn setprofile(module: *mut PyObject, function: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, with the arguments of the original, which was stored before this took its place.
    unsafe {
        let original = std::mem::transmute::<*mut c_void, OneArgument>(SETPROFILE.load(Ordering::Acquire));
        if crate::interpreter::state::is_elsewhere() {
            return original(module, function); // the definition is that of all interpreters
        }
        let tstate = ffi::PyThreadState_Get();
        FIRST.set(function_of(tstate) == FRONTS[0] as *mut c_void);
        let done = original(module, function);
        if is_on() {
            ensure(tstate);
        }
        done
    }
}
