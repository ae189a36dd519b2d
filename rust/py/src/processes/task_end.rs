//! The end of a task's object, told by the finaliser of asyncio's own class: a third of what a weak reference costs.
//!
//! The finaliser is taken while sessions trace and there is a task of that class whose end is waited for, and given back with the
//! last of either. On a
//! free-threaded build another thread may let go of a task at any time, and only a weak reference can be asked for it; so it is
//! there for subclasses, which may have a finaliser of their own, and for an object that has been finalised once already.

use inviso_cpython::tasks::running as tasks;
use pyo3::{ffi, prelude::*};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

type Finalise = unsafe extern "C" fn(*mut ffi::PyObject);

/// The class's own finaliser, and how many tasks are waited for. Written while attached, and only where that is one thread at a
/// time: a load and a store are enough.
static ORIGINAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static AWAITED: AtomicUsize = AtomicUsize::new(0);

/// Whether any session traces.
static TRACED: AtomicBool = AtomicBool::new(false);

/// Whether any session traces from now on; where none does, who has been waited for here must be waited for in another way.
pub fn permit(traced: bool) {
    TRACED.store(traced, Ordering::Release);
}

fn slot(class: *mut ffi::PyTypeObject) -> &'static AtomicPtr<()> {
    // SAFETY: a slot of a class that lives as long as the process; it is read by the interpreter as one word, and written here
    // as one.
    unsafe { AtomicPtr::from_ptr((&raw mut (*class).tp_finalize).cast()) }
}

/// From now on the end of this object is told to the directory, by [`Directory::finalised`](super::directory::Directory::finalised);
/// `false` if it can't be.
///
/// # Safety
/// Attached; the object stands.
pub unsafe fn wait_for(task: *mut ffi::PyObject) -> bool {
    // SAFETY: attached; the caller's object.
    unsafe {
        if cfg!(Py_GIL_DISABLED) || !TRACED.load(Ordering::Acquire) {
            return false;
        }
        let Some(class) = tasks::task_type(Python::assume_attached()) else { return false };
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

/// One that was waited for has ended, or is not waited for any more.
pub fn done(py: Python<'_>) {
    let awaited = AWAITED.load(Ordering::Relaxed);
    AWAITED.store(awaited.saturating_sub(1), Ordering::Relaxed);
    if awaited == 1 {
        give_back(py);
    }
}

/// In a forked child: nobody waits.
pub fn forget(py: Python<'_>) {
    AWAITED.store(0, Ordering::Relaxed);
    TRACED.store(false, Ordering::Relaxed);
    give_back(py);
}

fn give_back(py: Python<'_>) {
    let (Some(class), original) = (tasks::task_type(py), ORIGINAL.load(Ordering::Acquire)) else { return };
    let ours = finalise as *mut ();
    let _not_ours = slot(class.as_ptr().cast()).compare_exchange(ours, original, Ordering::AcqRel, Ordering::Acquire);
}

/// In place of the finaliser of tasks. A subclass that was made meanwhile has it for ever.
///
/// # Safety
/// To be called by the interpreter only.
unsafe extern "C" fn finalise(task: *mut ffi::PyObject) {
    // SAFETY: a plain question; at its very end the interpreter lets nobody attach any more
    let ends = unsafe { ffi::Py_IsInitialized() } == 0;
    if let Some(host) = crate::host::try_host().filter(|_| !ends) {
        // SAFETY: the interpreter calls a finaliser attached.
        crate::entry::door::guard(|| {
            host.directory.finalised(unsafe { Python::assume_attached() }, host, task as usize)
        });
    }
    // SAFETY: stored before this was in place, and never unloaded.
    unsafe { std::mem::transmute::<*mut (), Finalise>(ORIGINAL.load(Ordering::Acquire))(task) }
}
