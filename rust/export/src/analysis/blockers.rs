//! Steps that made other tasks wait. A task was ready, because a message for it had arrived, while a step of another task of its
//! event loop ran.
//!
//! A task is ready from the sending of a message that it later receives. Two tasks are of one loop if they have the same
//! scheduler, where messages name it (`scheduler_id`), else if they are of one node.

use super::{state::Class, steps::RunStep, steps::Running, Moment, Options, Rows, Sheet, State};
use crate::{
    event::{Event, Trace, What},
    pairs::Pairs,
    table::Type,
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

pub const BLOCKERS: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("process_id", Type::Int64),
    ("function", Type::Names),
    ("from_function", Type::Names),
    ("to_function", Type::Names),
    ("start", Type::Time),
    ("start_mono_ns", Type::Int64),
    ("duration_ns", Type::Int64),
    ("held_id", Type::Int64),
    ("held_ns", Type::Int64),
];

/// The largest number of ended steps of tasks that are kept.
const KEPT: usize = 1 << 16;

/// The largest number of pending messages.
const UNDER_WAY: usize = 1 << 16;

/// Builds the table of steps that made others wait.
pub struct Blockers {
    shortest: i64,
    running: Running,
    /// Ended steps of tasks, in the order of their ends.
    over: VecDeque<RunStep>,
    pairs: Pairs<i64>,
    /// The start of each task's present step.
    begun: FxHashMap<i64, i64>,
    /// For each task that does not run: since when a message for it is there.
    ready: FxHashMap<i64, i64>,
}

impl Blockers {
    pub fn new(options: &Options) -> Blockers {
        Blockers {
            shortest: options.shortest,
            running: Running::default(),
            over: VecDeque::new(),
            pairs: Pairs::new(UNDER_WAY, options.erlang),
            begun: FxHashMap::default(),
            ready: FxHashMap::default(),
        }
    }

    /// Adds the steps that made a task wait: it was ready from `from` to `to`.
    fn add_blockers(&self, task: i64, scheduler: Option<i64>, from: i64, to: i64, state: &State, sheet: &mut Sheet) {
        let first = self.over.partition_point(|step| step.ended.at <= from);
        for step in self.over.iter().skip(first) {
            if step.begun.at.at >= to {
                continue; // a step that ended later may have begun earlier on another loop
            }
            let same = step.scheduler == scheduler || step.scheduler.is_none() || scheduler.is_none();
            let overlap = step.ended.at.min(to) - step.begun.at.at.max(from);
            if step.process == task || !same || overlap <= 0 || step.process >> 48 != task >> 48 {
                continue;
            }
            let duration = step.ended.at - step.begun.at.at;
            if duration < self.shortest {
                continue;
            }
            sheet.name(0, state.node_of(step.process));
            sheet.int(1, step.process);
            let functions = [self.running.started(step.process), step.begun.function, step.function];
            for (n, function) in functions.into_iter().enumerate() {
                if let Some(known) = function.and_then(|function| state.tracks.names.get(function as usize)) {
                    sheet.name(2 + n, &known.text);
                }
            }
            state.put_time(sheet, 5, Some(step.begun.at.at));
            sheet.int(7, duration);
            sheet.int(8, task);
            sheet.int(9, overlap);
            sheet.next();
        }
    }

    fn trace(&mut self, trace: &Trace<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        let is_task = state.class(trace.tracee) == Class::Task;
        let own = state.key(trace.tracee);
        match trace.kind {
            Some(Kind::Send) => {
                self.pairs.sent(trace, at.at);
                while self.pairs.forget(false).is_some() {}
            }
            Some(Kind::Receive) => {
                let found = match (trace.number, trace.value) {
                    (Some(_), _) => self.pairs.numbered(trace),
                    (None, Some(value)) => self.pairs.alike(trace.tracee, value),
                    _ => None,
                };
                let (Some((_, sent)), true) = (found, is_task) else { return };
                match self.begun.get(&own) {
                    // the task runs: it was ready until its step began
                    Some(begun) if sent < *begun => self.add_blockers(own, trace.scheduler, sent, *begun, state, sheet),
                    Some(_) => {}
                    None => drop(self.ready.entry(own).or_insert(sent)),
                }
            }
            Some(Kind::In | Kind::InExiting) if is_task => {
                if let Some(ready) = self.ready.remove(&own) {
                    self.add_blockers(own, trace.scheduler, ready, at.at, state, sheet);
                }
                self.begun.insert(own, at.at);
            }
            Some(Kind::Out | Kind::OutExiting | Kind::OutExited) => drop(self.begun.remove(&own)),
            _ => {}
        }
        if let Some(step) = self.running.end_step(trace, at, state).filter(|_| is_task) {
            self.over.push_back(step);
            if self.over.len() > KEPT {
                self.over.pop_front();
            }
        }
    }
}

impl Rows for Blockers {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        if let What::Trace(trace) = event.what {
            state.apply(&trace, at.at);
            if at.is_known {
                self.trace(&trace, at, state, sheet);
            }
        }
    }

    fn end(&mut self, _: &mut State, _: &mut Sheet) {}
}
