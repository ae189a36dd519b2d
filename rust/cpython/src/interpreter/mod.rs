//! The interpreter and the thread that runs: its state, calls of Python code, exceptions, collections.
//!
//! | file | gives |
//! | --- | --- |
//! | `again` | what a handler of a signal raises comes again in the program |
//! | `calling` | calls of what may be written in Python |
//! | `collector` | collections held back |
//! | `cpu` | processor time of a thread |
//! | `exception` | the exception that is set, put aside |
//! | `generic` | attributes by the generic rules |
//! | `local_time` | the local time of a second |
//! | `standard` | modules of the standard library, also where the program has one of the name |
//! | `state` | the thread state, likewise |
//! | `tls` | two words a thread, read in one instruction |

pub mod again;
pub mod calling;
pub mod collector;
pub mod cpu;
pub mod exception;
pub mod generic;
pub mod local_time;
pub mod standard;
pub mod state;
pub mod tls;

pub use collector::Uncollected;
pub use exception::Aside;
pub use state::current as tstate;
