//! What the tracer takes from CPython below its stable interface, and the only place of this crate that is `unsafe` by trade.
//!
//! | file | gives |
//! | --- | --- |
//! | `layout` | byte offsets by version |
//! | `local_time` | the local time of a second |
//! | `calibrate` | that check |
//! | `calling` | calls of what may be written in Python |
//! | `frame` | the running interpreter frame: code, function, caller, arguments |
//! | `code` | a code object's parameters and names |
//! | `guarded` | what only attached threads look at |
//! | `held` | an object borrowed or owned |
//! | `objects` | objects that the collector knows |
//! | `interned` | names that are looked up often |
//! | `attribute` | plain attributes of instances, without asking by name |
//! | `awaited` | what `await` does with the objects of a class |
//! | `text` | the characters of a str |
//! | `tls` | two words a thread, read in one instruction |
//! | `state` | the thread state, likewise |
//! | `tasks` | the asyncio task that runs now |
//! | `vectorcall` | callable objects from bare functions |
//! | `monitoring` | `sys.monitoring`: one tool id, events by name (3.12+) |
//! | `opcodes` | what the instruction at a place says (3.12+) |
//! | `eval` | a frame evaluation function (3.11) |
//! | `handlers` | whether a frame catches an exception (3.11) |
//! | `profile` | a profile function, for functions written in C (3.11) |
//! | `bottom` | calls below which no frame is seen |
//! | `standard` | modules of the standard library, also where the program has one of the name |
//! | `stack` | how much C stack is left, and more of it (3.11) |
//! | `stacks` | the stacks of all threads |
//! | `alloc` | a count of bytes asked of Python's allocators |
//! | `watch` | code and function watchers (3.12+) |
//!
//! Everything that reads raw memory is right only while [`layout::raw_ok`] is true. No C compiler and no Python header is
//! needed: the offsets are constants by version, and [`calibrate::check`] compares them at import with what the interpreter
//! says of itself and with a calibration run.

// Each version of CPython uses its own part of this.
#![allow(dead_code)]

pub mod again;
pub mod alloc;
pub mod attribute;
pub mod awaited;
pub mod bottom;
pub mod calibrate;
pub mod calling;
pub mod code;
pub mod cpu;
#[cfg(not(Py_3_12))]
pub mod eval;
pub mod frame;
pub mod guarded;
#[cfg(not(Py_3_12))]
pub mod handlers;
pub mod held;
pub mod interned;
pub mod layout;
pub mod local_time;
pub mod method;
#[cfg(Py_3_12)]
pub mod monitoring;
pub mod objects;
#[cfg(Py_3_12)]
pub mod opcodes;
#[cfg(not(Py_3_12))]
pub mod profile;
#[cfg(not(Py_3_12))]
pub mod stack;
pub mod stacks;
pub mod standard;
pub mod state;
pub mod steps;
pub mod task_name;
pub mod tasks;
pub mod text;
pub mod tls;
pub mod vectorcall;
#[cfg(Py_3_12)]
pub mod watch;
pub mod word;

#[cfg(not(Py_3_12))]
use std::ptr;

use pyo3::ffi::{self as api, PyObject};

pub use state::current as tstate;

/// No collection begins while this is there. From 3.12 on collections wait for the next instruction of Python code anyway.
#[derive(Debug)]
pub struct Uncollected {
    #[cfg(not(Py_3_12))]
    was: std::ffi::c_int,
}

impl Uncollected {
    /// Holds them back.
    ///
    /// # Safety
    /// The calling thread is attached, and still is when this is dropped.
    #[inline(always)]
    pub unsafe fn new() -> Uncollected {
        Uncollected {
            #[cfg(not(Py_3_12))]
            // SAFETY: the caller's promise.
            was: unsafe { api::PyGC_Disable() },
        }
    }
}

#[cfg(not(Py_3_12))]
impl Drop for Uncollected {
    fn drop(&mut self) {
        if self.was != 0 {
            // SAFETY: attached, as `new` was promised.
            unsafe { api::PyGC_Enable() };
        }
    }
}

/// An exception that is set (or none), put aside; set again when this is dropped.
#[derive(Debug)]
pub struct Aside {
    #[cfg(Py_3_12)]
    exception: *mut PyObject,
    #[cfg(not(Py_3_12))]
    exception: [*mut PyObject; 3],
}

impl Aside {
    /// Takes what is set.
    ///
    /// # Safety
    /// The calling thread is attached, and still is when this is dropped.
    pub unsafe fn new() -> Aside {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(Py_3_12)]
            return Aside { exception: api::PyErr_GetRaisedException() };
            #[cfg(not(Py_3_12))]
            {
                let mut exception = [ptr::null_mut(); 3];
                let [kind, value, traceback] = &mut exception;
                api::PyErr_Fetch(kind, value, traceback);
                Aside { exception }
            }
        }
    }
}

#[cfg(not(Py_3_12))]
impl Aside {
    /// What was set: its class and its value, which is an instance of it, what one would be made of, or null. Borrowed.
    pub fn set(&self) -> (*mut PyObject, *mut PyObject) {
        let [kind, value, _] = self.exception;
        (kind, value)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // SAFETY: gives back the references that `new` took; none means none.
        unsafe {
            #[cfg(Py_3_12)]
            api::PyErr_SetRaisedException(self.exception);
            #[cfg(not(Py_3_12))]
            {
                let [kind, value, traceback] = self.exception;
                api::PyErr_Restore(kind, value, traceback);
            }
        }
    }
}
