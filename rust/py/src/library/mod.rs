//! Instruments: one folder a piece of the standard library.
//!
//! | file | is |
//! | --- | --- |
//! | `futures` | results of futures |
//! | `loops` | what other threads hand to an event loop |
//! | `multiprocess` | queues, connections and pools of `multiprocessing` |
//! | `ports` | sockets, subprocesses, transports |
//! | `queues` | queues of the standard library |

pub mod futures;
pub mod loops;
pub mod multiprocess;
pub mod ports;
pub mod queues;
