//! What the time of one label was spent on: backwards from the last event that has it, from each receipt to its sending.
//!
//! | kind | what it is |
//! | --- | --- |
//! | running | the process was at work on it, as far as is told |
//! | waiting | the process was out, between `out` and `in`: in `by_function` |
//! | queued | the message was under way |
//! | blocked | the same, and a step of another task of the receiver's event loop ran meanwhile |
//! | elsewhere | before all that: the label's first event is not on the path |
//!
//! The durations add up to the time from the label's first event to its last.

use super::{state::Class, steps::Running, steps::Step, Moment, Rows, Sheet, State};
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
struct Sent {
    by: i64,
    at: i64,
    /// Its place among the label's events.
    place: u64,
    content: Box<str>,
}

/// One that a process has received.
struct Received {
    at: i64,
    place: u64,
    sent: usize,
}

/// Makes the table.
pub struct Path {
    label: String,
    to: Option<i64>,
    /// The label's bytes, once one was seen.
    bytes: Option<Box<[u8]>>,
    sent: Vec<Sent>,
    under_way: FxHashMap<(i64, i64, i64), usize>,
    received: FxHashMap<i64, Vec<Received>>,
    places: u64,
    first: Option<i64>,
    /// The first event of each process, and the last of all.
    begun: FxHashMap<i64, i64>,
    last: Option<(i64, i64)>,
    running: Running,
    steps: Vec<Step>,
}

/// A piece of the path.
struct Piece {
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
    /// The path of a label to the last event of a process, or of all.
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
                self.sent.push(Sent { by: from, at, place: self.places, content });
            }
            b"receive" => {
                if let Some(sent) = self.under_way.remove(&(previous, current, from)) {
                    self.received.entry(to).or_default().push(Received { at, place: self.places, sent });
                }
            }
            _ => {}
        }
    }

    /// The path, its end first.
    fn pieces(&self, mut spent: Vec<Piece>) -> Vec<Piece> {
        let (Some((mut own, mut until)), Some(first)) = (self.last, self.first) else { return spent };
        let mut before = u64::MAX;
        loop {
            let received = self.received.get(&own).and_then(|all| {
                let at = all.partition_point(|received| received.place < before);
                all.get(at.checked_sub(1)?)
            });
            let Some(received) = received else {
                let begun = self.begun.get(&own).copied().unwrap_or(until).min(until);
                spent.push(Piece::of("running", own, begun, until));
                if begun > first {
                    spent.push(Piece::of("elsewhere", own, first, begun));
                }
                return spent;
            };
            spent.push(Piece::of("running", own, received.at, until));
            let Some(sent) = self.sent.get(received.sent) else { return spent };
            spent.push(Piece {
                from: Some(sent.by),
                to: Some(own),
                content: Some(received.sent),
                ..Piece::of("queued", own, sent.at, received.at)
            });
            (own, until, before) = (sent.by, sent.at, sent.place);
        }
    }

    /// The steps of a process between two moments; all of its times without any would be waiting.
    fn divided(&self, piece: Piece, of: &FxHashMap<i64, Vec<usize>>, tasks: &[usize], out: &mut Vec<Piece>) {
        let step = |at: &usize| self.steps.get(*at);
        match piece.kind {
            "running" => {
                let Some(own) = of.get(&piece.process) else { return out.push(piece) };
                let mut at = piece.start;
                let first = own.partition_point(|at| step(at).is_some_and(|step| step.ended.at <= piece.start));
                let mut place =
                    first.checked_sub(1).and_then(|at| own.get(at)).and_then(step).and_then(|step| step.function);
                let waiting = |from, to, place: Option<u32>| {
                    let by = place.map(|place| (piece.process, Some(place)));
                    Piece { by, ..Piece::of("waiting", piece.process, from, to) }
                };
                for step in own.iter().skip(first).filter_map(step) {
                    let (from, to) = (step.begun.at.at.max(at), step.ended.at.min(piece.end));
                    if from >= piece.end {
                        break;
                    }
                    if from > at {
                        out.push(waiting(at, from, place));
                    }
                    out.push(Piece::of("running", piece.process, from, to));
                    (at, place) = (to, step.function);
                }
                if at < piece.end || piece.start == piece.end {
                    out.push(match at < piece.end {
                        true => waiting(at, piece.end, place),
                        false => piece,
                    });
                }
            }
            "queued" => {
                let mut at = piece.start;
                let first =
                    tasks.partition_point(|at| self.steps.get(*at).is_some_and(|step| step.ended.at <= piece.start));
                for step in tasks.iter().skip(first).filter_map(step) {
                    if step.begun.at.at >= piece.end {
                        break;
                    }
                    let (from, to) = (step.begun.at.at.max(at), step.ended.at.min(piece.end));
                    if from >= to || step.process == piece.process || step.process >> 48 != piece.process >> 48 {
                        continue;
                    }
                    let part = |kind, start, end, by| Piece { kind, start, end, by, ..piece };
                    if from > at {
                        out.push(part("queued", at, from, None));
                    }
                    let function = self.running.started(step.process).or(step.begun.function);
                    let by = Some((step.process, function));
                    out.push(part("blocked", from, to, by));
                    at = to;
                }
                if at < piece.end || piece.start == piece.end {
                    out.push(Piece { start: at, ..piece });
                }
            }
            _ => out.push(piece),
        }
    }
}

impl Piece {
    fn of(kind: &'static str, process: i64, start: i64, end: i64) -> Piece {
        Piece { kind, process, from: None, to: None, start, end, by: None, content: None }
    }
}

impl Rows for Path {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, _: &mut Sheet) {
        match event.what {
            What::Seq(seq) if at.is_known => self.seq(&seq, at.at, state),
            What::Trace(trace) => {
                state.take(&trace, at.at);
                self.steps.extend(self.running.take(&trace, at, state));
            }
            _ => {}
        }
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        // those that have not ended run still
        for (process, begun) in self.running.rest() {
            let ended = Moment { at: i64::MAX, is_known: false };
            self.steps.push(Step { process, begun, ended, function: None, reason: "open", scheduler: None });
        }
        let mut pieces = self.pieces(Vec::new());
        pieces.reverse();
        let (mut of, mut tasks) = (FxHashMap::<i64, Vec<usize>>::default(), Vec::new());
        for (at, step) in self.steps.iter().enumerate() {
            of.entry(step.process).or_default().push(at);
            if !state.options.erlang && step.process & 3 == Class::Task as i64 {
                tasks.push(at);
            }
        }
        let mut divided = Vec::new();
        for piece in pieces {
            let is_task = piece.process & 3 == Class::Task as i64;
            self.divided(piece, &of, if is_task { &tasks } else { &[] }, &mut divided);
        }
        for piece in divided {
            sheet.name(0, state.node_of(piece.process));
            sheet.int(1, piece.process);
            sheet.int(2, piece.from);
            sheet.int(3, piece.to);
            sheet.name(4, piece.kind);
            state.put_time(sheet, 5, Some(piece.start));
            sheet.int(7, piece.end.saturating_sub(piece.start));
            if let Some((by, function)) = piece.by {
                sheet.int(8, by);
                if let Some(known) = function.and_then(|function| state.tracks.names.get(function as usize)) {
                    sheet.name(9, &known.text);
                }
            }
            if let Some(sent) = piece.content.and_then(|at| self.sent.get(at)) {
                sheet.text(10, &sent.content);
            }
            sheet.next();
        }
    }
}
