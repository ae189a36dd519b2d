//! `Pid`: the identifier of a process in messages, hashable and ordered.

use inviso_port::{node::name as node_name, origin::Origin};
use inviso_term::{etf::Node, term::Identifier};
use pyo3::prelude::*;

/// A process's identifier.
#[pyclass(frozen, module = "inviso._native.process")]
pub struct Pid {
    /// The number by which the core knows it.
    pub id: u64,
    /// Where it comes from.
    pub origin: Origin,
}

impl Pid {
    /// The identifier of a process of this node.
    pub fn new(id: u64) -> Self {
        Pid { id, origin: Origin::own() }
    }

    /// The identifier as a term.
    pub fn identifier(&self) -> Identifier {
        if self.is_own() {
            return Identifier::own(self.id);
        }
        Identifier::new(self.id, &self.node_name(), self.origin.creation() as u32)
    }

    /// The pid of a term.
    pub fn of_term(of: Node<'_>) -> Self {
        if of.creation == 0 && of.name == "nonode@nohost" {
            return Pid::new(of.id);
        }
        Pid { id: of.id, origin: Origin::of_term(of.name, of.creation) }
    }

    /// The name of the node that the process runs on.
    pub fn node_name(&self) -> String {
        self.origin.foreign_name().unwrap_or_else(node_name)
    }

    /// Whether it is a process of this node, which is this operating system process.
    pub fn is_own(&self) -> bool {
        self.origin == Origin::own()
    }
}

/// The origin of this process, by its number, as ports have it.
#[pyfunction]
pub fn origin() -> u64 {
    Origin::own().order()
}

/// The number of the origin of a node, by its name and creation.
#[pyfunction]
pub fn origin_of(name: String, creation: u64) -> u64 {
    Origin::of(name, creation).order()
}

/// The printed number of an origin, its node's name, and its creation.
#[pyfunction]
pub fn origin_is(order: u64) -> (u64, String, u64) {
    let origin = Origin::by_order(order);
    (origin.number(), origin.foreign_name().unwrap_or_else(node_name), origin.creation())
}

/// Sets whether the first node without a name whose pids are read from now on is shown as this one.
#[pyfunction]
pub fn show_first_as_here(is: bool) {
    inviso_port::origin::show_first_as_here(is);
}

/// The pid of a process by its node's name and creation, as pickles have them.
#[pyfunction]
pub fn pid_of_node(name: String, creation: u64, id: u64) -> Pid {
    Pid { id, origin: Origin::of(name, creation) }
}
