//! From 3.12 on: the calls of the functions are taken, see [`crate::ffi::function`].

use super::{tasks, threads};
use crate::{
    ffi::{
        code,
        frame::Frame,
        function::{self, Function, Vectorcall},
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

/// One of the functions.
struct Taken {
    name: &'static str,
    function: Function,
    wrapper: Vectorcall,
}

static PUT: Taken = Taken::new("put", put);
static GET: Taken = Taken::new("get", get);
static PUT_NOWAIT: Taken = Taken::new("put_nowait", put_nowait);
static GET_NOWAIT: Taken = Taken::new("get_nowait", get_nowait);

/// Those of `queue.Queue`, and those of `asyncio.Queue`.
static ALL: [[&Taken; 2]; 2] = [[&PUT, &GET], [&PUT_NOWAIT, &GET_NOWAIT]];

impl Taken {
    const fn new(name: &'static str, wrapper: Vectorcall) -> Taken {
        Taken { name, function: Function::new(), wrapper }
    }

    /// Who calls the function; `None` where somebody would see its frame, or we are busy.
    ///
    /// # Safety
    /// To be called by the wrapper only, with the function that it was called as; attached, without an exception.
    #[inline(always)]
    unsafe fn caller(&self, this: *mut PyObject) -> Option<(&'static mut Here, Caller)> {
        // SAFETY: the caller's promise.
        unsafe {
            let here = here().filter(|here| !here.thread.busy)?;
            let caller = Frame::current_python(tstate());
            let unseen = is_unseen(here.host, &self.function, this, caller);
            unseen.then(|| (here, Caller::Frame(originals::past(code::of_function(this), caller))))
        }
    }
}

/// Takes the calls of a class's functions, if all is as known: `class` is `queue.Queue` (`which` is 0) or `asyncio.Queue`; `seen` is a code object that is
/// watched.
///
/// # Errors
/// What the interpreter raises; nothing is taken then.
pub fn take(class: &Bound<'_, PyType>, which: usize, seen: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = class.py();
    if !function::check(py, seen)? || !(if which == 0 { threads::learn(class)? } else { tasks::learn(class)? }) {
        return Ok(());
    }
    let own = class.getattr("__dict__")?;
    let take = |taken: &Taken| {
        // SAFETY: the wrappers keep to the contract, and do what the functions do or call on.
        unsafe { taken.function.take(&own.get_item(taken.name)?, taken.wrapper) }
    };
    let done = ALL[which].iter().try_for_each(|taken| take(taken));
    done.inspect_err(|_| ALL[which].iter().for_each(|taken| taken.function.give_back(py, taken.wrapper)))
}

/// Gives all of them back.
pub fn give_back(py: Python<'_>) {
    ALL.iter().flatten().for_each(|taken| taken.function.give_back(py, taken.wrapper));
    threads::forget(py);
    tasks::forget(py);
}

/// `queue.Queue.put(queue, item, block, timeout)`.
///
/// # Safety
/// To be called by the interpreter only, for the function that it was put into.
unsafe extern "C" fn put(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, with as many arguments as it says, which stand.
    unsafe {
        let caller = if is_usual(args, nargs(nargsf), names, 2) { PUT.caller(this) } else { None };
        let done = caller.and_then(|(here, caller)| threads::put(here, caller, *args, *args.add(1)));
        done.unwrap_or_else(|| PUT.function.original()(this, args, nargsf, names))
    }
}

/// `queue.Queue.get(queue, block, timeout)`.
///
/// # Safety
/// As [`put`].
unsafe extern "C" fn get(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let caller = if is_usual(args, nargs(nargsf), names, 1) { GET.caller(this) } else { None };
        let done = caller.and_then(|(here, caller)| threads::get(here, caller, *args));
        done.unwrap_or_else(|| GET.function.original()(this, args, nargsf, names))
    }
}

/// `asyncio.Queue.put_nowait(queue, item)`.
///
/// # Safety
/// As [`put`].
unsafe extern "C" fn put_nowait(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let caller = if nargs(nargsf) == 2 && names.is_null() { PUT_NOWAIT.caller(this) } else { None };
        let done = caller.and_then(|(here, caller)| tasks::put(here, caller, *args, *args.add(1)));
        done.unwrap_or_else(|| PUT_NOWAIT.function.original()(this, args, nargsf, names))
    }
}

/// `asyncio.Queue.get_nowait(queue)`.
///
/// # Safety
/// As [`put`].
unsafe extern "C" fn get_nowait(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let caller = if nargs(nargsf) == 1 && names.is_null() { GET_NOWAIT.caller(this) } else { None };
        let done = caller.and_then(|(here, caller)| tasks::get(here, caller, *args));
        done.unwrap_or_else(|| GET_NOWAIT.function.original()(this, args, nargsf, names))
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
        (block.is_null() || threads::is_bool(block)) && (timeout.is_null() || threads::is_no_negative(timeout))
    }
}
