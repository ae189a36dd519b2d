//! The state of a call by which a program asks a pool for many results.

use inviso_core::host::{node::Node, seq::Carried};
use std::collections::BTreeMap;

/// The state of such a call.
#[derive(Default)]
pub struct Pieces {
    /// The token that each piece goes out with.
    pub call: Carried,
    /// The tokens of results that have not been taken, by their place.
    pub came: BTreeMap<u64, Carried>,
    /// Whether results get their places as they come.
    pub unordered: bool,
    /// How many results have come, and how many were taken.
    pub arrived: u64,
    pub taken: u64,
}

impl Pieces {
    /// Drops the tokens of before a reset.
    pub fn empty(&mut self, node: &Node) {
        node.seq_empty(&mut self.call);
        self.came.values_mut().for_each(|carried| node.seq_empty(carried));
    }
}
