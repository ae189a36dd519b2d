//! What Python calls: classes and functions of `inviso._native`.
//!
//! | file | is |
//! | --- | --- |
//! | `counters` | what a session has counted, as Python gets it: by function and process, or by place in a call tree |
//! | `descriptor` | what a tracer does with a descriptor of its own: calls of the system that never wait, so the GIL is kept |
//! | `etf` | terms from bytes that may come from anywhere, and back: `inviso.etf`, and the messages of logs |
//! | `export` | exports for Python: a format's bytes, piece by piece, and tables for whoever reads Arrow |
//! | `fork` | after a fork |
//! | `library` | tracer modules that are shared libraries: `inviso_tracer.h` says what is in one |
//! | `log` | logs: reading them into Python objects, and writing them as other logs |
//! | `match_spec` | `MatchProgram`: match specs from Python values, and back; running one on a subject |
//! | `merge` | logs merged, or one after the other, as lines, as another log, or as objects with the names of their processes |
//! | `merge_state` | logs that are read in one order, and what is known of each |
//! | `merge_text` | a message of a log as text |
//! | `pickles` | numbers and tokens that stand behind the pickles of `multiprocessing`, for `inviso._pickles` |
//! | `pid` | `Pid`: its attributes and methods |
//! | `processes` | processes for Python: who runs, who exists, mailboxes |
//! | `relations_api` | links, monitors, names and exit signals, as Python calls them |
//! | `run` | functions for programs that this package runs: they see no frame and no module of this package's own needs |
//! | `seq` | sequential tracing for Python: the running process's token, printing, the system tracer |
//! | `session` | `Session`: convert, call the core, convert back |
//! | `session_create` | sessions are made here, and found |
//! | `session_targets` | what a call names of a session: functions, patterns, entries of a plan |
//! | `table` | small tables that Python has made, column by column, as streams of Arrow |
//! | `trace_port` | `LogPort`: convert, call the host, convert back |
//! | `tracer` | tracer modules: Python objects whose callbacks are called where an event happens. What is called runs in the tracee's thread, |
//! | `tracer_abi` | the tables of `inviso_tracer.h`, and what is behind the host's: terms by handle, in an arena that lives as long as one callback |
//! | `wire` | terms and tokens that go to other nodes, or come from there |

pub mod counters;
pub mod descriptor;
pub mod etf;
pub mod export;
pub mod fork;
pub mod library;
pub mod log;
pub mod match_spec;
pub mod merge;
pub mod merge_state;
pub mod merge_text;
pub mod pickles;
pub mod pid;
pub mod processes;
pub mod relations_api;
pub mod run;
pub mod seq;
pub mod session;
pub mod session_create;
pub mod session_targets;
pub mod table;
pub mod trace_port;
pub mod tracer;
pub mod tracer_abi;
pub mod wire;
