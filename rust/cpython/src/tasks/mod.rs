//! asyncio's tasks.
//!
//! | file | gives |
//! | --- | --- |
//! | `name` | the name of a task |
//! | `running` | the asyncio task that runs now |
//! | `steps` | the functions that run a task's steps |

pub mod name;
pub mod running;
pub mod steps;
