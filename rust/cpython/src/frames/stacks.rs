//! The stacks of all threads, read raw while no other thread runs Python. Frame objects are safe for the calling thread
//! only: on 3.11 making one may start a collection, whose code lets other threads go on, and on a free-threaded build
//! other threads never stop.

use super::frame::Frame;
use pyo3::{
    ffi::{self as api, PyThreadState},
    Python,
};

/// Calls `each` with every Python frame of every thread, each thread's from the innermost on. `each` may take
/// references, and must not call the interpreter. The frames stand until `visit` returns. There are none where frames
/// can't be read ([`layout::raw_ok`](crate::layout::raw_ok)).
pub fn visit(py: Python<'_>, mut each: impl FnMut(Frame)) {
    // on a free-threaded build no frame object can be made while the other threads are stopped
    let by_objects = crate::layout::PUBLIC && cfg!(not(Py_GIL_DISABLED));
    if !by_objects && !crate::layout::raw_ok() {
        return;
    }
    stopped(py, || {
        // SAFETY: the thread is attached.
        let mut thread = unsafe { first() };
        while !thread.is_null() {
            // SAFETY: the list of threads is the interpreter's, and none ends or runs meanwhile; a frame that is on a
            // stack runs.
            unsafe {
                let mut frame = Frame::current_python(thread);
                while let Some(here) = frame {
                    each(here);
                    frame = here.caller();
                }
                thread = next(thread);
            }
        }
    });
}

/// Runs a function while no other thread runs Python: this thread holds the GIL and does not release it.
#[cfg(not(Py_GIL_DISABLED))]
fn stopped(_py: Python<'_>, run: impl FnOnce()) {
    run();
}

/// The same. The interpreter stops the other threads for a visit of its objects; the function runs at the first object.
#[cfg(Py_GIL_DISABLED)]
fn stopped<R: FnOnce()>(_py: Python<'_>, run: R) {
    use std::ffi::{c_int, c_void};

    extern "C" {
        /// Since 3.12.
        fn PyUnstable_GC_VisitObjects(
            visit: extern "C" fn(*mut api::PyObject, *mut c_void) -> c_int, with: *mut c_void,
        );
    }

    extern "C" fn once<R: FnOnce()>(_object: *mut api::PyObject, with: *mut c_void) -> c_int {
        // SAFETY: only the function below calls this, with its own variable.
        if let Some(run) = unsafe { (*with.cast::<Option<R>>()).take() } {
            run();
        }
        0
    }

    let mut run = Some(run);
    // SAFETY: the thread is attached; the variable stands meanwhile, and nothing else uses it.
    unsafe { PyUnstable_GC_VisitObjects(once::<R>, (&raw mut run).cast()) };
}

/// The first of the interpreter's threads.
///
/// # Safety
/// The calling thread is attached, and no thread ends meanwhile.
#[cfg(not(Py_GIL_DISABLED))]
unsafe fn first() -> *mut PyThreadState {
    extern "C" {
        fn PyInterpreterState_ThreadHead(interpreter: *mut api::PyInterpreterState) -> *mut PyThreadState;
    }
    // SAFETY: the interpreter is the calling thread's.
    unsafe { PyInterpreterState_ThreadHead(api::PyInterpreterState_Get()) }
}

/// The same, found from the calling thread. A list head that was read before the other threads stop may have ended
/// since.
///
/// # Safety
/// As on a build with a GIL.
#[cfg(Py_GIL_DISABLED)]
unsafe fn first() -> *mut PyThreadState {
    // SAFETY: a thread's state begins with pointers to the one before and the one after.
    unsafe {
        let mut thread = crate::interpreter::tstate();
        loop {
            let before: *mut PyThreadState = crate::layout::at(thread.cast(), 0);
            if before.is_null() {
                return thread;
            }
            thread = before;
        }
    }
}

/// The thread after this one.
///
/// # Safety
/// `thread` is one of the interpreter's, and none ends meanwhile.
#[cfg(not(Py_GIL_DISABLED))]
unsafe fn next(thread: *mut PyThreadState) -> *mut PyThreadState {
    extern "C" {
        fn PyThreadState_Next(thread: *mut PyThreadState) -> *mut PyThreadState;
    }
    // SAFETY: the caller promises that `thread` is one of the interpreter's, and none ends meanwhile.
    unsafe { PyThreadState_Next(thread) }
}

/// The same: a visit of objects already holds the lock that `PyThreadState_Next` takes.
///
/// # Safety
/// `thread` is one of the interpreter's, and none ends meanwhile.
#[cfg(Py_GIL_DISABLED)]
unsafe fn next(thread: *mut PyThreadState) -> *mut PyThreadState {
    // SAFETY: a thread's state begins with pointers to the one before and the one after.
    unsafe { crate::layout::at(thread.cast(), size_of::<usize>()) }
}
