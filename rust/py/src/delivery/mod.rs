//! From the rings of sessions to the mailboxes of their tracers.
//!
//! | file | is |
//! | --- | --- |
//! | `messages` | from a record in a ring to the tuple that a tracer gets |
//! | `pump` | records and posted messages come into a mailbox |
//! | `receive` | a process waits for a message in its mailbox |
//! | `tracer_words` | the atoms that callbacks of tracer modules are called with |

pub mod messages;
pub mod pump;
pub mod receive;
pub mod tracer_words;
