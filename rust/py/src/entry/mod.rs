//! What the interpreter calls: callbacks at events, hooks around built-in functions, the signal that ends a process.
//!
//! | file | is |
//! | --- | --- |
//! | `builtin` | functions of built-in modules, with hooks around each call |
//! | `callbacks` | the functions that the interpreter calls |
//! | `ending` | the signal that ends a process which has something to write |
//! | `fault` | a failure on request, for tests of the door |

pub mod builtin;
pub mod callbacks;
pub mod ending;
pub mod fault;
