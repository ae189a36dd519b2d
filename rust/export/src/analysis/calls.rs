//! Calls, and their sums by function and process.
//!
//! A call becomes a row at its end, so rows are in the order of ends. Its own time is its time without the calls that it made,
//! and without its process's waiting between `out` and `in` (of the flag `running`). As in [`crate::costs`], time before the
//! first open call counts for no call.

use super::{Moment, Rows, Sheet, State};
use crate::{
    costs::{Costs, Ledger},
    event::{Event, Trace, What},
    table::Type,
    tracks::{End, Step, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;

pub const CALLS: &[(&str, Type)] = &[
    ("call_id", Type::Int64),
    ("parent_id", Type::Int64),
    ("depth", Type::Int64),
    ("node", Type::Names),
    ("process_id", Type::Int64),
    ("function_id", Type::Int64),
    ("function", Type::Names),
    ("start", Type::Time),
    ("start_mono_ns", Type::Int64),
    ("duration_ns", Type::Int64),
    ("own_ns", Type::Int64),
    ("waiting_ns", Type::Int64),
    ("outcome", Type::Names),
    ("exception", Type::Text),
    ("args", Type::Text),
    ("result", Type::Text),
    ("caller_id", Type::Int64),
    ("seq_label", Type::Names),
];

pub const PROFILE: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("process_id", Type::Int64),
    ("function_id", Type::Int64),
    ("function", Type::Names),
    ("calls", Type::Int64),
    ("own_ns", Type::Int64),
    ("cumulative_ns", Type::Int64),
];

/// A call that has not ended.
struct Open {
    call: i64,
    function: u32,
    begun: Moment,
    /// The running time of its process at its start.
    running: i64,
    own: i64,
    /// The start of its arguments in its process's text.
    arguments: usize,
    label: Option<u32>,
}

#[derive(Default)]
struct CallLane {
    process: i64,
    open: Vec<Open>,
    /// The text of the open calls' arguments, joined.
    arguments: String,
    /// The running time at the last change of the topmost call.
    mark: i64,
    waited: i64,
    out: Option<i64>,
    /// The label of its token, as far as messages show it, and whether a message has arrived since. That message may have cleared
    /// the token.
    label: Option<u32>,
    unsure: bool,
}

impl CallLane {
    /// The time without waiting.
    fn running(&self, at: i64) -> i64 {
        self.out.unwrap_or(at).saturating_sub(self.waited)
    }

    fn charge(&mut self, at: i64) -> i64 {
        let now = self.running(at);
        if let Some(open) = self.open.last_mut() {
            open.own += now.saturating_sub(self.mark).max(0);
        }
        self.mark = now;
        now
    }
}

/// Builds the table of calls.
#[derive(Default)]
pub struct Calls {
    lanes: Vec<CallLane>,
    count: i64,
    labels: Vec<Box<str>>,
}

/// The end of a call.
struct Ended<'a> {
    outcome: &'static str,
    /// The time; None if it is unknown.
    at: Option<i64>,
    value: Option<&'a [u8]>,
}

impl Calls {
    fn label(&mut self, text: &str) -> u32 {
        let known = self.labels.iter().position(|label| **label == *text);
        known.unwrap_or_else(|| {
            self.labels.push(text.into());
            self.labels.len() - 1
        }) as u32
    }

    fn row(&mut self, lane: usize, open: &Open, how: &Ended<'_>, state: &mut State, sheet: &mut Sheet) {
        let Some(own) = self.lanes.get_mut(lane) else { return };
        let parent = own.open.last();
        sheet.int(0, open.call);
        sheet.int(1, parent.map(|parent| parent.call));
        sheet.int(2, own.open.len() as i64);
        sheet.name(3, state.node_of(own.process));
        sheet.int(4, own.process);
        sheet.int(5, i64::from(open.function));
        if let Some(known) = state.tracks.names.get(open.function as usize) {
            sheet.name(6, &known.text);
        }
        let known = open.begun.is_known;
        state.put_time(sheet, 7, known.then_some(open.begun.at));
        if let Some(at) = how.at.filter(|_| known) {
            let duration = at.saturating_sub(open.begun.at);
            let running = own.running(at).saturating_sub(open.running);
            sheet.int(9, duration);
            sheet.int(10, open.own);
            sheet.int(11, duration.saturating_sub(running).max(0));
        }
        sheet.name(12, how.outcome);
        if state.options.values > 0 {
            if let Some(value) = how.value {
                sheet.text(if how.outcome == "exception" { 13 } else { 15 }, state.show(value));
            }
            if let Some(arguments) = own.arguments.get(open.arguments..).filter(|text| !text.is_empty()) {
                sheet.text(14, arguments);
            }
        }
        own.arguments.truncate(open.arguments);
        sheet.int(16, parent.map(|parent| i64::from(parent.function)));
        if let Some(label) = open.label.and_then(|label| self.labels.get(label as usize)) {
            sheet.name(17, label);
        }
        sheet.next();
    }

    fn trace(&mut self, trace: &Trace<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        let applied = state.apply(trace, at.at);
        let index = applied.lane as usize;
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, CallLane::default);
        }
        let Some(lane) = self.lanes.get_mut(index) else { return };
        if applied.is_new {
            *lane = CallLane { process: state.key(trace.tracee), ..CallLane::default() };
        }
        let at = Moment { at: applied.at, ..at };
        if lane.unsure {
            lane.label = None; // the message before had no token
        }
        lane.unsure = trace.kind == Some(Kind::Receive);
        match trace.kind {
            Some(Kind::In | Kind::InExiting) => {
                if let Some(out) = lane.out.take() {
                    lane.waited = lane.waited.saturating_add(at.at.saturating_sub(out));
                }
                return;
            }
            Some(Kind::Out | Kind::OutExiting | Kind::OutExited) => {
                lane.out.get_or_insert(at.at);
                return;
            }
            _ => {}
        }
        for step in std::mem::take(&mut state.tracks.steps) {
            self.step(index, step, trace, at, state, sheet);
        }
    }

    fn step(&mut self, index: usize, step: Step, trace: &Trace<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        let Some(lane) = self.lanes.get_mut(index) else { return };
        let running = lane.charge(at.at);
        match step {
            Step::Open(function) | Step::Point(function) => {
                let arguments = lane.arguments.len();
                if let Some(values) = trace.arguments.filter(|_| state.options.values > 0) {
                    lane.arguments.push_str(state.show(values));
                }
                let open =
                    Open { call: self.count, function, begun: at, running, own: 0, arguments, label: lane.label };
                self.count += 1;
                if matches!(step, Step::Open(_)) {
                    return lane.open.push(open);
                }
                self.row(index, &open, &Ended { outcome: "call", at: None, value: None }, state, sheet);
            }
            Step::Close(_, how) => {
                let Some(open) = lane.open.pop() else { return };
                let ended = match how {
                    End::Return => Ended { outcome: "return", at: Some(at.at), value: trace.value },
                    End::Exception => Ended { outcome: "exception", at: Some(at.at), value: trace.value },
                    End::Exit => Ended { outcome: "exit", at: Some(at.at), value: None },
                    End::Unseen => Ended { outcome: "lost", at: None, value: None },
                };
                self.row(index, &open, &ended, state, sheet);
            }
            Step::Unmatched(_) => {}
        }
    }
}

impl Rows for Calls {
    #[inline]
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet) {
        match event.what {
            What::Trace(trace) => self.trace(&trace, at, state, sheet),
            What::Seq(seq) => {
                let own = if seq.word == b"receive" { seq.to } else { seq.from };
                let Some(own) = own else { return };
                let label = state.show(seq.label).to_owned();
                let label = self.label(&label);
                let (lane, is_new) = state.tracks.lane(own);
                if self.lanes.len() <= lane as usize {
                    self.lanes.resize_with(lane as usize + 1, CallLane::default);
                }
                let Some(lane) = self.lanes.get_mut(lane as usize) else { return };
                if is_new {
                    *lane = CallLane { process: state.key(own), ..CallLane::default() };
                }
                (lane.label, lane.unsure) = (Some(label), false);
            }
            _ => {}
        }
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        for index in 0..self.lanes.len() {
            while let Some(open) = self.lanes.get_mut(index).and_then(|lane| lane.open.pop()) {
                self.row(index, &open, &Ended { outcome: "open", at: None, value: None }, state, sheet);
            }
        }
    }
}

/// Builds the table of functions and processes.
#[derive(Default)]
pub struct Profile {
    costs: Costs,
    sums: Sums,
}

/// The sums of calls.
#[derive(Default)]
struct Sums {
    process: i64,
    /// The process and function of each open call, by its number.
    open: Vec<(i64, u32)>,
    free: Vec<u32>,
    by: FxHashMap<(i64, u32), Sum>,
}

#[derive(Default)]
struct Sum {
    calls: i64,
    own: i64,
    cumulative: i64,
}

impl Ledger for Sums {
    fn begin_call(&mut self, _: Option<u32>, name: u32) -> u32 {
        self.by.entry((self.process, name)).or_default().calls += 1;
        let of = (self.process, name);
        match self.free.pop() {
            Some(at) => {
                if let Some(place) = self.open.get_mut(at as usize) {
                    *place = of;
                }
                at
            }
            None => {
                self.open.push(of);
                self.open.len() as u32 - 1
            }
        }
    }

    fn own(&mut self, call: u32, time: u64) {
        if let Some(sum) = self.open.get(call as usize).and_then(|of| self.by.get_mut(of)) {
            sum.own += time as i64;
        }
    }

    fn end_call(&mut self, _: Option<u32>, call: u32, time: u64, nested: bool, _: bool) {
        if let Some(sum) = self.open.get(call as usize).and_then(|of| self.by.get_mut(of)) {
            sum.cumulative += if nested { 0 } else { time as i64 };
        }
        self.free.push(call);
    }
}

impl Rows for Profile {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, _: &mut Sheet) {
        let What::Trace(trace) = event.what else { return };
        self.sums.process = state.key(trace.tracee);
        state.note(&trace);
        let tracks: &mut Tracks = &mut state.tracks;
        self.costs.apply(tracks, &trace, at.at, &mut self.sums);
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        self.costs.end(&mut self.sums);
        let mut all: Vec<_> = self.sums.by.drain().collect();
        all.sort_unstable_by_key(|((process, function), sum)| (-sum.own, *process, *function));
        for ((process, function), sum) in all {
            sheet.name(0, state.node_of(process));
            sheet.int(1, process);
            sheet.int(2, i64::from(function));
            if let Some(known) = state.tracks.names.get(function as usize) {
                sheet.name(3, &known.text);
            }
            sheet.int(4, sum.calls);
            sheet.int(5, sum.own);
            sheet.int(6, sum.cumulative);
            sheet.next();
        }
    }
}
