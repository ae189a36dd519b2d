//! An `asyncio.Queue`: one thread uses it, so there is no lock.

use super::{as_array, count_one, wake, End, Functions};
use crate::{
    ffi::{guarded::Guarded, held::Held, interned::Interned, layout, shape::Shape},
    host::{
        deques,
        here::Here,
        queues::{self, Caller},
    },
};
use pyo3::{
    ffi::{self, PyObject},
    prelude::*,
    types::PyType,
};

/// Attributes of an `asyncio.Queue`, and that of one at which somebody has waited once; those of an `asyncio.Event`, likewise.
const OF_QUEUE: &[&str] = &[
    "_maxsize",
    "_getters",
    "_putters",
    "_unfinished_tasks",
    "_finished",
    "_queue",
    #[cfg(Py_3_13)]
    "_is_shutdown",
    "_loop",
];
const OF_EVENT: &[&str] = &["_waiters", "_value", "_loop"];

/// The functions, those of the queue first, and the [`checksum`](super::checksum) of each in the releases of this minor version that are known.
const SUMS: [(&str, u32); 9] = if cfg!(Py_3_15) {
    [
        ("put_nowait", 0x2d33_08b1),
        ("get_nowait", 0xd160_43ed),
        ("full", 0x3711_5b99),
        ("empty", 0xac11_3677),
        ("qsize", 0xa6f1_8779),
        ("_put", 0xa0a5_8818),
        ("_get", 0x7b37_f23b),
        ("_wakeup_next", 0x586a_12a1),
        ("clear", 0xc72c_658f),
    ]
} else if cfg!(Py_3_14) {
    [
        ("put_nowait", 0xfae8_f89e),
        ("get_nowait", 0x8790_e564),
        ("full", 0xea9c_30b9),
        ("empty", 0xb2d4_8214),
        ("qsize", 0x29db_bd57),
        ("_put", 0xde8f_b293),
        ("_get", 0xfc1f_63cb),
        ("_wakeup_next", 0xf86c_d32c),
        ("clear", 0x6f43_d8c5),
    ]
} else if cfg!(Py_3_13) {
    [
        ("put_nowait", 0xb34b_d9e3),
        ("get_nowait", 0x04f9_5cd8),
        ("full", 0xbbc1_ac44),
        ("empty", 0xf98a_35b3),
        ("qsize", 0x3ffb_821d),
        ("_put", 0x2544_fe5a),
        ("_get", 0x1be6_e82c),
        ("_wakeup_next", 0x886e_8f87),
        ("clear", 0xe7a4_09d7),
    ]
} else if cfg!(Py_3_12) {
    [
        ("put_nowait", 0xa6c6_46d8),
        ("get_nowait", 0xcb3b_0078),
        ("full", 0x07eb_dfc9),
        ("empty", 0x2f96_d0ee),
        ("qsize", 0xe4e6_156e),
        ("_put", 0xb0f7_f1b7),
        ("_get", 0x72fa_f1cb),
        ("_wakeup_next", 0x7d2e_e009),
        ("clear", 0x95c9_837e),
    ]
} else {
    [
        ("put_nowait", 0x8f0c_1fca),
        ("get_nowait", 0x9eae_4c6f),
        ("full", 0x8eaf_665c),
        ("empty", 0x90c3_00d3),
        ("qsize", 0x3bc5_8e0f),
        ("_put", 0xd080_890c),
        ("_get", 0x7075_de84),
        ("_wakeup_next", 0x5fb6_ce1c),
        ("clear", 0x1b2d_f73c),
    ]
};

/// How many of them are the queue's; the other is the event's.
const QUEUES: usize = 8;

/// The coroutines which wait until there is room, or an item, and then call the first two.
#[cfg(not(Py_3_12))]
const COROUTINES: [(&str, u32); 2] = [("put", 0xe8fc_1b95), ("get", 0xc72f_c00d)];

static KNOWN: Guarded<Option<Known>> = Guarded::new(None);

/// Attributes that are set, made when the functions are taken.
static UNFINISHED: Interned = Interned::new(c"_unfinished_tasks");
static VALUE: Interned = Interned::new(c"_value");

/// What the two functions are made of.
struct Known {
    functions: Functions<{ SUMS.len() }>,
    #[cfg(not(Py_3_12))]
    coroutines: Option<Functions<{ COROUTINES.len() }>>,
    queue: Shapes<{ OF_QUEUE.len() - 1 }, { OF_QUEUE.len() }>,
    event: Shapes<{ OF_EVENT.len() - 1 }, { OF_EVENT.len() }>,
}

/// Finds what is needed; false if something is not as known here. `class` is `asyncio.Queue`.
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

/// `put_nowait`, which `caller` has called; `None` where it has to go its own way.
///
/// # Safety
/// The queue and the item stand; attached, without an exception.
#[inline(always)]
pub unsafe fn put(here: &mut Here, caller: Caller, queue: *mut PyObject, item: *mut PyObject) -> Option<*mut PyObject> {
    // SAFETY: the caller's promise; the items are a deque.
    unsafe {
        let ready = Ready::new(queue, End::Put)?;
        queues::told_put(here, caller, queue, item);
        let done = Held::owned(deques::append(ready.items.as_ptr(), item));
        let is_put = !done.is_null()
            && count_one(queue, &UNFINISHED)
            && (!ready.was_finished || ffi::PyObject_SetAttr(ready.event.as_ptr(), VALUE.get(), ffi::Py_False()) == 0);
        Some(if is_put && ready.wake(here, queue) { done.into_ptr() } else { std::ptr::null_mut() })
    }
}

/// `get_nowait`, likewise.
///
/// # Safety
/// As [`put`].
#[inline(always)]
pub unsafe fn get(here: &mut Here, caller: Caller, queue: *mut PyObject) -> Option<*mut PyObject> {
    // SAFETY: as above.
    unsafe {
        let ready = Ready::new(queue, End::Get)?;
        let item = Held::owned(deques::popleft(ready.items.as_ptr()));
        if item.is_null() {
            return Some(std::ptr::null_mut());
        }
        queues::told_get(here, caller, queue, item.as_ptr(), false);
        Some(if ready.wake(here, queue) { item.into_ptr() } else { std::ptr::null_mut() })
    }
}

/// The code of the coroutines `put` and `get`, which is held until [`forget`], if it is known here. Only on 3.11 their frames come here.
#[cfg(not(Py_3_12))]
pub fn coroutines(py: Python<'_>) -> Option<[*mut PyObject; 2]> {
    let known = KNOWN.lock(py);
    Some(known.as_ref()?.coroutines.as_ref()?.all.map(|(_, code)| code))
}

/// The shapes of instances of a class that have an attribute more once somebody has waited, the last one.
struct Shapes<const N: usize, const M: usize> {
    fresh: Shape<N>,
    used: Shape<M>,
}

impl<const N: usize, const M: usize> Shapes<N, M> {
    fn learn(class: &Bound<'_, PyType>, names: &[&'static str]) -> PyResult<Option<Shapes<N, M>>> {
        let shapes = (Shape::learn(class, as_array(names))?, Shape::learn(class, as_array(names))?);
        Ok(shapes.0.zip(shapes.1).map(|(fresh, used)| Shapes { fresh, used }))
    }

    /// The attributes that both have.
    ///
    /// # Safety
    /// As [`Shape::values`].
    #[inline(always)]
    unsafe fn values(&self, object: *mut PyObject) -> Option<[*mut PyObject; N]> {
        // SAFETY: the caller's promise.
        unsafe {
            let used = || self.used.values(object).map(|values| std::array::from_fn(|n| values[n]));
            self.fresh.values(object).or_else(used)
        }
    }
}

impl Known {
    fn learn(class: &Bound<'_, PyType>) -> PyResult<Option<Known>> {
        let py = class.py();
        let event = py.import("asyncio.locks")?.getattr("Event")?.cast_into::<PyType>()?;
        let Some(functions) = Functions::find(class, SUMS, &event, QUEUES)? else { return Ok(None) };
        let shapes = (Shapes::learn(class, OF_QUEUE)?, Shapes::learn(&event, OF_EVENT)?);
        // SAFETY: attached, without an exception.
        let is_ready = deques::learn(py)? && unsafe { !UNFINISHED.get().is_null() && !VALUE.get().is_null() };
        let (Some(queue), Some(event), true) = (shapes.0, shapes.1, is_ready) else { return Ok(None) };
        #[cfg(not(Py_3_12))]
        let coroutines = Functions::find(class, COROUTINES, class, COROUTINES.len())?;
        Ok(Some(Known {
            functions,
            #[cfg(not(Py_3_12))]
            coroutines,
            queue,
            event,
        }))
    }
}

/// A queue of which nothing more has to be asked.
struct Ready {
    items: Held,
    /// Who waits at the other end.
    waiters: Held,
    /// Whether no task was unfinished, and the event that says so.
    was_finished: bool,
    event: Held,
}

impl Ready {
    /// A queue where nothing has to be waited for at this end, and nobody waits at the other.
    ///
    /// # Safety
    /// The queue stands; attached, without an exception.
    #[inline(always)]
    unsafe fn new(queue: *mut PyObject, end: End) -> Option<Ready> {
        // SAFETY: the caller's promise; what is borrowed from the queue stands until somebody else may run, and what is used later is held.
        unsafe {
            let known = KNOWN.lock(Python::assume_attached());
            let known = known.as_ref()?;
            let values = known.queue.values(queue)?;
            let [maxsize, getters, putters, unfinished, event, items, ..] = values;
            let [_, is_finished] = known.event.values(event)?;
            let waiters = match end {
                End::Put => getters,
                End::Get => putters,
            };
            let is_plain = deques::is_one(items)
                && deques::is_one(waiters)
                && ffi::PyLong_CheckExact(maxsize) != 0
                && ffi::PyLong_CheckExact(unfinished) != 0
                && (cfg!(not(Py_3_13)) || values[values.len() - 1] == ffi::Py_False()); // `_is_shutdown`
            if !is_plain || ffi::Py_SIZE(waiters) != 0 || !known.functions.are_as_found() {
                return None;
            }
            let length = ffi::Py_SIZE(items) as i64;
            let is_there = match end {
                End::Put => layout::small_int(maxsize).is_some_and(|most| most <= 0 || length < most),
                End::Get => length > 0,
            };
            let [items, waiters, event] = [items, waiters, event].map(|object| Held::new(object));
            is_there.then(|| Ready { items, waiters, was_finished: is_finished != ffi::Py_False(), event })
        }
    }

    /// Wakes who has come to wait meanwhile; false with an exception set.
    ///
    /// # Safety
    /// The queue stands; attached, without an exception.
    #[inline(always)]
    unsafe fn wake(&self, here: &mut Here, queue: *mut PyObject) -> bool {
        // SAFETY: the caller's promise; the waiters are a deque.
        unsafe {
            ffi::Py_SIZE(self.waiters.as_ptr()) == 0 || wake(here, queue, "_wakeup_next", Some(self.waiters.as_ptr()))
        }
    }
}
