//! How long mailboxes and queues are, for who watches for long ones (`system/3`, long_message_queue).

use super::{directory, here::Here, senders::Length, Host};
use crate::ffi::attribute::Attribute;
use inviso_core::{monitor::Event, thread::Thread, tracee::Tracee};
use inviso_term::term::Term;
use pyo3::ffi::{self, PyObject};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether somebody watches from now on.
pub fn want(how: bool) {
    ON.store(how, Ordering::Release);
}

/// Whether somebody watches.
#[inline(always)]
pub fn are_wanted() -> bool {
    ON.load(Ordering::Relaxed)
}

/// How many items a queue of the standard library holds, by its own list of them; `None` where that is of another kind.
///
/// # Safety
/// The queue stands; attached.
pub unsafe fn length(queue: *mut PyObject) -> Option<u64> {
    // SAFETY: the caller's promise; plain attributes of the standard library's classes, and containers of exact built-in types.
    unsafe {
        static ITEMS: [Attribute; 2] = [Attribute::new(c"queue"), Attribute::new(c"_queue")];
        for named in &ITEMS {
            let items = named.of(queue);
            if items.is_null() {
                continue;
            }
            let sized = (*ffi::Py_TYPE(items)).tp_as_sequence;
            let known = ffi::PyList_CheckExact(items) != 0 || is_deque(items);
            let length = if known && !sized.is_null() { ffi::PySequence_Size(items) } else { -1 };
            ffi::Py_DECREF(items);
            return u64::try_from(length).ok();
        }
        None
    }
}

/// # Safety
/// The object stands; attached.
unsafe fn is_deque(object: *mut PyObject) -> bool {
    static CLASS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the object stands. The class that is kept is the library's own, in a module that is never unloaded.
    unsafe {
        let class = ffi::Py_TYPE(object);
        if CLASS.load(Ordering::Relaxed) == class {
            return true;
        }
        let mut buffer = [0; 256];
        let is = crate::capture::type_name(class, &mut buffer) == "collections.deque";
        if is && ffi::PyType_GetFlags(class) & ffi::Py_TPFLAGS_IMMUTABLETYPE != 0 {
            ffi::Py_INCREF(class.cast());
            CLASS.store(class, Ordering::Relaxed);
        }
        is
    }
}

/// A queue holds what `length` says, and `more` besides.
///
/// # Safety
/// As [`length`].
#[inline(always)]
pub unsafe fn of_queue(here: &mut Here, queue: *mut PyObject, number: u64, more: u64, length: Length) {
    if are_wanted() {
        // SAFETY: the caller's promise.
        if let Some(length) = unsafe { length(queue) } {
            if let Some(tracee) = here.host.node.tracee(number) {
                changed(here.host, &mut here.thread, &tracee, length + more);
            }
        }
    }
}

/// A mailbox or queue has become longer or shorter.
#[cold]
#[inline(never)]
pub fn changed(host: &Host, thread: &mut Thread, tracee: &Tracee, length: u64) {
    host.node.alarm(thread, tracee.pid, Event::LongMessageQueue, |session, enable| {
        // not longer: what is told may wait for room, and others come here meanwhile
        let mut long = directory::process(tracee).long_for.lock().unwrap_or_else(|e| e.into_inner());
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
