//! The parts of a label's time: the path goes back from the label's last event, from each receipt to its sending.
//!
//! | kind | the part |
//! | --- | --- |
//! | running | the process worked, as far as messages show |
//! | waiting | the process was out, between `out` and `in`: in `by_function` |
//! | queued | the message was pending |
//! | blocked | the message was pending while a step of another task of the receiver's event loop ran |
//! | elsewhere | before all other parts: the label's first event is not on the path |
//!
//! The durations add up to the time from the label's first event to its last.

use super::{state::Class, steps::RunStep, steps::Running, Moment, Rows, Sheet, State};
use crate::{
    event::{Event, Seq, What},
    table::Type,
};
use rustc_hash::FxHashMap;

pub const PATH: &[(&str, Type)] = &[
    ("node", Type::Names),
    ("process_id", Type::Int64),
    ("from_id", Type::Int64),
    ("to_id", Type::Int64),
    ("kind", Type::Names),
    ("start", Type::Time),
    ("start_mono_ns", Type::Int64),
    ("duration_ns", Type::Int64),
    ("by_id", Type::Int64),
    ("by_function", Type::Names),
    ("content", Type::Text),
];

/// A message that was sent with the label.
struct LabelledSending {
    by: i64,
    at: i64,
    /// Its place among the label's events.
    place: u64,
    content: Box<str>,
}

/// A message that a process received.
struct Received {
    at: i64,
    place: u64,
    sent: usize,
}

/// Builds the table.
pub struct Path {
    label: String,
    to: Option<i64>,
    /// The label's bytes, after its first event.
    bytes: Option<Box<[u8]>>,
    sent: Vec<LabelledSending>,
    under_way: FxHashMap<(i64, i64, i64), usize>,
    received: FxHashMap<i64, Vec<Received>>,
    places: u64,
    first: Option<i64>,
    /// The first event of each process, and the last of all.
    begun: FxHashMap<i64, i64>,
    last: Option<(i64, i64)>,
    running: Running,
    steps: Vec<RunStep>,
}

/// A part of the path.
struct Segment {
    kind: &'static str,
    process: i64,
    from: Option<i64>,
    to: Option<i64>,
    start: i64,
    end: i64,
    by: Option<(i64, Option<u32>)>,
    content: Option<usize>,
}

impl Path {
    /// The path of a label to the last event of one process, or of all.
    pub fn new(label: String, to: Option<i64>) -> Path {
        Path {
            label,
            to,
            bytes: None,
            sent: Vec::new(),
            under_way: FxHashMap::default(),
            received: FxHashMap::default(),
            places: 0,
            first: None,
            begun: FxHashMap::default(),
            last: None,
            running: Running::default(),
            steps: Vec::new(),
        }
    }

    fn is_label(&mut self, label: &[u8], state: &mut State) -> bool {
        if let Some(bytes) = &self.bytes {
            return **bytes == *label;
        }
        let is = state.show(label) == self.label;
        if is {
            self.bytes = Some(label.into());
        }
        is
    }

    fn seq(&mut self, seq: &Seq<'_>, at: i64, state: &mut State) {
        if !self.is_label(seq.label, state) {
            return;
        }
        let (Some((previous, current)), Some(from), Some(to)) = (seq.serial, seq.from, seq.to) else { return };
        let (from, to) = (state.key(from), state.key(to));
        let own = if seq.word == b"receive" { to } else { from };
        self.places += 1;
        self.first.get_or_insert(at);
        self.begun.entry(own).or_insert(at);
        if self.to.is_none_or(|to| to == own) {
            self.last = Some((own, at));
        }
        match seq.word {
            b"send" => {
                let content = seq.value.map_or("", |value| state.show(value)).into();
                self.under_way.insert((previous, current, from), self.sent.len());
                self.sent.push(LabelledSending { by: from, at, place: self.places, content });
            }
            b"receive" => {
                if let Some(sent) = self.under_way.remove(&(previous, current, from)) {
                    self.received.entry(to).or_default().push(Received { at, place: self.places, sent });
                }
            }
            _ => {}
        }
    }

    /// The parts of the path, the last one first.
    fn segments(&self, mut spent: Vec<Segment>) -> Vec<Segment> {
        let (Some((mut own, mut until)), Some(first)) = (self.last, self.first) else { return spent };
        let mut before = u64::MAX;
        loop {
            let received = self.received.get(&own).and_then(|all| {
                let at = all.partition_point(|received| received.place < before);
                all.get(at.checked_sub(1)?)
            });
            let Some(received) = received else {
                let begun = self.begun.get(&own).copied().unwrap_or(until).min(until);
                spent.push(Segment::of("running", own, begun, until));
                if begun > first {
                    spent.push(Segment::of("elsewhere", own, first, begun));
                }
                return spent;
            };
            spent.push(Segment::of("running", own, received.at, until));
            let Some(sent) = self.sent.get(received.sent) else { return spent };
            spent.push(Segment {
                from: Some(sent.by),
                to: Some(own),
                content: Some(received.sent),
                ..Segment::of("queued", own, sent.at, received.at)
            });
            (own, until, before) = (sent.by, sent.at, sent.place);
        }
    }

    /// Splits a segment by the steps of processes.
    fn split_by_steps(
        &self, segment: Segment, of: &FxHashMap<i64, Vec<usize>>, tasks: &[usize], out: &mut Vec<Segment>,
    ) {
        match segment.kind {
            "running" => self.split_running(segment, of, out),
            "queued" => self.split_queued(segment, tasks, out),
            _ => out.push(segment),
        }
    }

    /// Splits by the process's own steps. A process without steps would be all waiting, so its segment stays whole.
    fn split_running(&self, segment: Segment, of: &FxHashMap<i64, Vec<usize>>, out: &mut Vec<Segment>) {
        let step = |at: &usize| self.steps.get(*at);
        let Some(own) = of.get(&segment.process) else { return out.push(segment) };
        let mut at = segment.start;
        let first = own.partition_point(|at| step(at).is_some_and(|step| step.ended.at <= segment.start));
        let mut place = first.checked_sub(1).and_then(|at| own.get(at)).and_then(step).and_then(|step| step.function);
        let waiting = |from, to, place: Option<u32>| {
            let by = place.map(|place| (segment.process, Some(place)));
            Segment { by, ..Segment::of("waiting", segment.process, from, to) }
        };
        for step in own.iter().skip(first).filter_map(step) {
            let (from, to) = (step.begun.at.at.max(at), step.ended.at.min(segment.end));
            if from >= segment.end {
                break;
            }
            if from > at {
                out.push(waiting(at, from, place));
            }
            out.push(Segment::of("running", segment.process, from, to));
            (at, place) = (to, step.function);
        }
        if at < segment.end || segment.start == segment.end {
            out.push(match at < segment.end {
                true => waiting(at, segment.end, place),
                false => segment,
            });
        }
    }

    /// Splits by the steps of the other tasks.
    fn split_queued(&self, segment: Segment, tasks: &[usize], out: &mut Vec<Segment>) {
        let step = |at: &usize| self.steps.get(*at);
        let mut at = segment.start;
        let first = tasks.partition_point(|at| self.steps.get(*at).is_some_and(|step| step.ended.at <= segment.start));
        for step in tasks.iter().skip(first).filter_map(step) {
            if step.begun.at.at >= segment.end {
                break;
            }
            let (from, to) = (step.begun.at.at.max(at), step.ended.at.min(segment.end));
            if from >= to || step.process == segment.process || step.process >> 48 != segment.process >> 48 {
                continue;
            }
            let part = |kind, start, end, by| Segment { kind, start, end, by, ..segment };
            if from > at {
                out.push(part("queued", at, from, None));
            }
            let function = self.running.started(step.process).or(step.begun.function);
            let by = Some((step.process, function));
            out.push(part("blocked", from, to, by));
            at = to;
        }
        if at < segment.end || segment.start == segment.end {
            out.push(Segment { start: at, ..segment });
        }
    }
}

impl Segment {
    fn of(kind: &'static str, process: i64, start: i64, end: i64) -> Segment {
        Segment { kind, process, from: None, to: None, start, end, by: None, content: None }
    }
}

impl Rows for Path {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, _: &mut Sheet) {
        match event.what {
            What::Seq(seq) if at.is_known => self.seq(&seq, at.at, state),
            What::Trace(trace) => {
                state.apply(&trace, at.at);
                self.steps.extend(self.running.end_step(&trace, at, state));
            }
            _ => {}
        }
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        // steps that have not ended are still running
        for (process, begun) in self.running.rest() {
            let ended = Moment { at: i64::MAX, is_known: false };
            self.steps.push(RunStep { process, begun, ended, function: None, reason: "open", scheduler: None });
        }
        let mut segments = self.segments(Vec::new());
        segments.reverse();
        let (mut of, mut tasks) = (FxHashMap::<i64, Vec<usize>>::default(), Vec::new());
        for (at, step) in self.steps.iter().enumerate() {
            of.entry(step.process).or_default().push(at);
            if !state.options.erlang && step.process & 3 == Class::Task as i64 {
                tasks.push(at);
            }
        }
        let mut split_by_steps = Vec::new();
        for segment in segments {
            let is_task = segment.process & 3 == Class::Task as i64;
            self.split_by_steps(segment, &of, if is_task { &tasks } else { &[] }, &mut split_by_steps);
        }
        for segment in split_by_steps {
            sheet.name(0, state.node_of(segment.process));
            sheet.int(1, segment.process);
            sheet.int(2, segment.from);
            sheet.int(3, segment.to);
            sheet.name(4, segment.kind);
            state.put_time(sheet, 5, Some(segment.start));
            sheet.int(7, segment.end.saturating_sub(segment.start));
            if let Some((by, function)) = segment.by {
                sheet.int(8, by);
                if let Some(known) = function.and_then(|function| state.tracks.names.get(function as usize)) {
                    sheet.name(9, &known.text);
                }
            }
            if let Some(sent) = segment.content.and_then(|at| self.sent.get(at)) {
                sheet.text(10, &sent.content);
            }
            sheet.next();
        }
    }
}
