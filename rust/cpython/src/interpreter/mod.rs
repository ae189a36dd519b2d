//! The interpreter and the calling thread: state, calls of Python code, exceptions, collections.
//!
//! | file | gives |
//! | --- | --- |
//! | `again` | exceptions of signal handlers, raised again in the program |
//! | `calling` | calls of code that may be written in Python |
//! | `collector` | holds collections back |
//! | `exception` | the exception that is set, put aside |
//! | `generic` | attributes by the generic rules |
//! | `local_time` | the local time of a second |
//! | `standard` | modules of the standard library, if the program has files of the same names |
//! | `state` | the thread state, read in one instruction |
//! | `tls` | two words a thread, each read in one instruction |

pub mod again;
pub mod calling;
pub mod collector;
pub mod exception;
pub mod generic;
pub mod local_time;
pub mod standard;
pub mod state;
pub mod tls;

pub use collector::Uncollected;
pub use exception::Aside;
pub use state::current as tstate;
