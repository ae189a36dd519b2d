//! The objects in the buffer of a `multiprocessing.Queue` that wait to be pickled.

use inviso_core::host::{node::Node, seq::Carried};
use std::collections::VecDeque;

/// The known objects in a buffer, in the order in which their `put` began.
#[derive(Default)]
pub struct Buffer {
    /// How often the wrappers of the pickler had been installed when it was filled.
    pub times: u32,
    /// The entries.
    pub line: VecDeque<Entry>,
    /// How many of them have a `put` under way.
    pub open: usize,
}

pub struct Entry {
    /// Its address.
    pub object: usize,
    /// The frame of the `put`, while it is under way; else 0.
    pub frame: usize,
    /// The message's number, or 0.
    pub number: u64,
    /// Its token.
    pub carried: Carried,
}

impl Buffer {
    /// Tokens were reset: drops the tokens of all entries.
    pub fn empty(&mut self, node: &Node) {
        for entry in &mut self.line {
            node.seq_empty(&mut entry.carried);
        }
    }
}
