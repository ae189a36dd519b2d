//! The snapshot: an immutable table from functions to plans, with the sessions.
//!
//! The table consists of chunks. The next snapshot copies the root and the changed chunks and shares the others. The root has the sum
//! of each chunk, so that a change of one function reads no plan of the others.
//!
//! # Roles
//! The control side creates snapshots. Any thread reads them.
//!
//! # States
//! Immutable; see [`crate::sync::current`] for the change from one to the next.
//!
//! # Orderings
//! `VERSION` is `Relaxed`: only its uniqueness matters.
//!
//! # Checked by
//! `models::current`, `models::node` (loom); the tests below.
//!
//! Only other crates of the workspace use it.
#![forbid(unsafe_code)]

use crate::state::{patterns::Patterns, plan::Plan, session::Session};
use std::sync::Arc;

/// Functions and their new plans; `None` for no plan.
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

/// A part of the table.
#[derive(Clone)]
struct Chunk {
    /// Open addressing, at most a quarter full.
    buckets: Arc<[Bucket]>,
    /// The number of plans in it.
    len: usize,
    /// Interpreter events that some plan in it needs.
    events: u8,
}

/// All plans and all sessions at one point in time.
pub struct Snapshot {
    chunks: Box<[Chunk]>,
    sessions: Arc<[Option<Arc<Session>>]>,
    /// The message patterns of the sessions, by index.
    patterns: Arc<[Patterns]>,
    /// Ids of the sessions by index, 0 where there is none.
    ids: Box<[u32]>,
    len: usize,
    /// Differs from the versions of all recent snapshots.
    pub version: u32,
    /// Interpreter events that some plan needs.
    pub events: u8,
}

/// The average number of functions in a chunk after a new layout.
const CROWD: usize = 24;

/// The next version. std's type: no model explores it.
static VERSION: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);

#[inline(always)]
fn hash(key: usize) -> u64 {
    (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Snapshot {
    /// A snapshot without plans and sessions.
    #[must_use]
    pub fn empty() -> Self {
        Snapshot {
            chunks: [Chunk::of(&[])].into(),
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

    /// The entry of a function in the table.
    #[inline(always)]
    #[must_use]
    pub fn bucket(&self, key: usize) -> Option<&Bucket> {
        let h = hash(key);
        let chunk = &self.chunks[(h >> 32) as usize & (self.chunks.len() - 1)].buckets;
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

    /// The session of an index, if it has this id.
    #[inline(always)]
    #[must_use]
    pub fn session(&self, index: u16, id: u32) -> Option<&Arc<Session>> {
        self.sessions.get(index as usize)?.as_ref().filter(|s| s.id as u32 == id)
    }

    /// Whether the session of an index has this id.
    #[inline(always)]
    #[must_use]
    pub fn has_session(&self, index: u16, id: u32) -> bool {
        self.ids.get(index as usize) == Some(&id)
    }

    /// Whether a session with this id lives.
    #[must_use]
    pub fn lives(&self, id: u32) -> bool {
        self.sessions().any(|session| session.id as u32 == id)
    }

    /// One more than the largest index that a session has had.
    #[inline(always)]
    #[must_use]
    pub fn width(&self) -> u16 {
        self.ids.len() as u16
    }

    /// The session of an index, and its message patterns.
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
        self.chunks.iter().flat_map(|c| c.buckets.iter()).filter_map(|b| Some((b.key, b.plan.as_ref()?)))
    }

    /// The number of functions with a plan.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no function has a plan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next snapshot: this one with changes of functions.
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
            let old = chunks[n].buckets.iter().filter_map(|b| Some((b.key, b.plan.clone()?))).collect();
            chunks[n] = merged(old, Some(new));
        }
        Snapshot::of(chunks, self.sessions.clone(), self.patterns.clone())
    }

    /// The next snapshot: this one with other sessions. New sessions trace all messages.
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

    /// The next snapshot: this one with other message patterns of one session.
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

    fn of(chunks: Vec<Chunk>, sessions: Arc<[Option<Arc<Session>>]>, patterns: Arc<[Patterns]>) -> Snapshot {
        let ids = sessions.iter().map(|s| s.as_ref().map_or(0, |s| s.id as u32)).collect();
        Snapshot {
            len: chunks.iter().map(|chunk| chunk.len).sum(),
            events: chunks.iter().fold(0, |all, chunk| all | chunk.events),
            chunks: chunks.into(),
            sessions,
            patterns,
            ids,
            version: VERSION.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        }
    }
}

/// A chunk of the old plans with the new ones.
fn merged(mut old: Vec<(usize, Arc<Plan>)>, new: Option<Changes>) -> Chunk {
    if let Some(new) = new {
        let fresh: rustc_hash::FxHashSet<usize> = new.iter().map(|(k, _)| *k).collect();
        old.retain(|(k, _)| !fresh.contains(k));
        old.extend(new.into_iter().filter_map(|(k, p)| Some((k, p?))));
    }
    Chunk::of(&old)
}

impl Chunk {
    /// A chunk of these plans.
    fn of(plans: &[(usize, Arc<Plan>)]) -> Chunk {
        let places = (plans.len() * 4 + 2).next_power_of_two();
        let mut buckets: Vec<Bucket> = (0..places).map(|_| Bucket { key: 0, plan: None }).collect();
        for (key, plan) in plans {
            let mut at = (hash(*key) >> 52) as usize & (places - 1);
            while buckets[at].key != 0 {
                at = (at + 1) & (places - 1);
            }
            buckets[at] = Bucket { key: *key, plan: Some(plan.clone()) };
        }
        let events = plans.iter().fold(0, |all, (_, plan)| all | plan.events);
        Chunk { buckets: buckets.into(), len: plans.len(), events }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::state::{plan::Entry, session::Options};

    /// A plan with this slot.
    fn plan(slot: usize, session: &Arc<Session>) -> Option<Arc<Plan>> {
        let mut entry = Entry::new(session);
        entry.set.has = crate::state::setting::kinds::COUNT;
        Plan::of(slot as u32, 0, false, vec![entry]).map(Arc::new)
    }

    fn session(id: u64, index: u16) -> Arc<Session> {
        Arc::new(Session::new(id, index, "", 0, Options::default()))
    }

    fn keys(n: usize) -> impl Iterator<Item = usize> {
        (1..=n).map(|n| n * 64)
    }

    /// A snapshot of so many functions, made in parts.
    fn made(n: usize, part: usize) -> Snapshot {
        let (session, keys) = (session(1, 0), keys(n).collect::<Vec<_>>());
        keys.chunks(part).fold(Snapshot::empty(), |snapshot, part| {
            snapshot.with(part.iter().map(|key| (*key, plan(*key, &session))).collect())
        })
    }

    /// Keys are like addresses. Some of the 20,000 are at the end of their chunk, so the search wraps around to its beginning.
    #[test]
    fn every_function_is_found_wherever_its_place_is_and_no_other() {
        let snapshot = made(20_000, 997);
        assert_eq!(snapshot.len(), 20_000);
        for key in keys(20_000) {
            assert_eq!(snapshot.find(key).map(|plan| plan.slot), Some(key as u32));
            for other in [key + 8, key + 16, key + 32, key << 20] {
                assert!(other % 64 == 0 && other <= 20_000 * 64 || snapshot.bucket(other).is_none());
            }
        }
    }

    #[test]
    fn chunks_stay_as_small_as_they_are_meant_to_be() {
        for (n, part) in [(1, 1), (47, 47), (49, 1), (500, 1), (3_000, 3_000), (20_000, 997)] {
            let snapshot = made(n, part);
            let crowds: Vec<_> =
                snapshot.chunks.iter().map(|c| c.buckets.iter().filter(|b| b.key != 0).count()).collect();
            assert_eq!(crowds.iter().sum::<usize>(), n);
            assert_eq!(crowds, snapshot.chunks.iter().map(|c| c.len).collect::<Vec<_>>());
            let (most, average) = (crowds.iter().max().unwrap(), n / crowds.len());
            assert!(average <= 2 * CROWD && *most <= 4 * CROWD, "{n} by {part}: {crowds:?}");
            assert!(crowds.len() == 1 || average >= CROWD / 2, "{n} by {part}: {crowds:?}");
            for chunk in &*snapshot.chunks {
                let (crowd, places) = (chunk.len, chunk.buckets.len());
                assert!(places > 3 * crowd && places < 8 * crowd + 5, "{crowd} in {places}");
            }
        }
    }

    #[test]
    fn chunks_are_laid_out_anew_when_they_are_twice_as_full_as_meant() {
        let chunks = |n, part| made(n, part).chunks.len();
        assert_eq!([chunks(2 * CROWD, 1), chunks(2 * CROWD + 1, 1)], [1, 2]);
        assert_eq!([chunks(4 * CROWD, 1), chunks(4 * CROWD + 1, 1)], [2, 4]);
        assert_eq!([chunks(2 * CROWD, 2 * CROWD), chunks(2 * CROWD + 1, 2 * CROWD + 1)], [1, 2]);
    }

    #[test]
    fn a_change_copies_only_the_chunks_that_change() {
        let before = made(3_000, 3_000);
        let after = before.with(vec![(64, None), (8, plan(8, &session(1, 0)))]);
        let shared =
            before.chunks.iter().zip(&*after.chunks).filter(|(a, b)| Arc::ptr_eq(&a.buckets, &b.buckets)).count();
        assert!(after.chunks.len() == before.chunks.len() && shared >= before.chunks.len() - 2);
        assert_eq!(
            (after.len(), after.find(64).is_some(), after.find(8).map(|plan| plan.slot)),
            (3_000, false, Some(8))
        );
        let found: std::collections::BTreeSet<_> = after.plans().map(|(key, plan)| (key, plan.slot as usize)).collect();
        assert_eq!(found, keys(3_000).skip(1).chain([8]).map(|key| (key, key)).collect());
        assert!(before.find(64).is_some() && before.find(8).is_none());
        // a plan replaces another
        let again = after.with(vec![(8, plan(9, &session(1, 0)))]);
        assert_eq!((again.len(), again.find(8).map(|plan| plan.slot)), (3_000, Some(9)));
        assert_eq!(after.find(8).map(|plan| plan.slot), Some(8));
    }

    #[test]
    fn a_snapshot_says_what_is_in_it() {
        let empty = Snapshot::empty();
        assert!(empty.is_empty() && empty.events == 0 && empty.plans().count() == 0);
        let one = empty.with(vec![(64, plan(1, &session(1, 0)))]);
        assert!(!one.is_empty() && one.len() == 1 && one.events == crate::state::plan::events::CALL);
        let mut timed = Entry::new(&session(1, 0));
        timed.set.has = crate::state::setting::kinds::TIME;
        let both = one.with(vec![(128, Plan::of(2, 0, false, vec![timed]).map(Arc::new))]);
        assert_eq!(both.events, one.events | crate::state::plan::events::END | crate::state::plan::events::PAUSE);
        assert_eq!(both.with(vec![(128, None)]).events, one.events);
        assert!(one.version != both.version && both.version != empty.version);
        let bucket = both.bucket(64).unwrap();
        assert_eq!(bucket.plan().map(|plan| plan.slot), Some(1));
    }

    #[test]
    fn a_session_is_told_from_the_next_one_in_its_place() {
        let (first, second, third) = (session(5, 0), session(6, 1), session(7, 0));
        let before = Snapshot::empty().with_sessions(vec![Some(first), Some(second.clone()), None]);
        let after = before.with_sessions(vec![Some(third.clone()), Some(second), None]);
        let id = |found: Option<&Arc<Session>>| found.map(|session| session.id);
        for (snapshot, here, gone) in [(&before, 5, 7), (&after, 7, 5)] {
            assert_eq!((id(snapshot.session(0, here)), id(snapshot.session(0, gone))), (Some(here.into()), None));
            assert!(snapshot.has_session(0, here) && !snapshot.has_session(0, gone) && snapshot.has_session(1, 6));
            assert!(
                !snapshot.has_session(3, 6)
                    && id(snapshot.session(3, 6)).is_none()
                    && id(snapshot.session(2, 0)).is_none()
            );
            assert_eq!(snapshot.width(), 3);
            assert_eq!(snapshot.sessions().map(|session| session.id).collect::<Vec<_>>(), [here.into(), 6]);
            assert_eq!(
                snapshot.session_table().iter().map(|s| id(s.as_ref())).collect::<Vec<_>>(),
                [Some(here.into()), Some(6), None]
            );
            assert_eq!(snapshot.standing(0).map(|(session, _)| session.id), Some(here.into()));
            assert!(snapshot.standing(2).is_none() && snapshot.standing(3).is_none());
        }
    }

    #[test]
    fn what_a_session_traces_of_messages_ends_with_it() {
        use crate::state::patterns::Pattern;
        let nothing = || Patterns { send: Pattern::Nothing, ..Patterns::default() };
        let traces = |snapshot: &Snapshot, index| matches!(snapshot.standing(index).unwrap().1.send, Pattern::All);
        let (first, second) = (session(5, 0), session(6, 1));
        let before = Snapshot::empty().with_sessions(vec![Some(first), Some(second.clone())]);
        let set = before.with_patterns(0, nothing()).with_patterns(1, nothing()).with_patterns(9, nothing());
        assert_eq!([0, 1].map(|index| (traces(&before, index), traces(&set, index))), [(true, false); 2]);
        let later = set.with(vec![]).with_sessions(vec![Some(session(7, 0)), Some(second)]);
        assert!(traces(&later, 0) && !traces(&later, 1));
    }
}
