//! Which code has events: finding it, arming it, taking in code that comes later.
//!
//! | file | is |
//! | --- | --- |
//! | `arming` | switching events on and off |
//! | `codes` | finding functions by pattern; the names of code |
//! | `foreign_functions` | functions written in C, found by name |
//! | `found` | a function that was found |
//! | `loading` | functions that come into being later |
//! | `originals` | the library's own functions, also where the program has wrapped them |

pub mod arming;
pub mod codes;
pub mod foreign_functions;
pub mod found;
pub mod loading;
pub mod originals;
