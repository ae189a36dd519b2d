//! Logs that are read in one order, and what is known of each.

use super::{
    etf::Cache,
    log::{Logs, Read, Told, TOLD},
};
use crate::convert::errors::of_system;
use inviso_export::lines::Lines;
use inviso_log::{
    causal::Moved,
    damage::{Damage, What},
    frame::Record,
    merge::Order,
    nodes::{self, Nodes, Origin},
    reader::Event,
    stamp::{self, Shapes, Stamp},
    ti::Aliases,
};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::{io, path::Path};

/// Bytes of text that are made at a time.
pub const PART: usize = 1 << 20;

/// Records that are read before signals are checked.
pub const STEP: usize = 1 << 16;

/// A record or damage of a log.
pub enum MergeItem<'a> {
    /// Where it is, its message, its time stamp.
    Term(u64, &'a [u8], Option<Stamp>),
    Dropped(u32),
    Damage(&'a Told),
}

/// The counts of one log.
#[derive(Clone, Copy, Default)]
pub struct Count {
    pub records: u64,
    /// The messages that its drop records count.
    pub lost: u64,
    pub damaged: u64,
}

/// The state of the logs besides their readers.
pub struct About {
    pub nodes: Nodes,
    /// Whether a log's name goes into its pids.
    pub is_named: bool,
    /// Whether the logs have names at all.
    pub has_labels: bool,
    pub aliases: Vec<Aliases>,
    pub counts: Vec<Count>,
    pub damage: Vec<(usize, Told)>,
}

impl About {
    /// Counts damage.
    pub fn note(&mut self, log: usize, told: Told) {
        self.counts[log].damaged += 1;
        if self.damage.len() < TOLD {
            self.damage.push((log, told));
        }
    }

    #[inline]
    pub fn learn(&mut self, log: usize, payload: &[u8]) {
        if self.nodes.own(log).is_none() {
            self.nodes.learn(log, payload);
            if let Some(own) = self.nodes.own(log) {
                self.aliases[log].set_own(own);
            }
        }
    }
}

/// Counts of the ordering.
pub struct Placed {
    pub other_clock: u64,
    pub moved: Vec<Moved>,
    pub unordered: u64,
}

impl Placed {
    pub fn of(from: &Logs) -> Placed {
        match from {
            Logs::Merged(merge) => {
                Placed { other_clock: merge.other_clock(), moved: merge.moved().to_vec(), unordered: merge.unordered() }
            }
            Logs::Chain(..) => Placed { other_clock: 0, moved: Vec::new(), unordered: 0 },
        }
    }
}

/// Objects that were made already.
#[derive(Default)]
pub struct MadeObjects {
    pub names: FxHashMap<(usize, u32), Py<PyAny>>,
    pub cache: Cache,
}

pub struct MergeState {
    pub from: Logs,
    /// The counts of logs that were closed.
    pub ended: Option<Placed>,
    pub order: Order,
    pub follow: bool,
    pub about: About,
    pub lines: Option<(bool, Lines)>,
    pub known: MadeObjects,
}

impl MergeState {
    /// Gives up to `n` records to `take`, as long as that wants more. `to` is the file that `take` writes. Returns
    /// whether there may be more.
    pub fn read(
        &mut self, n: usize, to: Option<&Path>,
        mut take: impl FnMut(&mut About, usize, MergeItem<'_>) -> io::Result<bool>,
    ) -> PyResult<bool> {
        let shapes = if self.order == Order::Inviso { Shapes::Inviso } else { Shapes::All };
        for _ in 0..n {
            let (about, is_merged) = (&mut self.about, matches!(self.from, Logs::Merged(_)));
            let mut damage = None;
            let mut done = Ok(true);
            let read = self.from.read_stamped(self.follow, |log, event, stamp| match event {
                Event::Record { at, record: Record::Term(payload) } => {
                    let stamp = if is_merged { Ok(stamp) } else { stamp::checked(payload, shapes) };
                    match stamp {
                        Ok(stamp) => {
                            about.counts[log].records += 1;
                            about.learn(log, payload);
                            done = take(about, log, MergeItem::Term(at, payload, stamp));
                        }
                        Err(e) => damage = Some((log, Damage { at, what: What::Term(e) })),
                    }
                }
                Event::Record { record: Record::Dropped(n), .. } => {
                    about.counts[log].records += 1;
                    about.counts[log].lost += u64::from(n);
                    done = take(about, log, MergeItem::Dropped(n));
                }
                Event::Damage(found) => damage = Some((log, found)),
            });
            let read = read.map_err(|error| of_system(&error, self.from.path().as_deref()))?;
            if let Some((log, found)) = damage {
                let told = (found.at, found.what.name().to_owned(), found.what.to_string(), self.from.path());
                done = take(&mut self.about, log, MergeItem::Damage(&told));
                self.about.note(log, told);
            }
            if matches!(read, Read::None) {
                return Ok(false);
            }
            if !done.map_err(|error| of_system(&error, to))? {
                return Ok(true);
            }
        }
        Ok(true)
    }
}

/// The names of a message's tracee.
pub fn aliases_of<'a>(about: &'a mut About, log: usize, payload: &[u8], stamp: Option<Stamp>) -> &'a [u32] {
    let (Some(aliases), Some(at)) = (about.aliases.get_mut(log).filter(|aliases| !aliases.is_empty()), stamp) else {
        return &[];
    };
    match nodes::tracee(payload).and_then(nodes::pid) {
        Some((node, creation, id)) => aliases.of(&Origin { node: node.into(), creation }, id, at),
        None => &[],
    }
}
