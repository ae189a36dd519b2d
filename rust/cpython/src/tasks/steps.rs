//! The steps of tasks, taken where asyncio's own task class takes them. Whatever event loop runs a task, one of two C
//! functions begins a step, goes on after a future, or throws a cancellation in.
//!
//! | function | is called | word |
//! | --- | --- | --- |
//! | step | by the event loop, for a task's first step and after a bare yield | `tp_call` of its type |
//! | wake-up | by a future that is done | `ml_meth` of its definition |
//!
//! Both are [words](crate::hooks::function_slot) that the interpreter reads at each call. The first step of an eager
//! task is neither of them: its initialiser takes it.

use crate::{
    frames::{frame::Frame, generator_state as state},
    hooks::function_slot::FunctionSlot,
    layout,
    object::held::Held,
};
use pyo3::{exceptions::PyRuntimeError, ffi, ffi::PyObject, prelude::*};
use std::{
    ffi::{c_void, CStr},
    ptr::null_mut,
    sync::atomic::{AtomicI8, AtomicPtr, Ordering::Acquire, Ordering::Release},
};

/// The function of a step: its object, arguments, keywords.
pub type Step = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// The function of a wake-up: the task, and the future that is done.
pub type Wakeup = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

static STEP: FunctionSlot = FunctionSlot::new();
static WAKEUP: FunctionSlot = FunctionSlot::new();
/// The type of steps.
static STEP_TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(null_mut());
/// The definition of wake-ups.
static WAKEUP_DEFINITION: AtomicPtr<ffi::PyMethodDef> = AtomicPtr::new(null_mut());

/// Replaces the steps of all tasks from now on.
///
/// # Errors
/// RuntimeError if asyncio is not as expected.
///
/// # Safety
/// The functions have the contracts of their kinds, and call [`original_step`] and [`original_wakeup`].
pub unsafe fn take(py: Python<'_>, step: Step, wakeup: Wakeup) -> PyResult<()> {
    learn(py)?;
    STEP.put(step as *mut ());
    WAKEUP.put(wakeup as *mut ());
    Ok(())
}

/// Finds out the layout of tasks and coroutines, once.
///
/// # Errors
/// As [`take`].
pub fn learn(py: Python<'_>) -> PyResult<()> {
    if !STEP.is_found() {
        find(py)?;
    }
    Ok(())
}

/// Gives the steps back.
pub fn give_back(step: Step, wakeup: Wakeup) {
    STEP.give_back(step as *mut ());
    WAKEUP.give_back(wakeup as *mut ());
}

/// asyncio's own step.
///
/// # Safety
/// Only the function that [`take`] has put in place calls it.
#[inline(always)]
pub unsafe fn original_step() -> Step {
    // SAFETY: the word was read from a slot of this kind before ours was put there.
    unsafe { std::mem::transmute(STEP.original()) }
}

/// asyncio's own wake-up.
///
/// # Safety
/// As [`original_step`].
#[inline(always)]
pub unsafe fn original_wakeup() -> Wakeup {
    // SAFETY: the word was read from a slot of this kind before ours was put there.
    unsafe { std::mem::transmute(WAKEUP.original()) }
}

/// The task of a step, borrowed from it.
///
/// # Safety
/// `step` is a step that stands.
#[inline(always)]
pub unsafe fn task_of(step: *mut PyObject) -> *mut PyObject {
    // SAFETY: `find` has verified that the task is there.
    unsafe { layout::at(step.cast(), layout::HEAD) }
}

/// Whether a callable for an event loop is a task's step or wake-up.
///
/// # Safety
/// The object stands.
pub unsafe fn is_step(callback: *mut PyObject) -> bool {
    // SAFETY: a function written in C has its definition.
    unsafe {
        let definition = WAKEUP_DEFINITION.load(Acquire);
        !callback.is_null()
            && (ffi::Py_TYPE(callback) == STEP_TYPE.load(Acquire)
                || !definition.is_null()
                    && ffi::PyCFunction_CheckExact(callback) != 0
                    && (*callback.cast::<ffi::PyCFunctionObject>()).m_ml == definition)
    }
}

/// Has asyncio take one step, and examines the callables that it uses.
fn find(py: Python<'_>) -> PyResult<()> {
    type Any<'py> = Bound<'py, PyAny>;
    let found = crate::interpreter::calling::method(
        &crate::interpreter::calling::import(py, "inviso._task_probe")?,
        "find",
        (),
    )?;
    let (step, wakeup, task, fresh, ended) = found.extract::<(Any<'_>, Any<'_>, Any<'_>, Any<'_>, Any<'_>)>()?;
    // SAFETY: two coroutines, held.
    let (first, last) = unsafe { (state(fresh.as_ptr()), state(ended.as_ptr())) };
    // before 3.15 the state of a coroutine that has not ended is negative, or 0 while it runs
    let from = if first < 0 { 1 } else { last };
    ENDED.store(if first < from && from <= last { from } else { i8::MIN }, Release);
    FRESH.store(first, Release);
    crate::interpreter::calling::method(&fresh, "close", ())?;
    let unknown = |what: &str| {
        PyRuntimeError::new_err(format!("asyncio's {what} is not as it is known: no scheduling can be traced"))
    };
    Getters::find(&crate::interpreter::calling::import(py, "_asyncio")?.getattr("Task")?)?;
    // SAFETY: the objects are held; types are checked before their own fields are read.
    unsafe {
        let class = ffi::Py_TYPE(step.as_ptr());
        let size = (*class).tp_basicsize as usize;
        if size < layout::HEAD + size_of::<usize>()
            || task_of(step.as_ptr()) != task.as_ptr()
            || (*class).tp_call.is_none()
        {
            return Err(unknown("step of a task"));
        }
        if ffi::PyCFunction_CheckExact(wakeup.as_ptr()) == 0 {
            return Err(unknown("wake-up of a task"));
        }
        let function: *mut ffi::PyCFunctionObject = wakeup.as_ptr().cast();
        let definition = (*function).m_ml;
        if (*function).m_self != task.as_ptr() || (*definition).ml_flags != ffi::METH_O {
            return Err(unknown("wake-up of a task"));
        }
        // the type is held for ever: its slot may be written as long as the process lives
        ffi::Py_INCREF(class.cast());
        STEP_TYPE.store(class, Release);
        WAKEUP_DEFINITION.store(definition, Release);
        WAKEUP.found((&raw mut (*definition).ml_meth).cast());
        STEP.found((&raw mut (*class).tp_call).cast());
    }
    Ok(())
}

/// A C-level attribute of a built-in type, read without a look-up.
struct Getter {
    get: AtomicPtr<()>,
    closure: AtomicPtr<c_void>,
}

impl Getter {
    const fn new() -> Getter {
        Getter { get: AtomicPtr::new(null_mut()), closure: AtomicPtr::new(null_mut()) }
    }

    fn find(&self, class: *mut ffi::PyTypeObject, name: &CStr) -> bool {
        // SAFETY: a type's table of attributes ends with an entry without a name.
        unsafe {
            for class in with_bases(class) {
                let mut entry = (*class).tp_getset;
                while !entry.is_null() && !(*entry).name.is_null() {
                    if CStr::from_ptr((*entry).name) == name {
                        let Some(get) = (*entry).get else { return false };
                        self.closure.store((*entry).closure, Release);
                        self.get.store(get as *mut (), Release);
                        return true;
                    }
                    entry = entry.add(1);
                }
            }
            false
        }
    }

    /// The value, a new reference; null without one.
    ///
    /// # Safety
    /// The thread is attached and has no exception set, and `object` is of the type.
    #[inline]
    unsafe fn read(&self, object: *mut PyObject) -> *mut PyObject {
        type Get = unsafe extern "C" fn(*mut PyObject, *mut c_void) -> *mut PyObject;
        let get = self.get.load(Acquire);
        if get.is_null() {
            return null_mut();
        }
        // SAFETY: stored from an entry of this kind.
        unsafe {
            let value = std::mem::transmute::<*mut (), Get>(get)(object, self.closure.load(Acquire));
            if value.is_null() {
                ffi::PyErr_Clear();
            }
            value
        }
    }
}

/// A type, then its base, and so on.
///
/// # Safety
/// The type stands as long as the iterator is used.
unsafe fn with_bases(class: *mut ffi::PyTypeObject) -> impl Iterator<Item = *mut ffi::PyTypeObject> {
    let some = |class: *mut ffi::PyTypeObject| Some(class).filter(|class| !class.is_null());
    // SAFETY: the caller promises that the type stands; a type holds its base.
    std::iter::successors(some(class), move |class| some(unsafe { (**class).tp_base }))
}

/// A method without arguments of a built-in type, called without a look-up.
struct Asker(AtomicPtr<()>);

impl Asker {
    fn find(&self, class: *mut ffi::PyTypeObject, name: &CStr) -> bool {
        // SAFETY: a type's table of methods ends with an entry without a name.
        unsafe {
            for class in with_bases(class) {
                let mut entry = (*class).tp_methods;
                while !entry.is_null() && !(*entry).ml_name.is_null() {
                    if CStr::from_ptr((*entry).ml_name) == name && (*entry).ml_flags == ffi::METH_NOARGS {
                        self.0.store((*entry).ml_meth.PyCFunction as *mut (), Release);
                        return true;
                    }
                    entry = entry.add(1);
                }
            }
            false
        }
    }

    /// The result, a new reference; null without one.
    ///
    /// # Safety
    /// The thread is attached and has no exception set, and `object` is of the type.
    #[inline]
    unsafe fn ask(&self, object: *mut PyObject) -> *mut PyObject {
        let function = self.0.load(Acquire);
        if function.is_null() {
            return null_mut();
        }
        // SAFETY: stored from an entry of this kind.
        unsafe {
            let answer = std::mem::transmute::<*mut (), ffi::PyCFunction>(function)(object, null_mut());
            if answer.is_null() {
                ffi::PyErr_Clear();
            }
            answer
        }
    }
}

struct Getters {
    done: Asker,
    cancelled: Asker,
    cancelling: Asker,
    exception: Getter,
    must_cancel: Getter,
    cancel_message: Getter,
    coroutine: Getter,
    awaits: Getter,
    yields_from: Getter,
}

static GETTERS: Getters = Getters {
    done: Asker(AtomicPtr::new(null_mut())),
    cancelled: Asker(AtomicPtr::new(null_mut())),
    cancelling: Asker(AtomicPtr::new(null_mut())),
    exception: Getter::new(),
    must_cancel: Getter::new(),
    cancel_message: Getter::new(),
    coroutine: Getter::new(),
    awaits: Getter::new(),
    yields_from: Getter::new(),
};

impl Getters {
    fn find(class: &Bound<'_, PyAny>) -> PyResult<()> {
        let coroutine = &raw mut ffi::PyCoro_Type;
        let class = class.as_ptr().cast();
        let all = GETTERS.done.find(class, c"done")
            && GETTERS.cancelled.find(class, c"cancelled")
            && GETTERS.cancelling.find(class, c"cancelling")
            && GETTERS.exception.find(class, c"_exception")
            && GETTERS.must_cancel.find(class, c"_must_cancel")
            && GETTERS.cancel_message.find(class, c"_cancel_message")
            && GETTERS.coroutine.find(class, c"_coro")
            && GETTERS.awaits.find(coroutine, c"cr_await")
            && GETTERS.yields_from.find(&raw mut ffi::PyGen_Type, c"gi_yieldfrom");
        all.then_some(()).ok_or_else(|| PyRuntimeError::new_err("tasks or coroutines are not as they are known"))
    }
}

/// The outermost coroutine of a task of asyncio's own class, or of a subclass: a new reference, or null.
///
/// # Safety
/// The thread is attached and has no exception set.
#[inline]
pub unsafe fn coroutine_of(task: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller promises that the thread is attached and has no exception set.
    unsafe { GETTERS.coroutine.read(task) }
}

/// Whether a task is done.
///
/// # Safety
/// As [`coroutine_of`].
#[inline]
pub unsafe fn is_done(task: *mut PyObject) -> bool {
    // SAFETY: the caller promises an attached thread without an exception; True is never freed.
    unsafe {
        let answer = GETTERS.done.ask(task);
        let yes = answer == ffi::Py_True();
        ffi::Py_XDECREF(answer);
        yes
    }
}

/// Whether an object is a task of asyncio's own class, or of a subclass, that is done. Works also before [`learn`].
///
/// # Safety
/// The object stands; the thread is attached and has no exception set.
pub unsafe fn is_done_task(py: Python<'_>, object: *mut PyObject) -> bool {
    let Some(class) = crate::tasks::running::task_type(py) else { return false };
    // SAFETY: the caller promises that the object stands; the type is checked first.
    unsafe {
        if ffi::PyType_IsSubtype(ffi::Py_TYPE(object), class.as_ptr().cast()) == 0 {
            return false;
        }
        if GETTERS.done.0.load(Acquire).is_null() && Getters::find(class).is_err() {
            return false;
        }
        is_done(object)
    }
}

/// The outcome of a task that is done.
pub enum Outcome {
    /// It has returned.
    Returned,
    /// It has raised this exception.
    Raised(Held),
    /// It was cancelled.
    Cancelled,
}

/// The outcome of a task. The task does not notice this.
///
/// # Safety
/// As [`coroutine_of`]; the task is done.
pub unsafe fn outcome(task: *mut PyObject) -> Outcome {
    // SAFETY: the caller promises an attached thread without an exception; True is never freed.
    unsafe {
        let error = Held::owned(GETTERS.exception.read(task));
        if !error.is_null() && error.as_ptr() != ffi::Py_None() {
            return Outcome::Raised(error);
        }
        let cancelled = Held::owned(GETTERS.cancelled.ask(task));
        if cancelled.as_ptr() == ffi::Py_True() {
            return Outcome::Cancelled;
        }
        Outcome::Returned
    }
}

/// The message of a cancellation that was requested and has not taken effect. A task whose coroutine returns then is
/// cancelled all the same.
///
/// # Safety
/// As [`coroutine_of`].
pub unsafe fn cancellation(task: *mut PyObject) -> Option<Held> {
    // SAFETY: the caller promises an attached thread without an exception; True is never freed.
    unsafe {
        let asked = Held::owned(GETTERS.must_cancel.read(task)).as_ptr() == ffi::Py_True();
        asked.then(|| Held::owned(GETTERS.cancel_message.read(task)))
    }
}

/// Whether a cancellation of a task was requested and not withdrawn.
///
/// # Safety
/// As [`coroutine_of`].
pub unsafe fn is_cancelling(task: *mut PyObject) -> bool {
    // SAFETY: the caller promises an attached thread without an exception; the result is an int.
    unsafe {
        let answer = GETTERS.cancelling.ask(task);
        let yes = !answer.is_null() && ffi::PyLong_AsLong(answer) > 0;
        ffi::Py_XDECREF(answer);
        yes
    }
}

/// From this state on a coroutine has ended; the least number while that is not known.
static ENDED: AtomicI8 = AtomicI8::new(i8::MIN);
/// The state of a coroutine that has not begun.
static FRESH: AtomicI8 = AtomicI8::new(i8::MIN);

/// Whether an object is an exact coroutine: its class can't have subclasses.
///
/// # Safety
/// The object stands.
#[inline]
pub unsafe fn is_coroutine(object: *mut PyObject) -> bool {
    // SAFETY: the caller promises that the object stands.
    unsafe { ffi::Py_TYPE(object) == &raw mut ffi::PyCoro_Type }
}

/// The frame of a coroutine or generator that has not ended; `None` for one that has, and for any other object.
///
/// # Safety
/// The object stands, and [`learn`] has been called.
#[inline]
pub unsafe fn frame_of(coroutine: *mut PyObject) -> Option<Frame> {
    // SAFETY: the type is checked before the state is read.
    unsafe {
        let frame = Frame::of_generator(coroutine)?;
        (state(coroutine) < ENDED.load(Acquire)).then_some(frame)
    }
}

/// Whether a coroutine that does not run has begun and not ended, so that it awaits an object.
///
/// # Safety
/// As [`frame_of`], and `coroutine` is an exact coroutine.
#[inline]
pub unsafe fn waits(coroutine: *mut PyObject) -> bool {
    // SAFETY: the caller promises an exact coroutine.
    let state = unsafe { state(coroutine) };
    state != FRESH.load(Acquire) && state < ENDED.load(Acquire)
}

/// The deepest nesting of coroutines that is examined.
const DEPTH: usize = 1000;

/// The innermost coroutine or generator in which an exact coroutine waits, perhaps itself: a new reference.
///
/// # Safety
/// The thread is attached and has no exception set; `coroutine` is an exact coroutine.
pub unsafe fn innermost(coroutine: *mut PyObject) -> *mut PyObject {
    // SAFETY: the loop checks each object's type before it reads that type's fields, and holds the object.
    unsafe {
        let mut at = coroutine;
        ffi::Py_INCREF(at);
        for _ in 0..DEPTH {
            let getter = if is_coroutine(at) { &GETTERS.awaits } else { &GETTERS.yields_from };
            let next = getter.read(at);
            if next.is_null() {
                break;
            }
            if !is_coroutine(next) && ffi::PyGen_CheckExact(next) == 0 {
                ffi::Py_DECREF(next);
                break;
            }
            ffi::Py_DECREF(at);
            at = next;
        }
        at
    }
}
