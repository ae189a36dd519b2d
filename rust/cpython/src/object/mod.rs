//! Objects: held, named, read without running their code.
//!
//! | file | gives |
//! | --- | --- |
//! | `address_cache` | a cache by the addresses of objects |
//! | `attribute` | plain attributes of instances, read without running code |
//! | `gil_cell` | values that only attached threads use |
//! | `held` | an object, borrowed or owned |
//! | `int` | the value of an int |
//! | `interned` | names that are looked up often |
//! | `text` | the characters of a str |
//! | `tracked` | objects that the interpreter's collector knows |

pub mod address_cache;
pub mod attribute;
pub mod gil_cell;
pub mod held;
pub mod int;
pub mod interned;
pub mod text;
pub mod tracked;
