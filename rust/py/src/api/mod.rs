//! The classes and functions of `inviso._native`.
//!
//! | file | is |
//! | --- | --- |
//! | `about` | facts about this process, for `inviso.about` |
//! | `counters` | the counts of a session for Python: by function and process, or by place in a call tree |
//! | `descriptor` | system calls on a tracer's own descriptor: they never wait, so the GIL is kept |
//! | `etf` | terms from bytes of any origin, and back: `inviso.etf`, and the messages of logs |
//! | `export` | exports for Python: a format's bytes in pieces, and tables for readers of Arrow |
//! | `fork` | calls of the package after a fork |
//! | `interpreter` | calls in the interpreter's main thread, and functions for programs that this package runs |
//! | `library` | tracer modules in shared libraries, as `inviso_tracer.h` describes them |
//! | `log` | reads logs into Python objects, and writes them as other logs |
//! | `mailbox` | mailboxes for Python |
//! | `match_spec` | `MatchProgram`: match specs from Python values, and back; runs one on a subject; the control word |
//! | `merge` | several logs as one: as lines, as another log, or as objects with the names of their processes |
//! | `merge_state` | logs that are read in one order, and the state of each |
//! | `merge_text` | a message of a log as text |
//! | `pickles` | numbers and tokens that stand after the pickles of `multiprocessing`, for `inviso._pickles` |
//! | `pid` | `Pid`: its attributes and methods |
//! | `processes` | processes for Python: the running one, all of them, their names |
//! | `relations_api` | links, monitors, names and exit signals for Python |
//! | `running` | runs a function of the API as the running process |
//! | `seq` | sequential tracing for Python: the running process's token, printing, the system tracer |
//! | `session` | `Session`: convert, call the core, convert back |
//! | `session_create` | makes sessions, and finds them |
//! | `session_targets` | the targets of a session's calls: functions, patterns, entries of a plan |
//! | `table` | small tables that Python has made, column by column, as Arrow streams |
//! | `trace_port` | `LogPort`: convert, call the host, convert back |
//! | `tracer` | tracer modules: Python objects whose callbacks run at events, in the tracee's thread |
//! | `tracer_abi` | the tables of `inviso_tracer.h`; terms by handle, in an arena that lives as long as one callback |
//! | `wire` | terms and tokens that go to other nodes, or come from there |

pub mod about;
pub mod counters;
pub mod descriptor;
pub mod etf;
pub mod export;
pub mod fork;
pub mod interpreter;
pub mod library;
pub mod log;
pub mod mailbox;
pub mod match_spec;
pub mod merge;
pub mod merge_state;
pub mod merge_text;
pub mod pickles;
pub mod pid;
pub mod processes;
pub mod relations_api;
pub mod running;
pub mod seq;
pub mod session;
pub mod session_create;
pub mod session_targets;
pub mod table;
pub mod trace_port;
pub mod tracer;
pub mod tracer_abi;
pub mod wire;
