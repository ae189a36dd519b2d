//! This node's name.
//!
//! # Roles
//!
//! Any thread reads or sets it.
//!
//! # States
//!
//! Empty, then a name.
//!
//! # Orderings
//!
//! None of its own: a mutex.
//!
//! # Checked by
//!
//! The example of [`name`].
#![forbid(unsafe_code)]

use inviso_core::host::sync::Unpoisoned;
use std::sync::Mutex;

static NAME: Mutex<String> = Mutex::new(String::new());

/// The name; `nonode@nohost` until it is set.
///
/// ```
/// use inviso_port::node;
/// assert_eq!(node::name(), "nonode@nohost");
/// node::set_name("shop@here");
/// assert_eq!(node::name(), "shop@here");
/// ```
pub fn name() -> String {
    let name = NAME.lock().unpoisoned();
    if name.is_empty() {
        "nonode@nohost".to_owned()
    } else {
        name.clone()
    }
}

/// Sets the name of this node.
pub fn set_name(name: &str) {
    *NAME.lock().unpoisoned() = name.to_owned();
}
