//! Frames that run, and their code.
//!
//! | file | gives |
//! | --- | --- |
//! | `bottom` | calls below which no frame is seen |
//! | `code` | a code object's parameters and names |
//! | `frame` | the running interpreter frame: code, function, caller, arguments |
//! | `handlers` | whether a frame catches an exception (3.11) |
//! | `opcodes` | what the instruction at a place says (3.12+) |
//! | `public` | the fields of these by public functions, for unknown interpreters (`inviso_public_api`) |
//! | `raw` | the fields of these by their layouts |
//! | `stacks` | the stacks of all threads |

pub mod bottom;
pub mod code;
pub mod frame;
#[cfg(not(Py_3_12))]
pub mod handlers;
#[cfg(Py_3_12)]
pub mod opcodes;
#[cfg(inviso_public_api)]
mod public;
#[cfg(not(inviso_public_api))]
mod raw;
pub mod stacks;

#[cfg(inviso_public_api)]
use public as fields;
#[cfg(not(inviso_public_api))]
use raw as fields;

pub(crate) use fields::generator_state;
