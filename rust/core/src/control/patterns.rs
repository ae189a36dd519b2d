//! Patterns of functions and of messages, and the settings of a session.
#![forbid(unsafe_code)]

use super::{settle::Leftovers, Arm, Op, Target};
use crate::{
    state::{
        error::Error,
        node::Node,
        patterns::{Pattern, Patterns},
        plan::{Entry, Mfa, Plan},
        session::Session,
        setting::{kinds, Setting},
    },
    sync::{grace::pin, Unpoisoned},
};
use inviso_match::Program;
use std::sync::Arc;

impl Node {
    /// Applies a pattern to functions (trace.md, `function/4`); answers how many it matched.
    ///
    /// `kinds` is a set of [`kinds`]. `global` takes exported functions only.
    ///
    /// # Errors
    /// [`Error::SessionDead`]; nothing has changed then.
    pub fn function(
        &self, session: &Arc<Session>, targets: &[Target], kinds: u16, op: Op, host: &dyn Arm,
    ) -> Result<usize, Error> {
        let mut control = self.control.lock().unpoisoned();
        if !session.is_alive() {
            return Err(Error::SessionDead);
        }
        let mut left = Leftovers::default();
        let mut changes = Vec::with_capacity(targets.len());
        let mut matched = 0;
        let local = self.participant();
        let guard = pin(&local);
        let snapshot = self.snapshot.load(&guard);
        for target in targets {
            if kinds & kinds::GLOBAL != 0 && !target.exported {
                continue;
            }
            matched += usize::from(!target.is_gone);
            let plan = snapshot.find(target.key);
            let old = plan.and_then(|p| p.entry(session.id));
            let mut entry = old.cloned().unwrap_or_else(|| Entry::new(session));
            let change = self.apply(&mut control, &mut entry.set, kinds, &op, &mut left);
            if !change {
                continue;
            }
            let slot = control.slot(target.key);
            let name = plan.map_or_else(|| self.names.number(&target.name), |p| p.name);
            let mut entries: Vec<Entry> = plan
                .map_or_else(Vec::new, |p| p.entries.iter().filter(|e| e.session.id != session.id).cloned().collect());
            entries.push(entry);
            changes.push((target.key, plan.map_or(0, |p| p.events), Plan::of(slot, name, target.foreign, entries)));
        }
        drop(guard);
        if !changes.is_empty() {
            self.settle(&mut control, changes, left, host, |next| next);
        }
        Ok(matched)
    }

    /// Sets the pattern for functions that are loaded later. `info` shows it from then on.
    ///
    /// # Errors
    /// [`Error::SessionDead`].
    pub fn on_load(&self, session: &Arc<Session>, kinds: u16, op: Op) -> Result<(), Error> {
        let mut control = self.control.lock().unpoisoned();
        if !session.is_alive() {
            return Err(Error::SessionDead);
        }
        let mut left = Leftovers::default();
        let mut setting = session.on_load().unwrap_or_default();
        self.apply(&mut control, &mut setting, kinds, &op, &mut left);
        if kinds & kinds::GLOBAL != 0 && matches!(op, Op::Off) {
            // as in OTP, where this pattern has another kind
            setting.spec = None;
            setting.lose_meta();
        }
        let mut threads = self.threads.lock().unpoisoned();
        left.counters.into_iter().for_each(|c| threads.pool.give(c));
        session.set_on_load(Some(setting));
        Ok(())
    }

    /// Functions were loaded: every session's `on_load` pattern takes those for which `is_wanted` is true, by the session's id.
    pub fn loaded(&self, targets: &[Target], is_wanted: &dyn Fn(u64, &Mfa) -> bool, host: &dyn Arm) {
        let mut control = self.control.lock().unpoisoned();
        let sessions: Vec<_> = self.sessions().into_iter().filter_map(|s| s.on_load().map(|e| (s, e))).collect();
        if sessions.is_empty() {
            return;
        }
        let mut left = Leftovers::default();
        let mut changes = Vec::new();
        let local = self.participant();
        let guard = pin(&local);
        let snapshot = self.snapshot.load(&guard);
        for target in targets {
            let plan = snapshot.find(target.key);
            let mut entries: Vec<Entry> = plan.map_or_else(Vec::new, |p| p.entries.to_vec());
            let before = entries.len();
            for (session, pattern) in &sessions {
                let taken = pattern.has & !kinds::GLOBAL != 0 || target.exported;
                if taken && is_wanted(session.id, &target.name) && !entries.iter().any(|e| e.session.id == session.id) {
                    let mut entry = Entry::new(session);
                    let op = |spec: &Option<Arc<Program>>| spec.clone().map_or(Op::On, Op::Match);
                    let (messages, rest) = (kinds::LOCAL | kinds::GLOBAL, kinds::COUNTERS);
                    self.apply(&mut control, &mut entry.set, pattern.has & messages, &op(&pattern.spec), &mut left);
                    let meta = if pattern.has_lost_meta() { 0 } else { pattern.has & kinds::META };
                    self.apply(&mut control, &mut entry.set, meta, &op(&pattern.meta_spec), &mut left);
                    self.apply(&mut control, &mut entry.set, pattern.has & rest, &Op::On, &mut left);
                    entries.push(entry);
                }
            }
            if entries.len() == before {
                continue;
            }
            let slot = control.slot(target.key);
            let name = plan.map_or_else(|| self.names.number(&target.name), |p| p.name);
            changes.push((target.key, plan.map_or(0, |p| p.events), Plan::of(slot, name, target.foreign, entries)));
        }
        drop(guard);
        if changes.is_empty() {
            return;
        }
        left.changed_running = false;
        self.settle(&mut control, changes, left, host, |next| next);
    }

    /// Changes a session's patterns for messages (trace.md, `send/3`, `recv/3`).
    ///
    /// # Errors
    /// [`Error::SessionDead`]; nothing has changed then.
    pub fn messages(
        &self, session: &Arc<Session>, change: impl FnOnce(&mut Patterns), host: &dyn Arm,
    ) -> Result<(), Error> {
        let mut control = self.control.lock().unpoisoned();
        if !session.is_alive() {
            return Err(Error::SessionDead);
        }
        let mut patterns = self.patterns(session);
        change(&mut patterns);
        let left = Leftovers { changed_running: true, ..Leftovers::default() };
        self.settle(&mut control, Vec::new(), left, host, |next| next.with_patterns(session.index, patterns));
        Ok(())
    }

    /// A session's patterns for messages.
    #[must_use]
    pub fn patterns(&self, session: &Session) -> Patterns {
        self.read(|s| match s.standing(session.index) {
            Some((there, patterns)) if there.id == session.id => patterns.clone(),
            _ => Patterns::default(),
        })
    }

    /// Whether a match specification of a session may set tokens of sequential tracing. `false` unless [`Session::note_tokens`] was
    /// called for it.
    #[must_use]
    pub fn sets_tokens(&self, session: &Session) -> bool {
        let sets = |set: &Setting| [&set.spec, &set.meta_spec].into_iter().flatten().any(|s| s.uses().sets_token);
        let sends = || matches!(self.patterns(session).send, Pattern::Spec(spec) if spec.uses().sets_token);
        session.has_seen_tokens()
            && (session.on_load().is_some_and(|setting| sets(&setting))
                || sends()
                || self.read(|s| s.plans().any(|(_, plan)| plan.entry(session.id).is_some_and(|entry| sets(entry)))))
    }

    /// A session's entry of a function, with the function's slot; `None` if nothing is set.
    #[must_use]
    pub fn entry(&self, session: &Session, key: usize) -> Option<(u32, Entry)> {
        self.read(|s| s.find(key).and_then(|p| p.entry(session.id).map(|e| (p.slot, e.clone()))))
    }

    /// The value of a call_count counter of an [`Entry`].
    #[must_use]
    pub fn count(&self, counter: u32) -> u64 {
        let threads = self.threads.lock().unpoisoned();
        threads.pool.value(counter, threads.total(counter))
    }
}
