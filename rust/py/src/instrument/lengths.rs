//! Lengths of mailboxes and queues, for sessions that watch for long ones (`system/3`, long_message_queue).
//!
//! # Roles
//! `instruments` sets `ON`. Any attached thread reads it and the class.
//!
//! # States
//! `ON` is true while a session watches. `CLASS` is null, or `collections.deque`, which is then held for ever.
//!
//! # Orderings
//! Both are relaxed for readers: `ON` is a hint, and `CLASS` is a type that existed before the thread met it.
//!
//! # Checked by
//! `tests/python/test_system.py`.

use super::{queue_classes, senders::Length};
use crate::state::{host::Host, process, thread::ThreadState};
use inviso_core::host::{monitor::LimitEvent, sync::Unpoisoned, thread::Thread, tracee::Tracee};
use inviso_cpython::{capture, object::attribute::Attribute};
use inviso_term::term::Term;
use pyo3::ffi::{self, PyObject};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// Sets whether a session watches.
pub fn want(how: bool) {
    ON.store(how, Ordering::Release);
}

/// Whether a session watches.
#[inline(always)]
pub fn are_wanted() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The number of items of a queue of the standard library, by its own list of them; `None` if it has no list or deque.
///
/// # Safety
/// The queue stands; attached.
pub unsafe fn length(queue: *mut PyObject) -> Option<u64> {
    // SAFETY: the queue stands; attached. A type is checked before its own functions are used.
    unsafe { of_items(queue, |items| (ffi::PyList_Check(items) != 0 || is_deque(items)).then(|| ffi::Py_SIZE(items))) }
}

/// The same for a class that may keep its items in a set or a dict.
///
/// # Safety
/// As [`length`].
pub unsafe fn size(queue: *mut PyObject) -> Option<u64> {
    // SAFETY: the caller promises that the queue stands and the thread is attached. A type is checked before its own
    // functions are used.
    unsafe {
        length(queue).or_else(|| {
            of_items(queue, |items| match ffi::PyDict_Check(items) {
                0 => (ffi::PyAnySet_Check(items) != 0).then(|| ffi::PySet_Size(items)),
                _ => Some(ffi::PyDict_Size(items)),
            })
        })
    }
}

/// The length of a queue's items, without any code of their class. The items are of a built-in type or of a subclass.
///
/// # Safety
/// As [`length`].
unsafe fn of_items(queue: *mut PyObject, length: impl FnOnce(*mut PyObject) -> Option<ffi::Py_ssize_t>) -> Option<u64> {
    static ITEMS: [(&str, Attribute); 2] = [("queue", Attribute::new(c"queue")), ("_queue", Attribute::new(c"_queue"))];
    // SAFETY: the queue stands; attached. These are plain attributes, whose values are held.
    unsafe {
        let class = ffi::Py_TYPE(queue);
        let own = !queue_classes::is_of_library(class);
        // does not run a property of the program
        let plain = |name: &str| !own || capture::attribute_of_class(class, name).is_null();
        let mut items = ITEMS.iter().filter(|(name, _)| plain(name)).map(|(_, named)| named.of(queue));
        let items = items.find(|items| !items.is_null())?;
        let length = length(items);
        ffi::Py_DECREF(items);
        u64::try_from(length?).ok()
    }
}

/// # Safety
/// The object stands; attached.
unsafe fn is_deque(object: *mut PyObject) -> bool {
    static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the object stands, and the order of a ready type is a tuple of types. The stored class is the library's
    // own, in a module that is never unloaded.
    unsafe {
        let (class, known) = (ffi::Py_TYPE(object), CLASS.load(Ordering::Relaxed));
        if !known.is_null() {
            return class == known || ffi::PyType_IsSubtype(class, known) != 0;
        }
        let order = (*class).tp_mro;
        let mut buffer = [0; 256];
        let found = (0..if order.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(order) })
            .map(|n| ffi::PyTuple_GET_ITEM(order, n).cast::<ffi::PyTypeObject>())
            .find(|class| {
                capture::type_name(*class, &mut buffer) == "collections.deque"
                    && ffi::PyType_GetFlags(*class) & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0
            });
        if let Some(class) = found {
            ffi::Py_INCREF(class.cast());
            CLASS.store(class, Ordering::Relaxed);
        }
        found.is_some()
    }
}

/// Checks a queue that holds `length` items and `more` besides.
///
/// # Safety
/// As [`length`].
#[inline(always)]
pub unsafe fn of_queue(state: &mut ThreadState, queue: *mut PyObject, number: u64, more: u64, length: Length) {
    if are_wanted() {
        // SAFETY: the queue stands; attached.
        if let Some(length) = unsafe { length(queue) } {
            if let Some(tracee) = state.host.node.tracee(number) {
                changed(state.host, &mut state.thread, &tracee, length + more);
            }
        }
    }
}

/// Checks a mailbox or queue that has become longer or shorter.
#[cold]
#[inline(never)]
pub fn changed(host: &Host, thread: &mut Thread, tracee: &Tracee, length: u64) {
    host.node.alarm(thread, tracee.pid, LimitEvent::LongMessageQueue, |session, enable| {
        // not locked longer: emitting may wait for room, and other threads come here meanwhile
        let mut long = process::process(tracee).long_for.lock().unpoisoned();
        let known = long.iter().position(|id| *id == session.id);
        match known {
            None if length >= enable => {
                long.push(session.id);
                Some(Term::atom("true"))
            }
            Some(at) if length <= session.short_queue() => {
                long.swap_remove(at);
                Some(Term::atom("false"))
            }
            _ => None,
        }
    });
}
