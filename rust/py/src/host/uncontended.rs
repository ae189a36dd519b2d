//! `put` and `get` of `queue.Queue` where nobody waits: done here, without their frames.
//!
//! With a place in the queue, or an item, and nobody asleep at the other end, the two methods and the seven that they call are a lock taken and
//! given back, a `deque` and a number. Where nobody would see their frames that is done here, and told while the queue is locked, as
//! ever. It is done for plain instances of the class only, and only as long as all of those functions are the ones whose code is
//! known here by its checksum; all else goes the function's own way, before anything is done.

#[cfg(Py_3_12)]
mod calls;
#[cfg(not(Py_3_12))]
mod frames;

#[cfg(Py_3_12)]
pub use calls::{give_back, take};
#[cfg(not(Py_3_12))]
pub use frames::{answer, give_back, take};

use super::{
    deques,
    here::Here,
    queues::{self, Caller},
};
use crate::ffi::{
    calling, code, guarded::Guarded, held::Held, interned::Interned, layout, method, shape::Shape, Aside,
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::{PyFunction, PyString, PyTuple, PyType},
};

/// Attributes of a `queue.Queue`; those of a `threading.Condition` that is made of a lock.
const OF_QUEUE: &[&str] = &[
    "maxsize",
    "queue",
    "mutex",
    "not_empty",
    "not_full",
    "all_tasks_done",
    "unfinished_tasks",
    #[cfg(Py_3_13)]
    "is_shutdown",
];
const OF_CONDITION: &[&str] = &[
    "_waiters",
    "_lock",
    "acquire",
    "release",
    #[cfg(Py_3_14)]
    "locked",
];

/// The functions, those of the queue first, and the [`checksum`] of each in the releases of this minor version that are known.
const SUMS: [(&str, u32); 9] = if cfg!(Py_3_14) {
    [
        ("put", 0x6b32_22c2),
        ("get", 0x5745_1fe3),
        ("_qsize", 0x7645_2a17),
        ("_put", 0x3c99_3aaf),
        ("_get", 0x2166_bcf1),
        ("__enter__", 0x5efa_adbd),
        ("__exit__", 0x4000_2d28),
        ("notify", 0x5b0a_79ad),
        ("_is_owned", 0x962e_642c),
    ]
} else if cfg!(Py_3_13) {
    [
        ("put", 0x1a5a_c072),
        ("get", 0x93ed_a90f),
        ("_qsize", 0x1c8c_f111),
        ("_put", 0xd3e3_3854),
        ("_get", 0xd74c_2615),
        ("__enter__", 0xfb21_91f0),
        ("__exit__", 0x1641_5a07),
        ("notify", 0x00e6_b062),
        ("_is_owned", 0xadc1_23c3),
    ]
} else if cfg!(Py_3_12) {
    [
        ("put", 0x3f05_24ed),
        ("get", 0x3755_cfaa),
        ("_qsize", 0x7337_3756),
        ("_put", 0xdfa6_579c),
        ("_get", 0xcd97_3f86),
        ("__enter__", 0xc526_fa32),
        ("__exit__", 0xe4bb_c421),
        ("notify", 0x5349_14d1),
        ("_is_owned", 0xfd57_877e),
    ]
} else {
    [
        ("put", 0x9577_0836),
        ("get", 0x7cef_9f8a),
        ("_qsize", 0xa92e_4805),
        ("_put", 0x1850_3903),
        ("_get", 0x2f2b_7a45),
        ("__enter__", 0x2347_291c),
        ("__exit__", 0x37b7_e533),
        ("notify", 0x623a_0f71),
        ("_is_owned", 0xda57_126f),
    ]
};

/// How many of them are the queue's; the others are the condition's.
const QUEUES: usize = 5;

static KNOWN: Guarded<Option<Known>> = Guarded::new(None);

/// What the two functions are made of, as found when they were taken.
struct Known {
    queue: Shape<{ OF_QUEUE.len() }>,
    condition: Shape<{ OF_CONDITION.len() }>,
    /// The functions, and the code of each.
    functions: [(*mut PyObject, *mut PyObject); SUMS.len()],
    /// The class of locks, and the functions behind its methods.
    lock: *mut ffi::PyTypeObject,
    acquire: method::Keywords,
    release: method::Plain,
    /// The argument of `acquire`: not to wait.
    at_once: *mut PyObject,
    /// What the above is borrowed from.
    _held: Vec<Py<PyAny>>,
}

// SAFETY: addresses of objects that it holds; it is looked at by attached threads only.
unsafe impl Send for Known {}

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
    /// `None` if something is not as known here: `class` is `queue.Queue`.
    fn learn(class: &Bound<'_, PyType>) -> PyResult<Option<Known>> {
        let py = class.py();
        let condition = py.import("threading")?.getattr("Condition")?.cast_into::<PyType>()?;
        let lock = calling::call(&py.import("_thread")?.getattr("allocate_lock")?, ())?.get_type();
        let mut functions = [(std::ptr::null_mut(), std::ptr::null_mut()); SUMS.len()];
        let mut held = Vec::new();
        for (n, (found, (name, sum))) in functions.iter_mut().zip(SUMS).enumerate() {
            let owner = if n < QUEUES { class } else { &condition };
            let function = owner.getattr("__dict__")?.get_item(name)?;
            if !function.is_exact_instance_of::<PyFunction>() || checksum(&function)? != sum {
                return Ok(None);
            }
            let code = function.getattr("__code__")?;
            *found = (function.as_ptr(), code.as_ptr());
            held.extend([function.unbind(), code.unbind()]);
        }
        let shapes = (Shape::learn(class, as_array(OF_QUEUE))?, Shape::learn(&condition, as_array(OF_CONDITION))?);
        let (Some(queue), Some(condition)) = shapes else { return Ok(None) };
        let methods = lock.getattr("__dict__")?;
        let acquire = method::keywords(&methods.get_item("acquire")?);
        let release = method::plain(&methods.get_item("release")?, ffi::METH_NOARGS);
        // SAFETY: a type; where it is immutable nobody can give it other methods.
        let is_fixed = unsafe { ffi::PyType_GetFlags(lock.as_type_ptr()) & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0 }
            && deques::learn(py)?;
        let (Some(acquire), Some(release), true) = (acquire, release, is_fixed) else { return Ok(None) };
        let (at_once, class) = (PyTuple::new(py, [false])?, lock.as_type_ptr());
        held.extend([lock.into_any().unbind(), at_once.clone().into_any().unbind()]);
        let at_once = at_once.as_ptr();
        Ok(Some(Known { queue, condition, functions, lock: class, acquire, release, at_once, _held: held }))
    }

    /// Whether the functions are what they were, and nobody gets events of them.
    ///
    /// # Safety
    /// Attached.
    #[inline(always)]
    unsafe fn is_as_found(&self) -> bool {
        // SAFETY: functions that are held, and their code.
        self.functions.iter().all(|(known, code)| unsafe { code::of_function(*known) == *code && !has_events(*code) })
    }

    /// Locks a queue, if nothing has to be waited for at this end of it and nobody waits at the other.
    ///
    /// # Safety
    /// The queue stands; attached, without an exception.
    #[inline(always)]
    unsafe fn lock(&self, queue: *mut PyObject, end: End) -> Option<Locked> {
        // SAFETY: the caller's promise; what is borrowed from the queue stands until somebody else may run, and what is used later is held.
        unsafe {
            let values = self.queue.values(queue)?;
            let [maxsize, items, _mutex, not_empty, not_full, _done, unfinished, ..] = values;
            let (waited, woken) = match end {
                End::Put => (not_full, not_empty),
                End::Get => (not_empty, not_full),
            };
            let [_, lock, ..] = self.condition.values(waited)?;
            let [waiters, same, ..] = self.condition.values(woken)?;
            let is_plain = same == lock
                && ffi::Py_TYPE(lock) == self.lock
                && deques::is_one(items)
                && deques::is_one(waiters)
                && ffi::PyLong_CheckExact(maxsize) != 0
                && ffi::PyLong_CheckExact(unfinished) != 0
                && (cfg!(not(Py_3_13)) || values[OF_QUEUE.len() - 1] == ffi::Py_False()); // `is_shutdown`
            if !is_plain || ffi::Py_SIZE(waiters) != 0 || !self.is_as_found() {
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
            let locked = Held::owned((self.acquire)(lock, self.at_once, std::ptr::null_mut()));
            if locked.as_ptr() != ffi::Py_True() {
                ffi::PyErr_Clear(); // another thread has it, or there was no memory to say so
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

/// Whether some tool gets events of single code objects (3.12 on).
///
/// # Safety
/// A code object; attached.
#[inline(always)]
unsafe fn has_events(code: *mut PyObject) -> bool {
    #[cfg(Py_3_12)]
    // SAFETY: the caller's promise.
    return unsafe { crate::ffi::function::has_events(code) };
    #[cfg(not(Py_3_12))]
    return code.is_null();
}

/// Names that are as many as there are.
fn as_array<const N: usize>(names: &[&'static str]) -> [&'static str; N] {
    std::array::from_fn(|n| names[n])
}

/// Locks a queue for this thread, if that is all that there is to `put` or `get`; `None` where the function has to go its own way.
///
/// # Safety
/// The queue stands; attached, without an exception.
#[inline(always)]
unsafe fn lock(queue: *mut PyObject, end: End) -> Option<Locked> {
    // SAFETY: the caller's promise.
    unsafe { KNOWN.lock(Python::assume_attached()).as_ref()?.lock(queue, end) }
}

/// Finds what is needed, if all is as known: `class` is `queue.Queue`.
fn learn(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let found = Known::learn(class)?;
    let is = found.is_some();
    let old = std::mem::replace(&mut *KNOWN.lock(class.py()), found);
    drop(old); // not under the lock
    Ok(is)
}

/// Lets it go.
fn forget(py: Python<'_>) {
    let known = KNOWN.lock(py).take();
    drop(known); // not under the lock
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

impl Locked {
    /// The rest of `put`, which `caller` has called.
    ///
    /// # Safety
    /// The lock is this queue's, and the queue and the item stand; attached, without an exception.
    #[inline(always)]
    unsafe fn put(self, here: &mut Here, caller: Caller, queue: *mut PyObject, item: *mut PyObject) -> *mut PyObject {
        queues::told_put(here, caller, queue, item);
        // SAFETY: the caller's promise; the items are a deque.
        unsafe {
            let mut done = deques::append(self.items.as_ptr(), item);
            if !done.is_null() && !count_one(queue) {
                ffi::Py_DECREF(done);
                done = std::ptr::null_mut();
            }
            self.unlock(done)
        }
    }

    /// The rest of `get`, likewise.
    ///
    /// # Safety
    /// As [`Locked::put`].
    #[inline(always)]
    unsafe fn get(self, here: &mut Here, caller: Caller, queue: *mut PyObject) -> *mut PyObject {
        // SAFETY: as above.
        unsafe {
            let item = deques::popleft(self.items.as_ptr());
            if !item.is_null() {
                queues::told_get(here, caller, queue, item, false);
            }
            self.unlock(item)
        }
    }
}

/// One more task is unfinished; false with an exception set.
///
/// # Safety
/// The queue stands; attached, without an exception.
#[inline(always)]
unsafe fn count_one(queue: *mut PyObject) -> bool {
    static UNFINISHED: Interned = Interned::new(c"unfinished_tasks");
    // SAFETY: the caller's promise; new references.
    unsafe {
        let (name, one) = (UNFINISHED.get(), Held::owned(ffi::PyLong_FromLong(1)));
        let before = Held::owned(ffi::PyObject_GetAttr(queue, name));
        if before.is_null() {
            return false;
        }
        let after = Held::owned(ffi::PyNumber_Add(before.as_ptr(), one.as_ptr()));
        !after.is_null() && ffi::PyObject_SetAttr(queue, name, after.as_ptr()) == 0
    }
}

/// Whether an object is one of the two.
///
/// # Safety
/// Attached.
#[inline(always)]
unsafe fn is_bool(block: *mut PyObject) -> bool {
    // SAFETY: both live as long as the interpreter.
    unsafe { block == ffi::Py_True() || block == ffi::Py_False() }
}

/// Whether a time-out is none, or a number that is nothing to be said against.
///
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
