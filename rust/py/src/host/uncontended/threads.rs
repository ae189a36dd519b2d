//! A `queue.Queue`: its lock is taken and given back.

use super::{as_array, count_one, wake, End, Functions};
use crate::{
    ffi::{calling, guarded::Guarded, held::Held, interned::Interned, layout, method, shape::Shape, Aside},
    host::{
        deques,
        here::Here,
        queues::{self, Caller},
    },
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::{PyTuple, PyType},
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

/// The functions, those of the queue first, and the [`checksum`](super::checksum) of each in the releases of this minor version that are known.
const SUMS: [(&str, u32); 9] = if cfg!(Py_3_15) {
    [
        ("put", 0xe4cb_406c),
        ("get", 0xa80b_873a),
        ("_qsize", 0x0d38_c0c5),
        ("_put", 0xa7df_0ca2),
        ("_get", 0x0154_9e60),
        ("__enter__", 0xe3c0_7730),
        ("__exit__", 0xf4f1_a499),
        ("notify", 0x7630_7db8),
        ("_is_owned", 0x7a23_aff3),
    ]
} else if cfg!(Py_3_14) {
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

/// An attribute that is set, made when the functions are taken.
static UNFINISHED: Interned = Interned::new(c"unfinished_tasks");

/// What the two functions are made of.
struct Known {
    functions: Functions<{ SUMS.len() }>,
    queue: Shape<{ OF_QUEUE.len() }>,
    condition: Shape<{ OF_CONDITION.len() }>,
    /// The class of locks, and the functions behind its methods.
    lock: Py<PyType>,
    acquire: method::Named,
    release: method::Plain,
    /// The argument of `acquire`: not to wait.
    at_once: Py<PyTuple>,
}

/// Finds what is needed; false if something is not as known here. `class` is `queue.Queue`.
///
/// # Errors
/// What the interpreter raises.
pub fn learn(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let found = Known::learn(class)?;
    let is = found.is_some();
    let old = std::mem::replace(&mut *KNOWN.lock(class.py()), found);
    drop(old); // not under the lock
    Ok(is)
}

/// Lets it go.
pub fn forget(py: Python<'_>) {
    let known = KNOWN.lock(py).take();
    drop(known); // not under the lock
}

/// `put`, which `caller` has called; `None` where it has to go its own way.
///
/// # Safety
/// The queue and the item stand; attached, without an exception.
#[inline(always)]
pub unsafe fn put(here: &mut Here, caller: Caller, queue: *mut PyObject, item: *mut PyObject) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise; the items are a deque.
    unsafe {
        let locked = Locked::new(queue, End::Put)?;
        queues::told_put(here, caller, queue, item);
        let mut done = deques::append(locked.items.as_ptr(), item);
        if !done.is_null() && !count_one(queue, &UNFINISHED) {
            ffi::Py_DECREF(done);
            done = std::ptr::null_mut();
        }
        Some(locked.unlock(here, done))
    }
}

/// `get`, likewise.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub unsafe fn get(here: &mut Here, caller: Caller, queue: *mut PyObject) -> Option<*mut PyObject> {
    // SAFETY: as above.
    unsafe {
        let locked = Locked::new(queue, End::Get)?;
        let item = deques::popleft(locked.items.as_ptr());
        if !item.is_null() {
            queues::told_get(here, caller, queue, item, false);
        }
        Some(locked.unlock(here, item))
    }
}

impl Known {
    fn learn(class: &Bound<'_, PyType>) -> PyResult<Option<Known>> {
        let py = class.py();
        let condition = py.import("threading")?.getattr("Condition")?.cast_into::<PyType>()?;
        let Some(functions) = Functions::find(class, SUMS, &condition, QUEUES)? else { return Ok(None) };
        let shapes = (Shape::learn(class, as_array(OF_QUEUE))?, Shape::learn(&condition, as_array(OF_CONDITION))?);
        let (Some(queue), Some(condition)) = shapes else { return Ok(None) };
        let lock = calling::call(&py.import("_thread")?.getattr("allocate_lock")?, ())?.get_type();
        let methods = lock.getattr("__dict__")?;
        let acquire = method::Named::find(&methods.get_item("acquire")?);
        let release = method::plain(&methods.get_item("release")?, ffi::METH_NOARGS);
        // SAFETY: a type; where it is immutable nobody can give it other methods.
        let is_fixed = unsafe { ffi::PyType_GetFlags(lock.as_type_ptr()) & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0 };
        // SAFETY: attached, without an exception.
        let is_ready = is_fixed && deques::learn(py)? && unsafe { !UNFINISHED.get().is_null() };
        let (Some(acquire), Some(release), true) = (acquire, release, is_ready) else {
            return Ok(None);
        };
        let (lock, at_once) = (lock.unbind(), PyTuple::new(py, [false])?.unbind());
        Ok(Some(Known { functions, queue, condition, lock, acquire, release, at_once }))
    }
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
    /// Locks a queue, if nothing has to be waited for at this end of it and nobody waits at the other.
    ///
    /// # Safety
    /// The queue stands; attached, without an exception.
    #[inline(always)]
    unsafe fn new(queue: *mut PyObject, end: End) -> Option<Locked> {
        // SAFETY: the caller's promise; what is borrowed from the queue stands until somebody else may run, and what is used later is held.
        unsafe {
            let known = KNOWN.lock(Python::assume_attached());
            let known = known.as_ref()?;
            let values = known.queue.values(queue)?;
            let [maxsize, items, _mutex, not_empty, not_full, _done, unfinished, ..] = values;
            let (waited, woken) = match end {
                End::Put => (not_full, not_empty),
                End::Get => (not_empty, not_full),
            };
            let [_, lock, ..] = known.condition.values(waited)?;
            let [waiters, same, ..] = known.condition.values(woken)?;
            let is_plain = same == lock
                && ffi::Py_TYPE(lock).cast() == known.lock.as_ptr()
                && deques::is_one(items)
                && deques::is_one(waiters)
                && ffi::PyLong_CheckExact(maxsize) != 0
                && ffi::PyLong_CheckExact(unfinished) != 0
                && (cfg!(not(Py_3_13)) || values[OF_QUEUE.len() - 1] == ffi::Py_False()); // `is_shutdown`
            if !is_plain || ffi::Py_SIZE(waiters) != 0 || !known.functions.are_as_found() {
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
            let locked = Held::owned(known.acquire.call(lock, known.at_once.as_ptr()));
            if locked.as_ptr() != ffi::Py_True() {
                ffi::PyErr_Clear(); // another thread has it, or there was no memory to say so
                return None;
            }
            let [items, woken, waiters, lock] = [items, woken, waiters, lock].map(|object| Held::new(object));
            Some(Locked { items, woken, waiters, lock, release: known.release })
        }
    }

    /// Wakes who has come to wait meanwhile, and unlocks: the end of both functions, which answer `done` unless something fails.
    ///
    /// # Safety
    /// `done` is a new reference, or null with an exception set; attached.
    #[inline(always)]
    unsafe fn unlock(self, here: &mut Here, mut done: *mut PyObject) -> *mut PyObject {
        // SAFETY: the caller's promise; the objects are held.
        unsafe {
            let is_awaited = !done.is_null() && ffi::Py_SIZE(self.waiters.as_ptr()) != 0;
            if is_awaited && !wake(here, self.woken.as_ptr(), "notify", None) {
                ffi::Py_DECREF(done);
                done = std::ptr::null_mut();
            }
            if done.is_null() {
                let _failure = Aside::new();
                if (self.release)(self.lock.as_ptr(), std::ptr::null_mut()).is_null() {
                    ffi::PyErr_Clear();
                }
                return done;
            }
            let opened = Held::owned((self.release)(self.lock.as_ptr(), std::ptr::null_mut()));
            if opened.is_null() {
                ffi::Py_DECREF(done);
                return std::ptr::null_mut();
            }
            done
        }
    }
}

/// Whether an object is one of the two.
///
/// # Safety
/// Attached.
#[inline(always)]
pub unsafe fn is_bool(block: *mut PyObject) -> bool {
    // SAFETY: both live as long as the interpreter.
    unsafe { block == ffi::Py_True() || block == ffi::Py_False() }
}

/// Whether a time-out is none, or a number that is nothing to be said against.
///
/// # Safety
/// An object that stands; attached.
pub unsafe fn is_no_negative(timeout: *mut PyObject) -> bool {
    // SAFETY: the caller's promise; the types are looked at.
    unsafe {
        if ffi::PyFloat_CheckExact(timeout) != 0 {
            return ffi::PyFloat_AS_DOUBLE(timeout) >= 0.0;
        }
        let is_int = ffi::PyLong_CheckExact(timeout) != 0;
        timeout == ffi::Py_None() || is_int && layout::small_int(timeout).is_some_and(|timeout| timeout >= 0)
    }
}
