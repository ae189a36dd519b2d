//! Threads, tasks, queues and ports as processes: from an object to its process and back.
//!
//! | file | is |
//! | --- | --- |
//! | `channels` | what a queue, future, executor or event loop is, for logs |
//! | `exit_reason` | why a task or thread ends, as a term |
//! | `first` | a thread's state at its first event |
//! | `lookup` | finding the process of an object or thread, and its object |
//! | `orphans` | processes that have ended where nothing could be signalled |
//! | `pending` | threads between their start and their first event |
//! | `running` | the process that runs on a thread |
//! | `thread_ids` | threads by the operating system's numbers |
//! | `thread_objects` | objects of `threading.Thread`: how far they are |

pub mod channels;
pub mod exit_reason;
pub mod first;
pub mod lookup;
pub mod orphans;
pub mod pending;
pub mod running;
pub mod thread_ids;
pub mod thread_objects;
