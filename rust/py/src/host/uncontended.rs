//! `put` and `get` of `queue.Queue` where nobody waits: taken at their call, and done here.
//!
//! With a place in the queue, or an item, and nobody asleep at the other end, the two methods and the seven that they call are a lock taken and given
//! back, a `deque` and a number. Where nobody would see their frames (see [`plain_queues`]) that is done without them, and told while
//! the queue is locked, as ever. It is done for plain instances of the class only, and only as long as all of those functions are the ones whose code is known
//! here by its checksum; all else goes the function's own way, before anything is done.

use super::{
    here::{here, Here},
    originals,
    plain_queues::{self, is_unseen},
    queues::{self, Caller},
};
use crate::ffi::{
    calling,
    frame::Frame,
    function::{self, Function},
    guarded::Guarded,
    held::Held,
    interned::Interned,
    layout, method,
    shape::Shape,
    tstate,
    vectorcall::nargs,
    Aside,
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::{PyFunction, PyString, PyTuple, PyType},
};

static PUT: Function = Function::new();
static GET: Function = Function::new();

/// Attributes of a `queue.Queue`; those of a `threading.Condition` that is made of a lock.
const OF_QUEUE: [&str; 8] =
    ["maxsize", "queue", "mutex", "not_empty", "not_full", "all_tasks_done", "unfinished_tasks", "is_shutdown"];
#[cfg(not(Py_3_14))]
const OF_CONDITION: [&str; 4] = ["_waiters", "_lock", "acquire", "release"];
#[cfg(Py_3_14)]
const OF_CONDITION: [&str; 5] = ["_waiters", "_lock", "acquire", "release", "locked"];

/// The functions and the [`checksum`] of each in the releases of this minor version that are known.
const SUMS: [(&str, u32); 7] = if cfg!(Py_3_14) {
    [
        ("put", 0x6b32_22c2),
        ("get", 0x5745_1fe3),
        ("_qsize", 0x7645_2a17),
        ("__enter__", 0x5efa_adbd),
        ("__exit__", 0x4000_2d28),
        ("notify", 0x5b0a_79ad),
        ("_is_owned", 0x962e_642c),
    ]
} else {
    [
        ("put", 0x1a5a_c072),
        ("get", 0x93ed_a90f),
        ("_qsize", 0x1c8c_f111),
        ("__enter__", 0xfb21_91f0),
        ("__exit__", 0x1641_5a07),
        ("notify", 0x00e6_b062),
        ("_is_owned", 0xadc1_23c3),
    ]
};

/// How many of them are the queue's; the others are the condition's.
const QUEUES: usize = 3;

static KNOWN: Guarded<Option<Known>> = Guarded::new(None);

/// What the two functions are made of, as found when they were taken.
struct Known {
    queue: Shape<{ OF_QUEUE.len() }>,
    condition: Shape<{ OF_CONDITION.len() }>,
    /// What they call, and `_put` and `_get`: functions, and the code of each.
    called: [(*mut PyObject, *mut PyObject); SUMS.len()],
    /// The class of locks and that of the items, and the functions behind the methods of a lock.
    lock: *mut ffi::PyTypeObject,
    items: *mut ffi::PyTypeObject,
    acquire: method::Keywords,
    release: method::Plain,
    /// The argument of `acquire`: not to wait.
    at_once: *mut PyObject,
    /// What the above is borrowed from.
    _held: Vec<Py<PyAny>>,
}

// SAFETY: addresses of objects that it holds; it is looked at by attached threads only.
unsafe impl Send for Known {}

/// Takes the calls of both, if all is as known: `class` is `queue.Queue`, whose `_put` and `_get` are taken already.
///
/// # Errors
/// What the interpreter raises; nothing is taken then.
pub fn take(class: &Bound<'_, PyType>) -> PyResult<()> {
    let (py, own) = (class.py(), class.getattr("__dict__")?);
    let Some(known) = Known::learn(class)? else { return Ok(()) };
    let old = KNOWN.lock(py).replace(known);
    drop(old); // not under the lock
               // SAFETY: the wrappers keep to the contract, and do what the functions do or call on.
    let taken = unsafe { PUT.take(&own.get_item("put")?, put).and_then(|()| GET.take(&own.get_item("get")?, get)) };
    taken.inspect_err(|_| give_back(py))
}

/// Gives both back.
pub fn give_back(py: Python<'_>) {
    PUT.give_back(py, put);
    GET.give_back(py, get);
    let known = KNOWN.lock(py).take();
    drop(known); // not under the lock
}

/// A number by which what a function does is known: of its code without line numbers and texts, and of its defaults.
fn checksum(function: &Bound<'_, PyAny>) -> PyResult<u32> {
    let (py, code) = (function.py(), function.getattr("__code__")?);
    let mut parts = Vec::new();
    for name in ["co_code", "co_names", "co_varnames"] {
        parts.push(code.getattr(name)?);
    }
    let constants = code.getattr("co_consts")?.cast_into::<PyTuple>()?;
    let is_text = |constant: &Bound<'_, PyAny>| constant.is_instance_of::<PyString>();
    let numbers: Vec<_> = constants.iter().filter(|constant| !is_text(constant)).collect();
    parts.push(PyTuple::new(py, numbers)?.into_any());
    for name in ["argcount", "posonlyargcount", "kwonlyargcount", "flags", "freevars", "cellvars", "exceptiontable"] {
        parts.push(code.getattr(format!("co_{name}"))?);
    }
    parts.extend([function.getattr("__defaults__")?, function.getattr("__kwdefaults__")?]);
    Ok(crc32fast::hash(PyTuple::new(py, parts)?.repr()?.to_string_lossy().as_bytes()))
}

impl Known {
    /// `None` if something is not as known here.
    fn learn(class: &Bound<'_, PyType>) -> PyResult<Option<Known>> {
        let py = class.py();
        let condition = py.import("threading")?.getattr("Condition")?.cast_into::<PyType>()?;
        let lock = calling::call(&py.import("_thread")?.getattr("allocate_lock")?, ())?.get_type();
        let items = py.import("collections")?.getattr("deque")?.cast_into::<PyType>()?;
        let mut called = Vec::new();
        for (n, (name, sum)) in SUMS.into_iter().enumerate() {
            let owner = if n < QUEUES { class } else { &condition };
            let function = owner.getattr("__dict__")?.get_item(name)?;
            if !function.is_exact_instance_of::<PyFunction>() || checksum(&function)? != sum {
                return Ok(None);
            }
            called.push(function);
        }
        called.drain(..2); // the two that are taken know themselves whether they are the same
        for name in ["_put", "_get"] {
            let function = class.getattr("__dict__")?.get_item(name)?;
            if !plain_queues::is_taken(&function) {
                return Ok(None);
            }
            called.push(function);
        }
        let shapes = (Shape::learn(class, OF_QUEUE)?, Shape::learn(&condition, OF_CONDITION)?);
        let (Some(of_queue), Some(of_condition)) = shapes else { return Ok(None) };
        let own = lock.getattr("__dict__")?;
        let acquire = method::keywords(&own.get_item("acquire")?);
        let release = method::plain(&own.get_item("release")?, ffi::METH_NOARGS);
        // SAFETY: types; nobody can give them other methods.
        let fixed = |class: &Bound<'_, PyType>| unsafe {
            ffi::PyType_GetFlags(class.as_type_ptr()) & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0
        };
        let (Some(acquire), Some(release), true, true) = (acquire, release, fixed(&lock), fixed(&items)) else {
            return Ok(None);
        };
        let at_once = PyTuple::new(py, [false])?;
        let mut pairs = [(std::ptr::null_mut(), std::ptr::null_mut()); SUMS.len()];
        let mut held = Vec::new();
        for (function, pair) in called.into_iter().zip(&mut pairs) {
            let code = function.getattr("__code__")?;
            *pair = (function.as_ptr(), code.as_ptr());
            held.extend([function.unbind(), code.unbind()]);
        }
        let known = Known {
            queue: of_queue,
            condition: of_condition,
            called: pairs,
            lock: lock.as_type_ptr(),
            items: items.as_type_ptr(),
            acquire,
            release,
            at_once: at_once.as_ptr(),
            _held: held,
        };
        let types = [lock.into_any(), items.into_any(), condition.into_any(), at_once.into_any()];
        Ok(Some(known.holding(types.map(Bound::unbind))))
    }

    fn holding(mut self, more: [Py<PyAny>; 4]) -> Known {
        self._held.extend(more);
        self
    }

    /// Whether the functions that would be called are what they were, and nobody gets events of them.
    ///
    /// # Safety
    /// Attached.
    #[inline(always)]
    unsafe fn is_as_taken(&self) -> bool {
        // SAFETY: functions that are held, and codes.
        self.called
            .iter()
            .all(|(called, code)| unsafe { function::code(*called) == *code && !function::has_events(*code) })
    }

    /// Locks a queue, if `end` of it is all that is left to do.
    ///
    /// # Safety
    /// The queue stands; attached, without an exception.
    #[inline(always)]
    unsafe fn lock(&self, queue: *mut PyObject, end: End) -> Option<Locked> {
        // SAFETY: the caller's promise; what is borrowed from the queue stands until somebody else may run, and what is used later is held.
        unsafe {
            let [maxsize, items, _, not_empty, not_full, _, unfinished, is_shutdown] = self.queue.values(queue)?;
            let (woken, lock) = match end {
                End::Put => (not_empty, self.condition.values(not_full)?[1]),
                End::Get => (not_full, self.condition.values(not_empty)?[1]),
            };
            let condition = self.condition.values(woken)?;
            let waiters = condition[0];
            let is_plain = condition[1] == lock
                && ffi::Py_TYPE(lock) == self.lock
                && ffi::Py_TYPE(items) == self.items
                && ffi::Py_TYPE(waiters) == self.items
                && ffi::PyLong_CheckExact(maxsize) != 0
                && ffi::PyLong_CheckExact(unfinished) != 0
                && is_shutdown == ffi::Py_False();
            if !is_plain || ffi::Py_SIZE(waiters) != 0 || !self.is_as_taken() {
                return None;
            }
            let length = ffi::Py_SIZE(items) as i64;
            let is_there = match end {
                End::Put => layout::small_int(maxsize).is_some_and(|most| most <= 0 || length < most),
                End::Get => length > 0,
            };
            if !is_there {
                return None;
            }
            let locked = (self.acquire)(lock, self.at_once, std::ptr::null_mut());
            if locked != ffi::Py_True() {
                // another has it; both answers are immortal
                ffi::PyErr_Clear();
                return None;
            }
            let [items, woken, waiters, lock] = [items, woken, waiters, lock].map(|object| {
                ffi::Py_INCREF(object);
                Held::owned(object)
            });
            Some(Locked { items, woken, waiters, lock, release: self.release })
        }
    }
}

/// Where something is done to a queue.
#[derive(Clone, Copy)]
enum End {
    Put,
    Get,
}

/// A queue whose lock this thread has.
struct Locked {
    items: Held,
    /// The condition whose waiters are told of what is done.
    woken: Held,
    waiters: Held,
    lock: Held,
    release: method::Plain,
}

impl Locked {
    /// Wakes who has come to wait meanwhile, and unlocks: the end of both functions, which answer `done` unless something fails.
    ///
    /// # Safety
    /// `done` is a new reference, or null with an exception set; attached.
    #[inline(always)]
    unsafe fn unlock(self, mut done: *mut PyObject) -> *mut PyObject {
        // SAFETY: the caller's promise; the objects are held.
        unsafe {
            if !done.is_null() && ffi::Py_SIZE(self.waiters.as_ptr()) != 0 {
                done = self.wake(done);
            }
            if done.is_null() {
                let _failure = Aside::new();
                let opened = (self.release)(self.lock.as_ptr(), std::ptr::null_mut());
                if opened.is_null() {
                    ffi::PyErr_Clear();
                }
                return done;
            }
            if (self.release)(self.lock.as_ptr(), std::ptr::null_mut()).is_null() {
                ffi::Py_DECREF(done);
                return std::ptr::null_mut();
            }
            done
        }
    }

    /// # Safety
    /// As [`Locked::unlock`].
    #[cold]
    unsafe fn wake(&self, done: *mut PyObject) -> *mut PyObject {
        // SAFETY: attached, as the caller promises.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: the condition is held.
        let woken = unsafe { Bound::from_borrowed_ptr(py, self.woken.as_ptr()) };
        match calling::method(&woken, "notify", ()) {
            Ok(_) => done,
            Err(error) => {
                error.restore(py);
                // SAFETY: a new reference.
                unsafe { ffi::Py_DECREF(done) };
                std::ptr::null_mut()
            }
        }
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
        let is_bool = block.is_null() || block == ffi::Py_True() || block == ffi::Py_False();
        is_bool && (timeout.is_null() || is_no_negative(timeout))
    }
}

/// # Safety
/// An object that stands; attached.
unsafe fn is_no_negative(timeout: *mut PyObject) -> bool {
    // SAFETY: the caller's promise; the types are looked at.
    unsafe {
        if ffi::PyFloat_CheckExact(timeout) != 0 {
            return ffi::PyFloat_AS_DOUBLE(timeout) >= 0.0;
        }
        let is_int = ffi::PyLong_CheckExact(timeout) != 0;
        timeout == ffi::Py_None() || is_int && layout::small_int(timeout).is_some_and(|timeout| timeout >= 0)
    }
}

/// Who calls, and the queue, locked; `None` where the function has to go its own way.
///
/// # Safety
/// A function that is taken, and a queue that stands; attached, without an exception.
#[inline(always)]
unsafe fn locked<'a>(
    taken: &Function, this: *mut PyObject, queue: *mut PyObject, end: End,
) -> Option<(&'a mut Here, Caller, Locked)> {
    // SAFETY: the caller's promise.
    unsafe {
        let here = here().filter(|here| !here.thread.busy)?;
        let caller = Frame::current_python(tstate());
        if !is_unseen(here.host, taken, this, caller) {
            return None;
        }
        let locked = KNOWN.lock(Python::assume_attached()).as_ref()?.lock(queue, end)?;
        Some((here, Caller::Frame(originals::past(function::code(this), caller)), locked))
    }
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
        let Some((here, caller, locked)) = usual.then(|| locked(&PUT, this, *args, End::Put)).flatten() else {
            return PUT.original()(this, args, nargsf, names);
        };
        let (queue, item) = (*args, *args.add(1));
        queues::told_put(here, caller, queue, item);
        let mut done = plain_queues::append()(locked.items.as_ptr(), item);
        if !done.is_null() {
            done = count_one(queue, done);
        }
        locked.unlock(done)
    }
}

/// One more task is unfinished. Answers `done`, or null with an exception set.
///
/// # Safety
/// The queue stands, and `done` is immortal; attached, without an exception.
#[inline(always)]
unsafe fn count_one(queue: *mut PyObject, done: *mut PyObject) -> *mut PyObject {
    static UNFINISHED: Interned = Interned::new(c"unfinished_tasks");
    // SAFETY: the caller's promise; new references.
    unsafe {
        let (name, one) = (UNFINISHED.get(), Held::owned(ffi::PyLong_FromLong(1)));
        let before = Held::owned(ffi::PyObject_GetAttr(queue, name));
        if before.is_null() {
            return std::ptr::null_mut();
        }
        let after = Held::owned(ffi::PyNumber_Add(before.as_ptr(), one.as_ptr()));
        if after.is_null() || ffi::PyObject_SetAttr(queue, name, after.as_ptr()) < 0 {
            return std::ptr::null_mut();
        }
        done
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
        let Some((here, caller, locked)) = usual.then(|| locked(&GET, this, *args, End::Get)).flatten() else {
            return GET.original()(this, args, nargsf, names);
        };
        let item = plain_queues::popleft()(locked.items.as_ptr(), std::ptr::null_mut());
        if !item.is_null() {
            queues::told_get(here, caller, *args, item, false);
        }
        locked.unlock(item)
    }
}
