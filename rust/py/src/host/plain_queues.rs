//! `_put` and `_get` of `queue.Queue` and `asyncio.Queue`, which most queues have: taken at their call, and done here.
//!
//! An event of the interpreter and a frame for one line of Python take longer than what is told. So where nobody would see that
//! frame (no session traces calls, no other tool asks for events) what the line says is done without it: the function's code is
//! compared with that line's, and all else goes the function's own way.

use super::{
    deques,
    here::here,
    originals,
    queues::{self, Caller},
    Host,
};
use crate::ffi::{
    attribute::Attribute,
    calling, code,
    frame::Frame,
    function::{self, Function, Vectorcall},
    tstate,
    vectorcall::nargs,
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
};

/// One of the functions.
struct Plain {
    function: Function,
    wrapper: Vectorcall,
    /// What its code is compiled from, in a class.
    source: &'static str,
}

impl Plain {
    const fn new(wrapper: Vectorcall, source: &'static str) -> Plain {
        Plain { function: Function::new(), wrapper, source }
    }
}

static ALL: [Plain; 4] = [
    Plain::new(put::<0>, "_put(self, item): self.queue.append(item)"),
    Plain::new(get::<1>, "_get(self): return self.queue.popleft()"),
    Plain::new(put::<2>, "_put(self, item): self._queue.append(item)"),
    Plain::new(get::<3>, "_get(self): return self._queue.popleft()"),
];

/// What the queues call their items.
static ITEMS: [Attribute; 2] = [Attribute::new(c"queue"), Attribute::new(c"_queue")];

/// Takes the calls of a function, if it is one of these; `seen` is a code object that is watched.
///
/// # Errors
/// What the interpreter raises; the function is not taken then.
pub fn take(py: Python<'_>, method: &Bound<'_, PyAny>, seen: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !function::check(py, seen)? || !deques::learn(py)? {
        return Ok(false);
    }
    let code = method.getattr("__code__")?;
    for plain in &ALL {
        let (scope, builtins) = (pyo3::types::PyDict::new(py), py.import("builtins")?);
        let class = format!("class Queue:\n    def {}\n", plain.source);
        // without what the calling frame imports from the future
        let lines = builtins.getattr("compile")?.call1((class, "<queue>", "exec", 0, true))?;
        calling::call(&builtins.getattr("exec")?, (lines, &scope))?;
        let name = plain.source.split('(').next().unwrap_or_default();
        let expected = scope.as_any().get_item("Queue")?.getattr(name)?.getattr("__code__")?;
        let mut same = true;
        for part in ["co_code", "co_names", "co_consts", "co_varnames", "co_argcount", "co_flags", "co_exceptiontable"]
        {
            same &= code.getattr(part)?.eq(expected.getattr(part)?)?;
        }
        if same {
            // SAFETY: the wrapper keeps to the contract, and does what the line does or calls on.
            return Ok(unsafe { plain.function.take(method, plain.wrapper) }.is_ok());
        }
    }
    Ok(false)
}

/// Whether the calls of a function come here.
pub fn is_taken(method: &Bound<'_, PyAny>) -> bool {
    ALL.iter().any(|plain| plain.function.is_taken(method))
}

/// Gives all of them back.
pub fn give_back(py: Python<'_>) {
    ALL.iter().for_each(|plain| plain.function.give_back(py, plain.wrapper));
}

/// The items of a queue, a new reference; null if they are to be had by its function only. No exception is set.
///
/// # Safety
/// The queue stands; attached, without an exception.
#[inline(always)]
unsafe fn items(queue: *mut PyObject, named: &Attribute) -> *mut PyObject {
    // SAFETY: the caller's promise.
    unsafe {
        let plain = ffi::PyBaseObject_Type.tp_getattro.map(|get| get as usize);
        if (*ffi::Py_TYPE(queue)).tp_getattro.map(|get| get as usize) != plain {
            return std::ptr::null_mut();
        }
        let items = named.of(queue);
        if !items.is_null() && !deques::is_one(items) {
            ffi::Py_DECREF(items);
            return std::ptr::null_mut();
        }
        items
    }
}

/// Whether nobody would see the function's frame, and it does what it did when it was taken.
///
/// # Safety
/// A function that is taken, called by `caller`, which runs; attached.
#[inline(always)]
pub unsafe fn is_unseen(host: &Host, taken: &Function, function: *mut PyObject, caller: Option<Frame>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        !host.node.traces_functions()
            && taken.is_as_taken(function)
            && function::is_evaluated_plainly()
            && caller.is_some_and(|caller| function::is_unwatched(code::of_function(function), caller.code()))
    }
}

/// Whether one argument is named, and `item` so.
///
/// # Safety
/// A tuple of strs; attached.
#[cold]
unsafe fn is_item(names: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        ffi::PyTuple_GET_SIZE(names) == 1
            && ffi::PyUnicode_CompareWithASCIIString(ffi::PyTuple_GET_ITEM(names, 0), c"item".as_ptr()) == 0
    }
}

/// Who called the function, by the frame that did.
///
/// # Safety
/// As [`is_unseen`].
#[inline(always)]
unsafe fn caller_of(function: *mut PyObject, caller: Option<Frame>) -> Caller {
    // SAFETY: the caller's promise.
    Caller::Frame(unsafe { originals::past(code::of_function(function), caller) })
}

/// `_put(queue, item)`.
///
/// # Safety
/// To be called by the interpreter only, for the function that it was put into.
unsafe extern "C" fn put<const N: usize>(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, with as many arguments as it says, which stand; what is asked for is not used beyond this function.
    unsafe {
        let original = ALL[N].function.original();
        let fits = if names.is_null() { nargs(nargsf) == 2 } else { nargs(nargsf) == 1 && is_item(names) };
        let here = here().filter(|here| !here.thread.busy && fits);
        let Some(here) = here else { return original(this, args, nargsf, names) };
        let (queue, item) = (*args, *args.add(1)); // what is named stands behind what is not
        let caller = Frame::current_python(tstate());
        queues::told_put(here, caller_of(this, caller), queue, item);
        if is_unseen(here.host, &ALL[N].function, this, caller) {
            let items = items(queue, &ITEMS[N / 2]);
            if !items.is_null() {
                let done = deques::append(items, item);
                ffi::Py_DECREF(items);
                return done;
            }
        }
        original(this, args, nargsf, names)
    }
}

/// `_get(queue)`.
///
/// # Safety
/// As [`put`].
unsafe extern "C" fn get<const N: usize>(
    this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let original = ALL[N].function.original();
        let Some(host) = super::try_host().filter(|_| names.is_null() && nargs(nargsf) == 1) else {
            return original(this, args, nargsf, names);
        };
        let queue = *args;
        let caller = Frame::current_python(tstate());
        let items = if is_unseen(host, &ALL[N].function, this, caller) {
            items(queue, &ITEMS[N / 2])
        } else {
            std::ptr::null_mut()
        };
        let item = if items.is_null() {
            original(this, args, nargsf, names)
        } else {
            let item = deques::popleft(items);
            ffi::Py_DECREF(items);
            item
        };
        if !item.is_null() {
            if let Some(here) = here().filter(|here| !here.thread.busy) {
                queues::told_get(here, caller_of(this, caller), queue, item, false);
            }
        }
        item
    }
}
