//! The targets of a session's calls: functions, patterns, entries of a plan.

use super::session::{Mfa, Session};
use crate::{
    control::{arming::Armer, codes, foreign_functions},
    convert::errors,
    host::session_end,
    state::{
        host::{self, Host},
        pattern::Pattern as Names,
        start,
        wants::Wants,
    },
};
use inviso_core::host::{
    cells::{key, Measure},
    control::{Op, Target},
    flags::Flags,
    plan::{self, Entry},
    sync::Unpoisoned,
    tracee::Class,
};
use inviso_cpython::interpreter::calling;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

impl Session {
    /// Ends the session soon, if this handle keeps it alive.
    pub(super) fn doom(&self) {
        if !self.strong || !self.core.is_alive() {
            return;
        }
        let Some(host) = host::try_host() else { return };
        let mut pending_ends = host.pending_ends.lock().unpoisoned();
        if !pending_ends.iter().any(|known| Arc::ptr_eq(known, &self.core)) {
            pending_ends.push(self.core.clone());
            drop(pending_ends);
            session_end::schedule_burial();
        }
    }

    pub(super) fn host(&self, py: Python<'_>) -> PyResult<&'static Host> {
        let host = start::host(py)?;
        if calling::is_ending(py) || host.node.session(self.core.id).is_none_or(|s| !Arc::ptr_eq(&s, &self.core)) {
            return Err(errors::raise(inviso_core::host::error::Error::SessionDead));
        }
        Ok(host)
    }

    /// Prepares for a match spec that may set tokens, or switch flags on: the instruments that it needs are put in
    /// place before it runs.
    pub(super) fn expect_actions(&self, py: Python<'_>, host: &'static Host, op: &Op) -> PyResult<()> {
        let Op::Match(program) = op else { return Ok(()) };
        if program.uses().sets_token {
            let fresh = self.core.note_tokens();
            let undo = || {
                if fresh {
                    self.core.forget_tokens()
                }
            };
            host.adjust_or(py, Wants { tokens: true, ..Wants::default() }, undo)?;
        }
        if !program.uses().switches {
            return Ok(());
        }
        let all = Flags(Flags::ALL.0 | Flags::CPU_TIMESTAMP.0);
        host.adjust(py, Wants { processes: all, ..Wants::default() })?;
        let other = self.core.options.switched.as_ref().map(|switched| &switched.0);
        for session in other.into_iter().chain([&self.core]) {
            let fresh = session.note_flags(Class::Process, all);
            if fresh.has(Flags::RETURN_TO) {
                py.detach(|| host.node.rearm(session, &Armer));
            }
        }
        Ok(())
    }

    /// The functions of a pattern, held, and code objects that only this session's settings keep.
    pub(super) fn targets(&self, py: Python<'_>, host: &'static Host, mfa: Mfa) -> PyResult<Vec<Target>> {
        let pattern = Names { module: mfa.0, function: mfa.1, arity: mfa.2 };
        let mut targets = codes::targets(py, host, codes::find(py, &pattern)?);
        let known: FxHashSet<usize> = targets.iter().map(|t| t.key).collect();
        host.node.read(|snapshot| {
            let mine =
                snapshot.plans().filter(|(key, plan)| !known.contains(key) && plan.entry(self.core.id).is_some());
            targets.extend(mine.filter_map(|(key, plan)| {
                let name = host.node.names.name(plan.name).filter(|name| pattern.takes(name))?;
                Some(Target { key, name, exported: false, foreign: plan.foreign, is_gone: true })
            }));
        });
        Ok(targets)
    }

    /// The entries of every code object of this name; `None` without one.
    pub(super) fn entries(&self, py: Python<'_>, host: &'static Host, mfa: Mfa) -> PyResult<Option<Vec<(u32, Entry)>>> {
        let mut pattern = Names { module: mfa.0, function: mfa.1, arity: mfa.2 };
        // settings on a name are at hand; all loaded code is searched only if there are none
        let set = self.set_on(host, &pattern);
        if !set.is_empty() {
            return Ok(Some(set));
        }
        let mut found = codes::find(py, &pattern)?;
        if found.is_empty() {
            // the arity of a function written in C is not certain: any will do
            pattern.arity = None;
            found.extend(foreign_functions::find(py, &pattern)?);
        }
        if found.is_empty() {
            return Ok(None);
        }
        Ok(Some(found.iter().filter_map(|f| host.node.entry(&self.core, f.key)).collect()))
    }

    /// The session's settings on code objects of this name, including those that only the session keeps.
    pub(super) fn set_on(&self, host: &Host, pattern: &Names) -> Vec<(u32, Entry)> {
        let Names { module: Some(module), function: Some(function), arity: Some(arity) } = pattern else {
            return Vec::new();
        };
        let arity = u32::try_from(*arity).unwrap_or(u32::MAX);
        let name = plan::Mfa { module: module.as_str().into(), function: function.as_str().into(), arity };
        let Some(number) = host.node.names.known(&name) else { return Vec::new() };
        host.node.read(|snapshot| {
            let named = snapshot.plans().filter(|(_, plan)| plan.name == number);
            named.filter_map(|(_, plan)| Some((plan.slot, plan.entry(self.core.id)?.clone()))).collect()
        })
    }

    /// Sums of one measure by process over several code objects: `(pid, count, amount)` by pid.
    pub(super) fn measured(&self, entries: &[(u32, Entry)], measure: Measure) -> Vec<(u64, u64, u64)> {
        let wanted: FxHashMap<u32, u32> = entries
            .iter()
            .map(|(slot, e)| (key(*slot, measure), if measure == Measure::Time { e.time } else { e.memory }))
            .collect();
        let mut sums: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
        self.core.each_function(|r| {
            if wanted.get(&r.key) == Some(&r.generation) {
                let sum = sums.entry(r.pid).or_default();
                sum.0 += r.count;
                sum.1 += r.amount;
            }
        });
        let mut all: Vec<_> = sums.into_iter().map(|(pid, (count, amount))| (pid, count, amount)).collect();
        all.sort_by_key(|(pid, ..)| pid >> 2);
        all
    }
}
