//! Chrome's trace event format: one JSON object. Its `traceEvents` are written in the order of the messages.
//!
//! Times are microseconds since the earliest moment of the trace's beginning, exact to a nanosecond. `otherData.first` is that
//! moment.

use crate::{
    event::{Clock, Event, Seq, Trace, What},
    export::{Times, Write},
    flows::{Flow, Flows},
    json,
    scan::{Bytes, Identity},
    text,
    tracks::{Applied, End, Step, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::FxHashSet;
use std::io::{self, Write as _};

/// The first number of tasks, and of threads whose numbers are unknown, in a process whose other numbers are the operating
/// system's. Those are always smaller.
const TASKS: u64 = 1 << 31;

/// The writer.
pub struct Chrome {
    tracks: Tracks,
    times: Times,
    flows: Flows,
    nodes: FxHashSet<u32>,
    running: FxHashSet<u32>,
    dropped: u64,
    most: usize,
    comma: bool,
    /// Whether the present event has arguments.
    has_args: bool,
    text: String,
}

/// The process and thread of an event.
#[derive(Clone, Copy)]
struct Place {
    node: u64,
    lane: u64,
    at: i64,
}

impl Chrome {
    /// Values are cut to `most` bytes; 0: no values.
    #[must_use]
    pub fn new(most: usize) -> Chrome {
        Chrome {
            tracks: Tracks::default(),
            times: Times { clock: None, first: 0 },
            flows: Flows::default(),
            nodes: FxHashSet::default(),
            running: FxHashSet::default(),
            dropped: 0,
            most,
            comma: false,
            has_args: false,
            text: String::new(),
        }
    }

    /// Begins an event.
    fn start(&mut self, phase: &str, name: &str, category: &str, place: Place, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.comma { b",\n{" } else { b"\n{" });
        self.comma = true;
        self.has_args = false;
        json::field("ph", phase, out);
        let _ = write!(out, ",\"pid\":{},\"tid\":{}", place.node, place.lane);
        if phase != "M" {
            let at = i128::from(place.at) - i128::from(self.times.first);
            let sign = if at < 0 { "-" } else { "" };
            let _ = write!(out, ",\"ts\":{sign}{}.{:03}", at.unsigned_abs() / 1000, at.unsigned_abs() % 1000);
        }
        if !name.is_empty() {
            out.push(b',');
            json::field("name", name, out);
        }
        if !category.is_empty() {
            out.push(b',');
            json::field("cat", category, out);
        }
    }

    fn arg(&mut self, name: &str, value: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.has_args { b"," } else { b",\"args\":{" });
        self.has_args = true;
        json::field(name, value, out);
    }

    fn term(&mut self, name: &str, value: Option<Bytes<'_>>, out: &mut Vec<u8>) {
        if let (Some(value), 1..) = (value, self.most) {
            let mut shown = std::mem::take(&mut self.text);
            shown.clear();
            text::show(value, self.most, &mut shown);
            self.arg(name, &shown, out);
            self.text = shown;
        }
    }

    fn who(&mut self, name: &str, who: Option<Bytes<'_>>, out: &mut Vec<u8>) {
        if let Some(who) = who {
            let title = self.tracks.title(who);
            self.arg(name, &title, out);
        }
    }

    fn function(&mut self, trace: &Trace<'_>, out: &mut Vec<u8>) {
        if let Some(name) = trace.name {
            self.arg("function", &text::mfa(name), out);
        }
        self.scheduler(trace, out);
    }

    fn scheduler(&mut self, trace: &Trace<'_>, out: &mut Vec<u8>) {
        if let Some(scheduler) = trace.scheduler {
            self.arg("scheduler", &scheduler.to_string(), out);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.has_args { b"}}" } else { b"}" });
    }

    /// The place of a process's events. Writes the name of a new one.
    fn place(&mut self, lane: u32, is_new: bool, spawned: Option<&str>, at: i64, out: &mut Vec<u8>) -> Place {
        let Some(known) = self.tracks.get(lane) else { return Place { node: 0, lane: 0, at } };
        let (number, title) = (known.number + 1, if is_new { known.title.clone() } else { String::new() });
        let Some(node) = self.tracks.node(known.node) else { return Place { node: 0, lane: 0, at } };
        // no thread has a number like a task's
        let number = known.tid.unwrap_or(if node.is_known { TASKS + number } else { number });
        let place = Place { node: node.pid, lane: number, at };
        if self.nodes.insert(known.node) {
            let (title, name) = (node.title.clone(), node.node.clone());
            self.start("M", "process_name", "", place, out);
            self.arg("name", &title, out);
            self.finish(out);
            self.start("M", "process_labels", "", place, out);
            self.arg("labels", &name, out);
            self.finish(out);
        }
        if is_new {
            self.running.remove(&lane); // the former process of this lane
            self.start("M", "thread_name", "", place, out);
            let title = spawned.map_or_else(|| title.clone(), |function| format!("{title} {function}"));
            self.arg("name", &title, out);
            self.finish(out);
        }
        place
    }

    fn steps(&mut self, trace: &Trace<'_>, place: Place, out: &mut Vec<u8>) {
        let steps = std::mem::take(&mut self.tracks.steps);
        for step in steps.iter().copied() {
            let (Step::Open(name) | Step::Close(name, _) | Step::Point(name) | Step::Unmatched(name)) = step;
            let name = match self.tracks.names.get_mut(name as usize) {
                Some(name) => std::mem::take(&mut name.text),
                None => continue,
            };
            match step {
                Step::Open(_) | Step::Point(_) => {
                    self.start(if matches!(step, Step::Open(_)) { "B" } else { "i" }, &name, "call", place, out);
                    if matches!(step, Step::Point(_)) {
                        out.extend_from_slice(b",\"s\":\"t\"");
                    }
                    self.term("args", trace.arguments, out);
                    self.term("extra", trace.extra, out);
                    self.scheduler(trace, out);
                }
                Step::Close(_, how) => {
                    self.start("E", &name, "call", place, out);
                    match how {
                        End::Return => self.term("returned", trace.value, out),
                        End::Exception => self.term("raised", trace.value, out),
                        End::Unseen => self.arg("end", "not seen", out),
                        End::Exit => self.arg("end", "exit", out),
                    }
                }
                Step::Unmatched(_) => {
                    self.start("i", &format!("{} {name}", text::name(trace.word)), "call", place, out);
                    out.extend_from_slice(b",\"s\":\"t\"");
                    self.term("value", trace.value, out);
                }
            }
            self.finish(out);
            let (Step::Open(number) | Step::Close(number, _) | Step::Point(number) | Step::Unmatched(number)) = step;
            if let Some(known) = self.tracks.names.get_mut(number as usize) {
                known.text = name;
            }
        }
        self.tracks.steps = steps;
    }

    /// Writes an end of an arrow. Viewers attach it to the event at the same moment.
    fn arrow(&mut self, flow: Option<Flow>, place: Place, out: &mut Vec<u8>) {
        let (phase, id) = match flow {
            Some(Flow::Begin(id)) => ("s", id),
            Some(Flow::End(id)) => ("f", id),
            None => return,
        };
        self.start(phase, "message", "message", place, out);
        let _ = write!(out, ",\"id\":{id}");
        if phase == "f" {
            out.extend_from_slice(b",\"bp\":\"e\"");
        }
        self.finish(out);
    }

    fn schedule(&mut self, trace: &Trace<'_>, applied: Applied, place: Place, out: &mut Vec<u8>) {
        let goes_in = matches!(trace.kind, Some(Kind::In | Kind::InExiting));
        let changes = if goes_in { self.running.insert(applied.lane) } else { self.running.remove(&applied.lane) };
        if changes {
            self.start(if goes_in { "b" } else { "e" }, "running", "schedule", place, out);
            let _ = write!(out, ",\"id\":{}", place.lane);
            self.function(trace, out);
            self.finish(out);
        }
    }

    fn other(&mut self, trace: &Trace<'_>, place: Place, out: &mut Vec<u8>) {
        let is_message = matches!(trace.kind, Some(Kind::Send | Kind::SendToNonExisting | Kind::Receive));
        let word = text::name(trace.word);
        if is_message {
            // an arrow can only end at a slice
            self.start("X", &word, "message", place, out);
            out.extend_from_slice(b",\"dur\":0");
        } else {
            let category = if word.starts_with("gc_") { "garbage collection" } else { "process" };
            self.start("i", &word, category, place, out);
            out.extend_from_slice(b",\"s\":\"t\"");
        }
        let (value, other) = trace.labels();
        self.term(value, trace.value, out);
        if !other.is_empty() {
            self.who(other, trace.other, out);
        }
        self.term("args", trace.arguments, out);
        self.term("extra", trace.extra, out);
        self.function(trace, out);
        self.finish(out);
        let flow = self.flows.of_trace(trace);
        self.arrow(flow, place, out);
    }

    fn seq(&mut self, seq: &Seq<'_>, at: i64, out: &mut Vec<u8>) {
        let whose = if seq.word == b"receive" { seq.to } else { seq.from };
        let Some(who) = whose.filter(|who| Identity::of(who).is_some()) else { return };
        let (lane, is_new) = self.tracks.lane(who);
        let at = self.tracks.moment(lane, at);
        let place = self.place(lane, is_new, None, at, out);
        self.start("X", &format!("seq_trace {}", text::name(seq.word)), "seq_trace", place, out);
        out.extend_from_slice(b",\"dur\":0");
        self.term("label", Some(seq.label), out);
        if let Some((previous, current)) = seq.serial {
            self.arg("serial", &format!("{previous}, {current}"), out);
        }
        self.term(if seq.word == b"print" { "info" } else { "message" }, seq.value, out);
        self.who("from", seq.from, out);
        self.who("to", seq.to, out);
        self.finish(out);
        let flow = self.flows.of_seq(seq);
        self.arrow(flow, place, out);
    }
}

impl Write for Chrome {
    fn begin(&mut self, tracks: Tracks, times: Times, out: &mut Vec<u8>) {
        self.flows = Flows::new(tracks.erlang());
        (self.tracks, self.times) = (tracks, times);
        let clock = match times.clock {
            Some(Clock::Wall) => "timestamp",
            Some(Clock::Monotonic) => "monotonic_timestamp",
            None => "order",
        };
        let _ = write!(
            out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"clock\":\"{clock}\",\"first\":\"{}\"}},\"traceEvents\":[",
            times.first
        );
    }

    fn about(&mut self, of: &[u8], items: Vec<inviso_log::about::Item>) {
        self.tracks.about(of, items);
    }

    fn event(&mut self, event: &Event<'_>, at: i64, out: &mut Vec<u8>) -> io::Result<()> {
        match event.what {
            What::Trace(trace) => {
                let applied = self.tracks.apply(&trace, at);
                let spawned = (trace.kind == Some(Kind::Spawned)).then_some(trace.name).flatten().map(text::mfa);
                let is_new = applied.is_new;
                let place = self.place(applied.lane, is_new, spawned.as_deref(), applied.at, out);
                match trace.kind {
                    Some(Kind::Call | Kind::ReturnFrom | Kind::ExceptionFrom | Kind::ReturnTo) => {
                        self.steps(&trace, place, out)
                    }
                    Some(Kind::In | Kind::Out | Kind::InExiting | Kind::OutExiting | Kind::OutExited) => {
                        self.schedule(&trace, applied, place, out);
                    }
                    Some(Kind::Exit | Kind::Closed) => {
                        self.steps(&trace, place, out);
                        self.other(&trace, place, out);
                        self.schedule(&Trace { kind: Some(Kind::Out), ..trace }, applied, place, out);
                    }
                    _ => self.other(&trace, place, out),
                }
            }
            What::Seq(seq) => self.seq(&seq, at, out),
            What::Monitor { who, word, value } => {
                let (lane, is_new) = self.tracks.lane(who);
                let at = self.tracks.moment(lane, at);
                let place = self.place(lane, is_new, None, at, out);
                self.start("i", &text::name(word), "monitor", place, out);
                out.extend_from_slice(b",\"s\":\"t\"");
                self.term("value", Some(value), out);
                self.finish(out);
            }
            What::Dropped(_) | What::Term(_) => {}
        }
        Ok(())
    }

    fn lost(&mut self, text: &str, dropped: Option<u64>, at: i64, out: &mut Vec<u8>) -> io::Result<()> {
        let place = Place { node: 0, lane: 0, at };
        self.start("i", text, "lost", place, out);
        out.extend_from_slice(b",\"s\":\"g\"");
        self.finish(out);
        if let Some(count) = dropped {
            self.dropped += count;
            self.start("C", "dropped messages", "lost", place, out);
            let _ = write!(out, ",\"args\":{{\"messages\":{}}}", self.dropped);
            self.finish(out);
        }
        Ok(())
    }

    /// Calls that have not ended stay open. Viewers draw them to the end.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        out.extend_from_slice(b"\n]}\n");
        Ok(true)
    }
}
