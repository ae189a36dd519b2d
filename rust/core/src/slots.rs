//! The snapshot: from a function's identity to its plan, for all functions at once. Immutable once made.
//!
//! The table is cut into chunks, so that the next snapshot copies the root and the chunks that change and shares the
//! others.
#![forbid(unsafe_code)]

use crate::{messages::Patterns, plan::Plan, session::Session};
use std::sync::Arc;

/// Functions and what happens at their calls from now on; `None` for nothing.
pub type Changes = Vec<(usize, Option<Arc<Plan>>)>;

/// A function and its plan, as the table holds them.
pub struct Bucket {
    key: usize,
    plan: Option<Arc<Plan>>,
}

impl Bucket {
    /// The plan.
    #[inline(always)]
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_deref()
    }
}

/// All plans and all sessions at one point in time.
pub struct Snapshot {
    chunks: Box<[Arc<[Bucket]>]>,
    sessions: Arc<[Option<Arc<Session>>]>,
    /// What each session traces of messages, by its index.
    patterns: Arc<[Patterns]>,
    /// Ids of the sessions by index, 0 where there is none.
    ids: Box<[u32]>,
    len: usize,
    /// Tells it from every other snapshot of late.
    pub version: u32,
    /// Interpreter events that some plan needs.
    pub events: u8,
}

/// Functions to a chunk, on average, when the chunks are laid out anew.
const CROWD: usize = 24;

static VERSION: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);

#[inline(always)]
fn hash(key: usize) -> u64 {
    (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Snapshot {
    /// Nothing is traced.
    #[must_use]
    pub fn empty() -> Self {
        Snapshot {
            chunks: [chunk(&[])].into(),
            sessions: Arc::new([]),
            patterns: Arc::new([]),
            ids: Box::new([]),
            len: 0,
            version: 0,
            events: 0,
        }
    }

    /// The plan of a function.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, key: usize) -> Option<&Plan> {
        self.bucket(key)?.plan()
    }

    /// Where a function stands in the table.
    #[inline(always)]
    #[must_use]
    pub fn bucket(&self, key: usize) -> Option<&Bucket> {
        let h = hash(key);
        let chunk = &self.chunks[(h >> 32) as usize & (self.chunks.len() - 1)];
        let mask = chunk.len() - 1;
        let mut at = (h >> 52) as usize & mask;
        loop {
            let bucket = &chunk[at];
            if bucket.key == key {
                return Some(bucket);
            }
            if bucket.key == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// The session of an index, if it is still the one with this id.
    #[inline(always)]
    #[must_use]
    pub fn session(&self, index: u16, id: u32) -> Option<&Arc<Session>> {
        self.sessions.get(index as usize)?.as_ref().filter(|s| s.id as u32 == id)
    }

    /// Whether the session of an index is still the one with this id.
    #[inline(always)]
    #[must_use]
    pub fn has_session(&self, index: u16, id: u32) -> bool {
        self.ids.get(index as usize) == Some(&id)
    }

    /// How many indices of sessions are in use, or were.
    #[inline(always)]
    #[must_use]
    pub fn width(&self) -> u16 {
        self.ids.len() as u16
    }

    /// The session of an index, and what it traces of messages.
    #[inline(always)]
    #[must_use]
    pub fn standing(&self, index: u16) -> Option<(&Arc<Session>, &Patterns)> {
        let n = index as usize;
        Some((self.sessions.get(n)?.as_ref()?, self.patterns.get(n)?))
    }

    /// All living sessions.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.iter().flatten()
    }

    /// All plans with their functions.
    pub fn plans(&self) -> impl Iterator<Item = (usize, &Arc<Plan>)> {
        self.chunks.iter().flat_map(|c| c.iter()).filter_map(|b| Some((b.key, b.plan.as_ref()?)))
    }

    /// How many functions have a plan.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no function has a plan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next snapshot: the same but for these functions.
    #[must_use]
    pub fn with(&self, changes: Changes) -> Snapshot {
        let mut by_chunk: rustc_hash::FxHashMap<usize, Changes> = Default::default();
        let room = self.chunks.len() * CROWD * 2;
        let relay = self.len + changes.len() > room;
        let count = if relay { ((self.len + changes.len()) / CROWD).next_power_of_two() } else { self.chunks.len() };
        for (key, plan) in changes {
            by_chunk.entry((hash(key) >> 32) as usize & (count - 1)).or_default().push((key, plan));
        }
        if relay {
            let mut all: Vec<Vec<(usize, Arc<Plan>)>> = vec![Vec::new(); count];
            for (key, plan) in self.plans() {
                all[(hash(key) >> 32) as usize & (count - 1)].push((key, plan.clone()));
            }
            let chunks = all.into_iter().enumerate().map(|(n, old)| merged(old, by_chunk.remove(&n))).collect();
            return Snapshot::of(chunks, self.sessions.clone(), self.patterns.clone());
        }
        let mut chunks = self.chunks.to_vec();
        for (n, new) in by_chunk {
            let old = chunks[n].iter().filter_map(|b| Some((b.key, b.plan.clone()?))).collect();
            chunks[n] = merged(old, Some(new));
        }
        Snapshot::of(chunks, self.sessions.clone(), self.patterns.clone())
    }

    /// The next snapshot: the same functions, these sessions. New ones trace all messages.
    #[must_use]
    pub fn with_sessions(&self, sessions: Vec<Option<Arc<Session>>>) -> Snapshot {
        let id = |session: &Option<Arc<Session>>| session.as_ref().map(|s| s.id);
        let kept = |n: usize, now: &Option<Arc<Session>>| {
            let was = self.sessions.get(n).is_some_and(|was| was.is_some() && id(was) == id(now));
            self.patterns.get(n).filter(|_| was).cloned().unwrap_or_default()
        };
        let patterns = sessions.iter().enumerate().map(|(n, now)| kept(n, now)).collect();
        Snapshot::of(self.chunks.to_vec(), sessions.into(), patterns)
    }

    /// The next snapshot: the same, but for what the session of this index traces of messages.
    #[must_use]
    pub fn with_patterns(&self, index: u16, patterns: Patterns) -> Snapshot {
        let mut all = self.patterns.to_vec();
        if let Some(place) = all.get_mut(index as usize) {
            *place = patterns;
        }
        Snapshot::of(self.chunks.to_vec(), self.sessions.clone(), all.into())
    }

    /// The sessions by index.
    #[must_use]
    pub fn session_table(&self) -> Vec<Option<Arc<Session>>> {
        self.sessions.to_vec()
    }

    fn of(chunks: Vec<Arc<[Bucket]>>, sessions: Arc<[Option<Arc<Session>>]>, patterns: Arc<[Patterns]>) -> Snapshot {
        let ids = sessions.iter().map(|s| s.as_ref().map_or(0, |s| s.id as u32)).collect();
        let mut snapshot = Snapshot {
            chunks: chunks.into(),
            sessions,
            patterns,
            ids,
            len: 0,
            version: VERSION.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            events: 0,
        };
        let (mut len, mut events) = (0, 0);
        for (_, plan) in snapshot.plans() {
            len += 1;
            events |= plan.events;
        }
        (snapshot.len, snapshot.events) = (len, events);
        snapshot
    }
}

fn merged(mut old: Vec<(usize, Arc<Plan>)>, new: Option<Changes>) -> Arc<[Bucket]> {
    if let Some(new) = new {
        let fresh: rustc_hash::FxHashSet<usize> = new.iter().map(|(k, _)| *k).collect();
        old.retain(|(k, _)| !fresh.contains(k));
        old.extend(new.into_iter().filter_map(|(k, p)| Some((k, p?))));
    }
    chunk(&old)
}

fn chunk(plans: &[(usize, Arc<Plan>)]) -> Arc<[Bucket]> {
    let len = (plans.len() * 4 + 2).next_power_of_two();
    let mut buckets: Vec<Bucket> = (0..len).map(|_| Bucket { key: 0, plan: None }).collect();
    for (key, plan) in plans {
        let mut at = (hash(*key) >> 52) as usize & (len - 1);
        while buckets[at].key != 0 {
            at = (at + 1) & (len - 1);
        }
        buckets[at] = Bucket { key: *key, plan: Some(plan.clone()) };
    }
    buckets.into()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{plan::Entry, session::Options};

    /// A plan with this slot.
    fn plan(slot: usize, session: &Arc<Session>) -> Option<Arc<Plan>> {
        let entry = Entry { has: crate::plan::kinds::COUNT, ..Entry::new(session) };
        Plan::of(slot as u32, 0, false, vec![entry]).map(Arc::new)
    }

    /// Keys are like addresses. Some of the 20,000 stand at the end of their chunk, so the search for the next one goes on at its beginning.
    #[test]
    fn every_function_is_found_wherever_its_place_is_and_no_other() {
        let session = Arc::new(Session::new(1, 0, "", 0, Options::default()));
        let keys = || (1..=20_000usize).map(|n| n * 64);
        let mut snapshot = Snapshot::empty();
        for part in keys().collect::<Vec<_>>().chunks(997) {
            snapshot = snapshot.with(part.iter().map(|key| (*key, plan(*key, &session))).collect());
        }
        assert_eq!(snapshot.len(), 20_000);
        for key in keys() {
            assert_eq!(snapshot.find(key).map(|plan| plan.slot), Some(key as u32));
            for other in [key + 8, key + 16, key + 32, key << 20] {
                assert!(other % 64 == 0 && other <= 20_000 * 64 || snapshot.bucket(other).is_none());
            }
        }
    }
}
