//! Calls, tokens and losses of processes, step by step, as lines of JSON. Spans are made of them elsewhere.
//!
//! | `k` | further fields |
//! | --- | --- |
//! | `begin` | `clock`: `timestamp`, `monotonic_timestamp` or `order` |
//! | `node` | `n`, its number; `pid`, `known`, `program`, `node` |
//! | `process` | `p`, its number; `n`, its node; `title`; `tid` where it is known |
//! | `label` | `l`, its number; `text`; `term`, its bytes in base 16 |
//! | `open`, `point` | `p`, `t`; `m`, `f`, `a`, the function; `args` |
//! | `close` | `p`, `t`; `how`: `return`, `exception`, `unseen`, `exit`; `value`; of an exception `term` |
//! | `seq` | `p`, `t`; `w`, the word; `l`, `s`, the serial; `from`, `to`, `key` (the sender, in base 16), `value` |
//! | `exit` | `p`, `t`, `value` |
//! | `lost` | `t`, `what`; `count` of drop records |
//!
//! Only other crates of the workspace use it.

use crate::{
    event::{Clock, Event, Seq, Trace, What},
    export::{Times, Write},
    json,
    scan::{Bytes, Identity},
    text,
    tracks::{Applied, End, Step, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write as _};

/// The writer.
pub struct Steps {
    tracks: Tracks,
    most: usize,
    nodes: FxHashSet<u32>,
    labels: FxHashMap<Box<[u8]>, u64>,
    text: String,
}

impl Steps {
    /// Values are cut to `most` bytes; 0: no values.
    #[must_use]
    pub fn new(most: usize) -> Steps {
        let (nodes, labels) = (FxHashSet::default(), FxHashMap::default());
        Steps { tracks: Tracks::default(), most, nodes, labels, text: String::new() }
    }

    fn show(&mut self, name: &str, value: Option<Bytes<'_>>, out: &mut Vec<u8>) {
        if let (Some(value), 1..) = (value, self.most) {
            self.text.clear();
            text::show(value, self.most, &mut self.text);
            out.push(b',');
            json::field(name, &self.text, out);
        }
    }

    fn who(&mut self, name: &str, who: Option<Bytes<'_>>, out: &mut Vec<u8>) {
        if let Some(who) = who {
            out.push(b',');
            json::field(name, &self.tracks.title(who), out);
        }
    }

    fn introduce(&mut self, lane: u32, out: &mut Vec<u8>) {
        let Some(known) = self.tracks.get(lane) else { return };
        let (number, place, tid, title) = (known.number, known.node, known.tid, known.title.clone());
        if self.nodes.insert(place) {
            if let Some(node) = self.tracks.node(place) {
                let _ = write!(out, "{{\"k\":\"node\",\"n\":{place},\"pid\":{},\"known\":{},", node.pid, node.is_known);
                json::field("program", &node.title, out);
                out.push(b',');
                json::field("node", &node.node, out);
                out.extend_from_slice(b"}\n");
            }
        }
        let _ = write!(out, "{{\"k\":\"process\",\"p\":{number},\"n\":{place},");
        if let Some(tid) = tid {
            let _ = write!(out, "\"tid\":{tid},");
        }
        json::field("title", &title, out);
        out.extend_from_slice(b"}\n");
    }

    fn start(&self, kind: &str, lane: u32, at: i64, out: &mut Vec<u8>) {
        let number = self.tracks.get(lane).map_or(0, |lane| lane.number);
        let _ = write!(out, "{{\"k\":\"{kind}\",\"p\":{number},\"t\":{at}");
    }

    fn steps(&mut self, trace: &Trace<'_>, applied: Applied, out: &mut Vec<u8>) {
        let steps = std::mem::take(&mut self.tracks.steps);
        for step in steps.iter().copied() {
            match step {
                Step::Open(name) | Step::Point(name) => {
                    let kind = if matches!(step, Step::Open(_)) { "open" } else { "point" };
                    self.start(kind, applied.lane, applied.at, out);
                    if let Some(name) = self.tracks.names.get(name as usize) {
                        out.push(b',');
                        json::field("m", &name.module, out);
                        out.push(b',');
                        json::field("f", &name.function, out);
                        let _ = write!(out, ",\"a\":{}", name.arity);
                    }
                    self.show("args", trace.arguments, out);
                }
                Step::Close(_, how) => {
                    self.start("close", applied.lane, applied.at, out);
                    out.push(b',');
                    let word = match how {
                        End::Return => "return",
                        End::Exception => "exception",
                        End::Unseen => "unseen",
                        End::Exit => "exit",
                    };
                    json::field("how", word, out);
                    if matches!(how, End::Return | End::Exception | End::Exit) {
                        self.show("value", trace.value, out);
                    }
                    if let (End::Exception, Some(value)) = (how, trace.value) {
                        out.push(b',');
                        json::field("term", &hex(value), out);
                    }
                }
                Step::Unmatched(_) => continue,
            }
            out.extend_from_slice(b"}\n");
        }
        self.tracks.steps = steps;
    }

    fn seq(&mut self, seq: &Seq<'_>, at: i64, out: &mut Vec<u8>) {
        let whose = if seq.word == b"receive" { seq.to } else { seq.from };
        let Some(who) = whose.filter(|who| Identity::of(who).is_some()) else { return };
        let (lane, is_new) = self.tracks.lane(who);
        if is_new {
            self.introduce(lane, out);
        }
        let count = self.labels.len() as u64;
        let label = *self.labels.entry(seq.label.into()).or_insert(count);
        if label == count {
            self.text.clear();
            text::show(seq.label, usize::MAX, &mut self.text);
            let _ = write!(out, "{{\"k\":\"label\",\"l\":{label},");
            json::field("text", &self.text, out);
            out.push(b',');
            json::field("term", &hex(seq.label), out);
            out.extend_from_slice(b"}\n");
        }
        let at = self.tracks.moment(lane, at);
        self.start("seq", lane, at, out);
        let _ = write!(out, ",\"l\":{label},");
        json::field("w", &text::name(seq.word), out);
        if let Some((previous, current)) = seq.serial {
            let _ = write!(out, ",\"s\":[{previous},{current}]");
        }
        if let Some(from) = seq.from {
            out.push(b',');
            json::field("key", &hex(from), out);
        }
        self.who("from", seq.from, out);
        self.who("to", seq.to, out);
        self.show("value", seq.value, out);
        out.extend_from_slice(b"}\n");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    })
}

impl Write for Steps {
    fn begin(&mut self, tracks: Tracks, times: Times, out: &mut Vec<u8>) {
        self.tracks = tracks;
        let clock = match times.clock {
            Some(Clock::Wall) => "timestamp",
            Some(Clock::Monotonic) => "monotonic_timestamp",
            None => "order",
        };
        let _ = writeln!(out, "{{\"k\":\"begin\",\"clock\":\"{clock}\"}}");
    }

    fn about(&mut self, of: &[u8], items: Vec<inviso_log::about::Item>) {
        self.tracks.about(of, items);
    }

    fn event(&mut self, event: &Event<'_>, at: i64, out: &mut Vec<u8>) -> io::Result<()> {
        match event.what {
            What::Trace(trace) => {
                let applied = self.tracks.apply(&trace, at);
                if applied.is_new {
                    self.introduce(applied.lane, out);
                }
                match trace.kind {
                    Some(Kind::Call | Kind::ReturnFrom | Kind::ExceptionFrom | Kind::ReturnTo) => {
                        self.steps(&trace, applied, out);
                    }
                    Some(Kind::Exit | Kind::Closed) => {
                        self.steps(&trace, applied, out);
                        self.start("exit", applied.lane, applied.at, out);
                        self.show("value", trace.value, out);
                        out.extend_from_slice(b"}\n");
                    }
                    _ => {}
                }
            }
            What::Seq(seq) => self.seq(&seq, at, out),
            What::Monitor { .. } | What::Dropped(_) | What::Term(_) => {}
        }
        Ok(())
    }

    fn lost(&mut self, text: &str, dropped: Option<u64>, at: i64, out: &mut Vec<u8>) -> io::Result<()> {
        let _ = write!(out, "{{\"k\":\"lost\",\"t\":{at},");
        json::field("what", text, out);
        if let Some(count) = dropped {
            let _ = write!(out, ",\"count\":{count}");
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> io::Result<bool> {
        Ok(true)
    }
}
