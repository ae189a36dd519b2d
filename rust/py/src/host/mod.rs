//! What knows all other rooms: the table of instruments, the ends of sessions.
//!
//! | file | is |
//! | --- | --- |
//! | `above` | what the rooms below get from the rooms above them |
//! | `delivery` | from a session's rings to its tracer |
//! | `instruments` | all instruments, and when each of them is put in place and taken away |
//! | `session_end` | what follows the end of a session, or a change of its patterns |
//! | `tokens_idle` | the instruments that carry tokens, while there are tokens |

pub mod above;
pub mod delivery;
pub mod instruments;
pub mod session_end;
pub mod tokens_idle;
