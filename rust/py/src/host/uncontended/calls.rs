//! From 3.12 on: the calls of both functions are taken, see [`crate::ffi::function`].

use super::{End, Locked};
use crate::{
    ffi::{
        code,
        frame::Frame,
        function::{self, Function},
        tstate,
        vectorcall::nargs,
    },
    host::{
        here::{here, Here},
        originals,
        plain_queues::is_unseen,
        queues::Caller,
    },
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::PyType,
};

static PUT: Function = Function::new();
static GET: Function = Function::new();

/// Takes the calls of both, if all is as known: `class` is `queue.Queue`.
///
/// # Errors
/// What the interpreter raises; nothing is taken then.
pub fn take(class: &Bound<'_, PyType>, seen: &Bound<'_, PyAny>) -> PyResult<()> {
    if !function::check(class.py(), seen)? || !super::learn(class)? {
        return Ok(());
    }
    let own = class.getattr("__dict__")?;
    // SAFETY: the wrappers keep to the contract, and do what the functions do or call on.
    let taken = unsafe { PUT.take(&own.get_item("put")?, put).and_then(|()| GET.take(&own.get_item("get")?, get)) };
    taken.inspect_err(|_| give_back(class.py()))
}

/// Gives both back.
pub fn give_back(py: Python<'_>) {
    PUT.give_back(py, put);
    GET.give_back(py, get);
    super::forget(py);
}

/// `put(queue, item, block, timeout)`.
///
/// # Safety
/// To be called by the interpreter only, for the function that it was put into.
unsafe extern "C" fn put(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, with as many arguments as it says, which stand.
    unsafe {
        let usual = is_usual(args, nargs(nargsf), names, 2);
        match usual.then(|| lock(&PUT, this, *args, End::Put)).flatten() {
            Some((here, caller, locked)) => locked.put(here, caller, *args, *args.add(1)),
            None => PUT.original()(this, args, nargsf, names),
        }
    }
}

/// `get(queue, block, timeout)`.
///
/// # Safety
/// As [`put`].
unsafe extern "C" fn get(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let usual = is_usual(args, nargs(nargsf), names, 1);
        match usual.then(|| lock(&GET, this, *args, End::Get)).flatten() {
            Some((here, caller, locked)) => locked.get(here, caller, *args),
            None => GET.original()(this, args, nargsf, names),
        }
    }
}

/// Who calls, and the queue, locked; `None` where the function has to go its own way.
///
/// # Safety
/// A function that is taken, and a queue that stands; attached, without an exception.
#[inline(always)]
unsafe fn lock(
    taken: &Function, this: *mut PyObject, queue: *mut PyObject, end: End,
) -> Option<(&'static mut Here, Caller, Locked)> {
    // SAFETY: the caller's promise.
    unsafe {
        let here = here().filter(|here| !here.thread.busy)?;
        let caller = Frame::current_python(tstate());
        if !is_unseen(here.host, taken, this, caller) {
            return None;
        }
        let locked = super::lock(queue, end)?;
        Some((here, Caller::Frame(originals::past(code::of_function(this), caller)), locked))
    }
}

/// Whether what is given behind the first `own` arguments leaves nothing to be said against: `block` is a bool, and `timeout` nothing or
/// no negative number. They are of no meaning where nobody waits.
///
/// # Safety
/// The arguments of a vectorcall; attached.
#[inline(always)]
unsafe fn is_usual(args: *const *mut PyObject, count: usize, names: *mut PyObject, own: usize) -> bool {
    // SAFETY: the caller's promise.
    count == own && names.is_null() || count >= own && unsafe { are_usual(args, count, names, own) }
}

#[inline(never)]
unsafe fn are_usual(args: *const *mut PyObject, count: usize, names: *mut PyObject, own: usize) -> bool {
    // SAFETY: the caller's promise: as many arguments as it says, and behind them one for each name.
    unsafe {
        let mut given = [std::ptr::null_mut(); 2]; // block, timeout
        if count - own > given.len() {
            return false;
        }
        for (n, given) in given.iter_mut().enumerate().take(count - own) {
            *given = *args.add(own + n);
        }
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        for n in 0..named {
            let name = ffi::PyTuple_GET_ITEM(names, n);
            let is = |text: &std::ffi::CStr| ffi::PyUnicode_CompareWithASCIIString(name, text.as_ptr()) == 0;
            let Some(at) = [c"block", c"timeout"].into_iter().position(is).filter(|at| given[*at].is_null()) else {
                return false;
            };
            given[at] = *args.add(count + n as usize);
        }
        let [block, timeout] = given;
        (block.is_null() || super::is_bool(block)) && (timeout.is_null() || super::is_no_negative(timeout))
    }
}
