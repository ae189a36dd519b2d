//! Objects: held, named, read without asking them.
//!
//! | file | gives |
//! | --- | --- |
//! | `attribute` | plain attributes of instances, without asking by name |
//! | `guarded` | what only attached threads look at |
//! | `held` | an object borrowed or owned |
//! | `interned` | names that are looked up often |
//! | `text` | the characters of a str |
//! | `tracked` | objects that the collector knows |

pub mod attribute;
pub mod gil_cell;
pub mod held;
pub mod interned;
pub mod text;
pub mod tracked;
