//! What the host, its processes and its threads keep. Rooms above have the behaviour.
//!
//! | file | is |
//! | --- | --- |
//! | `buffer` | the objects in the buffer of a queue between processes |
//! | `exits` | the exit signals that a process received |
//! | `instrument` | what an instrument is made of |
//! | `object_cache` | which process an object is, remembered by each thread |
//! | `objects` | arguments that wait for a tracer as they are |
//! | `origin` | where a message comes from |
//! | `outcome` | what is known of the result of a future |
//! | `pieces` | the state of a call for many results of a pool |
//! | `places` | the names of functions that tasks run in, kept by each thread |
//! | `port` | what is kept with a port |
//! | `process` | what this package keeps with a process |
//! | `reentrant_lock` | a lock under which Python may run |
//! | `senders` | the senders of a queue's items |
//! | `tasks` | tasks, queues and ports by their addresses |
//! | `untraced` | work on objects of the program inside an event |
//! | `wants` | the needs of all sessions together |
pub mod buffer;
pub mod exits;
pub mod instrument;
pub mod object_cache;
pub mod objects;
pub mod origin;
pub mod outcome;
pub mod pieces;
pub mod places;
pub mod port;
pub mod process;
pub mod reentrant_lock;
pub mod senders;
pub mod tasks;
pub mod untraced;
pub mod wants;

use std::sync::{Mutex, MutexGuard};

/// Locks one of the locks of this package. No Python code can run while one of them is held, so attached threads may
/// wait for it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
