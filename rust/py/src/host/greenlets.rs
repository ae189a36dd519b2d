//! Greenlets: several stacks of calls that take turns on one thread, without an event of the interpreter's.
//!
//! The greenlet library calls a trace function of the thread's at each switch (`greenlet.settrace`), in the greenlet that goes on. Ours is
//! put there in each thread that runs traced functions, once the program has imported greenlet; it calls on to the one that was there
//! before, and goes by itself when no function is traced any more. While a greenlet does not run, its traced calls are put aside.

use super::{door, here::Here, instruments::Instrument};
use crate::ffi::{tls, vectorcall};
use inviso_core::event::{self, Suspended};
use pyo3::{ffi, prelude::*, sync::PyOnceLock};
use rustc_hash::FxHashMap;
use std::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, Ordering},
};

/// What greenlets need to be told apart.
pub static INSTRUMENT: Instrument = Instrument::new(
    |wants| wants.functions,
    |_, _| Ok(()),
    |_, _| {
        THERE.store(false, Ordering::Release);
        Ok(())
    },
    |_| THERE.store(false, Ordering::Release),
);

/// Looks whether the program has imported greenlet: when patterns change, and where new code is noticed. The import itself is not
/// watched for: with any function watched each event of a traced call costs some nanoseconds more.
pub fn look(py: Python<'_>) {
    if !THERE.load(Ordering::Relaxed) && INSTRUMENT.on.load(Ordering::Relaxed) {
        // a module of that name which is another one is passed over
        let _ = adopt(py);
    }
}

/// Whether the program has greenlets, and functions are traced.
static THERE: AtomicBool = AtomicBool::new(false);

/// `greenlet.settrace` and `greenlet.getcurrent`.
static FUNCTIONS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

/// Our trace function.
static OURS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A thread's greenlets.
#[derive(Default)]
pub struct Stacks {
    /// Whether our trace function was put in place.
    has_tracer: bool,
    /// The trace function that was there before.
    before: Option<Py<PyAny>>,
    /// Traced calls of greenlets that do not run, by the greenlet's address. One that ends, or is freed, has none: its calls are left
    /// by an exception before.
    others: FxHashMap<usize, Suspended>,
}

fn adopt(py: Python<'_>) -> PyResult<()> {
    if !py.import("sys")?.getattr("modules")?.contains("greenlet._greenlet")? {
        return Ok(());
    }
    let module = py.import("greenlet._greenlet")?;
    let found = (module.getattr("settrace")?.unbind(), module.getattr("getcurrent")?.unbind());
    FUNCTIONS.get_or_init(py, || found);
    // SAFETY: `on_switch` keeps to the contract, and looks at what it is given.
    OURS.get_or_try_init(py, || unsafe { vectorcall::callable(py, on_switch, null_mut()) })?;
    THERE.store(true, Ordering::Release);
    Ok(())
}

/// A traced function runs on a thread: its greenlets are told apart from here on.
#[inline(always)]
pub fn meet(here: &mut Here) {
    if THERE.load(Ordering::Relaxed) && !here.greenlets.has_tracer {
        install(here);
    }
}

#[cold]
#[inline(never)]
fn install(here: &mut Here) {
    here.greenlets.has_tracer = true; // tried once
    Python::attach(|py| {
        let (Some((settrace, _)), Some(ours)) = (FUNCTIONS.get(py), OURS.get(py)) else { return };
        match settrace.bind(py).call1((ours,)) {
            Ok(before) => {
                here.greenlets.before = Some(before).filter(|it| !it.is_none() && !it.is(ours)).map(Bound::unbind)
            }
            Err(error) => error.write_unraisable(py, None),
        }
    });
}

/// No function is traced: what was there before is there again, unless the program has put another one in place.
#[cold]
fn leave(py: Python<'_>, stacks: &mut Stacks) {
    let (Some((settrace, _)), Some(ours)) = (FUNCTIONS.get(py), OURS.get(py)) else { return };
    stacks.others.clear();
    stacks.has_tracer = false;
    let before = stacks.before.take();
    match settrace.bind(py).call1((&before,)) {
        Ok(there) if !there.is(ours) => {
            let _theirs_again = settrace.bind(py).call1((there,));
        }
        Ok(_) => {}
        Err(error) => error.write_unraisable(py, None),
    }
}

/// `callback(event, (origin, target))`, in the target.
///
/// # Safety
/// As a [`vectorcall::Function`] is called: attached, with as many arguments as it says, which stand.
unsafe extern "C" fn on_switch(
    _this: *mut ffi::PyObject, args: *const *mut ffi::PyObject, nargsf: usize, keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called attached; types are looked at before what only they have. Two objects of the pair, which stand with it.
    unsafe {
        let pair = if vectorcall::nargs(nargsf) == 2 { *args.add(1) } else { null_mut() };
        if pair.is_null() || ffi::PyTuple_CheckExact(pair) == 0 || ffi::PyTuple_GET_SIZE(pair) != 2 {
            return vectorcall::none();
        }
        let (origin, target) = (ffi::PyTuple_GET_ITEM(pair, 0) as usize, ffi::PyTuple_GET_ITEM(pair, 1) as usize);
        let before = door::enter(|here| switched(here, origin, target)).flatten();
        match before {
            Some(before) => {
                let result = ffi::PyObject_Vectorcall(before.as_ptr(), args, nargsf, keywords);
                drop(before.into_bound(Python::assume_attached()));
                result
            }
            None => vectorcall::none(),
        }
    }
}

/// Another greenlet goes on; answers the trace function that was there before ours.
fn switched(here: &mut Here, origin: usize, target: usize) -> Option<Py<PyAny>> {
    // SAFETY: trace functions are called attached.
    let py = unsafe { Python::assume_attached() };
    let before = here.greenlets.before.as_ref().map(|before| before.clone_ref(py));
    if !THERE.load(Ordering::Acquire) {
        leave(py, &mut here.greenlets);
        return before;
    }
    let mut other = here.greenlets.others.remove(&target).unwrap_or_default();
    event::on_switch(&here.host.node, &mut here.thread, &mut other, tls::bytes());
    if !other.is_empty() {
        here.greenlets.others.insert(origin, other);
    }
    before
}
