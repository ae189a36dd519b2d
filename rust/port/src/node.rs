//! This node's name.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

/// Empty until it is set.
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
    let name = NAME.lock().unwrap_or_else(PoisonError::into_inner);
    if name.is_empty() {
        "nonode@nohost".to_owned()
    } else {
        name.clone()
    }
}

/// Names this node.
pub fn set_name(name: &str) {
    *NAME.lock().unwrap_or_else(PoisonError::into_inner) = name.to_owned();
}
