//! What instruments of the standard library are made of: functions that are watched, messages, tokens.
//!
//! | file | is |
//! | --- | --- |
//! | `callback_tokens` | tokens of callbacks |
//! | `lengths` | how long queues and mailboxes are |
//! | `message_view` | a message that is sent or has arrived, as the core sees it |
//! | `modules` | modules whose functions instruments watch, whenever they are imported |
//! | `queue_classes` | the library's classes of queues, and the modules that define them |
//! | `senders` | when the senders of a queue's items are kept |
//! | `sent_values` | calls, exceptions and data, as objects that are sent |
//! | `tokens` | tokens of sequential tracing on their way |
//! | `watch` | functions of the standard library that instruments look at |

pub mod callback_tokens;
pub mod lengths;
pub mod message_view;
pub mod modules;
pub mod queue_classes;
pub mod senders;
pub mod sent_values;
pub mod tokens;
pub mod watch;
