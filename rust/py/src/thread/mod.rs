//! What a thread keeps between two events.
//!
//! | file | is |
//! | --- | --- |
//! | `backtrace` | who called whom, as terms |
//! | `call` | a running Python call, as the core sees it |
//! | `greenlets` | stacks of calls that take turns on a thread |
//! | `state` | what a thread keeps between two events |
//! | `late` | arguments whose taking runs the program's code |
//! | `mailbox` | a process's mailbox: messages are Python objects, taken by their process alone |

pub mod backtrace;
pub mod call;
pub mod greenlets;
pub mod late;
pub mod mailbox;
pub mod state;
