//! Which operating system process a pid belongs to.
//!
//! Each process has a creation: a random number. A forked child has another one than its parent. A pid that leaves its process
//! carries the creation and its node's name. At its destination it is the same pid again or a pid of another node.
//!
//! # Roles
//!
//! Any thread reads origins and adds other nodes. A fork's child calls [`forked`] before it has a second thread.
//!
//! # States
//!
//! | `CREATIONS[n]` | is |
//! | --- | --- |
//! | 0 | no creation yet |
//! | other | the creation after `n` forks; never changes |
//!
//! `OTHERS` only grows. `SHOWN_AS_HERE` has states of its own.
//!
//! # Orderings
//!
//! | edge | writer | reader | why |
//! | --- | --- | --- | --- |
//! | `FORKS` | the child, `AcqRel` | any thread, `Acquire` | a place of `CREATIONS` is read after its count |
//! | `CREATIONS` | [`begin`], `AcqRel` from 0 | any thread, `Acquire` | the first creation wins |
//!
//! # Checked by
//!
//! `tests/python/test_process_pids.py`.
//!
//! Only other crates of the workspace use it.

use inviso_core::host::sync::Unpoisoned;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::{
        atomic::{AtomicU64, Ordering},
        Mutex,
    },
    time::SystemTime,
};

/// The process that a pid comes from: the number of forks before it, or the place of another node in `OTHERS`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Origin(u64);

/// Forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The creations of this process and of its ancestors by fork; 0 where there is none yet. It has no lock: a lock that is held
/// during a fork stays locked in the child.
static CREATIONS: [AtomicU64; GENERATIONS] = [const { AtomicU64::new(0) }; GENERATIONS];

/// How many nested forks have an entry of their own. Later ones share the last entry.
const GENERATIONS: usize = 64;

/// Creations and names of other nodes whose pids were read here.
static OTHERS: Mutex<Vec<(u64, String)>> = Mutex::new(Vec::new());

/// The first number of another node.
const OTHER: u64 = 1 << 32;

/// How many other nodes terms may add. The bound keeps senders of terms from filling the memory with names.
const MET: usize = 16_384;

/// The number of the other node that is shown as this one. [`NONE`]: no node. [`FIRST`]: the first node without a name, not met
/// yet.
static SHOWN_AS_HERE: AtomicU64 = AtomicU64::new(NONE);
const NONE: u64 = 0;
const FIRST: u64 = 1;

/// Shows the first node without a name whose pids are read after this call as this node, as Erlang shows all such nodes. False:
/// shows no other node so. For readers of logs, which have no pids of their own to show.
pub fn show_first_as_here(is: bool) {
    SHOWN_AS_HERE.store(if is { FIRST } else { NONE }, Ordering::Release);
}

/// The node that stands for all nodes above the bound.
const TOO_MANY: (u64, &str) = (0, "toomany@nohost");

/// Starts a new generation: all pids so far belong to another operating system process.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::AcqRel);
    begin();
}

/// Gives this process its creation if it has none.
pub fn begin() {
    // its low half, the part that terms carry, isn't 0 either
    let creation = RandomState::new().hash_one((std::process::id(), SystemTime::now())) | 1;
    let place = &CREATIONS[generation(FORKS.load(Ordering::Acquire))];
    let _ = place.compare_exchange(0, creation, Ordering::AcqRel, Ordering::Acquire);
}

/// Whether two creations are the same. A node that is known from terms only has no high half.
fn same(known: u64, creation: u64) -> bool {
    known == creation || (known.min(creation) >> 32 == 0 && known as u32 == creation as u32 && creation as u32 != 0)
}

fn generation(forks: u64) -> usize {
    (forks as usize).min(GENERATIONS - 1)
}

impl Origin {
    /// This process.
    #[inline]
    pub fn own() -> Origin {
        Origin(FORKS.load(Ordering::Acquire))
    }

    /// The process of this creation, at a node of this name.
    pub fn of(name: String, creation: u64) -> Origin {
        if let Some(own) = Origin::own_or_ancestor(creation) {
            return own;
        }
        let mut others = OTHERS.lock().unpoisoned();
        // a node without a creation is identified by its name
        let known =
            others.iter().position(|(other, known)| same(*other, creation) && (creation != 0 || *known == name));
        let place = known.unwrap_or_else(|| {
            others.push((creation, name));
            others.len() - 1
        });
        others[place].0 = others[place].0.max(creation);
        Origin(OTHER + place as u64)
    }

    /// The origin of an identifier in a term, which carries the low half of the creation.
    pub fn of_term(name: &str, creation: u32) -> Origin {
        let origin = Origin::met(name, creation);
        if SHOWN_AS_HERE.load(Ordering::Relaxed) == FIRST && name == "nonode@nohost" && origin.0 >= OTHER {
            let _ = SHOWN_AS_HERE.compare_exchange(FIRST, origin.0, Ordering::AcqRel, Ordering::Acquire);
        }
        origin
    }

    fn met(name: &str, creation: u32) -> Origin {
        if let Some(own) = Origin::own_or_ancestor(creation.into()) {
            return own;
        }
        let mut others = OTHERS.lock().unpoisoned();
        // an Erlang node's creation is not random, so its name identifies it. A process of this package is identified by its
        // whole creation, whatever its name was
        let is = |(other, known): &(u64, String)| same(*other, creation.into()) && (*other >> 32 != 0 || known == name);
        let zero = |(other, known): &(u64, String)| *other == 0 && creation == 0 && known == name;
        let (creation, name) = match others.iter().position(|other| is(other) || zero(other)) {
            Some(place) => return Origin(OTHER + place as u64),
            None if others.len() < MET => (creation.into(), name),
            None => TOO_MANY,
        };
        let place = others.iter().position(|other| other.0 == creation && other.1 == name).unwrap_or_else(|| {
            others.push((creation, name.to_owned()));
            others.len() - 1
        });
        Origin(OTHER + place as u64)
    }

    /// This process or an ancestor by fork.
    fn own_or_ancestor(creation: u64) -> Option<Origin> {
        let forks = FORKS.load(Ordering::Acquire);
        let is = |n: &u64| same(CREATIONS[generation(*n)].load(Ordering::Acquire), creation);
        (0..=forks).rev().find(is).filter(|_| creation != 0).map(Origin)
    }

    /// Whether the creation in a term is this process's.
    pub fn is_own(creation: u32) -> bool {
        creation != 0 && creation == Origin::own().creation() as u32
    }

    /// The origin of a sort number from [`Origin::order`].
    pub fn by_order(order: u64) -> Origin {
        Origin(order)
    }

    /// The creation.
    pub fn creation(self) -> u64 {
        match self.other(|(creation, _)| *creation) {
            Some(creation) => creation,
            None => CREATIONS[generation(self.0)].load(Ordering::Acquire),
        }
    }

    /// The name of another node.
    pub fn foreign_name(self) -> Option<String> {
        self.other(|(_, name)| name.clone())
    }

    /// The first number in a pid's text: 0 for this process and for the node that is shown as this one.
    pub fn number(self) -> u64 {
        if self == Origin::own() || self.0 == SHOWN_AS_HERE.load(Ordering::Acquire) && self.0 >= OTHER {
            return 0;
        }
        self.0.checked_sub(OTHER).map_or(self.0 + 1, |place| place + GENERATIONS as u64 + 1)
    }

    /// The number that sorts pids of several origins.
    pub fn order(self) -> u64 {
        self.0
    }

    fn other<T>(self, of: impl FnOnce(&(u64, String)) -> T) -> Option<T> {
        let place = self.0.checked_sub(OTHER)?;
        OTHERS.lock().unpoisoned().get(place as usize).map(of)
    }
}
