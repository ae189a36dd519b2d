//! Threads and tasks as processes: who starts whom, who runs, who is linked, how they end.
//!
//! | file | is |
//! | --- | --- |
//! | `groups` | task groups as links |
//! | `relations` | links, monitors, names, exit signals |
//! | `scheduling` | which task and thread runs when |
//! | `spawning` | who starts whom, and how it ends |
//! | `task_ends` | the ends of tasks |
//! | `task_init` | when a task's object is made |
//! | `task_made` | a task is made: its process, and who started it |
//! | `task_turns` | the steps of a task |
//! | `turns` | what the turns of tasks, threads and callbacks have in common |
//! | `waited_tasks` | tasks that `asyncio.wait_for` makes before Python 3.12 |

pub mod groups;
pub mod relations;
pub mod scheduling;
pub mod spawning;
pub mod task_ends;
pub mod task_init;
pub mod task_made;
pub mod task_turns;
pub mod turns;
#[cfg(not(Py_3_12))]
pub mod waited_tasks;
