//! Between terms and Python objects.
//!
//! | file | is |
//! | --- | --- |
//! | `arrow` | Arrow's C data and stream interface, as far as a stream of tables needs it |
//! | `decode` | python objects from terms |
//! | `errors` | the core's errors as Python's, exhaustively; and the system's |
//! | `pid` | `Pid`: a process's name in messages, hashable and ordered |
//! | `terms` | the package's own classes for terms: how the decoder makes them, and how the encoder knows them |
//! | `view` | live Python objects as a match spec looks at them: by the layouts of the built-in types alone, so that none of the program's |

pub mod arrow;
pub mod decode;
pub mod errors;
pub mod pid;
pub mod terms;
pub mod view;
