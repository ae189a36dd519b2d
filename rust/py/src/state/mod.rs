//! What the host, its processes and its threads keep. Rooms above have the behaviour.
//!
//! | file | is |
//! | --- | --- |
//! | `exits` | the exit signals that a process received |
//! | `instrument` | what an instrument is made of |
//! | `object_cache` | which process an object is, remembered by each thread |
//! | `objects` | arguments that wait for a tracer as they are |
//! | `origin` | where a message comes from |
//! | `places` | the names of functions that tasks run in, kept by each thread |
//! | `process` | what this package keeps with a process |
//! | `reentrant_lock` | a lock under which Python may run |
//! | `tasks` | tasks, queues and ports by their addresses |
//! | `untraced` | work on objects of the program inside an event |
//! | `wants` | the needs of all sessions together |
pub mod exits;
pub mod instrument;
pub mod object_cache;
pub mod objects;
pub mod origin;
pub mod places;
pub mod process;
pub mod reentrant_lock;
pub mod tasks;
pub mod untraced;
pub mod wants;

use std::sync::{Mutex, MutexGuard};

/// Locks one of the locks of this package. No Python code can run while one of them is held, so attached threads may
/// wait for it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
