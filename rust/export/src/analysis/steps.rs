//! Times that processes ran without a break, garbage collections, and gaps in the trace.

use super::{Moment, Rows, Sheet, State};
use crate::{
    event::{Event, Trace, What},
    scan::{Bytes, Scan},
    table::Type,
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;

pub const STEPS: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("process_id", Type::Int64),
    ("scheduler", Type::Int64),
    ("start", Type::Time),
    ("start_mono_ns", Type::Int64),
    ("duration_ns", Type::Int64),
    ("from_function_id", Type::Int64),
    ("to_function_id", Type::Int64),
    ("from_function", Type::Names),
    ("to_function", Type::Names),
    ("reason", Type::Names),
];

pub const GC: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("process_id", Type::Int64),
    ("start", Type::Time),
    ("start_mono_ns", Type::Int64),
    ("duration_ns", Type::Int64),
    ("generation", Type::Int64),
    ("collected", Type::Int64),
    ("uncollectable", Type::Int64),
    ("candidates", Type::Int64),
    ("rss_bytes", Type::Int64),
];

pub const LOSSES: &[(&str, Type)] = &[
    ("at", Type::Time),
    ("at_mono_ns", Type::Int64),
    ("count", Type::Int64),
    ("cause", Type::Names),
    ("detail", Type::Text),
];

/// `resident_size` of a collection counts words of this size.
const BYTES_OF_WORD: i64 = 8;

/// A step that has begun.
#[derive(Clone, Copy)]
pub struct Begun {
    pub at: Moment,
    pub function: Option<u32>,
}

/// A step that has ended.
#[derive(Clone, Copy)]
pub struct RunStep {
    pub process: i64,
    pub begun: Begun,
    pub ended: Moment,
    pub function: Option<u32>,
    pub reason: &'static str,
    pub scheduler: Option<i64>,
}

/// The steps of all processes.
#[derive(Default)]
pub struct Running {
    begun: FxHashMap<i64, Begun>,
    /// The first function of each process, if it is known: a thread's function, a task's outermost coroutine.
    started: FxHashMap<i64, u32>,
}

impl Running {
    /// The step that a message ends.
    pub fn end_step(&mut self, trace: &Trace<'_>, at: Moment, state: &mut State) -> Option<RunStep> {
        let function = |state: &mut State| trace.name.map(|name| state.function(name) as u32);
        let kind = trace.kind?;
        if kind == Kind::Spawn {
            let started = function(state)?;
            let process = state.key(trace.other?);
            self.started.insert(process, started);
            return None;
        }
        let process = state.key(trace.tracee);
        let reason = match kind {
            Kind::Spawned => {
                self.started.insert(process, function(state)?);
                return None;
            }
            Kind::In | Kind::InExiting => {
                let function = function(state);
                self.begun.insert(process, Begun { at, function });
                return None;
            }
            Kind::Out => "waits",
            Kind::OutExiting | Kind::OutExited => "ends",
            _ => return None,
        };
        let begun = self.begun.remove(&process)?;
        let function = function(state);
        Some(RunStep { process, begun, ended: at, function, reason, scheduler: trace.scheduler })
    }

    /// The first function of a process.
    pub fn started(&self, process: i64) -> Option<u32> {
        self.started.get(&process).copied()
    }

    /// The steps that have not ended.
    pub fn rest(&mut self) -> Vec<(i64, Begun)> {
        let mut rest: Vec<_> = self.begun.drain().collect();
        rest.sort_unstable_by_key(|(process, begun)| (begun.at.at, *process));
        rest
    }
}

/// Builds the table of steps.
#[derive(Default)]
pub struct StepRows(Running);

fn put_functions(functions: [Option<u32>; 2], state: &State, sheet: &mut Sheet) {
    for (n, function) in functions.into_iter().enumerate() {
        if let Some(function) = function {
            sheet.int(6 + n, i64::from(function));
            if let Some(known) = state.tracks.names.get(function as usize) {
                sheet.name(8 + n, &known.text);
            }
        }
    }
}

impl Rows for StepRows {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        let What::Trace(trace) = event.what else { return };
        state.apply(&trace, at.at);
        let Some(step) = self.0.end_step(&trace, at, state) else { return };
        sheet.name(0, state.node_of(step.process));
        sheet.int(1, step.process);
        sheet.int(2, step.scheduler);
        let known = step.begun.at.is_known && at.is_known;
        state.put_time(sheet, 3, step.begun.at.is_known.then_some(step.begun.at.at));
        sheet.int(5, known.then(|| at.at.saturating_sub(step.begun.at.at)));
        put_functions([step.begun.function, step.function], state, sheet);
        sheet.name(10, step.reason);
        sheet.next();
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        for (process, begun) in self.0.rest() {
            sheet.name(0, state.node_of(process));
            sheet.int(1, process);
            state.put_time(sheet, 3, begun.at.is_known.then_some(begun.at.at));
            put_functions([begun.function, None], state, sheet);
            sheet.name(10, "open");
            sheet.next();
        }
    }
}

/// Builds the table of garbage collections.
#[derive(Default)]
pub struct Collections(FxHashMap<i64, Moment>);

/// The number of a key in a list of pairs.
fn number(list: Bytes<'_>, key: &[u8]) -> Option<i64> {
    let mut scan = Scan(list);
    for _ in 0..scan.list()? {
        if scan.tuple()? != 2 {
            return None;
        }
        let is = scan.name()? == key;
        match scan.int() {
            Some(value) if is => return Some(value),
            Some(_) => {}
            None => scan.skip()?,
        }
    }
    None
}

impl Rows for Collections {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        let What::Trace(trace) = event.what else { return };
        let process = state.key(trace.tracee);
        match trace.kind {
            Some(Kind::GcMinorStart | Kind::GcMajorStart) => drop(self.0.insert(process, at)),
            Some(Kind::GcMinorEnd | Kind::GcMajorEnd) => {
                let begun = self.0.remove(&process).filter(|begun| begun.is_known && at.is_known);
                let number_of = |key: &[u8]| trace.value.and_then(|list| number(list, key));
                sheet.name(0, state.node_of(process));
                sheet.int(1, process);
                let took = number_of(b"duration").or(begun.map(|begun| at.at.saturating_sub(begun.at)));
                let start = begun.map(|begun| begun.at).or(took.filter(|_| at.is_known).map(|took| at.at - took));
                state.put_time(sheet, 2, start);
                sheet.int(4, took);
                for (n, key) in [&b"generation"[..], b"collected", b"uncollectable", b"candidates"].iter().enumerate() {
                    sheet.int(5 + n, number_of(key));
                }
                sheet.int(9, number_of(b"resident_size").and_then(|words| words.checked_mul(BYTES_OF_WORD)));
                sheet.next();
            }
            _ => {}
        }
    }

    fn end(&mut self, _: &mut State, _: &mut Sheet) {}
}

/// Builds the table of gaps.
pub struct Losses;

impl Rows for Losses {
    fn event(&mut self, _: &Event<'_>, _: Moment, _: &mut State, _: &mut Sheet) {}

    fn lost(&mut self, count: u64, text: &str, state: &mut State, sheet: &mut Sheet) {
        state.put_time(sheet, 0, state.now());
        if count > 0 {
            sheet.int(2, i64::try_from(count).unwrap_or(i64::MAX));
            sheet.name(3, "lost");
        } else {
            sheet.name(3, "damage");
            sheet.text(4, text);
        }
        sheet.next();
    }

    fn end(&mut self, _: &mut State, _: &mut Sheet) {}
}
