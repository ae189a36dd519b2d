//! Trace information files of Inviso: the names of processes over time.
//!
//! An entry is one ignored byte (0), a length (4 bytes, big-endian) and a term: `{Pid, Alias, alias, Stamp}` or `{Pid, Alias,
//! unalias, Stamp}`. An `unalias` may have an atom in place of the pid. The file has no header and no end mark.
//!
//! A process has an alias at a time if an earlier entry gave it, and no entry between them removed it: an `unalias` of the same
//! alias and pid, or without a pid. "Earlier" is strict on both sides: at the very time of an entry the old state holds. A
//! process can have several aliases, also one alias twice. They are listed in the order of the file.

use crate::{
    damage::{Damage, What},
    frame::HEADER,
    nodes::{Nodes, Origin},
    stamp::{self, Stamp},
};
use inviso_term::{
    etf::{self, DecodeError},
    term::{Identifier, Term},
};
use rustc_hash::FxHashMap;

/// A process: its node and its number.
type Process = (Origin, u64);

/// One entry.
#[derive(Clone, Debug)]
struct Entry {
    /// `None`: an `unalias` for all processes.
    pid: Option<Process>,
    alias: u32,
    is_alias: bool,
    at: Stamp,
}

/// The names of a log's processes.
///
/// ```
/// use inviso_log::{nodes::Origin, stamp::{Clock, Stamp}, ti::Aliases};
/// use inviso_term::{etf, term::{Identifier, Term}};
/// let entry = |what: &str, at: i64| {
///     let stamp = Term::Tuple(vec![Term::from(0), Term::from(at), Term::from(0)]);
///     let term = Term::Tuple(vec![Term::Pid(Identifier::own(4)), Term::atom("db"), Term::atom(what), stamp]);
///     let term = etf::encode_versioned(&term);
///     [&[0][..], &(term.len() as u32).to_be_bytes(), &term].concat()
/// };
/// let mut aliases = Aliases::default();
/// aliases.read(&[entry("alias", 1), entry("unalias", 5)].concat());
/// let at = |second: i128| Stamp { clock: Clock::Wall, ns: second * 1_000_000_000, unique: 0 };
/// let own = Origin { node: "nonode@nohost".into(), creation: 0 };
/// let mut has = |second| aliases.of(&own, 4, at(second)).len();
/// assert_eq!([1, 2, 5, 6].map(|second| has(second)), [0, 1, 1, 0]);
/// ```
#[derive(Debug, Default)]
pub struct Aliases {
    entries: Vec<Entry>,
    /// All aliases, each once.
    names: Vec<Term>,
    numbers: FxHashMap<Vec<u8>, u32>,
    /// The node of the log's own processes. Their pids may be written without it.
    own: Option<Origin>,
    /// Built at the first look-up.
    lanes: Option<FxHashMap<Process, Lane>>,
    /// The damage of the files.
    pub damage: Vec<Damage>,
}

/// The aliases of one process.
#[derive(Debug, Default)]
struct Lane {
    spans: Vec<Span>,
    /// All times at which an alias begins or ends, sorted.
    bounds: Vec<Stamp>,
    /// The number of bounds before the last look-up's time, and the aliases there.
    cached: Option<(usize, Vec<u32>)>,
}

/// An alias after `from` and up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: Stamp,
    to: Option<Stamp>,
    alias: u32,
}

impl Aliases {
    /// Reads a whole file, after those that were read before. A bad entry is damage, and the next one is read.
    pub fn read(&mut self, bytes: &[u8]) {
        self.lanes = None;
        let mut at = 0;
        while let Some((head, rest)) = bytes.get(at..).unwrap_or_default().split_first_chunk::<HEADER>() {
            let [_, a, b, c, d] = *head;
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            let Some(term) = rest.get(..length) else { break };
            let what = match etf::decode(term) {
                Ok(term) if self.add_entry(&term).is_some() => None,
                Ok(_) => Some(What::Term(DecodeError::Refused("no entry of a trace information file"))),
                Err(e) => Some(What::Term(e)),
            };
            self.damage.extend(what.map(|what| Damage { at: at as u64, what }));
            at += HEADER + length;
        }
        if at < bytes.len() {
            self.damage.push(Damage { at: at as u64, what: What::Cut((bytes.len() - at) as u64) });
        }
    }

    fn add_entry(&mut self, term: &Term) -> Option<()> {
        let Term::Tuple(parts) = term else { return None };
        let [pid, alias, Term::Atom(what), at] = &parts[..] else { return None };
        let is_alias = match &**what {
            "alias" => true,
            "unalias" => false,
            _ => return None,
        };
        let pid = match pid {
            Term::Pid(of) => Some((Origin { node: of.node.as_ref().into(), creation: of.creation }, of.id)),
            _ if is_alias => return None,
            _ => None,
        };
        let at = stamp::of_term(at)?;
        let bytes = etf::encode(alias);
        let next = u32::try_from(self.names.len()).ok()?;
        let alias = *self.numbers.entry(bytes).or_insert_with(|| {
            self.names.push(alias.clone());
            next
        });
        self.entries.push(Entry { pid, alias, is_alias, at });
        Some(())
    }

    /// Whether there are no aliases.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The alias with this number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<&Term> {
        self.names.get(number as usize)
    }

    /// All aliases by their numbers.
    #[must_use]
    pub fn names(&self) -> &[Term] {
        &self.names
    }

    /// Sets the node of the log's own processes. A pid of a node without name and creation is one of them wherever it is written.
    /// Only other crates of the workspace use it.
    pub fn set_own(&mut self, own: &Origin) {
        if self.own.as_ref() != Some(own) {
            self.own = Some(own.clone());
            self.lanes = None;
        }
    }

    /// The aliases of a process at a time, by their numbers, in the order of the file.
    pub fn of(&mut self, node: &Origin, id: u64, at: Stamp) -> &[u32] {
        if self.entries.is_empty() {
            return &[];
        }
        let own = self.own.as_ref();
        let lanes = self.lanes.get_or_insert_with(|| lanes(&self.entries, own));
        let key = (canonical(node, own), id);
        let Some(lane) = lanes.get_mut(&key) else { return &[] };
        // times of two clocks can't be compared
        if lane.bounds.first().is_none_or(|first| first.clock != at.clock) {
            return &[];
        }
        let segment = lane.bounds.partition_point(|bound| *bound < at);
        let Lane { spans, cached, .. } = lane;
        if cached.as_ref().is_none_or(|(known, _)| *known != segment) {
            let has = |span: &&Span| span.from < at && span.to.is_none_or(|to| to >= at);
            *cached = Some((segment, spans.iter().filter(has).map(|span| span.alias).collect()));
        }
        cached.as_ref().map_or(&[], |(_, aliases)| aliases)
    }

    /// The entries as bytes, each with its time, in the order of time, with one process each. [`Nodes`] gives the processes their
    /// nodes' names. An `unalias` for all processes becomes one for each process, so that it ends nothing of other nodes.
    /// Only other crates of the workspace use it.
    #[must_use]
    pub fn named(&self, nodes: &Nodes, log: usize) -> Vec<(Stamp, Vec<u8>)> {
        let own = nodes.own(log);
        let mut all = Vec::new();
        for ((origin, id), lane) in lanes(&self.entries, own) {
            let of = nodes.named(log, &origin);
            let pid = Term::Pid(Identifier::new(id, &of.node, of.creation));
            let mut ended = Vec::new();
            for span in &lane.spans {
                let Some(alias) = self.name(span.alias) else { continue };
                all.push((span.from, entry(&pid, alias, "alias", span.from)));
                if let Some(to) = span.to.filter(|to| !ended.contains(&(span.alias, *to))) {
                    ended.push((span.alias, to));
                    all.push((to, entry(&pid, alias, "unalias", to)));
                }
            }
        }
        all.sort();
        all
    }
}

/// The bytes of an entry.
fn entry(pid: &Term, alias: &Term, what: &str, at: Stamp) -> Vec<u8> {
    let parts = vec![pid.clone(), alias.clone(), Term::atom(what), stamp::to_term(at)];
    let term = etf::encode_versioned(&Term::Tuple(parts));
    [&[0][..], &(term.len() as u32).to_be_bytes(), &term].concat()
}

/// The log's own node is the same as the one without name and creation.
fn canonical(of: &Origin, own: Option<&Origin>) -> Origin {
    match own {
        Some(own) if of.is_nameless() && of.creation == 0 => own.clone(),
        _ => of.clone(),
    }
}

/// Each process with all of its aliases.
fn lanes(entries: &[Entry], own: Option<&Origin>) -> FxHashMap<Process, Lane> {
    // the ends of each alias: for all processes, and for one
    let mut ends: FxHashMap<(u32, Option<Process>), Vec<Stamp>> = FxHashMap::default();
    let of = |pid: &Process| (canonical(&pid.0, own), pid.1);
    for entry in entries.iter().filter(|entry| !entry.is_alias) {
        ends.entry((entry.alias, entry.pid.as_ref().map(of))).or_default().push(entry.at);
    }
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    let first = |key: &(u32, Option<Process>), from: Stamp| {
        let ends = ends.get(key)?;
        ends.get(ends.partition_point(|end| *end <= from)).filter(|end| end.clock == from.clock).copied()
    };
    let mut lanes: FxHashMap<Process, Lane> = FxHashMap::default();
    for entry in entries.iter().filter(|entry| entry.is_alias) {
        let Some(pid) = entry.pid.as_ref().map(of) else { continue };
        let ends = [first(&(entry.alias, None), entry.at), first(&(entry.alias, Some(pid.clone())), entry.at)];
        let to = ends.into_iter().flatten().min();
        let lane = lanes.entry(pid).or_default();
        lane.spans.push(Span { from: entry.at, to, alias: entry.alias });
        lane.bounds.push(entry.at);
        lane.bounds.extend(to);
    }
    for lane in lanes.values_mut() {
        lane.bounds.sort_unstable();
        lane.bounds.dedup();
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Clock;

    const DB: &str = "db";

    fn stamp(second: i64) -> Stamp {
        Stamp { clock: Clock::Wall, ns: i128::from(second) * 1_000_000_000, unique: 0 }
    }

    fn here() -> Origin {
        Origin { node: "nonode@nohost".into(), creation: 0 }
    }

    fn written(entries: &[(Option<u64>, &str, &str, i64)]) -> Vec<u8> {
        let one = |(pid, alias, what, second): &(Option<u64>, &str, &str, i64)| {
            let pid = pid.map_or(Term::atom("undefined"), |id| Term::Pid(Identifier::own(id)));
            entry(&pid, &Term::atom(alias), what, stamp(*second))
        };
        entries.iter().flat_map(one).collect()
    }

    fn aliases(entries: &[(Option<u64>, &str, &str, i64)]) -> Aliases {
        let mut aliases = Aliases::default();
        assert!(aliases.is_empty() && aliases.names().is_empty() && aliases.name(0).is_none());
        aliases.read(&written(entries));
        assert_eq!((&aliases.damage[..], aliases.is_empty()), (&[][..], entries.is_empty()));
        assert!(aliases.names().iter().zip(0..).all(|(name, number)| aliases.name(number) == Some(name)));
        aliases
    }

    fn at(aliases: &mut Aliases, id: u64, second: i64) -> Vec<String> {
        let numbers = aliases.of(&here(), id, stamp(second)).to_vec();
        numbers.iter().map(|number| aliases.name(*number).unwrap().to_string()).collect()
    }

    #[test]
    fn an_alias_begins_strictly_after_its_entry_and_ends_strictly_after_its_end() {
        let mut aliases = aliases(&[(Some(4), DB, "alias", 5), (Some(4), DB, "unalias", 9)]);
        let has = |second| !at(&mut aliases, 4, second).is_empty();
        assert_eq!([4, 5, 6, 9, 10].map(has), [false, false, true, true, false]);
        assert!(at(&mut aliases, 5, 6).is_empty(), "another process has none");
    }

    #[test]
    fn an_unalias_without_a_pid_is_for_all_and_one_with_a_pid_for_that_process() {
        let begun = [(Some(4), DB, "alias", 1), (Some(5), DB, "alias", 1), (Some(4), "web", "alias", 1)];
        let mut all = aliases(&[&begun[..], &[(None, DB, "unalias", 2)]].concat());
        assert_eq!((at(&mut all, 4, 3), at(&mut all, 5, 3)), (vec!["web".to_owned()], vec![]));
        let mut one = aliases(&[&begun[..], &[(Some(5), DB, "unalias", 2)]].concat());
        assert_eq!((at(&mut one, 4, 3), at(&mut one, 5, 3)), (vec!["db".to_owned(), "web".to_owned()], vec![]));
    }

    #[test]
    fn an_unalias_at_the_time_of_the_alias_or_before_ends_nothing() {
        let mut aliases = aliases(&[(None, DB, "unalias", 1), (Some(4), DB, "alias", 5), (None, DB, "unalias", 5)]);
        assert_eq!(at(&mut aliases, 4, 99), ["db"]);
    }

    #[test]
    fn several_aliases_are_in_the_order_of_the_file() {
        let mut aliases =
            aliases(&[(Some(4), "b", "alias", 3), (Some(4), "a", "alias", 1), (Some(4), "b", "alias", 2)]);
        assert_eq!(at(&mut aliases, 4, 4), ["b", "a", "b"]);
        assert_eq!(at(&mut aliases, 4, 2), ["a"], "times may go back");
        assert_eq!(at(&mut aliases, 4, 3), ["a", "b"]);
    }

    #[test]
    fn an_alias_can_be_given_again() {
        let again =
            [(Some(4), DB, "alias", 1), (None, DB, "unalias", 2), (Some(4), DB, "alias", 3), (None, DB, "unalias", 4)];
        let mut aliases = aliases(&again);
        let has = |second| !at(&mut aliases, 4, second).is_empty();
        assert_eq!([1, 2, 3, 4, 5].map(has), [false, true, false, true, false]);
    }

    #[test]
    fn times_of_another_clock_are_not_compared() {
        let mut aliases = aliases(&[(Some(4), DB, "alias", 1)]);
        assert!(aliases.of(&here(), 4, Stamp { clock: Clock::Monotonic, ns: i128::MAX, unique: 0 }).is_empty());
    }

    #[test]
    fn a_pid_without_a_creation_belongs_to_the_log() {
        let mut aliases = aliases(&[(Some(4), DB, "alias", 1)]);
        let own = Origin { node: "nonode@nohost".into(), creation: 77 };
        assert!(aliases.of(&own, 4, stamp(2)).is_empty());
        aliases.set_own(&own);
        assert_eq!(aliases.of(&own, 4, stamp(2)), [0]);
        assert_eq!(aliases.of(&here(), 4, stamp(2)), [0]);
        assert!(aliases.of(&Origin { creation: 78, ..own }, 4, stamp(2)).is_empty());
    }

    #[test]
    fn a_bad_entry_is_reported_and_the_next_one_read() {
        let raw = |term: &[u8]| [&[7][..], &(term.len() as u32).to_be_bytes(), term].concat();
        let good = written(&[(Some(4), DB, "alias", 1)]);
        let of = |parts: Vec<Term>| raw(&etf::encode_versioned(&Term::Tuple(parts)));
        let (pid, now) = (Term::Pid(Identifier::own(4)), stamp::to_term(stamp(2)));
        let bad = [
            raw(&[131, 255]),
            raw(&[]),
            of(vec![pid.clone(), Term::atom(DB), Term::atom("alias")]),
            of(vec![pid.clone(), Term::atom(DB), Term::atom("alias"), Term::atom("void")]),
            of(vec![pid, Term::atom(DB), Term::atom("renamed"), now.clone()]),
            of(vec![Term::atom("undefined"), Term::atom(DB), Term::atom("alias"), now]),
        ];
        for bytes in &bad {
            let mut aliases = Aliases::default();
            aliases.read(&[&bytes[..], &good, &good[..9]].concat());
            let places: Vec<_> = aliases.damage.iter().map(|damage| damage.at as usize).collect();
            assert_eq!(places, [0, bytes.len() + good.len()]);
            assert_eq!(aliases.damage[1].what, What::Cut(9));
            assert_eq!(at(&mut aliases, 4, 3), ["db"]);
        }
    }

    #[test]
    fn entries_of_a_merge_end_nothing_of_other_nodes() {
        let ti = aliases(&[
            (Some(4), DB, "alias", 1),
            (Some(4), DB, "alias", 2),
            (Some(5), DB, "alias", 3),
            (None, DB, "unalias", 4),
        ]);
        let mut nodes = Nodes::new(["a@h", "b@h"]);
        let head = [Term::atom("trace"), Term::Pid(Identifier::new(4, "nonode@nohost", 9)), Term::atom("call")];
        nodes.learn(0, &etf::encode_versioned(&Term::Tuple(head.into())));
        let mut merged = Aliases::default();
        let all = ti.named(&nodes, 0);
        assert!(all.is_sorted_by_key(|(at, _)| *at));
        all.iter().for_each(|(_, entry)| merged.read(entry));
        merged.read(&entry(&Term::Pid(Identifier::new(4, "b@h", 8)), &Term::atom(DB), "alias", stamp(1)));
        let of = |node: &str, creation| Origin { node: node.into(), creation };
        let mut count = |node, creation, id, second| merged.of(&of(node, creation), id, stamp(second)).len();
        assert_eq!([1, 2, 3, 4, 5].map(|second| count("a@h", 9, 4, second)), [0, 1, 2, 2, 0]);
        assert_eq!([3, 4, 5].map(|second| count("a@h", 9, 5, second)), [0, 1, 0]);
        assert_eq!([1, 2, 5].map(|second| count("b@h", 8, 4, second)), [0, 1, 1]);
    }
}
