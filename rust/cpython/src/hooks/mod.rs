//! Places where the interpreter calls us.
//!
//! | file | gives |
//! | --- | --- |
//! | `alloc` | a count of the bytes requested from Python's allocators |
//! | `awaited` | the `await` of a class's objects, replaced |
//! | `eval` | a frame evaluation function (3.11) |
//! | `function_slot` | words that hold a function which the interpreter calls |
//! | `method` | methods of built-in types, replaced in their definitions |
//! | `monitoring` | `sys.monitoring`: one tool id, events by name (3.12+) |
//! | `original` | the function that one of ours stands before |
//! | `profile` | a profile function, for functions written in C (3.11) |
//! | `stack` | the rest of the C stack, and more of it (3.11) |
//! | `vectorcall` | callable objects from bare functions |
//! | `watch` | code and function watchers (3.12+) |

pub mod alloc;
pub mod awaited;
#[cfg(not(Py_3_12))]
pub mod eval;
pub mod function_slot;
pub mod method;
#[cfg(Py_3_12)]
pub mod monitoring;
pub mod original;
#[cfg(not(Py_3_12))]
pub mod profile;
#[cfg(not(Py_3_12))]
pub mod stack;
pub mod vectorcall;
#[cfg(Py_3_12)]
pub mod watch;
