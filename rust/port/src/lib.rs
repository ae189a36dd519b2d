//! From the rings of sessions to files and sockets: trace ports, the flight recorder, and the signals that ask it to write.
//!
//! | module | is |
//! | --- | --- |
//! | [`ports`] | a thread that drains sessions into an `inviso_log` sink |
//! | [`recorder`] | dumps of what rings hold, written on request |
//! | [`signals`] | signal handlers that only note the signal |
//! | [`about`] | what logs are told of the program and its threads |
//! | [`bell`] | wakes the recorder's thread, also from a signal handler |
//! | [`limits`] | when a port ends by itself |
//! | [`inherited`] | a mutex that a forked child can still take |
//! | [`learned`] | what is known of tasks, functions and channels, for logs |
//! | [`node`] | this node's name |
//! | [`origin`] | which node a pid belongs to |
//!
//! A Rust program can use all of it; nothing here knows Python. Threads of a process that forks rest meanwhile: see
//! [`ports::pause`], [`ports::resume`] and [`ports::abandon`].

pub mod about;
pub mod bell;
pub mod inherited;
pub mod learned;
pub mod limits;
pub mod node;
pub mod origin;
pub mod ports;
pub mod recorder;
pub mod signals;
