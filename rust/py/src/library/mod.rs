//! Instruments: one folder or file for each piece of the standard library. None imports another one; what they share is
//! in `inner_callbacks`, `pool_queues` and `results`.
//!
//! | file | is |
//! | --- | --- |
//! | `collector` | collections of garbage |
//! | `futures` | results of futures |
//! | `greenlets` | stacks of calls that take turns on a thread |
//! | `inner_callbacks` | callbacks by which the library itself sets futures |
//! | `loops` | what other threads hand to an event loop |
//! | `multiprocess` | queues, connections and pools of `multiprocessing` |
//! | `pool_queues` | queues of pools of threads |
//! | `ports` | sockets, subprocesses, transports |
//! | `queues` | queues of the standard library |
//! | `results` | results that one process sets and another takes |

pub mod collector;
pub mod futures;
pub mod greenlets;
pub mod inner_callbacks;
pub mod loops;
pub mod multiprocess;
pub mod pool_queues;
pub mod ports;
pub mod queues;
pub mod results;
