//! The functions that the interpreter calls at an event. Each calls the core and returns None: never DISABLE, never an
//! exception.
//!
//! # Checked by
//! `tests/python/test_trace_host.py`, `tests/python/test_pep523.py`, `tests/python/test_trace_returns.py`.

use crate::{
    control::foreign_functions,
    door,
    instrument::watch,
    state::instrument::Ended,
    thread::call::{key, End, PyCall},
};
use inviso_core::host::event::{self, Exit};
use pyo3::ffi::PyObject;

#[cfg(Py_3_12)]
mod monitoring {
    use super::*;
    use crate::thread::foreign_call::ForeignCall;
    use inviso_cpython::{
        capture::Raised,
        frames::opcodes,
        hooks::{
            monitoring::Event,
            vectorcall::{self, nargs, none},
        },
    };

    macro_rules! callback {
        ($(#[$doc:meta])* $name:ident, $number:literal, |$state:ident, $code:ident, $call:ident, $args:ident| $body:expr) => {
            $(#[$doc])*
            ///
            /// # Safety
            /// As [`vectorcall::Function`](inviso_cpython::hooks::vectorcall::Function). Whoever has it by `register_callback` may call it with
            /// less than the event has; its code object is read as one where its type says so, or not at all.
            pub unsafe extern "C" fn $name(
                _this: *mut PyObject, args: *const *mut PyObject, nargsf: usize, _keywords: *mut PyObject,
            ) -> *mut PyObject {
                if nargs(nargsf) < $number {
                    return none();
                }
                // SAFETY: there are at least that many arguments, which stand during the call; the thread is attached.
                unsafe {
                    let $code = *args;
                    let $args = args;
                    let tstate = inviso_cpython::interpreter::tstate();
                    door::enter_of_ours(tstate, |$state| {
                        let $call = PyCall::new($state.host, &$state.running, tstate);
                        let _ = (&$args, &$code, &$call);
                        $body
                    });
                }
                none()
            }
        };
    }

    callback! {
        /// PY_START: a call begins.
        py_start, 2, |state, code, call, args| {
            let watched = watch::find(code);
            if watched.is_none() || state.is_traced() {
                event::on_call(&state.host.node, &mut state.thread, key(code), &call);
            }
            if let Some(watched) = watched {
                let frame = call.frame();
                watched.begin(state, frame);
            }
        }
    }

    callback! {
        /// PY_RESUME: a suspended call resumes.
        py_resume, 2, |state, code, call, args| {
            event::on_resume(&state.host.node, &mut state.thread, key(code), &call);
            if let Some(watched) = watch::find(code) {
                let frame = call.frame();
                watched.resume(state, frame);
            }
        }
    }

    callback! {
        /// PY_THROW: a suspended call resumes with an exception.
        py_throw, 3, |state, code, call, args| if opcodes::has_begun(code, *args.add(1)) {
            event::on_throw(&state.host.node, &mut state.thread, key(code), &call);
            if let Some(watched) = watch::find(code) {
                let frame = call.frame();
                watched.resume(state, frame);
            }
        }
    }

    callback! {
        /// PY_RETURN: a call ends.
        py_return, 3, |state, code, call, args| {
            let call = call.ending(End::Value(*args.add(2)));
            let watched = watch::find(code);
            if watched.is_none() || state.is_traced() {
                event::on_exit(&state.host.node, &mut state.thread, key(code), Exit::Return, &call);
            }
            if let Some(watched) = watched {
                let frame = call.frame();
                watched.end(state, frame, Ended::Returned(*args.add(2)));
            }
        }
    }

    callback! {
        /// PY_YIELD: a call is suspended.
        py_yield, 3, |state, code, call, args| {
            event::on_exit(&state.host.node, &mut state.thread, key(code), Exit::Yield, &call);
            if let Some(watched) = watch::find(code) {
                let frame = call.frame();
                watched.pause(state, frame);
            }
        }
    }

    callback! {
        /// PY_UNWIND: an exception leaves a call.
        py_unwind, 3, |state, code, call, args| {
            let call = call.ending(End::Error(*args.add(2)));
            event::on_exit(&state.host.node, &mut state.thread, key(code), Exit::Unwind, &call);
            if let Some(watched) = watch::find(code) {
                let frame = call.frame();
                watched.end(state, frame, Ended::Raised(Raised::made(*args.add(2))));
            }
        }
    }

    callback! {
        /// CALL: something is called. Used only if it is a traced function written in C.
        call, 4, |state, code, call, args| {
            if let Some(key) = foreign_functions::key(*args.add(2)) {
                let call = ForeignCall::new(state.host, &state.running, call.tstate, *args.add(3));
                event::on_call(&state.host.node, &mut state.thread, key, &call);
            }
        }
    }

    callback! {
        /// C_RETURN: a function written in C returns.
        c_return, 4, |state, code, call, args| {
            if let Some(key) = foreign_functions::key(*args.add(2)) {
                let call = ForeignCall::new(state.host, &state.running, call.tstate, *args.add(3));
                event::on_exit(&state.host.node, &mut state.thread, key, Exit::Return, &call);
            }
        }
    }

    callback! {
        /// C_RAISE: an exception leaves a function written in C.
        c_raise, 4, |state, code, call, args| {
            if let Some(key) = foreign_functions::key(*args.add(2)) {
                let call = ForeignCall::new(state.host, &state.running, call.tstate, *args.add(3));
                event::on_exit(&state.host.node, &mut state.thread, key, Exit::Unwind, &call);
            }
        }
    }

    callback! {
        /// EXCEPTION_HANDLED: a handler is entered.
        exception_handled, 3, |state, code, call, args| if state.thread.waits_for_handler()
            && opcodes::goes_on_at(code, *args.add(1), *args.add(2))
        {
            event::on_handled(&state.host.node, &mut state.thread);
        }
    }

    /// All of them, with their events.
    pub const CALLBACKS: &[(Event, vectorcall::Function)] = &[
        (Event::Call, call),
        (Event::CReturn, c_return),
        (Event::CRaise, c_raise),
        (Event::PyStart, py_start),
        (Event::PyResume, py_resume),
        (Event::PyThrow, py_throw),
        (Event::PyReturn, py_return),
        (Event::PyYield, py_yield),
        (Event::PyUnwind, py_unwind),
        (Event::ExceptionHandled, exception_handled),
    ];
}
#[cfg(Py_3_12)]
pub use monitoring::CALLBACKS;

#[cfg(not(Py_3_12))]
mod frames {
    use super::*;
    use crate::state::armed;
    use crate::thread::foreign_call::ForeignCall;
    use inviso_cpython::{
        capture::Raised,
        frames::{frame::Frame, handlers},
        hooks::{
            eval, profile as profiling,
            stack::{Segment, Stack},
        },
        interpreter::Aside,
        layout,
    };
    use pyo3::ffi::{_PyInterpreterFrame, PyThreadState, PyTrace_C_CALL, PyTrace_C_RETURN};
    use std::{ffi::c_int, sync::atomic::Ordering};

    /// The frame evaluation function (PEP 523) of 3.11: every Python frame passes here while calls are traced.
    ///
    /// # Safety
    /// To be called by the interpreter only.
    unsafe extern "C-unwind" fn evaluate_unwinding(
        tstate: *mut PyThreadState, raw: *mut _PyInterpreterFrame, throwflag: c_int,
    ) -> *mut PyObject {
        // SAFETY: the interpreter passes a frame that is about to run. The frame stays in place until the caller of
        // this function clears it.
        unsafe {
            if !eval::is_active() {
                return eval::pass(tstate, raw, throwflag);
            }
            evaluate_seen(tstate, raw, throwflag)
        }
    }

    /// # Safety
    /// As [`evaluate_unwinding`].
    #[inline(never)]
    unsafe extern "C-unwind" fn evaluate_seen(
        tstate: *mut PyThreadState, raw: *mut _PyInterpreterFrame, throwflag: c_int,
    ) -> *mut PyObject {
        // SAFETY: the arguments are those of the frame evaluation function.
        unsafe {
            let Some(mode) = begin(tstate, raw, throwflag) else { return eval::call_on(tstate, raw, throwflag) };
            let result = match mode.place {
                StackSpace::ThreadState => eval::call_on(tstate, raw, throwflag),
                StackSpace::Segment(segment) => elsewhere(tstate, raw, throwflag, segment),
                StackSpace::Nowhere => return no_room(),
            };
            end(tstate, raw, mode, result);
            result
        }
    }

    /// A function written in C is called, returns, or raises.
    ///
    /// # Safety
    /// Called as a [`profiling::Handler`] only.
    pub unsafe fn profile(what: c_int, callable: *mut PyObject) {
        let Some(key) = foreign_functions::key(callable) else { return };
        // SAFETY: the interpreter calls profile functions attached, with the caller as the thread's current frame.
        unsafe {
            let tstate = inviso_cpython::interpreter::tstate();
            let Some(frame) = Frame::current_python(tstate) else { return };
            door::enter_of_ours(tstate, |state| {
                let call = ForeignCall::new(state.host, &state.running, tstate, frame, callable);
                if what == PyTrace_C_CALL {
                    return event::on_call(&state.host.node, &mut state.thread, key, &call);
                }
                let exit = if what == PyTrace_C_RETURN { Exit::Return } else { Exit::Unwind };
                event::on_exit(&state.host.node, &mut state.thread, key, exit, &call);
            });
        }
    }

    /// [`evaluate_unwinding`] with the type that the interpreter expects.
    #[must_use]
    pub fn evaluate() -> pyo3::ffi::_PyFrameEvalFunction {
        // SAFETY: the two types differ only in whether a panic may pass through the function.
        unsafe { std::mem::transmute(evaluate_unwinding as eval::Unwinding) }
    }

    /// Facts about the beginning of a frame that its end needs.
    #[derive(Clone, Copy)]
    struct Mode {
        code: *mut PyObject,
        generator: bool,
        place: StackSpace,
    }

    /// Where there is C stack for a call. Calls use C stack only while this function is installed.
    #[derive(Clone, Copy)]
    enum StackSpace {
        ThreadState,
        Segment(Segment),
        Nowhere,
    }

    /// Chooses a place for a call that has no room on this stack.
    ///
    /// # Safety
    /// The calling thread is attached and has no exception set.
    #[cold]
    #[inline(never)]
    unsafe fn place(stack: Stack, generator: bool) -> StackSpace {
        // SAFETY: attached; an exception that is thrown in is set aside.
        match unsafe { Segment::take() } {
            Some(segment) => StackSpace::Segment(segment),
            // a generator that is not evaluated would stop in the middle
            None if generator || stack.last_room() => StackSpace::ThreadState,
            None => StackSpace::Nowhere,
        }
    }

    /// Evaluates a frame on another stack.
    ///
    /// # Safety
    /// As [`eval::call_on`]; `segment` was taken for this, and the thread's state is not in use.
    #[cold]
    #[inline(never)]
    unsafe fn elsewhere(
        tstate: *mut PyThreadState, raw: *mut _PyInterpreterFrame, throwflag: c_int, segment: Segment,
    ) -> *mut PyObject {
        /// Records which stack the calling thread is on; returns the one from before.
        fn keep(stack: Stack) -> Option<Stack> {
            // a forked child has none
            door::stack().map(|kept| kept.replace(stack))
        }
        let (stack, outer) = segment.enter();
        // SAFETY: these are the arguments of the frame evaluation function; no reference to the thread's state exists
        // meanwhile.
        unsafe {
            let before = keep(stack);
            let result = segment.run(eval::behind(), tstate, raw, throwflag);
            Segment::leave(outer);
            before.and_then(keep);
            segment.give();
            result
        }
    }

    /// Raises RecursionError. Without this function installed, the call would have needed no C stack. With it, and with
    /// no C stack left, the program must not crash.
    ///
    /// # Safety
    /// The calling thread is attached.
    #[cold]
    #[inline(never)]
    unsafe fn no_room() -> *mut PyObject {
        // SAFETY: the thread is attached.
        unsafe {
            let text =
                c"maximum recursion depth exceeded: no C stack is left (calls take some while they are traced on 3.11)";
            pyo3::ffi::PyErr_SetString(pyo3::ffi::PyExc_RecursionError, text.as_ptr());
        }
        std::ptr::null_mut()
    }

    /// A frame begins or resumes. Returns `None` if its end is not needed.
    ///
    /// # Safety
    /// The arguments are those of the frame evaluation function, before the frame is evaluated.
    #[inline(never)]
    unsafe fn begin(tstate: *mut PyThreadState, raw: *mut _PyInterpreterFrame, throwflag: c_int) -> Option<Mode> {
        // SAFETY: the frame is about to run; attached.
        unsafe {
            let frame = Frame::from_ptr(raw.cast())?;
            let code = frame.code();
            let generator = frame.is_generator_frame();
            if !generator && layout::makes_generator(code) {
                return None;
            }
            let _thrown = (throwflag != 0).then(|| Aside::new());
            if !door::has_state() {
                crate::directory::first::begin_with(frame);
            }
            if profiling::is_on() {
                profiling::ensure(tstate);
            }
            let mut place = StackSpace::ThreadState;
            let mut ends = true;
            door::enter_of_ours(tstate, |state| {
                let stack = door::stack().map(std::cell::Cell::get);
                if let Some(stack) = stack.filter(|stack| !stack.room()) {
                    place = self::place(stack, generator);
                    if matches!(place, StackSpace::Nowhere) {
                        return;
                    }
                }
                let begins = throwflag == 0 && !(generator && frame.has_begun());
                if begins {
                    crate::control::loading::first_seen(state, frame);
                }
                let call = PyCall::new(state.host, &state.running, tstate, frame);
                if throwflag != 0 {
                    if frame.has_begun() {
                        event::on_throw(&state.host.node, &mut state.thread, key(code), &call);
                        watch::find(code).into_iter().for_each(|watched| watched.resume(state, frame));
                    }
                } else if !begins {
                    event::on_resume(&state.host.node, &mut state.thread, key(code), &call);
                    watch::find(code).into_iter().for_each(|watched| watched.resume(state, frame));
                } else {
                    if state.is_traced() {
                        event::on_call(&state.host.node, &mut state.thread, key(code), &call);
                    }
                    let watched = watch::find(code);
                    watched.into_iter().for_each(|watched| watched.begin(state, frame));
                    let idle = state.thread.is_idle() && !armed::ENDS_MATTER.load(Ordering::Relaxed);
                    ends = watched.is_some() || generator || !idle || !matches!(place, StackSpace::ThreadState);
                }
            });
            if !ends {
                return None;
            }
            Some(Mode { code, generator, place })
        }
    }

    /// A frame was evaluated.
    ///
    /// # Safety
    /// `mode` is [`begin`]'s for this frame. The frame has been evaluated and not cleared. `result` is the result of
    /// that.
    #[inline(never)]
    unsafe fn end(tstate: *mut PyThreadState, raw: *mut _PyInterpreterFrame, mode: Mode, result: *mut PyObject) {
        // SAFETY: the frame is not cleared yet, so its code object lives; attached.
        unsafe {
            let Some(frame) = Frame::from_ptr(raw.cast()) else { return };
            let exit = if result.is_null() {
                Exit::Unwind
            } else if mode.generator && frame.is_suspended() {
                Exit::Yield
            } else {
                Exit::Return
            };
            let raised = result.is_null().then(|| Aside::new());
            door::enter_of_ours(tstate, |state| {
                let end = match &raised {
                    Some(aside) => {
                        let (kind, value) = aside.set();
                        End::Error(Raised::set(kind, value))
                    }
                    None => End::Value(result),
                };
                let call = PyCall::new(state.host, &state.running, tstate, frame).ending(end);
                event::on_exit(&state.host.node, &mut state.thread, key(mode.code), exit, &call);
                if let Some(watched) = watch::find(mode.code) {
                    match &raised {
                        _ if exit == Exit::Yield => watched.pause(state, frame),
                        None => watched.end(state, frame, Ended::Returned(result)),
                        Some(aside) => {
                            let (kind, value) = aside.set();
                            watched.end(state, frame, Ended::Raised(Raised::set(kind, value)));
                        }
                    }
                }
                if exit == Exit::Unwind && state.thread.waits_for_handler() {
                    handled(state);
                }
            });
        }
    }

    /// An exception has left a call. If its caller has a handler for the exception, execution goes on there.
    ///
    /// # Safety
    /// The calling thread is attached. The exception is set aside, and the frame that it has left is unlinked.
    #[cold]
    #[inline(never)]
    unsafe fn handled(state: &mut crate::state::thread::ThreadState) {
        // SAFETY: attached. After a frame has ended, its caller is the thread's current frame.
        unsafe {
            let Some(frame) = Frame::current_python(inviso_cpython::interpreter::tstate()) else { return };
            if handlers::catches(frame) {
                event::on_handled(&state.host.node, &mut state.thread);
            }
        }
    }
}
#[cfg(not(Py_3_12))]
pub use frames::*;
