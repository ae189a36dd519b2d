//! From CPython into the tracer: the door, the interpreter's callbacks, switching them on and off.
//!
//! | file | is |
//! | --- | --- |
//! | `alone` | a lock under which Python may run. Who waits for it is detached, so that its holder goes on; and the holder itself, which a signal |
//! | `builtin` | functions of built-in modules, with hooks around each call |
//! | `callbacks` | the functions that the interpreter calls |
//! | `ending` | the signal that ends a process which has something to write |
//! | `fault` | a failure on request, for tests of the door |

pub mod builtin;
pub mod callbacks;
pub mod ending;
pub mod fault;
