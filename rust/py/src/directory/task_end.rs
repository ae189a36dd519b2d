//! The end of a task's object, seen by the finaliser of asyncio's own class: it costs a third of a weak reference.
//!
//! The finaliser is replaced while sessions trace and the end of some task of that class is awaited. It is given back
//! with the last of either. On a free-threaded build another thread may release a task at any time, and only a weak
//! reference can return it. So weak references serve there, and for subclasses (which may have a finaliser of their
//! own), and for an object that was finalised before.
//!
//! # Roles
//! Attached threads with the GIL await ends and finalise tasks.
//!
//! # States
//! `AWAITED` counts the awaited tasks. The class has our finaliser while it is above 0. `ORIGINAL` is null, or the
//! class's own finaliser.
//!
//! # Orderings
//! The GIL orders all writers. `ORIGINAL` is stored `Release` before the class gets ours: the finaliser always finds
//! it.
//!
//! # Checked by
//! `tests/python/test_trace_processes.py`, `tests/python/test_exit.py`.

use inviso_cpython::tasks::running as tasks;
use pyo3::{ffi, prelude::*};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

type Finalise = unsafe extern "C" fn(*mut ffi::PyObject);

/// The class's own finaliser, and the number of awaited tasks. They are written attached, and only where one thread at
/// a time is: a load and a store are enough.
static ORIGINAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static AWAITED: AtomicUsize = AtomicUsize::new(0);

/// Whether any session traces.
static TRACED: AtomicBool = AtomicBool::new(false);

/// Sets whether any session traces. If none does, awaited ends must be found in another way.
pub fn permit(traced: bool) {
    TRACED.store(traced, Ordering::Release);
}

fn slot(class: *mut ffi::PyTypeObject) -> &'static AtomicPtr<()> {
    // SAFETY: a slot of a class that lives as long as the process. The interpreter reads it as one word, and this
    // module writes it as one.
    unsafe { AtomicPtr::from_ptr((&raw mut (*class).tp_finalize).cast()) }
}

/// Reports the end of this object to the directory, by
/// [`Directory::finalised`](crate::state::directory::Directory::finalised); `false` if it can't.
///
/// # Safety
/// The thread is attached; the object stands.
pub unsafe fn wait_for(task: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller promises that the thread is attached and the object stands.
    unsafe {
        if cfg!(Py_GIL_DISABLED) || !TRACED.load(Ordering::Acquire) {
            return false;
        }
        let Some(class) = tasks::known_task_type(Python::assume_attached()) else { return false };
        let class = class.as_ptr().cast();
        if ffi::Py_TYPE(task) != class || ffi::PyObject_GC_IsFinalized(task) != 0 {
            return false;
        }
        let awaited = AWAITED.load(Ordering::Relaxed);
        if awaited == 0 {
            let original = slot(class).load(Ordering::Acquire);
            if original.is_null() {
                return false;
            }
            if !std::ptr::eq(original, finalise as *const ()) {
                ORIGINAL.store(original, Ordering::Release);
                slot(class).store(finalise as *mut (), Ordering::Release);
            }
        }
        AWAITED.store(awaited + 1, Ordering::Relaxed);
    }
    true
}

/// An awaited task has ended, or is awaited no longer.
pub fn done(py: Python<'_>) {
    let awaited = AWAITED.load(Ordering::Relaxed);
    AWAITED.store(awaited.saturating_sub(1), Ordering::Relaxed);
    if awaited == 1 {
        give_back(py);
    }
}

/// In a forked child: awaits no task.
pub fn forget(py: Python<'_>) {
    AWAITED.store(0, Ordering::Relaxed);
    TRACED.store(false, Ordering::Relaxed);
    give_back(py);
}

fn give_back(py: Python<'_>) {
    let (Some(class), original) = (tasks::known_task_type(py), ORIGINAL.load(Ordering::Acquire)) else { return };
    let ours = finalise as *mut ();
    let _not_ours = slot(class.as_ptr().cast()).compare_exchange(ours, original, Ordering::AcqRel, Ordering::Acquire);
}

/// In place of the finaliser of tasks. A subclass that is made meanwhile has it for ever.
///
/// # Safety
/// Only the interpreter calls it.
unsafe extern "C" fn finalise(task: *mut ffi::PyObject) {
    // SAFETY: a plain question; at its very end the interpreter lets no thread attach
    let ends = unsafe { ffi::Py_IsInitialized() } == 0;
    if let Some(host) = crate::state::host::try_host().filter(|_| !ends) {
        crate::door::guard(|| {
            // SAFETY: the interpreter calls a finaliser attached.
            let py = unsafe { Python::assume_attached() };
            host.directory.finalised(py, host, task as usize)
        });
    }
    // SAFETY: stored before this was in place, and never unloaded.
    unsafe { std::mem::transmute::<*mut (), Finalise>(ORIGINAL.load(Ordering::Acquire))(task) }
}
