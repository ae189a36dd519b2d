//! CPython below its stable interface, for a host of the tracer. Only other crates of the workspace use it.
//!
//! | room | gives | may use |
//! | --- | --- | --- |
//! | [`layout`] | byte offsets by version | |
//! | [`platform`] | what differs between operating systems | |
//! | [`object`] | objects: held, named, read without running their code | `layout` |
//! | [`interpreter`] | the interpreter and the calling thread: state, calls of Python code, exceptions, collections | these |
//! | [`frames`] | frames that run, and their code | these |
//! | [`hooks`] | places where the interpreter calls us | these |
//! | [`tasks`] | asyncio's tasks | these |
//! | [`capture`] | snapshots of objects, as terms | these |
//! | [`calibrate`] | the check of the layouts at import | these |
//!
//! Everything that reads raw memory is right only while [`layout::raw_ok`] is true. No C compiler and no Python header
//! is needed: the offsets are constants by version, and [`calibrate::check`] compares them at import with the
//! interpreter's own table and with a calibration run.

// Each version of CPython uses its own part of this module.
#![allow(dead_code)]

pub mod calibrate;
pub mod capture;
pub mod frames;
pub mod hooks;
pub mod interpreter;
pub mod layout;
pub mod object;
pub mod platform;
pub mod tasks;
