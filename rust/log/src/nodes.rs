//! The node of a log's pids, if the log doesn't name it.
//!
//! A node without a name writes `nonode@nohost` and its creation (Erlang: 0) into all its pids, ports and references. So logs of
//! several such nodes can't be merged unchanged. [`Nodes`] renames each log's pids to the log's name. It finds the log by the
//! creation of the log's own tracees. So a pid from another of the logs gets that log's name, wherever it is written.

use crate::about;
use inviso_term::etf::{self, tag, NodeName};
use rustc_hash::FxHashMap;

/// The node of a pid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its name.
    pub node: Box<str>,
    /// The creation: one start of the node.
    pub creation: u32,
}

impl Origin {
    /// Whether the node has no name.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        &*self.node == NAMELESS
    }
}

pub(crate) const NAMELESS: &str = "nonode@nohost";

/// The nodes of several logs.
///
/// ```
/// use inviso_log::nodes::Nodes;
/// use inviso_term::{etf, term::{Identifier, Term}};
/// let message = |tracee: Identifier, other: Identifier| {
///     etf::encode_versioned(&Term::Tuple(vec![Term::atom("trace"), Term::Pid(tracee), Term::atom("link"), Term::Pid(other)]))
/// };
/// let of = |id, creation| Identifier::new(id, "nonode@nohost", creation);
/// let mut nodes = Nodes::new(["shop@h", "web@h"]);
/// let (shop, web) = (message(of(4, 11), of(9, 22)), message(of(4, 22), of(4, 11)));
/// nodes.learn(0, &shop);
/// nodes.learn(1, &web);
/// let mut out = Vec::new();
/// nodes.put(0, &shop, &mut out);
/// assert_eq!(out, message(Identifier::new(4, "shop@h", 11), Identifier::new(9, "web@h", 22)));
/// ```
#[derive(Debug, Default)]
pub struct Nodes {
    logs: Vec<Log>,
    /// The logs by the creations of their own nodes.
    by_creation: FxHashMap<u32, usize>,
}

#[derive(Debug)]
struct Log {
    name: Box<str>,
    /// The node of its tracees, after the first one was seen.
    own: Option<Origin>,
    named: NodeName,
}

impl Nodes {
    /// The nodes of logs, by the logs' names, in the order of the logs.
    #[must_use]
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Nodes {
        let log = |name: &str| Log { name: name.into(), own: None, named: NodeName::new(name, 0) };
        Nodes { logs: names.into_iter().map(log).collect(), by_creation: FxHashMap::default() }
    }

    /// The name of a log's node.
    #[must_use]
    pub fn name(&self, log: usize) -> &str {
        self.logs.get(log).map_or("", |log| &log.name)
    }

    /// The node of a log's tracees, after the first one was seen.
    #[must_use]
    pub fn own(&self, log: usize) -> Option<&Origin> {
        self.logs.get(log)?.own.as_ref()
    }

    /// Learns a log's node from a message, unless it is known.
    #[inline]
    pub fn learn(&mut self, log: usize, payload: &[u8]) {
        if self.logs.get(log).is_some_and(|log| log.own.is_none()) {
            self.look(log, payload);
        }
    }

    #[cold]
    fn look(&mut self, at: usize, payload: &[u8]) {
        let (Some(own), Some(log)) = (tracee(payload).and_then(origin), self.logs.get_mut(at)) else { return };
        if own.is_nameless() {
            log.named = NodeName::new(&log.name, own.creation);
            if own.creation != 0 {
                self.by_creation.entry(own.creation).or_insert(at);
            }
        }
        log.own = Some(own);
    }

    /// The log whose tracees are of this node, and their node in the log itself. The name is the one in the log or in the merged
    /// log.
    #[must_use]
    pub fn of(&self, node: &str, creation: u32) -> Option<(usize, &Origin)> {
        let own = |at: usize| {
            let log = self.logs.get(at)?;
            let own = log.own.as_ref().filter(|own| own.creation == creation)?;
            (*own.node == *node || (own.is_nameless() && *log.name == *node)).then_some((at, own))
        };
        match self.by_creation.get(&creation).and_then(|at| own(*at)) {
            Some(found) => Some(found),
            None => (0..self.logs.len()).find_map(own),
        }
    }

    /// The node of a log's pid in the merged log.
    #[must_use]
    pub fn named(&self, log: usize, of: &Origin) -> Origin {
        if !of.is_nameless() {
            return of.clone();
        }
        let own = self.logs.get(log).and_then(|log| log.own.as_ref());
        let of_log = |at: &usize| self.logs.get(*at).map(|log| log.name.clone());
        match (of.creation, own) {
            (0, own) => {
                let creation = own.filter(|own| own.is_nameless()).map_or(0, |own| own.creation);
                Origin { node: of_log(&log).unwrap_or_else(|| of.node.clone()), creation }
            }
            (creation, Some(own)) if own.is_nameless() && own.creation == creation => {
                Origin { node: of_log(&log).unwrap_or_else(|| of.node.clone()), creation }
            }
            (creation, _) => match self.by_creation.get(&creation).and_then(of_log) {
                Some(node) => Origin { node, creation },
                None => of.clone(),
            },
        }
    }

    /// Appends a message of a log, with the nodes' names in its pids, ports and references.
    pub fn put(&self, log: usize, payload: &[u8], out: &mut Vec<u8>) {
        let Some(own) = self.logs.get(log) else { return out.extend_from_slice(payload) };
        let (payload, items) = about::split(payload);
        let creation = own.own.as_ref().filter(|own| own.is_nameless()).map(|own| own.creation);
        let written;
        let mut term = payload;
        if !is_of_today(payload) {
            if let Ok(message) = etf::decode(payload) {
                written = etf::encode_versioned(&message);
                term = &written;
            }
        }
        let Some(term) = term.strip_prefix(&[etf::VERSION]) else { return out.extend_from_slice(payload) };
        out.push(etf::VERSION);
        let node = |of: u32| match of {
            0 => Some(&own.named),
            of if Some(of) == creation => Some(&own.named),
            of => self.by_creation.get(&of).and_then(|log| self.logs.get(*log)).map(|log| &log.named),
        };
        etf::renamed(term, node, out);
        out.extend_from_slice(items);
    }
}

/// Whether the payload uses today's encoding of identifiers. A node uses one encoding for all of them.
fn is_of_today(payload: &[u8]) -> bool {
    let is_compressed = matches!(payload, [etf::VERSION, tag::COMPRESSED, ..]);
    let is_old = |tracee: &[u8]| {
        matches!(tracee, [tag::PID | tag::PORT, ..] | [_, tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8, ..])
    };
    !is_compressed && !tracee(payload).is_some_and(is_old)
}

/// The bytes of a message from its tracee on.
/// Only other crates of the workspace use it.
#[inline]
#[must_use]
pub fn tracee(payload: &[u8]) -> Option<&[u8]> {
    let [etf::VERSION, tag::SMALL_TUPLE, n, rest @ ..] = payload else { return None };
    let (name, rest) = atom(rest)?;
    (*n > 2 && matches!(name, b"trace" | b"trace_ts")).then_some(rest)
}

/// The name of the first atom in `bytes`, and the bytes after it.
#[inline]
fn atom(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match *bytes {
        [tag::SMALL_ATOM_UTF8 | tag::SMALL_ATOM, length, ref rest @ ..] => rest.split_at_checked(length.into()),
        [tag::ATOM | tag::ATOM_UTF8, a, b, ref rest @ ..] => rest.split_at_checked(u16::from_be_bytes([a, b]).into()),
        _ => None,
    }
}

/// The node of the first pid or port in `bytes`.
#[must_use]
pub fn origin(bytes: &[u8]) -> Option<Origin> {
    pid(bytes).map(|(node, creation, _)| Origin { node: node.into(), creation })
}

/// The node, creation and number of the first pid or port in `bytes`.
/// Only other crates of the workspace use it.
#[inline]
#[must_use]
pub fn pid(bytes: &[u8]) -> Option<(&str, u32, u64)> {
    let (tag, rest) = bytes.split_first()?;
    let (name, rest) = atom(rest)?;
    let word = |at: usize| Some(u32::from_be_bytes(*rest.get(at..)?.first_chunk()?));
    let (low, high, creation) = match *tag {
        tag::NEW_PID => (word(0)?, word(4)?, word(8)?),
        tag::PID => (word(0)?, word(4)?, u32::from(*rest.get(8)?)),
        tag::V4_PORT => (word(4)?, word(0)?, word(8)?),
        tag::NEW_PORT => (word(0)?, 0, word(4)?),
        tag::PORT => (word(0)?, 0, u32::from(*rest.get(4)?)),
        _ => return None,
    };
    Some((std::str::from_utf8(name).ok()?, creation, u64::from(low) | u64::from(high) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inviso_term::term::{Identifier, Term};

    fn message(tracee: &Identifier, others: Vec<Term>) -> Vec<u8> {
        let head = [Term::atom("trace_ts"), Term::Pid(tracee.clone()), Term::atom("send")];
        etf::encode_versioned(&Term::Tuple(head.into_iter().chain(others).collect()))
    }

    fn put(nodes: &Nodes, log: usize, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        nodes.put(log, message, &mut out);
        out
    }

    #[test]
    fn a_log_is_found_by_its_node_in_the_log_and_in_the_merged_log() {
        let mut nodes = Nodes::new(["a@h", "b@h", "c@h"]);
        nodes.learn(0, &message(&Identifier::new(1, "nonode@nohost", 7), vec![]));
        nodes.learn(1, &message(&Identifier::new(1, "real@h", 3), vec![]));
        nodes.learn(2, &message(&Identifier::own(1), vec![]));
        let of = |node: &str, creation| nodes.of(node, creation).map(|(log, own)| (log, &*own.node, own.creation));
        let nameless = Some((0, "nonode@nohost", 7));
        assert_eq!([of("nonode@nohost", 7), of("a@h", 7), of("a@h", 8)], [nameless, nameless, None]);
        assert_eq!([of("real@h", 3), of("b@h", 3)], [Some((1, "real@h", 3)), None]);
        assert_eq!(of("c@h", 0), Some((2, "nonode@nohost", 0)));
        assert_eq!([0, 1, 2, 3].map(|log| nodes.name(log)), ["a@h", "b@h", "c@h", ""]);

        let named = |log, node: &str, creation| {
            let named = nodes.named(log, &Origin { node: node.into(), creation });
            (named.node.to_string(), named.creation)
        };
        let is = |node: &str, creation| (node.to_owned(), creation);
        assert_eq!(named(0, "x@h", 5), is("x@h", 5));
        assert_eq!([named(0, NAMELESS, 0), named(0, NAMELESS, 7)], [is("a@h", 7), is("a@h", 7)]);
        assert_eq!([named(1, NAMELESS, 0), named(1, NAMELESS, 7)], [is("b@h", 0), is("a@h", 7)]);
        assert_eq!([named(0, NAMELESS, 3), named(9, NAMELESS, 0)], [is(NAMELESS, 3), is(NAMELESS, 0)]);
    }

    #[test]
    fn a_node_that_has_a_name_keeps_it() {
        let (own, other) = (Identifier::new(5, "real@h", 3), Identifier::new(6, "nonode@nohost", 0));
        let mut nodes = Nodes::new(["label@h"]);
        let bytes = message(&own, vec![Term::Pid(other), Term::atom("nonode@nohost")]);
        nodes.learn(0, &bytes);
        let named = vec![Term::Pid(Identifier::new(6, "label@h", 0)), Term::atom("nonode@nohost")];
        assert_eq!(put(&nodes, 0, &bytes), message(&own, named));
        assert_eq!(nodes.own(0), Some(&Origin { node: "real@h".into(), creation: 3 }));
    }

    #[test]
    fn a_creation_that_no_log_has_stays_nameless() {
        let of = |id, creation| Identifier::new(id, "nonode@nohost", creation);
        let mut nodes = Nodes::new(["a@h", "b@h"]);
        let one = message(&of(1, 7), vec![Term::Ref(of(2, 8)), Term::Port(of(3, 9)), Term::Pid(Identifier::own(4))]);
        nodes.learn(0, &one);
        nodes.learn(1, &message(&of(1, 8), vec![]));
        nodes.learn(1, &message(&of(1, 9), vec![])); // the node is known already
        let named = |id, node, creation| Identifier::new(id, node, creation);
        let parts = vec![Term::Ref(named(2, "b@h", 8)), Term::Port(of(3, 9)), Term::Pid(named(4, "a@h", 7))];
        assert_eq!(put(&nodes, 0, &one), message(&named(1, "a@h", 7), parts));
        for (of, name) in [(of(1, 7), "a@h"), (of(1, 8), "b@h"), (of(1, 9), "nonode@nohost"), (of(1, 0), "a@h")] {
            let named = nodes.named(0, &Origin { node: of.node.as_ref().into(), creation: of.creation });
            assert_eq!(&*named.node, name);
        }
    }

    #[test]
    fn encodings_of_old_nodes_are_read() {
        let name = [&[100, 0, 13][..], b"nonode@nohost"].concat();
        let old = [&[103][..], &name, &[0, 0, 0, 5, 0, 0, 0, 0, 0]].concat();
        let payload = [&[131, 104, 3, 100, 0, 5][..], b"trace", &old, &[100, 0, 1, b'x']].concat();
        let mut nodes = Nodes::new(["a@h"]);
        nodes.learn(0, &payload);
        assert_eq!(nodes.own(0), Some(&Origin { node: "nonode@nohost".into(), creation: 0 }));
        let named = Term::Pid(Identifier::new(5, "a@h", 0));
        assert_eq!(
            etf::decode(&put(&nodes, 0, &payload)),
            Ok(Term::Tuple(vec![Term::atom("trace"), named, Term::atom("x")]))
        );
    }

    #[test]
    fn every_encoding_of_an_identifier_has_its_node() {
        let names =
            [&[tag::SMALL_ATOM_UTF8, 3][..], &[tag::SMALL_ATOM, 3], &[tag::ATOM_UTF8, 0, 3], &[tag::ATOM, 0, 3]];
        let (word, long) = ([1, 2, 3, 4], [0, 0, 0, 9, 1, 2, 3, 4]);
        let (low, both) = (0x0102_0304, 0x0102_0304 | 9 << 32);
        let forms: [(u8, &[&[u8]], u64); 5] = [
            (tag::NEW_PID, &[&word, &[0, 0, 0, 9], &[0, 0, 2, 7]], both),
            (tag::PID, &[&word, &[0, 0, 0, 9], &[7]], both),
            (tag::V4_PORT, &[&long, &[0, 0, 2, 7]], both),
            (tag::NEW_PORT, &[&word, &[0, 0, 2, 7]], low),
            (tag::PORT, &[&word, &[7]], low),
        ];
        for (tag, numbers, number) in forms {
            let numbers = numbers.concat();
            let creation = if matches!(tag, tag::PID | tag::PORT) { 7 } else { 0x207 };
            for name in names {
                let bytes = [&[tag][..], name, b"a@b", &numbers].concat();
                assert_eq!(pid(&bytes), Some(("a@b", creation, number)));
                assert!((0..bytes.len()).all(|end| pid(&bytes[..end]).is_none()));
            }
        }
        assert_eq!(pid(&[&[tag::ATOM][..], names[0], b"a@b", &[0; 12]].concat()), None);
    }

    #[test]
    fn a_tracee_is_the_second_of_three_in_a_trace_message() {
        let of =
            |n, name: &[u8]| [&[131, tag::SMALL_TUPLE, n, tag::SMALL_ATOM_UTF8, name.len() as u8], name, &[7]].concat();
        for (n, name, found) in
            [(3, "trace", true), (4, "trace_ts", true), (2, "trace", false), (3, "seq_trace", false)]
        {
            assert_eq!(tracee(&of(n, name.as_bytes())), found.then_some(&[7][..]), "{n} {name}");
        }
    }

    #[test]
    fn bytes_that_are_not_a_term_stay() {
        let nodes = Nodes::new(["a@h"]);
        for bytes in [&[][..], &[131], &[131, 88, 119], &[7, 7, 7], &[131, 80, 1, 2]] {
            assert_eq!(put(&nodes, 0, bytes), bytes);
        }
    }
}
