//! Perfetto's protobuf trace: a track for each process, slices for calls, instants for other events, arrows for messages.
//!
//! The output is one sequence of packets. The first packet that uses a name also interns it.

use crate::{
    event::{Clock, Event, Seq, Trace, What},
    export::{Times, Write},
    flows::{Flow, Flows},
    proto::Message,
    scan::Bytes,
    text,
    tracks::{Applied, End, Step, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;

// fields of TracePacket, TrackEvent, TrackDescriptor and their parts: perfetto_trace.proto
mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED: u32 = 12;
    pub const FLAGS: u32 = 13;
    pub const CLOCK: u32 = 58;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK: u32 = 60;
    pub const FIRST: u32 = 87;
    pub const CLEARED: u64 = 1;
    pub const NEEDS: u64 = 2;
}

mod track_event {
    pub const CATEGORY: u32 = 3;
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const COUNTER: u32 = 30;
    pub const FLOW: u32 = 47;
    pub const LAST_FLOW: u32 = 48;
}

/// The kinds of interned names.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Space {
    Category = 1,
    Event = 2,
    Annotation = 3,
}

#[derive(Clone, Copy)]
enum EventType {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

const LOST: u64 = 1;
const DROPPED: u64 = 2;
/// The first track of nodes. Tracks of processes have the even numbers from `PROCESSES` on; the odd ones are their schedules.
const NODES: u64 = 1 << 40;
const PROCESSES: u64 = 16;

/// The writer.
pub struct Perfetto {
    tracks: Tracks,
    times: Times,
    flows: Flows,
    interned: [FxHashMap<Box<str>, u64>; 3],
    /// The numbers of interned function names, 0 for not interned.
    functions: Vec<u64>,
    /// The names that the present packet interns.
    new: Message,
    nodes: FxHashSet<u32>,
    running: FxHashSet<u32>,
    /// The lanes with a schedule track.
    scheduled: FxHashSet<u32>,
    has_lost: bool,
    has_dropped: bool,
    dropped: u64,
    most: usize,
    packet: Message,
    event: Message,
    text: String,
}

impl Perfetto {
    /// Values are cut to `most` bytes; 0: no values.
    #[must_use]
    pub fn new(most: usize) -> Perfetto {
        Perfetto {
            tracks: Tracks::default(),
            times: Times { clock: None, first: 0 },
            flows: Flows::default(),
            interned: Default::default(),
            functions: Vec::new(),
            new: Message::default(),
            nodes: FxHashSet::default(),
            running: FxHashSet::default(),
            scheduled: FxHashSet::default(),
            has_lost: false,
            has_dropped: false,
            dropped: 0,
            most,
            packet: Message::default(),
            event: Message::default(),
            text: String::new(),
        }
    }

    /// A time for Perfetto, in nanoseconds. It must not be negative, so a trace of a monotonic clock below 0 begins at one
    /// second.
    fn time(&self, at: i64) -> u64 {
        if self.times.first >= 0 {
            return at.max(0) as u64;
        }
        (i128::from(at) - i128::from(self.times.first) + 1_000_000_000).clamp(0, i128::from(i64::MAX)) as u64
    }

    fn intern(&mut self, space: Space, text: &str) -> u64 {
        let Some(known) = self.interned.get_mut(space as usize - 1) else { return 0 };
        if let Some(iid) = known.get(text) {
            return *iid;
        }
        let iid = known.len() as u64 + 1;
        known.insert(text.into(), iid);
        let mut entry = Message::default();
        entry.int(1, iid);
        entry.bytes(2, text.as_bytes());
        self.new.message(space as u32, &entry);
        iid
    }

    /// Begins [`Perfetto::event`].
    fn start(&mut self, kind: EventType, track: u64) {
        self.event.clear();
        self.event.int(track_event::TYPE, kind as u64);
        self.event.int(track_event::TRACK, track);
    }

    fn named(&mut self, category: &str, name: &str) {
        let (category, name) = (self.intern(Space::Category, category), self.intern(Space::Event, name));
        self.event.int(track_event::CATEGORY, category);
        self.event.int(track_event::NAME, name);
    }

    fn note(&mut self, name: &str, value: &str) {
        let name = self.intern(Space::Annotation, name);
        let mut annotation = Message::default();
        annotation.int(1, name);
        annotation.bytes(6, value.as_bytes());
        self.event.message(track_event::ANNOTATION, &annotation);
    }

    fn note_term(&mut self, name: &str, value: Option<Bytes<'_>>) {
        if let (Some(value), 1..) = (value, self.most) {
            let mut shown = std::mem::take(&mut self.text);
            shown.clear();
            text::show(value, self.most, &mut shown);
            self.note(name, &shown);
            self.text = shown;
        }
    }

    fn note_who(&mut self, name: &str, who: Option<Bytes<'_>>) {
        if let Some(who) = who {
            let title = self.tracks.title(who);
            self.note(name, &title);
        }
    }

    /// Writes [`Perfetto::event`].
    fn finish(&mut self, at: u64, out: &mut Vec<u8>) {
        self.packet.clear();
        self.packet.int(packet::TIMESTAMP, at);
        self.packet.int(packet::SEQUENCE, 1);
        self.packet.int(packet::FLAGS, packet::NEEDS);
        if !self.new.is_empty() {
            self.packet.message(packet::INTERNED, &self.new);
            self.new.clear();
        }
        self.packet.message(packet::TRACK_EVENT, &self.event);
        self.packet.add_to(1, out);
    }

    fn track(&mut self, track: &Message, out: &mut Vec<u8>) {
        self.packet.clear();
        self.packet.int(packet::SEQUENCE, 1);
        self.packet.message(packet::TRACK, track);
        self.packet.add_to(1, out);
    }

    fn new_lane(&mut self, lane: u32, spawned: Option<&str>, out: &mut Vec<u8>) {
        // the former process of this lane
        self.running.remove(&lane);
        self.scheduled.remove(&lane);
        let Some(lane) = self.tracks.get(lane) else { return };
        let (number, place, tid) = (lane.number, lane.node, lane.tid);
        let title = match spawned {
            Some(function) => format!("{} {function}", lane.title),
            None => lane.title.clone(),
        };
        let Some(node) = self.tracks.node(place).cloned() else { return };
        let parent = NODES + u64::from(place);
        if self.nodes.insert(place) {
            let mut process = Message::default();
            process.int(1, node.pid);
            process.bytes(6, node.title.as_bytes());
            process.bytes(8, node.node.as_bytes());
            let mut track = Message::default();
            track.int(1, parent);
            track.message(3, &process);
            self.track(&track, out);
        }
        let mut track = Message::default();
        track.int(1, PROCESSES + 2 * number);
        track.bytes(2, title.as_bytes());
        if let Some(tid) = tid {
            let mut thread = Message::default();
            thread.int(1, node.pid);
            thread.int(2, tid);
            thread.bytes(5, title.as_bytes());
            track.message(4, &thread);
        }
        track.int(5, parent);
        self.track(&track, out);
    }

    fn lane_track(&self, lane: u32) -> u64 {
        PROCESSES + 2 * self.tracks.get(lane).map_or(0, |lane| lane.number)
    }

    fn steps(&mut self, trace: &Trace<'_>, applied: Applied, out: &mut Vec<u8>) {
        let at = self.time(applied.at);
        let track = self.lane_track(applied.lane);
        let steps = std::mem::take(&mut self.tracks.steps);
        for step in steps.iter().copied() {
            match step {
                Step::Open(name) | Step::Point(name) => {
                    let kind = if matches!(step, Step::Open(_)) { EventType::Begin } else { EventType::Instant };
                    self.start(kind, track);
                    self.function(name);
                    self.note_term("args", trace.arguments);
                    self.note_term("extra", trace.extra);
                    self.note_scheduler(trace);
                }
                Step::Close(_, how) => {
                    self.start(EventType::End, track);
                    match how {
                        End::Return => self.note_term("returned", trace.value),
                        End::Exception => self.note_term("raised", trace.value),
                        End::Unseen => self.note("end", "not seen"),
                        End::Exit => self.note("end", "exit"),
                    }
                }
                Step::Unmatched(name) => {
                    self.start(EventType::Instant, track);
                    let name = self.tracks.names.get(name as usize).map_or("", |name| &*name.text);
                    let name = format!("{} {name}", text::name(trace.word));
                    self.named("call", &name);
                    self.note_term("value", trace.value);
                }
            }
            self.finish(at, out);
        }
        self.tracks.steps = steps;
    }

    /// Names the event after a function.
    fn function(&mut self, name: u32) {
        let known = self.functions.get(name as usize).copied().unwrap_or(0);
        if known == 0 {
            let text = self.tracks.names.get(name as usize).map_or_else(Default::default, |name| name.text.clone());
            let iid = self.intern(Space::Event, &text);
            if self.functions.len() <= name as usize {
                self.functions.resize(name as usize + 1, 0);
            }
            if let Some(place) = self.functions.get_mut(name as usize) {
                *place = iid;
            }
        }
        let category = self.intern(Space::Category, "call");
        self.event.int(track_event::CATEGORY, category);
        self.event.int(track_event::NAME, self.functions.get(name as usize).copied().unwrap_or(0));
    }

    fn note_scheduler(&mut self, trace: &Trace<'_>) {
        if let Some(scheduler) = trace.scheduler {
            self.note("scheduler", &scheduler.to_string());
        }
    }

    fn schedule(&mut self, trace: &Trace<'_>, applied: Applied, out: &mut Vec<u8>) {
        let at = self.time(applied.at);
        let (own, track) = (self.lane_track(applied.lane), self.lane_track(applied.lane) + 1);
        if self.scheduled.insert(applied.lane) {
            let mut descriptor = Message::default();
            descriptor.int(1, track);
            descriptor.bytes(2, b"schedule");
            descriptor.int(5, own);
            self.track(&descriptor, out);
        }
        let goes_in = matches!(trace.kind, Some(Kind::In | Kind::InExiting));
        if goes_in {
            if !self.running.insert(applied.lane) {
                return;
            }
            self.start(EventType::Begin, track);
            self.named("schedule", if trace.kind == Some(Kind::In) { "running" } else { "exiting" });
            self.note_function(trace);
        } else {
            if !self.running.remove(&applied.lane) {
                return;
            }
            self.start(EventType::End, track);
            self.note_function(trace);
        }
        self.finish(at, out);
    }

    fn note_function(&mut self, trace: &Trace<'_>) {
        if let Some(name) = trace.name {
            self.note("function", &text::mfa(name));
        }
        self.note_scheduler(trace);
    }

    fn flow(&mut self, flow: Option<Flow>) {
        match flow {
            Some(Flow::Begin(id)) => self.event.fixed(track_event::FLOW, id),
            Some(Flow::End(id)) => self.event.fixed(track_event::LAST_FLOW, id),
            None => {}
        }
    }

    fn instant(&mut self, trace: &Trace<'_>, applied: Applied, out: &mut Vec<u8>) {
        let at = self.time(applied.at);
        self.start(EventType::Instant, self.lane_track(applied.lane));
        let category = match trace.kind {
            Some(Kind::Send | Kind::SendToNonExisting | Kind::Receive) => "message",
            _ if trace.word.starts_with(b"gc_") => "garbage collection",
            _ => "process",
        };
        self.named(category, &text::name(trace.word));
        let flow = self.flows.of_trace(trace);
        self.flow(flow);
        let (value, other) = trace.labels();
        self.note_term(value, trace.value);
        if !other.is_empty() {
            self.note_who(other, trace.other);
        }
        self.note_term("args", trace.arguments);
        self.note_term("extra", trace.extra);
        self.note_function(trace);
        self.finish(at, out);
    }

    fn seq(&mut self, seq: &Seq<'_>, at: i64, out: &mut Vec<u8>) {
        let whose = if seq.word == b"receive" { seq.to } else { seq.from };
        let (lane, is_new) = match whose.filter(|who| crate::scan::Identity::of(who).is_some()) {
            Some(who) => self.tracks.lane(who),
            None => return,
        };
        if is_new {
            self.new_lane(lane, None, out);
        }
        let at = self.tracks.moment(lane, at);
        let at = self.time(at);
        self.start(EventType::Instant, self.lane_track(lane));
        self.named("seq_trace", &format!("seq_trace {}", text::name(seq.word)));
        let flow = self.flows.of_seq(seq);
        self.flow(flow);
        self.note_term("label", Some(seq.label));
        if let Some((previous, current)) = seq.serial {
            self.note("serial", &format!("{previous}, {current}"));
        }
        self.note_term(if seq.word == b"print" { "info" } else { "message" }, seq.value);
        self.note_who("from", seq.from);
        self.note_who("to", seq.to);
        self.finish(at, out);
    }
}

impl Write for Perfetto {
    fn begin(&mut self, tracks: Tracks, times: Times, out: &mut Vec<u8>) {
        self.flows = Flows::new(tracks.erlang());
        (self.tracks, self.times) = (tracks, times);
        // BuiltinClock: REALTIME 1, MONOTONIC 3
        let clock = match times.clock {
            Some(Clock::Wall) => 1,
            _ => 3,
        };
        let mut reading = Message::default();
        reading.int(1, clock);
        reading.int(2, self.time(times.first));
        let mut snapshot = Message::default();
        snapshot.message(1, &reading);
        snapshot.int(2, clock);
        let mut defaults = Message::default();
        defaults.int(packet::CLOCK, clock);
        self.packet.clear();
        self.packet.message(packet::CLOCK_SNAPSHOT, &snapshot);
        self.packet.int(packet::SEQUENCE, 1);
        self.packet.int(packet::FLAGS, packet::CLEARED);
        self.packet.message(packet::DEFAULTS, &defaults);
        self.packet.int(packet::FIRST, 1);
        self.packet.add_to(1, out);
    }

    fn about(&mut self, of: &[u8], items: Vec<inviso_log::about::Item>) {
        self.tracks.about(of, items);
    }

    fn event(&mut self, event: &Event<'_>, at: i64, out: &mut Vec<u8>) -> io::Result<()> {
        match event.what {
            What::Trace(trace) => {
                let applied = self.tracks.apply(&trace, at);
                if applied.is_new {
                    let spawned = (trace.kind == Some(Kind::Spawned)).then_some(trace.name).flatten().map(text::mfa);
                    self.new_lane(applied.lane, spawned.as_deref(), out);
                }
                match trace.kind {
                    Some(Kind::Call | Kind::ReturnFrom | Kind::ExceptionFrom | Kind::ReturnTo) => {
                        self.steps(&trace, applied, out);
                    }
                    Some(Kind::In | Kind::Out | Kind::InExiting | Kind::OutExiting | Kind::OutExited) => {
                        self.schedule(&trace, applied, out);
                    }
                    Some(Kind::Exit | Kind::Closed) => {
                        self.steps(&trace, applied, out);
                        self.instant(&trace, applied, out);
                        if self.running.contains(&applied.lane) {
                            self.schedule(&Trace { kind: Some(Kind::Out), ..trace }, applied, out);
                        }
                    }
                    _ => self.instant(&trace, applied, out),
                }
            }
            What::Seq(seq) => self.seq(&seq, at, out),
            What::Monitor { who, word, value } => {
                let (lane, is_new) = self.tracks.lane(who);
                if is_new {
                    self.new_lane(lane, None, out);
                }
                let at = self.tracks.moment(lane, at);
                let at = self.time(at);
                self.start(EventType::Instant, self.lane_track(lane));
                self.named("monitor", &text::name(word));
                self.note_term("value", Some(value));
                self.finish(at, out);
            }
            What::Dropped(_) | What::Term(_) => {}
        }
        Ok(())
    }

    fn lost(&mut self, text: &str, dropped: Option<u64>, at: i64, out: &mut Vec<u8>) -> io::Result<()> {
        let at = self.time(at);
        if !std::mem::replace(&mut self.has_lost, true) {
            let mut track = Message::default();
            track.int(1, LOST);
            track.bytes(2, b"lost");
            self.track(&track, out);
        }
        self.start(EventType::Instant, LOST);
        self.named("lost", if dropped.is_some() { "messages dropped" } else { "damage" });
        self.note("what", text);
        self.finish(at, out);
        if let Some(count) = dropped {
            if !std::mem::replace(&mut self.has_dropped, true) {
                let mut track = Message::default();
                track.int(1, DROPPED);
                track.bytes(2, b"dropped messages");
                track.message(8, &Message::default());
                self.track(&track, out);
            }
            self.dropped += count;
            self.start(EventType::Counter, DROPPED);
            self.event.int(track_event::COUNTER, self.dropped);
            self.finish(at, out);
        }
        Ok(())
    }

    /// Calls that have not ended stay open. Perfetto shows them so.
    fn end(&mut self, _: &mut Vec<u8>) -> io::Result<bool> {
        Ok(true)
    }
}
