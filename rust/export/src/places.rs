//! Names of processes and ports, and their programs, operating system processes and threads.
//!
//! A node is identified by its creation, whatever its name is: a log's pids have `nonode@nohost`, and after a merge the log's
//! name. Items of programs ([`inviso_log::about`]) apply from their place in the log. A caller's names take precedence.

use crate::{
    scan::{Bytes, Identity},
    text,
};
use inviso_log::about::{Channel, Function, Item};
use rustc_hash::{FxHashMap, FxHashSet};

/// The first random creation. Below it, Erlang counts.
pub const RANDOM: u32 = 4;

/// The first offset for the operating system's numbers of further nodes that use the same ones; larger than any such number.
const OTHER: u64 = 1 << 23;

/// The name of a node without a name.
const NAMELESS: &[u8] = b"nonode@nohost";

/// An operating system process for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its number: the operating system's if that is known. A second process with the same number (on another host) gets another
    /// one.
    pub pid: u64,
    /// Whether the number is the operating system's.
    pub is_known: bool,
    /// The program's name, or else the node's.
    pub title: String,
    /// The node's name.
    pub node: String,
    /// The offset for the numbers of its threads.
    other: u64,
}

#[derive(Clone, Debug)]
struct Program {
    os_pid: u64,
    name: String,
}

/// The names of processes and ports.
///
/// A pid of this node has two forms: without a creation, and with one as in logs.
#[derive(Debug, Default)]
pub struct Titles {
    names: FxHashMap<Box<[u8]>, String>,
    own: u32,
    is_log: bool,
    programs: FxHashMap<Box<[u8]>, Program>,
    /// The programs that a caller gave, by node.
    given: FxHashMap<Box<[u8]>, Program>,
    threads: FxHashMap<Box<[u8]>, u64>,
    /// The names of processes in logs. A task may be renamed.
    learned: FxHashMap<Box<[u8]>, String>,
    channels: FxHashMap<Box<[u8]>, Channel>,
    /// By module, name and arity. Functions written in C have no arity here: their calls show the number of arguments.
    functions: FxHashMap<(String, String, Option<u32>), Function>,
    nodes: Vec<Node>,
    by_key: FxHashMap<Box<[u8]>, u32>,
    used: FxHashSet<u64>,
}

impl Titles {
    /// Creates an empty set. `own` is the creation of this process. With `is_log`, pids without a creation are another process's,
    /// from Erlang's logs, and get no names of this node.
    #[must_use]
    pub fn new(own: u32, is_log: bool) -> Titles {
        Titles { own, is_log, ..Titles::default() }
    }

    /// Names the process or port of these bytes.
    /// Only other crates of the workspace use it.
    pub fn insert(&mut self, of: Bytes<'_>, title: String) {
        let Some(of) = Identity::of(of) else { return };
        for key in self.keys(&of) {
            self.names.insert(key, title.clone());
        }
    }

    /// Sets the operating system's number of a thread.
    /// Only other crates of the workspace use it.
    pub fn insert_thread(&mut self, of: Bytes<'_>, os_tid: u64) {
        let Some(of) = Identity::of(of) else { return };
        for key in self.keys(&of) {
            self.threads.insert(key, os_tid);
        }
    }

    /// Sets the program of this process.
    /// Only other crates of the workspace use it.
    pub fn set_own_program(&mut self, os_pid: u64, name: String) {
        let program = Program { os_pid, name };
        self.programs.insert(node_key(b"", self.own), program.clone());
        if !self.is_log {
            self.programs.insert(node_key(NAMELESS, 0), program);
        }
    }

    /// Sets the program of a node.
    /// Only other crates of the workspace use it.
    pub fn give_program(&mut self, node: &str, os_pid: u64, name: String) {
        self.given.insert(node.as_bytes().into(), Program { os_pid, name });
    }

    /// Adds the items of a record about this process.
    pub fn learn(&mut self, of: Bytes<'_>, items: Vec<Item>) {
        let Some(of) = Identity::of(of) else { return };
        for item in items {
            match item {
                Item::Program { os_pid, name } => {
                    let program = Program { os_pid: os_pid.into(), name };
                    self.programs.entry(node_key(of.node, of.creation)).or_insert(program);
                }
                Item::Thread { id, os_tid, name } => {
                    let key = self.key(&Identity { is_port: false, id, ..of });
                    self.threads.entry(key.clone()).or_insert(os_tid);
                    self.learn_name(key, name);
                }
                Item::Task { id, name } => {
                    let key = self.key(&Identity { is_port: false, id, ..of });
                    self.learn_name(key, name);
                }
                Item::Channel { id, about } => {
                    let key = self.key(&Identity { is_port: false, id, ..of });
                    self.channels.insert(key, about);
                }
                Item::Function(of) => {
                    let key = (of.module.clone(), of.name.clone(), (!of.is_c).then_some(of.arity));
                    self.functions.entry(key).or_insert(of);
                }
            }
        }
    }

    fn learn_name(&mut self, key: Box<[u8]>, name: String) {
        // a caller that gives names gives all of them
        if !name.is_empty() && self.is_log {
            self.learned.insert(key, name);
        }
    }

    /// The properties of a queue in the log.
    pub(crate) fn channel(&self, of: Bytes<'_>) -> Option<&Channel> {
        self.channels.get(&self.key(&Identity::of(of)?))
    }

    /// The properties of a function in the log.
    pub(crate) fn function(&self, module: &str, name: &str, arity: u32) -> Option<&Function> {
        let find = |arity| self.functions.get(&(module.to_owned(), name.to_owned(), arity));
        find(Some(arity)).or_else(|| find(None))
    }

    pub(crate) fn get(&self, of: Bytes<'_>) -> Option<&str> {
        let key = self.key(&Identity::of(of)?);
        let title = self.names.get(&key).or_else(|| self.learned.get(&key))?;
        Some(title).filter(|title| !title.is_empty()).map(String::as_str)
    }

    /// The program of a process, and the operating system's numbers of the process and its thread, as far as they are known.
    pub(crate) fn os(&self, of: Bytes<'_>) -> (Option<&str>, Option<u64>, Option<u64>) {
        let Some(of) = Identity::of(of) else { return (None, None, None) };
        let is_own = of.creation == self.own || of.is_own() && !self.is_log;
        let key = if is_own { node_key(b"", self.own) } else { node_key(of.node, of.creation) };
        let program = self.given.get(of.node).or_else(|| self.programs.get(&key));
        let os_tid = self.threads.get(&self.key(&of)).copied();
        (program.map(|program| &*program.name), program.map(|program| program.os_pid), os_tid)
    }

    /// The place of a process's node among [`Titles::nodes`], and the number of its thread for display, if it is known.
    pub(crate) fn place(&mut self, of: Bytes<'_>) -> (u32, Option<u64>) {
        let unknown = Identity { is_port: false, node: b"", id: 0, creation: 0 };
        let of = Identity::of(of).unwrap_or(unknown);
        let is_own = of.creation == self.own || of.is_own() && !self.is_log;
        let key = if is_own { node_key(b"", self.own) } else { node_key(of.node, of.creation) };
        let place = match self.by_key.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.nodes.len() as u32;
                let node = self.node(of.node, &key);
                self.nodes.push(node);
                self.by_key.insert(key, place);
                place
            }
        };
        let other = self.nodes.get(place as usize).map_or(0, |node| node.other);
        (place, self.threads.get(&self.key(&of)).map(|os_tid| os_tid + other))
    }

    fn node(&mut self, name: &[u8], key: &[u8]) -> Node {
        let program = self.given.get(name).or_else(|| self.programs.get(key)).cloned();
        let node = text::name(name).into_owned();
        let (own, is_known) = match &program {
            Some(program) => (program.os_pid, true),
            None => (self.nodes.len() as u64 + 1, false),
        };
        let mut pid = own;
        while !self.used.insert(pid) {
            pid += OTHER;
        }
        let title = match program.map(|program| program.name).filter(|name| !name.is_empty()) {
            None => node.clone(),
            Some(program) if name == NAMELESS => program,
            Some(program) => format!("{program} {node}"),
        };
        Node { pid, is_known, title, node, other: pid - own }
    }

    /// An operating system process by its place.
    pub(crate) fn nodes(&self, place: u32) -> Option<&Node> {
        self.nodes.get(place as usize)
    }

    /// Removes the nodes, and keeps the names.
    pub(crate) fn forget_nodes(&mut self) {
        self.nodes.clear();
        self.by_key.clear();
        self.used.clear();
    }

    /// A key that is the same for all forms of the identifier and all names of this node.
    fn key(&self, of: &Identity<'_>) -> Box<[u8]> {
        let node = if of.creation == self.own || of.creation >= RANDOM { &[][..] } else { of.node };
        [&[u8::from(of.is_port)][..], &of.id.to_le_bytes(), &of.creation.to_le_bytes(), node].concat().into()
    }

    /// The keys of all forms of the identifier.
    fn keys(&self, of: &Identity<'_>) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        if of.is_own() {
            keys.push(self.key(&Identity { creation: self.own, ..*of }));
        }
        if !of.is_own() || !self.is_log {
            keys.push(self.key(of));
        }
        keys
    }
}

fn node_key(node: &[u8], creation: u32) -> Box<[u8]> {
    let node = if creation >= RANDOM { &[][..] } else { node };
    [&creation.to_le_bytes()[..], node].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use inviso_term::{
        etf,
        term::{Identifier, Term},
    };

    fn pid(id: u64, node: &str, creation: u32) -> Vec<u8> {
        etf::encode(&Term::Pid(Identifier::new(id, node, creation)))
    }

    fn program(os_pid: u32, name: &str) -> Vec<Item> {
        vec![Item::Program { os_pid, name: name.into() }]
    }

    #[test]
    fn a_program_is_identified_by_its_creation_whatever_its_nodes_name() {
        let mut titles = Titles::new(77, true);
        titles.learn(&pid(4, "nonode@nohost", 1000), program(4711, "shop.py"));
        let thread = Item::Thread { id: 8, os_tid: 4712, name: "worker".into() };
        titles.learn(&pid(4, "nonode@nohost", 1000), vec![thread]);
        let (place, tid) = titles.place(&pid(8, "shop@h", 1000));
        assert_eq!((titles.nodes(place).unwrap().pid, tid), (4711, Some(4712)));
        assert_eq!(titles.nodes(place).unwrap().title, "shop.py shop@h");
        assert_eq!(titles.get(&pid(8, "shop@h", 1000)), Some("worker"));
        assert_eq!(titles.place(&pid(4, "shop@h", 1000)), (place, None));
    }

    #[test]
    fn equal_numbers_of_two_hosts_are_distinguished() {
        let mut titles = Titles::new(77, true);
        for (node, creation) in [("a@h", 1000), ("b@i", 2000)] {
            titles.learn(&pid(4, node, creation), program(10, "shop.py"));
            titles.learn(&pid(4, node, creation), vec![Item::Thread { id: 4, os_tid: 10, name: String::new() }]);
        }
        let shown = |titles: &mut Titles, node, creation| {
            let (place, tid) = titles.place(&pid(4, node, creation));
            (titles.nodes(place).unwrap().pid, tid.unwrap())
        };
        assert_eq!(shown(&mut titles, "a@h", 1000), (10, 10));
        assert_eq!(shown(&mut titles, "b@i", 2000), (10 + OTHER, 10 + OTHER));
        assert_eq!(shown(&mut titles, "a@h", 1000), (10, 10));
    }

    #[test]
    fn unknown_numbers_are_small_and_a_callers_names_take_precedence() {
        let mut titles = Titles::new(77, true);
        titles.learn(&pid(4, "a@h", 1000), program(10, "shop.py"));
        titles.give_program("a@h", 12, "mine".into());
        let node = |titles: &mut Titles, node, creation| {
            let (place, _) = titles.place(&pid(4, node, creation));
            let Node { pid, is_known, title, .. } = titles.nodes(place).unwrap().clone();
            (pid, is_known, title)
        };
        assert_eq!(node(&mut titles, "x@h", 0), (1, false, "x@h".into()));
        assert_eq!(node(&mut titles, "a@h", 1000), (12, true, "mine a@h".into()));
        assert_eq!(node(&mut titles, "y@h", 1), (3, false, "y@h".into()));
    }
}
