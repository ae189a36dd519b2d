//! What the host, its processes and its threads keep. Rooms above have the behaviour.
//!
//! | file | is |
//! | --- | --- |
//! | `above` | functions and tables of higher rooms that lower rooms use |
//! | `armed` | the events that are armed, and the code that is held for them |
//! | `buffer` | the objects in the buffer of a queue between processes |
//! | `deliveries` | where each session's messages are delivered |
//! | `directory` | all processes, by their objects and threads |
//! | `exits` | the exit signals that a process received |
//! | `host` | the state of the traced program |
//! | `instrument` | what an instrument is made of |
//! | `loading` | functions that are created later, while a session waits for them |
//! | `mailbox` | a process's mailbox, and the sessions that feed it |
//! | `object_cache` | which process an object is, remembered by each thread |
//! | `objects` | arguments that wait for a tracer as they are |
//! | `origin` | where a message comes from |
//! | `outcome` | what is known of the result of a future |
//! | `pattern` | patterns of functions |
//! | `pieces` | the state of a call for many results of a pool |
//! | `places` | the names of functions that tasks run in, kept by each thread |
//! | `port` | what is kept with a port |
//! | `process` | what this package keeps with a process |
//! | `reentrant_lock` | a lock under which Python may run |
//! | `senders` | the senders of a queue's items |
//! | `spawning` | threads that are being started |
//! | `stacks` | the greenlets of a thread |
//! | `start` | the host is made at first use |
//! | `tasks` | tasks, queues and ports by their addresses |
//! | `thread` | what a thread keeps between two events |
//! | `tracer_module` | a session's tracer module |
//! | `untraced` | work on objects of the program inside an event |
//! | `waiting` | waiting for space in a ring |
//! | `wants` | the needs of all sessions together |

pub mod above;
pub mod armed;
pub mod buffer;
pub mod deliveries;
pub mod directory;
pub mod exits;
pub mod host;
pub mod instrument;
pub mod loading;
pub mod mailbox;
pub mod object_cache;
pub mod objects;
pub mod origin;
pub mod outcome;
pub mod pattern;
pub mod pieces;
pub mod places;
pub mod port;
pub mod process;
pub mod reentrant_lock;
pub mod senders;
pub mod spawning;
pub mod stacks;
pub mod start;
pub mod tasks;
pub mod thread;
pub mod tracer_module;
pub mod untraced;
pub mod waiting;
pub mod wants;

use inviso_core::host::sync::Unpoisoned;
use std::sync::{Mutex, MutexGuard};

/// Locks one of the locks of this package. No Python code can run while one of them is held, so attached threads may
/// wait for it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}
