//! The asyncio task that runs on this thread now.
//!
//! A thread's task can't change unless its context is entered or left, and the interpreter counts these changes
//! (`context_ver` in the thread state). So a caller keeps a [`Cache`] a thread: as long as the count is the same, so is
//! the task. From 3.14 on the thread state also holds the running task itself, and the cache compares both.
//!
//! | version | after a change of the count |
//! | --- | --- |
//! | 3.14 on | the thread state's running task, one load |
//! | 3.11 to 3.13 | the running loop, read or requested, and its entry in `_asyncio._current_tasks` |
//!
//! asyncio is never imported here: until the program has imported it, there are no tasks. Tasks written in Python (not
//! asyncio's own C class) are not seen by 3.14 on; before that, a change of them may be noticed with a delay.
//!
//! # Roles
//! Any attached thread reads its own task.
//!
//! # States
//! A found object is null, then stays for ever. `PLACE` is unknown, then checked or elsewhere; a fork makes it unknown
//! again.
//!
//! # Orderings
//! Objects are stored `Release` and loaded `Acquire`. `PLACE` is `Relaxed`: threads that check together come to the
//! same result.
//!
//! # Checked by
//! `tests/python/test_scheduling.py`, `tests/python/test_trace_processes.py`.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject, PyThreadState};
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::interpreter::Aside;
use crate::layout::{self, at as read, thread};
use crate::object::{held::dict_get, interned::Interned};

/// A thread's record of its last look; starts as [`Cache::new`].
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    version: u64,
    task: *mut PyObject,
}

/// The result of [`current_task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// The same as at the last look with this cache.
    Same,
    /// The task, borrowed, or null for none. It may be the one of the last look after all, or another one at its
    /// address: a freed task gives its address to the next.
    Changed(*mut PyObject),
}

impl Cache {
    /// An empty cache: the first result is `Changed`.
    pub const fn new() -> Cache {
        Cache { version: u64::MAX, task: ptr::null_mut() }
    }
}

impl Default for Cache {
    fn default() -> Cache {
        Cache::new()
    }
}

/// The task that `tstate` runs. Leaves no exception, and keeps one that is set. Runs no Python code.
///
/// Without the raw reads ([`layout::raw_ok`]) each look calls asyncio, some 30 ns.
///
/// # Safety
/// `tstate` is the calling thread's, attached, and `cache` is only used with it.
#[inline]
pub unsafe fn current_task(tstate: *mut PyThreadState, cache: &mut Cache) -> Running {
    if !layout::raw_ok() {
        // SAFETY: the thread is attached.
        let task = unsafe { ask() };
        return cache.remember(cache.version.wrapping_add(1), task);
    }
    // SAFETY: the offsets are checked, and the words lie inside the thread state.
    unsafe {
        let version: u64 = read(tstate.cast(), thread::CONTEXT_VERSION);
        #[cfg(Py_3_14)]
        {
            let task: *mut PyObject = read(tstate.cast(), thread::RUNNING_TASK);
            if version == cache.version && task == cache.task {
                return Running::Same;
            }
            let task = if task.is_null() { task } else { running::trusted(tstate, task) };
            cache.remember(version, task)
        }
        #[cfg(not(Py_3_14))]
        {
            if version == cache.version {
                return Running::Same;
            }
            let task = ask();
            cache.remember(version, task)
        }
    }
}

impl Cache {
    #[inline]
    fn remember(&mut self, version: u64, task: *mut PyObject) -> Running {
        self.version = version;
        self.task = task;
        Running::Changed(task)
    }
}

/// A function of `_asyncio`, or another object in it, found once and kept.
struct Found {
    name: &'static std::ffi::CStr,
    object: AtomicPtr<PyObject>,
}

static MODULE_NAME: Interned = Interned::new(c"_asyncio");
static RUNNING_LOOP: Found = Found::new(c"_get_running_loop");
#[cfg(Py_3_14)]
static CURRENT_TASK: Found = Found::new(c"current_task");
#[cfg(not(Py_3_14))]
static CURRENT_TASKS: Found = Found::new(c"_current_tasks");

impl Found {
    const fn new(name: &'static std::ffi::CStr) -> Found {
        Found { name, object: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The object; null as long as the program has not imported `_asyncio`.
    ///
    /// # Safety
    /// The calling thread is attached, and no exception is set.
    #[inline]
    unsafe fn get(&self) -> *mut PyObject {
        let known = self.object.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the caller promises that the calling thread is attached, and no exception is set.
        unsafe { self.look() }
    }

    /// # Safety
    /// As [`Self::get`].
    #[cold]
    unsafe fn look(&self) -> *mut PyObject {
        // SAFETY: the thread is attached. Exact dicts only, so no code of the program runs. The stored reference is
        // never given back.
        unsafe {
            let name = MODULE_NAME.get();
            let modules = ffi::PyImport_GetModuleDict();
            if name.is_null() || modules.is_null() || ffi::PyDict_CheckExact(modules) == 0 {
                ffi::PyErr_Clear();
                return ptr::null_mut();
            }
            let module = dict_get(modules, name);
            if module.is_null() || ffi::PyModule_Check(module.as_ptr()) == 0 {
                return ptr::null_mut();
            }
            let attribute = ffi::PyUnicode_InternFromString(self.name.as_ptr());
            let object = dict_get(ffi::PyModule_GetDict(module.as_ptr()), attribute);
            ffi::Py_XDECREF(attribute);
            let object = object.as_ptr();
            if object.is_null() {
                ffi::PyErr_Clear();
            } else {
                ffi::Py_INCREF(object);
                if self.object.compare_exchange(ptr::null_mut(), object, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    ffi::Py_DECREF(object);
                }
            }
            object
        }
    }
}

/// Calls asyncio's C functions for the task of this thread's running loop: borrowed (the loop keeps it), or null.
///
/// # Safety
/// The calling thread is attached.
#[cold]
#[inline(never)]
unsafe fn ask() -> *mut PyObject {
    // SAFETY: the thread is attached. An exception that is set is put aside and restored.
    unsafe {
        let exception = Aside::new();
        let task = ask_loop();
        drop(exception);
        task
    }
}

/// # Safety
/// The calling thread is attached and has no exception set.
unsafe fn ask_loop() -> *mut PyObject {
    // SAFETY: the functions are asyncio's C ones; each result is checked, and each exception cleared.
    unsafe {
        let running_loop = RUNNING_LOOP.get();
        if running_loop.is_null() {
            return ptr::null_mut();
        }
        #[cfg(not(Py_3_14))]
        if !layout::PUBLIC {
            if let Some(running) = place::running_loop(running_loop) {
                return if running.is_null() { running } else { task_of(running) };
            }
        }
        let running = ffi::PyObject_CallNoArgs(running_loop);
        if running.is_null() {
            ffi::PyErr_Clear();
            return running;
        }
        let task = if running == ffi::Py_None() { ptr::null_mut() } else { task_of(running) };
        ffi::Py_DECREF(running);
        task
    }
}

/// Whether this event loop, or any one if it is null, runs on this thread.
///
/// # Safety
/// The thread is attached and has no exception set.
pub unsafe fn runs_here(event_loop: *mut PyObject) -> bool {
    // SAFETY: the function is asyncio's C one; its result is checked.
    unsafe {
        let running_loop = RUNNING_LOOP.get();
        if running_loop.is_null() {
            return false;
        }
        let running = ffi::PyObject_CallNoArgs(running_loop);
        if running.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let right = if event_loop.is_null() { running != ffi::Py_None() } else { running == event_loop };
        ffi::Py_DECREF(running);
        right
    }
}

/// # Safety
/// The thread is attached and has no exception set; the event loop stands.
#[cfg(Py_3_14)]
unsafe fn task_of(running: *mut PyObject) -> *mut PyObject {
    // SAFETY: the function is asyncio's C one; its result is checked, and its exception cleared. The task runs, so the
    // loop still holds it after our reference is released.
    unsafe {
        let function = CURRENT_TASK.get();
        if function.is_null() || !hashes_by_address(running) {
            return ptr::null_mut();
        }
        let task = ffi::PyObject_CallOneArg(function, running);
        if task.is_null() {
            ffi::PyErr_Clear();
            return task;
        }
        let none = task == ffi::Py_None();
        ffi::Py_DECREF(task);
        if none {
            ptr::null_mut()
        } else {
            task
        }
    }
}

/// # Safety
/// The thread is attached and has no exception set; the event loop stands.
#[cfg(not(Py_3_14))]
unsafe fn task_of(running: *mut PyObject) -> *mut PyObject {
    // SAFETY: an exact dict, and a key whose hash is its address: no code of the program runs. The dict holds the task.
    unsafe {
        let tasks = CURRENT_TASKS.get();
        if tasks.is_null() || ffi::PyDict_CheckExact(tasks) == 0 || !hashes_by_address(running) {
            return ptr::null_mut();
        }
        let task = ffi::PyDict_GetItemWithError(tasks, running);
        if task.is_null() {
            ffi::PyErr_Clear();
        }
        task
    }
}

/// The running loop, read from asyncio's own place for it. A call of asyncio costs three times as much.
///
/// | version | place |
/// | --- | --- |
/// | 3.13 | in the thread state |
/// | 3.12 | in the thread's dict |
/// | 3.11 | in the thread's dict, in an object that also holds the operating system process's number |
#[cfg(not(Py_3_14))]
mod place {
    use std::sync::atomic::AtomicU8;

    use super::*;

    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const CHECKED: u8 = 1;
    const ELSEWHERE: u8 = 2;

    pub(super) static PLACE: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Forgets the result: a fork has made another process.
    pub fn forget() {
        PLACE.store(UNKNOWN, Ordering::Relaxed);
    }

    /// The loop, borrowed, or null for none; `None` if asyncio has to be called.
    ///
    /// # Safety
    /// As [`ask_loop`]; `get` is asyncio's `_get_running_loop`.
    pub unsafe fn running_loop(get: *mut PyObject) -> Option<*mut PyObject> {
        // SAFETY: the caller promises an attached thread without an exception, and asyncio's function.
        unsafe {
            match PLACE.load(Ordering::Relaxed) {
                CHECKED => Some(found()),
                UNKNOWN => check(get),
                _ => None,
            }
        }
    }

    /// Compares with asyncio's result; the decision is final after a loop has run.
    ///
    /// # Safety
    /// `get` stands throughout, and the calling thread is attached.
    #[cold]
    #[inline(never)]
    unsafe fn check(get: *mut PyObject) -> Option<*mut PyObject> {
        // SAFETY: the thread is attached; asyncio's function is C, and the thread state holds the loop while it runs.
        unsafe {
            let running = ffi::PyObject_CallNoArgs(get);
            if running.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            ffi::Py_DECREF(running);
            if running == ffi::Py_None() {
                return Some(ptr::null_mut());
            }
            let right = found() == running;
            PLACE.store(if right { CHECKED } else { ELSEWHERE }, Ordering::Relaxed);
            Some(running)
        }
    }

    /// # Safety
    /// The calling thread is attached.
    #[cfg(Py_3_13)]
    unsafe fn found() -> *mut PyObject {
        // SAFETY: the thread is attached; the word lies inside the thread state.
        unsafe { read(crate::interpreter::tstate().cast(), thread::RUNNING_LOOP) }
    }

    /// # Safety
    /// The calling thread is attached.
    #[cfg(not(Py_3_13))]
    unsafe fn found() -> *mut PyObject {
        static KEY: Interned = Interned::new(c"__asyncio_running_event_loop__");
        // SAFETY: the thread is attached. The thread's dict is an exact one, and the key a str.
        let value = unsafe {
            let dict = ffi::PyThreadState_GetDict();
            if dict.is_null() {
                return dict;
            }
            dict_get(dict, KEY.get()).as_ptr()
        };
        // SAFETY: a value in the thread's dict stands.
        unsafe { held(value) }
    }

    /// # Safety
    /// The thread is attached; the value is null or stands.
    #[cfg(all(Py_3_12, not(Py_3_13)))]
    unsafe fn held(value: *mut PyObject) -> *mut PyObject {
        // SAFETY: the thread is attached.
        if value == unsafe { ffi::Py_None() } {
            ptr::null_mut()
        } else {
            value
        }
    }

    /// # Safety
    /// The thread is attached; the value is null or stands.
    #[cfg(not(Py_3_12))]
    unsafe fn held(value: *mut PyObject) -> *mut PyObject {
        use std::sync::atomic::AtomicI32;
        static PROCESS: AtomicI32 = AtomicI32::new(0);
        const LOOP: usize = layout::HEAD;
        const PID: usize = layout::HEAD + 8;
        // SAFETY: the value stands, and is as large as its type says.
        unsafe {
            if value.is_null() || ((*ffi::Py_TYPE(value)).tp_basicsize as usize) < PID + size_of::<i32>() {
                return ptr::null_mut();
            }
            if PLACE.load(Ordering::Relaxed) != CHECKED {
                PROCESS.store(std::process::id() as i32, Ordering::Relaxed);
            }
            let running: *mut PyObject = read(value.cast(), LOOP);
            let own = read::<i32>(value.cast(), PID) == PROCESS.load(Ordering::Relaxed);
            if own && running != ffi::Py_None() {
                running
            } else {
                ptr::null_mut()
            }
        }
    }
}

/// How [`current_task`] finds the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not decided: it is checked at the first task.
    Unknown,
    /// Read from the interpreter's memory.
    Memory,
    /// asyncio is called.
    Asked,
}

/// How tasks are found now.
pub fn place() -> Place {
    #[cfg(not(Py_3_14))]
    use self::place as checked;
    #[cfg(Py_3_14)]
    use running as checked;
    match checked::PLACE.load(Ordering::Relaxed) {
        _ if !layout::raw_ok() => Place::Asked,
        checked::UNKNOWN => Place::Unknown,
        checked::CHECKED => Place::Memory,
        _ => Place::Asked,
    }
}

/// Forgets facts about the program's event loops, which no longer hold in a forked child.
pub fn forget() {
    #[cfg(not(Py_3_14))]
    place::forget();
}

/// Whether looking `object` up in a dict runs no code of the program.
///
/// # Safety
/// `object` stands throughout, and the calling thread is attached.
unsafe fn hashes_by_address(object: *mut PyObject) -> bool {
    // SAFETY: the object stands, and holds its type.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let hash = ffi::PyType_GetSlot(class, ffi::Py_tp_hash);
        let base = ffi::PyType_GetSlot(&raw mut ffi::PyBaseObject_Type, ffi::Py_tp_hash);
        hash == base
    }
}

/// The check of the running task's place, made at the first task that is seen.
#[cfg(Py_3_14)]
mod running {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const CHECKED: u8 = 1;
    const ELSEWHERE: u8 = 2;

    pub(super) static PLACE: AtomicU8 = AtomicU8::new(UNKNOWN);
    static SWAP: Found = Found::new(c"_swap_current_task");

    /// `found` if it was read from a verified place, else asyncio's result.
    ///
    /// # Safety
    /// The thread is attached, `tstate` is its own, and `found` is null or stands.
    #[inline]
    pub(super) unsafe fn trusted(tstate: *mut PyThreadState, found: *mut PyObject) -> *mut PyObject {
        match PLACE.load(Ordering::Relaxed) {
            CHECKED => found,
            // SAFETY: the caller promises the same as `current_task`'s.
            UNKNOWN => unsafe { check(tstate, found) },
            // SAFETY: the thread is attached.
            _ => unsafe { ask() },
        }
    }

    /// Lets asyncio replace the running task by another object, and looks whether the word follows.
    ///
    /// # Safety
    /// As [`trusted`].
    #[cold]
    #[inline(never)]
    unsafe fn check(tstate: *mut PyThreadState, found: *mut PyObject) -> *mut PyObject {
        // SAFETY: the thread is attached; only asyncio's C functions are called. The replacement is a fresh object that
        // stands in for `None` and that no other code sees: no Python code runs, so nothing reads the task in between.
        unsafe {
            let exception = Aside::new();
            let task = ask_loop();
            if task.is_null() {
                // No loop runs here: the word can't be a task. The decision stays open: `_asyncio` may be half
                // imported.
                drop(exception);
                return task;
            }
            let follows = task == found && follows(tstate, task);
            PLACE.store(if follows { CHECKED } else { ELSEWHERE }, Ordering::Relaxed);
            drop(exception);
            task
        }
    }

    /// # Safety
    /// As [`trusted`].
    unsafe fn follows(tstate: *mut PyThreadState, task: *mut PyObject) -> bool {
        let word = || -> *mut PyObject {
            // SAFETY: inside the thread state.
            unsafe { read(tstate.cast(), thread::RUNNING_TASK) }
        };
        // SAFETY: the thread is attached; only asyncio's C functions are called. The task is held during the exchange,
        // and restored in any case.
        unsafe {
            let swap = SWAP.get();
            let running_loop = RUNNING_LOOP.get();
            if swap.is_null() || running_loop.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            let running = ffi::PyObject_CallNoArgs(running_loop);
            let other = ffi::PyList_New(0);
            ffi::Py_INCREF(task);
            let mut right = false;
            if !running.is_null() && !other.is_null() {
                let previous = ffi::PyObject_CallFunctionObjArgs(swap, running, other, ptr::null_mut::<PyObject>());
                if !previous.is_null() {
                    right = previous == task && word() == other;
                    let back = ffi::PyObject_CallFunctionObjArgs(swap, running, previous, ptr::null_mut::<PyObject>());
                    right &= back == other && word() == task;
                    ffi::Py_XDECREF(back);
                    ffi::Py_DECREF(previous);
                }
            }
            ffi::PyErr_Clear();
            ffi::Py_DECREF(task);
            ffi::Py_XDECREF(other);
            ffi::Py_XDECREF(running);
            right
        }
    }
}

/// asyncio's own task class, after [`task_type`] has found it.
static TASK_TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// asyncio's own task class, if the program has imported it. It may run Python code while it has not.
#[inline]
pub fn task_type<'py>(py: Python<'py>) -> Option<&'py Bound<'py, PyAny>> {
    #[cold]
    fn find<'py>(py: Python<'py>) -> Option<&'py Bound<'py, PyAny>> {
        let modules = py.import("sys").ok()?.getattr("modules").ok()?;
        let class = modules.get_item("_asyncio").ok()?.getattr("Task").ok()?;
        Some(TASK_TYPE.get_or_init(py, || class.unbind()).bind(py))
    }
    known_task_type(py).or_else(|| find(py))
}

/// asyncio's own task class, if [`task_type`] has found it. Runs no code.
#[inline]
pub fn known_task_type<'py>(py: Python<'py>) -> Option<&'py Bound<'py, PyAny>> {
    TASK_TYPE.get(py).map(|known| known.bind(py))
}
