//! From CPython into the tracer: the door, the interpreter's callbacks, switching them on and off.
//!
//! | file | is |
//! | --- | --- |
//! | `alone` | a lock under which Python may run. Who waits for it is detached, so that its holder goes on; and the holder itself, which a signal |
//! | `arming` | switching those on and off |
//! | `builtin` | functions of built-in modules, with hooks around each call |
//! | `callbacks` | the functions that the interpreter calls |
//! | `codes` | finding functions by pattern; the names of code |
//! | `collector` | collections of garbage |
//! | `ending` | the signal that ends a process which has something to write |
//! | `fault` | a failure on request, for tests of the door |
//! | `foreign` | functions written in C, seen where they are called |
//! | `forking` | what survives a fork |
//! | `loading` | functions that come into being later |

pub mod arming;
pub mod builtin;
pub mod callbacks;
pub mod codes;
pub mod collector;
pub mod ending;
pub mod fault;
pub mod foreign;
pub mod forking;
pub mod loading;
