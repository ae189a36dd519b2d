//! Threads and tasks as processes: who starts whom, who runs, who is linked, how they end.
//!
//! | file | is |
//! | --- | --- |
//! | `directory` | threads and tasks as processes |
//! | `exit_reason` | why a task or thread ends, as a term |
//! | `groups` | task groups as links |
//! | `relations` | links, monitors, names, exit signals |
//! | `scheduling` | which task and thread runs when |
//! | `spawning` | who starts whom, and how it ends |
//! | `task_end` | when a task's object is gone |
//! | `task_init` | when a task's object is made |
//! | `task_made` | a task is made: its process, and who started it |
//! | `task_turns` | the steps of a task |
//! | `thread_objects` | objects of `threading.Thread`: their functions, and how far they are |
//! | `thread_ids` | threads by the operating system's numbers |

pub mod directory;
pub mod exit_reason;
pub mod groups;
pub mod relations;
pub mod scheduling;
pub mod spawning;
pub mod task_end;
pub mod task_init;
pub mod task_made;
pub mod task_turns;
pub mod thread_ids;
pub mod thread_objects;
