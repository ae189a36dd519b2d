//! Frames that run, and their code.
//!
//! | file | gives |
//! | --- | --- |
//! | `bottom` | calls below which no frame is seen |
//! | `code` | a code object's parameters and names |
//! | `frame` | the running interpreter frame: code, function, caller, arguments |
//! | `handlers` | whether a frame catches an exception (3.11) |
//! | `opcodes` | what the instruction at a place says (3.12+) |
//! | `stacks` | the stacks of all threads |

pub mod bottom;
pub mod code;
pub mod frame;
#[cfg(not(Py_3_12))]
pub mod handlers;
#[cfg(Py_3_12)]
pub mod opcodes;
pub mod stacks;
