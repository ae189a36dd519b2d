//! Trace ports, the flight recorder and its signals: they write events from the rings of sessions to files and sockets.
//!
//! | module | is |
//! | --- | --- |
//! | [`ports`] | a thread that drains sessions into an `inviso_log` sink |
//! | [`recorder`] | dumps of what rings hold, written on request |
//! | [`signals`] | signal handlers that only note the signal |
//! | [`about`] | describes the program, its threads and functions in logs |
//! | [`bell`] | wakes the recorder's thread, also from a signal handler |
//! | [`limits`] | when a port closes by itself |
//! | [`fork_safe_lock`] | a mutex that a forked child can still take |
//! | [`learned`] | notes of tasks, functions and channels, for logs |
//! | [`node`] | this node's name |
//! | [`origin`] | which node a pid belongs to |
//! | [`platform`] | what differs between operating systems |
//!
//! This crate knows no Python: a Rust program can write ports by it. Its threads stop while the process forks: see [`ports::pause`],
//! [`ports::resume`] and [`ports::abandon`].

pub mod about;
pub mod bell;
pub mod fork_safe_lock;
pub mod learned;
pub mod limits;
pub mod node;
pub mod origin;
pub mod platform;
pub mod ports;
pub mod recorder;
pub mod signals;
