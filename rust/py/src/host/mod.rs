//! What knows all other rooms: the table of instruments, the ends of sessions.
//!
//! | file | is |
//! | --- | --- |
//! | `above` | what the rooms below get from the rooms above them |
//! | `forking` | what survives a fork |
//! | `instruments` | all instruments, and when each of them is put in place and taken away |
//! | `session_end` | what follows the end of a session, or a change of its patterns |
//! | `tokens_idle` | the instruments that carry tokens, while there are tokens |

pub mod above;
pub mod forking;
pub mod instruments;
pub mod session_end;
pub mod tokens_idle;
