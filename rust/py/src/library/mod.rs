//! Instruments: one folder a piece of the standard library.
//!
//! | file | is |
//! | --- | --- |
//! | `collector` | collections of garbage |
//! | `futures` | results of futures |
//! | `greenlets` | stacks of calls that take turns on a thread |
//! | `loops` | what other threads hand to an event loop |
//! | `multiprocess` | queues, connections and pools of `multiprocessing` |
//! | `ports` | sockets, subprocesses, transports |
//! | `queues` | queues of the standard library |

pub mod collector;
pub mod futures;
pub mod greenlets;
pub mod loops;
pub mod multiprocess;
pub mod ports;
pub mod queues;
