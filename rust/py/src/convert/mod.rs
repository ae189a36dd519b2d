//! Between terms and Python objects.
//!
//! | file | is |
//! | --- | --- |
//! | `arrow` | Arrow's C data and stream interface, as far as a stream of tables needs it |
//! | `decode` | Python objects from terms |
//! | `errors` | the core's errors and the system's as Python's exceptions |
//! | `pid` | `Pid`: a process's name in messages, hashable and ordered |
//! | `terms` | the package's own classes for terms |
//! | `view` | live Python objects for match specs, read without running code of the program |

pub mod arrow;
pub mod decode;
pub mod errors;
pub mod pid;
pub mod terms;
pub mod view;
