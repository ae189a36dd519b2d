//! What instruments of the standard library are made of: functions that are watched, messages, tokens.
//!
//! | file | is |
//! | --- | --- |
//! | `callback_tokens` | tokens of callbacks |
//! | `lengths` | who put what into a queue, and how long it is |
//! | `modules` | what instruments watch in modules, whenever those are imported |
//! | `parcels` | calls and exceptions, as objects that are sent |
//! | `passing` | a message that is sent or has arrived, as the core sees it |
//! | `queue_classes` | the library's classes of queues, and the modules that define them |
//! | `senders` | who put what into a queue, and how long it is |
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
