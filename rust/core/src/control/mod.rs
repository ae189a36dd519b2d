//! The one place where patterns change: stage, publish, arm, grace period, retire.
//!
//! # Roles
//! One stager at a time holds the control lock. Traced threads never take it. The host arms code through [`Arm`].
//!
//! # States
//! A change is: checked (nothing has changed yet) → staged (a new snapshot exists) → published (one swap: from here
//! on every event acts by it) → armed (code that has a plan now gives events) → settled (a grace period has passed:
//! nobody is inside an old entry) → disarmed and retired.
//!
//! # Orderings
//! Those of [`crate::state::snapshot`]. Publishing comes before arming: an event without a plan is wasted, a plan without events
//! would lose calls.
//!
//! # Checked by
//! `models::node` (loom); mutants `publish_piecewise`, `armed_late`, `restart_unsettled`, `pause_unsettled`, `destroy_keeps_flags`;
//! `tests/exact.rs` and `tests/kinds.rs`.
#![forbid(unsafe_code)]

use crate::{
    count::latency::Latency,
    state::{
        error::Error,
        node::Node,
        patterns::{Pattern, Patterns},
        plan::{Entry, Mfa, Plan},
        session::{Options, Session},
        setting::{kinds, Setting},
        snapshot::Snapshot,
        tracee::MAX_SESSIONS,
    },
    sync::{current::Retired, grace::pin, mutants::mutant, Ordering::Relaxed},
};
use crate::{state::control::Control, sync::Unpoisoned};
use inviso_match::Program;
use std::sync::Arc;

/// What is done to the kinds that a call of `function/4` names.
#[derive(Clone, Debug)]
pub enum Op {
    /// `true`: on; counters start from zero.
    On,
    /// A match spec: as `On`, and messages are sent as it decides.
    Match(Arc<Program>),
    /// `false`: off, if it is of that kind.
    Off,
    /// Counters stand still.
    Pause,
    /// Counters start from zero, if there are any.
    Restart,
}

/// A function that a pattern found.
#[derive(Clone, Debug)]
pub struct Target {
    /// The function's identity for the host: a code object's address, a trace point's number. Never 0.
    pub key: usize,
    /// Its name.
    pub name: Arc<Mfa>,
    /// Whether `global` takes it.
    pub exported: bool,
    /// Whether it is not written in the traced language: see [`crate::state::plan::events::FOREIGN`].
    pub foreign: bool,
    /// Whether the program has dropped the function, and only what a session has set on it keeps its code. A pattern changes that, and
    /// does not count the function as matched.
    pub is_gone: bool,
}

/// How the host switches a function's events.
pub trait Arm {
    /// These functions need exactly these events from now on (see [`crate::state::plan::events`]); 0 for none. `all` is what
    /// the whole node needs.
    fn arm(&self, functions: &[(usize, u8)], all: u8);
}

fn same(a: &Option<Arc<Program>>, b: &Option<Arc<Program>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// What a change leaves behind until nobody can be inside it.
#[derive(Default)]
struct Leftovers {
    counters: Vec<u32>,
    keys: Vec<usize>,
    changed_running: bool,
}

impl Node {
    /// Makes a session (trace.md, `session_create/3`).
    ///
    /// # Errors
    /// [`Error::Limit`] when [`MAX_SESSIONS`] exist.
    pub fn session_create(&self, name: &str, tracer: u64, options: Options) -> Result<Arc<Session>, Error> {
        if let Some(tracer) = self.tracee(tracer) {
            tracer.note_tracer();
        }
        let mut control = self.control.lock().unpoisoned();
        let mut table = self.read(Snapshot::session_table);
        let index = table.iter().position(Option::is_none).unwrap_or(table.len());
        if index >= MAX_SESSIONS {
            return Err(Error::Limit("too many sessions"));
        }
        control.next_session += 1;
        let session = Arc::new(Session::new(control.next_session, index as u16, name, tracer, options));
        if index == table.len() {
            table.push(None);
        }
        table[index] = Some(session.clone());
        let retired = self.publish(|old| old.with_sessions(table));
        self.width.fetch_max(index as u32 + 1, Relaxed);
        self.population.lock().unpoisoned().join(&session);
        control.retired.push(retired);
        Ok(session)
    }

    /// Ends a session: its entries leave every plan, its flags every process. `false` if it had ended before
    /// (trace.md, `session_destroy/1`).
    pub fn session_destroy(&self, session: &Arc<Session>, host: &dyn Arm) -> bool {
        if !session.begin_end() {
            return false;
        }
        let mut control = self.control.lock().unpoisoned();
        let mut left = Leftovers { changed_running: true, ..Leftovers::default() };
        let mut changes = Vec::new();
        let mut table = self.read(|snapshot| {
            for (key, plan) in snapshot.plans() {
                if let Some(entry) = plan.entry(session.id) {
                    if entry.has & kinds::COUNT != 0 {
                        left.counters.push(entry.count);
                    }
                    let rest = plan.entries.iter().filter(|e| e.session.id != session.id).cloned().collect();
                    changes.push((key, plan.events, Plan::of(plan.slot, plan.name, plan.foreign, rest)));
                }
            }
            snapshot.session_table()
        });
        // of another node (in a forked child, the parent's), of which nothing is here
        let Some(place) = table.get_mut(session.index as usize).filter(|there| is_it(there, session)) else {
            return false;
        };
        *place = None;
        let is_last = table.iter().all(Option::is_none);
        if let Some(entry) = session.on_load().filter(|e| e.has & kinds::COUNT != 0) {
            left.counters.push(entry.count);
        }
        session.set_on_load(None);
        self.settle(&mut control, changes, left, host, |next| next.with_sessions(table));
        if !mutant!("destroy_keeps_flags") {
            self.population.lock().unpoisoned().leave(session);
        }
        self.ask_cpu_stamps(session, false);
        session.finish_end();
        if is_last {
            self.order.rest();
        }
        drop(control); // a tracer module that is at work may want it
        session.calls.close();
        true
    }

    /// Applies a pattern to functions (trace.md, `function/4`); answers how many it matched.
    ///
    /// `kinds` is a set out of [`kinds`]. `global` takes exported functions only.
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
        self.note_time(kinds, &op);
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

    /// Whether a pattern wants the time of what happens, or may switch a flag on that does.
    fn note_time(&self, kinds: u16, op: &Op) {
        let switches = matches!(op, Op::Match(program) if program.uses().switches);
        if switches || kinds & kinds::TIMED != 0 {
            self.order.timed();
        }
    }

    /// Sets what functions that come into being later get. `true` in `info` from then on.
    ///
    /// # Errors
    /// [`Error::SessionDead`].
    pub fn on_load(&self, session: &Arc<Session>, kinds: u16, op: Op) -> Result<(), Error> {
        let mut control = self.control.lock().unpoisoned();
        if !session.is_alive() {
            return Err(Error::SessionDead);
        }
        self.note_time(kinds, &op);
        let mut left = Leftovers::default();
        let mut setting = session.on_load().unwrap_or_default();
        self.apply(&mut control, &mut setting, kinds, &op, &mut left);
        if kinds & kinds::GLOBAL != 0 && matches!(op, Op::Off) {
            // as in OTP, where the pattern is of another kind
            setting.spec = None;
            setting.lose_meta();
        }
        let mut threads = self.threads.lock().unpoisoned();
        left.counters.into_iter().for_each(|c| threads.pool.give(c));
        session.set_on_load(Some(setting));
        Ok(())
    }

    /// New functions have come into being: every session's `on_load` pattern takes those that `wants` says it does, by the
    /// session's id.
    pub fn loaded(&self, targets: &[Target], wants: &dyn Fn(u64, &Mfa) -> bool, host: &dyn Arm) {
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
                if taken && wants(session.id, &target.name) && !entries.iter().any(|e| e.session.id == session.id) {
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

    /// Sets what a session traces of messages (trace.md, `send/3`, `recv/3`).
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
        for pattern in [&patterns.send, &patterns.receive] {
            if let Pattern::Spec(program) = pattern {
                self.note_time(0, &Op::Match(program.clone()));
            }
        }
        let left = Leftovers { changed_running: true, ..Leftovers::default() };
        self.settle(&mut control, Vec::new(), left, host, |next| next.with_patterns(session.index, patterns));
        Ok(())
    }

    /// What a session traces of messages.
    #[must_use]
    pub fn patterns(&self, session: &Session) -> Patterns {
        self.read(|s| match s.standing(session.index) {
            Some((there, patterns)) if there.id == session.id => patterns.clone(),
            _ => Patterns::default(),
        })
    }

    /// Whether a match spec of a session's may set tokens of sequential tracing, as far as [`Session::note_tokens`] was told of it.
    #[must_use]
    pub fn sets_tokens(&self, session: &Session) -> bool {
        let sets = |set: &Setting| [&set.spec, &set.meta_spec].into_iter().flatten().any(|s| s.uses().sets_token);
        let sends = || matches!(self.patterns(session).send, Pattern::Spec(spec) if spec.uses().sets_token);
        session.has_seen_tokens()
            && (session.on_load().is_some_and(|setting| sets(&setting))
                || sends()
                || self.read(|s| s.plans().any(|(_, plan)| plan.entry(session.id).is_some_and(|entry| sets(entry)))))
    }

    /// Lays all plans of a session out anew: what events they need has changed with the session's flags.
    pub fn rearm(&self, session: &Arc<Session>, host: &dyn Arm) {
        let mut control = self.control.lock().unpoisoned();
        let changes = self.read(|s| {
            s.plans()
                .filter(|(_, p)| p.entry(session.id).is_some())
                .map(|(key, p)| (key, p.events, Plan::of(p.slot, p.name, p.foreign, p.entries.to_vec())))
                .collect()
        });
        self.settle(&mut control, changes, Leftovers::default(), host, |next| next);
    }

    /// Has every thread look again at what it remembers of calls: something that is in no plan has changed.
    pub fn forget_remembered(&self, host: &dyn Arm) {
        let mut control = self.control.lock().unpoisoned();
        self.settle(&mut control, Vec::new(), Leftovers::default(), host, |next| next);
    }

    /// What a session has set on a function, `None` if nothing.
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

    /// One setting's change of kinds; `false` if there is nothing to change. Rules: trace.md `function/4`; gold README
    /// 23, 25, 26.
    fn apply(&self, control: &mut Control, setting: &mut Setting, kinds: u16, op: &Op, left: &mut Leftovers) -> bool {
        setting.gather();
        let before = (setting.has, setting.run);
        let specs = [setting.spec.clone(), setting.meta_spec.clone()];
        let mut renewed = false;
        for kind in [kinds::COUNT, kinds::TIME, kinds::MEMORY, kinds::LATENCY, kinds::LOCAL, kinds::GLOBAL, kinds::META]
        {
            if kinds & kind == 0 {
                continue;
            }
            let counter = kind & kinds::COUNTERS != 0;
            match op {
                Op::Off => self.remove(setting, kind, left),
                Op::Pause if counter => setting.run &= !kind,
                Op::Restart if counter && setting.has & kind == 0 => {}
                _ => {
                    let rivals = if kind == kinds::GLOBAL { !kinds::GLOBAL } else { kinds::GLOBAL };
                    for rival in 0..16 {
                        self.remove(setting, rivals & 1 << rival, left);
                    }
                    if counter {
                        self.remove(setting, kind, left);
                        self.renew(control, setting, kind);
                        renewed = true;
                    }
                    let spec = if let Op::Match(spec) = op { Some(spec.clone()) } else { None };
                    match kind {
                        kinds::META => {
                            setting.meta_spec = spec;
                            setting.renew_meta();
                        }
                        kinds::LOCAL | kinds::GLOBAL => setting.spec = spec,
                        _ => {}
                    }
                    setting.has |= kind;
                    setting.run |= kind;
                }
            }
        }
        let other_spec = !same(&specs[0], &setting.spec) || !same(&specs[1], &setting.meta_spec);
        let (restarted, paused) = (renewed, before.1 & !setting.run != 0);
        #[allow(clippy::nonminimal_bool)] // a mutant's test is a constant
        if restarted && !mutant!("restart_unsettled") || paused && !mutant!("pause_unsettled") {
            left.changed_running = true;
        }
        if other_spec && before.1 & kinds::MESSAGES != 0 {
            left.changed_running = true;
        }
        renewed || other_spec || before != (setting.has, setting.run)
    }

    fn remove(&self, setting: &mut Setting, kind: u16, left: &mut Leftovers) {
        if setting.has & kind & kinds::COUNT != 0 {
            left.counters.push(setting.count);
        }
        match kind {
            kinds::LATENCY => setting.latency = None,
            kinds::META => (setting.meta_spec, setting.meta_lost) = (None, None),
            _ => {}
        }
        setting.has &= !kind;
        setting.run &= !kind;
        if setting.has & (kinds::LOCAL | kinds::GLOBAL) == 0 {
            setting.spec = None;
        }
    }

    fn renew(&self, control: &mut Control, setting: &mut Setting, kind: u16) {
        match kind {
            kinds::COUNT => {
                let mut threads = self.threads.lock().unpoisoned();
                let live = threads.live.clone();
                setting.count = threads.pool.take(|c| live.iter().map(|t| t.counts.read(c)).sum());
            }
            kinds::TIME => setting.time = control.generation(),
            kinds::MEMORY => setting.memory = control.generation(),
            _ => setting.latency = Some(Arc::new(Latency::default())),
        }
    }

    /// Swaps a snapshot in.
    fn publish(&self, build: impl FnOnce(&Snapshot) -> Snapshot) -> Retired<Snapshot> {
        let local = self.participant();
        let guard = pin(&local);
        let next = build(self.snapshot.load(&guard));
        self.snapshot.swap(next, &guard)
    }

    /// Publish, arm, wait, retire.
    fn settle(
        &self, control: &mut Control, changes: Vec<(usize, u8, Option<Plan>)>, mut left: Leftovers, host: &dyn Arm,
        finish: impl FnOnce(Snapshot) -> Snapshot,
    ) {
        let mut arm = Vec::new();
        let mut disarm = Vec::new();
        let mut plans = Vec::with_capacity(changes.len());
        let before: Vec<u8> = changes.iter().map(|(_, events, _)| *events).collect();
        for (key, events, plan) in changes {
            let needed = plan.as_ref().map_or(0, |p| p.events);
            if needed & !events != 0 {
                arm.push((key, needed));
            } else if needed != events {
                disarm.push((key, needed));
            }
            if plan.is_none() {
                left.keys.push(key);
            }
            plans.push((key, plan.map(Arc::new)));
        }
        if mutant!("publish_piecewise") {
            for plan in plans.drain(..plans.len() - 1) {
                let retired = self.publish(|old| old.with(vec![plan]));
                control.retired.push(retired);
            }
        }
        // a function that gives events already is told of more before anybody can want them: a call that is in time for the new
        // plan must be in time for its end
        let grown: Vec<(usize, u8)> = plans
            .iter()
            .zip(&before)
            .filter_map(|((key, plan), events)| {
                let needed = plan.as_ref().map_or(0, |p| p.events);
                (*events != 0 && needed & !events != 0).then_some((*key, needed | events))
            })
            .collect();
        if !grown.is_empty() && !mutant!("armed_late") {
            let all = grown.iter().fold(self.read(|s| s.events), |all, (_, events)| all | events);
            host.arm(&grown, all);
        }
        let mut all = 0;
        let retired = self.publish(|old| {
            let next = finish(old.with(plans));
            self.has_plans.store(!next.is_empty(), Relaxed);
            all = next.events;
            next
        });
        control.retired.push(retired);
        host.arm(&arm, all);
        if left.changed_running || !left.keys.is_empty() || control.retired.len() > 16 {
            let passed = self.grace();
            control.retired.drain(..).for_each(|r| r.free(&passed));
            host.arm(&disarm, all);
            let gone = left.keys.into_iter().filter_map(|key| control.slots.remove(&key));
            control.held_slots.extend(gone);
            if !self.read(|snapshot| snapshot.sessions().any(|session| session.tree.get().is_some())) {
                control.free_slots.append(&mut control.held_slots);
            }
            let mut threads = self.threads.lock().unpoisoned();
            left.counters.into_iter().for_each(|c| threads.pool.give(c));
        } else if !disarm.is_empty() {
            host.arm(&disarm, all);
        }
    }
}

fn is_it(there: &Option<Arc<Session>>, session: &Arc<Session>) -> bool {
    there.as_ref().is_some_and(|there| Arc::ptr_eq(there, session))
}
