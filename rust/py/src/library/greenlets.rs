//! Greenlets: each has a stack of traced calls of its own. Time and memory are charged to the running greenlet.
//!
//! The interpreter has no event for a switch. greenlet has one: it calls the thread's trace function
//! (`greenlet.settrace`) in the greenlet that resumes. Our trace function is installed in each thread that runs traced
//! code, as long as a session needs ends of calls and the program has imported greenlet. It passes the resumed stack to
//! the core, then calls the program's own trace function. Meanwhile `settrace` and `gettrace` are wrapped, so the
//! program sets and sees only its own function.
//!
//! # Roles
//!
//! The instrument turns our function on and off, on any attached thread. Each thread installs and removes its own, and
//! has its own [`Stacks`].
//!
//! # States
//!
//! [`EPOCH`] changes when every thread has to install or remove our function, or to ask which greenlet runs:
//!
//! * our function came into use, or out of use;
//! * a switch was missed, because it happened inside the tracer;
//! * greenlet removed our function, because the program's function raised.
//!
//! Before each event a thread compares the epoch with the last one that it saw: one load and one comparison. Without
//! greenlet the epoch never changes.
//!
//! A thread installs and removes our function itself, at its next event or its next switch. In a thread that has
//! neither, our function stays and only calls the program's.
//!
//! # Orderings
//!
//! `ON`, `BEGUN` and the kept objects are stored with `Release` before [`EPOCH`] changes with `Release`. A thread that
//! sees the new epoch loads it again with `Acquire`, and so sees them.
//!
//! # Checked by
//!
//! `tests/python/test_greenlets.py`.

use crate::{
    door,
    instrument::modules::keep,
    state::{
        instrument::Instrument,
        stacks::{change, Stacks, EPOCH},
        thread::ThreadState,
    },
};
use inviso_core::host::event;
use inviso_cpython::{
    hooks::{
        method::{Method, Plain, Wrapper},
        vectorcall,
    },
    interpreter::{
        calling::{self, attached, is_ending},
        state, tls, Uncollected,
    },
    object::held::Held,
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::PyDict,
};
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

/// The instrument of greenlets.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.ends,
    |py, _| begin(py),
    |py, _| stop(py),
    |py| {
        if let Err(error) = stop(py) {
            error.write_unraisable(py, None);
        }
    },
);

static EXEC_DYNAMIC: Method = Method::new();
static SETTRACE: Method = Method::new();
static GETTRACE: Method = Method::new();
const EXECS: &[Wrapper] = &[Wrapper::Plain(exec_dynamic)];
const SETS: &[Wrapper] = &[Wrapper::Plain(settrace)];
const GETS: &[Wrapper] = &[Wrapper::Plain(gettrace)];

/// `getcurrent`, and the attributes of greenlets as descriptors: a subclass may have other attributes of the same
/// names.
static GETCURRENT: AtomicUsize = AtomicUsize::new(0);
static PARENT: AtomicUsize = AtomicUsize::new(0);
static DEAD: AtomicUsize = AtomicUsize::new(0);

/// Whether threads should have our function.
static ON: AtomicBool = AtomicBool::new(false);
/// How often our function has come into use.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Called before an event if the epoch has changed: switches to the calls of the running greenlet.
#[cold]
#[inline(never)]
pub fn look_again(state: &mut ThreadState) {
    // first, so a later change is found the next time
    state.greenlets.epoch = EPOCH.load(Ordering::Acquire);
    attached(|py| {
        if is_ending(py) {
            return;
        }
        // SAFETY: the thread is attached.
        let _uncollected = unsafe { Uncollected::new() };
        let done = if ON.load(Ordering::Acquire) {
            begin_here(py, state)
        } else {
            state.greenlets.restart(0);
            take_out(py)
        };
        if let Err(error) = done {
            error.write_unraisable(py, None);
        }
    });
}

/// A session needs ends of calls. Adopts greenlet if the program has imported it. Wraps `_imp.exec_dynamic` to notice a
/// later import, because that function loads every module written in C. Watching the import system instead would slow
/// down each event.
///
/// # Errors
/// RuntimeError if greenlet is present and its parts are not the known ones.
fn begin(py: Python<'_>) -> PyResult<()> {
    // on a free-threaded build, greenlet 3.5 ends the program when a thread ends that was asked for its greenlet: it
    // mistakes a reference for a leak
    if cfg!(Py_GIL_DISABLED) {
        return Ok(());
    }
    // SAFETY: the wrapper follows the contract of its kind and calls the original.
    unsafe { EXEC_DYNAMIC.take(py.import("_imp")?.as_any(), "exec_dynamic", EXECS)? };
    find(py)
}

/// Adopts greenlet if the program has imported it.
///
/// # Errors
/// As [`begin`].
fn find(py: Python<'_>) -> PyResult<()> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    match modules.get_item("greenlet._greenlet")? {
        Some(module) if !ON.load(Ordering::Acquire) => adopt(&module),
        _ => Ok(()),
    }
}

/// `_imp.exec_dynamic(module)`: a module written in C is loaded.
///
/// # Safety
/// Called as a function with METH_O.
unsafe extern "C" fn exec_dynamic(this: *mut PyObject, module: *mut PyObject) -> *mut PyObject {
    type Unwinding = unsafe extern "C-unwind" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;
    // SAFETY: called attached, with the original's arguments.
    unsafe {
        let original = EXEC_DYNAMIC.original::<Unwinding>();
        let done = calling::on_guard(|| original(this, module));
        if !done.is_null() && !state::is_elsewhere() {
            door::guard(|| {
                // an unknown greenlet does not fail the program's import; the error is reported here
                attached(|py| find(py).unwrap_or_else(|error| error.write_unraisable(py, None)));
            });
        }
        done
    }
}

/// The program has imported greenlet.
///
/// # Errors
/// RuntimeError if its parts are not the known ones.
fn adopt(module: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = module.getattr("greenlet")?.getattr("__dict__")?;
    keep(&GETCURRENT, module.getattr("getcurrent")?);
    keep(&PARENT, class.get_item("parent")?);
    keep(&DEAD, class.get_item("dead")?);
    // SAFETY: both wrappers follow the contracts of their kinds and call the originals.
    unsafe {
        GETTRACE.take(module, "gettrace", GETS)?;
        if let Err(error) = SETTRACE.take(module, "settrace", SETS) {
            GETTRACE.give_back(GETS);
            return Err(error);
        }
    }
    BEGUN.fetch_add(1, Ordering::Release);
    ON.store(true, Ordering::Release);
    change();
    Ok(())
}

/// No session needs ends of calls any more.
fn stop(py: Python<'_>) -> PyResult<()> {
    EXEC_DYNAMIC.give_back(EXECS);
    if !ON.swap(false, Ordering::AcqRel) {
        return Ok(());
    }
    SETTRACE.give_back(SETS);
    GETTRACE.give_back(GETS);
    change();
    take_out(py)
}

/// Installs our function in this thread, and switches to the calls of the running greenlet.
fn begin_here(py: Python<'_>, state: &mut ThreadState) -> PyResult<()> {
    put_in(py)?;
    let current = kept(py, &GETCURRENT)?.call0()?;
    let begun = BEGUN.load(Ordering::Acquire);
    if begun != state.greenlets.begun {
        state.greenlets.begun = begun;
        // calls that began earlier belong to the greenlet that each thread begins with
        state.greenlets.restart(first(py, &current)?.as_ptr() as usize);
    }
    go_on(state, current.as_ptr() as usize, |_| false);
    Ok(())
}

/// A greenlet resumes. `has_ended` is called for the one that is left, if it has calls that have not ended.
fn go_on(state: &mut ThreadState, target: usize, has_ended: impl FnOnce(usize) -> bool) {
    let Stacks { current, suspended, .. } = &mut state.greenlets;
    if *current == target {
        return;
    }
    let from = std::mem::replace(current, target);
    let mut calls = suspended.remove(&target).unwrap_or_default();
    event::on_switch(&state.host.node, &mut state.thread, &mut calls, tls::bytes());
    if !calls.is_empty() && !has_ended(from) {
        suspended.insert(from, calls);
    }
}

/// The greenlet with which the thread of `greenlet` began: the last of its parents.
fn first<'py>(py: Python<'py>, greenlet: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut last = greenlet.clone();
    loop {
        let parent = attribute(py, &PARENT, &last)?;
        if parent.is_none() {
            return Ok(last);
        }
        last = parent;
    }
}

/// An object that [`adopt`] has kept.
fn kept<'py>(py: Python<'py>, word: &AtomicUsize) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: null, or held for ever.
    let object = unsafe { Bound::from_borrowed_ptr_or_opt(py, word.load(Ordering::Acquire) as *mut PyObject) };
    object.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("greenlet is not there"))
}

fn attribute<'py>(
    py: Python<'py>, descriptor: &AtomicUsize, greenlet: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    kept(py, descriptor)?.call_method1("__get__", (greenlet,))
}

/// Installs our function before this thread's trace function.
fn put_in(py: Python<'_>) -> PyResult<()> {
    // SAFETY: the thread is attached; both calls return a new reference, or null with an exception set.
    unsafe {
        let there = Bound::from_owned_ptr_or_err(py, original_gettrace())?;
        if !vectorcall::runs(there.as_ptr(), on_switch) {
            Bound::from_owned_ptr_or_err(py, set_original(front(py, there.as_ptr())?.as_ptr()))?;
        }
    }
    Ok(())
}

/// Restores the program's function in this thread.
fn take_out(py: Python<'_>) -> PyResult<()> {
    // SAFETY: the thread is attached; both calls return a new reference, or null with an exception set. `there` is held
    // while it is examined.
    unsafe {
        let there = Bound::from_owned_ptr_or_err(py, original_gettrace())?;
        if vectorcall::runs(there.as_ptr(), on_switch) {
            let behind = taken(there.as_ptr());
            Bound::from_owned_ptr_or_err(py, set_original(behind.as_ptr()))?;
        }
    }
    Ok(())
}

/// Our function, which calls the given trace function (or None) after its own work.
///
/// # Safety
/// The object stands.
unsafe fn front(py: Python<'_>, behind: *mut PyObject) -> PyResult<Py<PyAny>> {
    // SAFETY: the object stands. [`taken`] gives the kept reference back.
    unsafe {
        let behind = if behind == ffi::Py_None() { null_mut() } else { Held::new(behind).into_ptr() };
        let made = vectorcall::callable(py, on_switch, behind.cast());
        made.inspect_err(|_| ffi::Py_XDECREF(behind))
    }
}

/// Takes the program's function out of ours; None if there is none.
///
/// # Safety
/// `ours` is a function of ours; attached.
unsafe fn taken(ours: *mut PyObject) -> Held {
    // SAFETY: `ours` is a function of ours, attached. The word is null or a reference that the function owns.
    unsafe {
        let behind = vectorcall::exchange(ours, null_mut());
        if behind.is_null() {
            Held::new(ffi::Py_None())
        } else {
            Held::owned(behind.cast())
        }
    }
}

/// The module that the original functions are called with.
fn module() -> *mut PyObject {
    // SAFETY: held for ever. Null without greenlet, but greenlet is adopted before this is called.
    unsafe { ffi::PyCFunction_GetSelf(GETCURRENT.load(Ordering::Acquire) as *mut PyObject) }
}

/// # Safety
/// Attached, and greenlet has been adopted.
unsafe fn original_gettrace() -> *mut PyObject {
    // SAFETY: attached, and greenlet has been adopted; a function without arguments.
    unsafe { GETTRACE.original::<Plain>()(module(), null_mut()) }
}

/// # Safety
/// As [`original_gettrace`]; the function stands.
unsafe fn set_original(function: *mut PyObject) -> *mut PyObject {
    // SAFETY: attached, greenlet has been adopted, and the function stands; the original takes a tuple of one.
    unsafe {
        let arguments = Held::owned(ffi::PyTuple_Pack(1, function));
        if arguments.as_ptr().is_null() {
            return null_mut();
        }
        SETTRACE.original::<Plain>()(module(), arguments.as_ptr())
    }
}

/// `greenlet.settrace(function)`: our function stays first.
///
/// # Safety
/// Called as a function with METH_VARARGS.
unsafe extern "C" fn settrace(module: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    let set = || {
        // SAFETY: called attached, with a tuple.
        attached(|py| unsafe {
            let original = SETTRACE.original::<Plain>();
            let is_ours = !ON.load(Ordering::Acquire) || state::is_elsewhere() || ffi::PyTuple_GET_SIZE(arguments) != 1;
            let before = if is_ours {
                original(module, arguments)
            } else {
                match front(py, ffi::PyTuple_GET_ITEM(arguments, 0)) {
                    Ok(front) => set_original(front.as_ptr()),
                    Err(error) => {
                        error.restore(py);
                        null_mut()
                    }
                }
            };
            if before.is_null() || !vectorcall::runs(before, on_switch) {
                return before;
            }
            let ours = Held::owned(before);
            taken(ours.as_ptr()).into_ptr()
        })
    };
    door::guard(set).unwrap_or(null_mut())
}

/// `greenlet.gettrace()`: returns the program's function.
///
/// # Safety
/// Called as a function with METH_NOARGS.
unsafe extern "C" fn gettrace(module: *mut PyObject, nothing: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached. Our function holds the program's as long as it stands.
    let get = || unsafe {
        let there = GETTRACE.original::<Plain>()(module, nothing);
        if there.is_null() || !vectorcall::runs(there, on_switch) {
            return there;
        }
        let ours = Held::owned(there);
        let behind: *mut PyObject = vectorcall::data(ours.as_ptr()).cast();
        Held::new(if behind.is_null() { ffi::Py_None() } else { behind }).into_ptr()
    };
    door::guard(get).unwrap_or(null_mut())
}

/// Our trace function, called with `(event, (origin, target))` in the target after each switch.
///
/// # Safety
/// Called as a [`vectorcall::Function`]: attached, with the stated number of arguments, which stand.
unsafe extern "C" fn on_switch(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, _keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, with arguments that stand.
    unsafe {
        if vectorcall::nargs(nargsf) != 2 {
            return vectorcall::none();
        }
        let (event, pair) = (*args, *args.add(1));
        if door::enter(|state| switched(state, pair)).is_none() && door::is_inside() {
            change();
        }
        let behind: *mut PyObject = vectorcall::data(this).cast();
        if behind.is_null() {
            return vectorcall::none();
        }
        pass_on(this, behind, event, pair)
    }
}

/// Calls the program's function.
///
/// # Safety
/// Attached; all objects stand, and `this` is a function of ours.
unsafe fn pass_on(
    this: *mut PyObject, behind: *mut PyObject, event: *mut PyObject, pair: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: attached, and all objects stand; `this` is a function of ours.
    attached(|py| unsafe {
        let behind = Bound::from_borrowed_ptr(py, behind);
        let (event, pair) = (Bound::from_borrowed_ptr(py, event), Bound::from_borrowed_ptr(py, pair));
        match calling::call(&behind, (event, pair)) {
            Ok(_) => vectorcall::none(),
            Err(error) => {
                // greenlet then removes our function together with the program's
                drop(taken(this));
                change();
                error.restore(py);
                null_mut()
            }
        }
    })
}

/// Another greenlet runs.
///
/// # Safety
/// Attached; `pair` stands.
unsafe fn switched(state: &mut ThreadState, pair: *mut PyObject) {
    // SAFETY: attached, and `pair` stands; it holds its two greenlets.
    unsafe {
        if !ON.load(Ordering::Relaxed) || ffi::PyTuple_CheckExact(pair) == 0 || ffi::PyTuple_GET_SIZE(pair) != 2 {
            return;
        }
        let (origin, target) = (ffi::PyTuple_GET_ITEM(pair, 0), ffi::PyTuple_GET_ITEM(pair, 1));
        let has_ended = |from: usize| from == origin as usize && is_dead(origin);
        go_on(state, target as usize, has_ended);
    }
}

/// # Safety
/// Attached; the greenlet stands.
#[cold]
unsafe fn is_dead(greenlet: *mut PyObject) -> bool {
    attached(|py| {
        // SAFETY: the greenlet stands; attached.
        let greenlet = unsafe { Bound::from_borrowed_ptr(py, greenlet) };
        attribute(py, &DEAD, &greenlet).and_then(|dead| dead.is_truthy()).unwrap_or(false)
    })
}
