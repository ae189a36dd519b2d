//! A running call of a thread, as the core sees it: its arguments, its callers.
//!
//! | file | is |
//! | --- | --- |
//! | `backtrace` | who called whom, as terms |
//! | `call` | a running Python call, as the core sees it |
//! | `foreign_call` | a running call of a function written in C, as its caller sees it |
//! | `late` | arguments whose taking runs the program's code |

pub mod backtrace;
pub mod call;
pub mod foreign_call;
pub mod late;
