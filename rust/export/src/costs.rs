//! Own and cumulative time of each call, for collapsed stacks and pstats.
//!
//! A process's time stands still between `out` and `in`: waiting is own time of no call. Nor is time before the first open call.
//! Calls that are open at the end last until their process's last message.

use crate::{
    event::Trace,
    tracks::{Step, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;

/// Receives the costs of calls.
pub trait Ledger {
    /// A call or a point begins on top of this path. Answers the number of the new path.
    fn begin_call(&mut self, below: Option<u32>, name: u32) -> u32;
    /// Adds own time to a call.
    fn own(&mut self, call: u32, time: u64);
    /// Ends a call. `time` is its whole time in this process. `nested`: its function is also open below it. `edge_nested`: so is
    /// its function as called by the same caller.
    fn end_call(&mut self, below: Option<u32>, call: u32, time: u64, nested: bool, edge_nested: bool);
}

#[derive(Clone, Copy)]
struct Frame {
    call: u32,
    name: u32,
    begun: i64,
}

/// The state of a process.
#[derive(Default)]
struct CostLane {
    frames: Vec<Frame>,
    /// How often each function is open.
    open: FxHashMap<u32, u32>,
    edges: FxHashMap<(u32, u32), u32>,
    /// The process's time at the last change of the topmost call.
    mark: i64,
    /// The time of the last message.
    last: i64,
    /// How long it was out, and since when.
    away: i64,
    out: Option<i64>,
}

/// The costs of all processes.
#[derive(Default)]
pub struct Costs {
    lanes: Vec<CostLane>,
}

impl CostLane {
    /// The process's own clock.
    fn time(&self, at: i64) -> i64 {
        self.out.unwrap_or(at).saturating_sub(self.away)
    }

    fn charge(&mut self, now: i64, ledger: &mut impl Ledger) {
        if let Some(frame) = self.frames.last() {
            ledger.own(frame.call, now.saturating_sub(self.mark).max(0) as u64);
        }
        self.mark = now;
    }

    fn begin_call(&mut self, name: u32, now: i64, ledger: &mut impl Ledger) {
        let below = self.frames.last().copied();
        let call = ledger.begin_call(below.map(|below| below.call), name);
        *self.open.entry(name).or_default() += 1;
        if let Some(below) = below {
            *self.edges.entry((below.name, name)).or_default() += 1;
        }
        self.frames.push(Frame { call, name, begun: now });
    }

    fn end_call(&mut self, now: i64, ledger: &mut impl Ledger) {
        let Some(frame) = self.frames.pop() else { return };
        let below = self.frames.last().copied();
        let nested = decrease(&mut self.open, frame.name);
        let edge_nested = below.is_some_and(|below| decrease(&mut self.edges, (below.name, frame.name)));
        let time = now.saturating_sub(frame.begun).max(0) as u64;
        ledger.end_call(below.map(|below| below.call), frame.call, time, nested, edge_nested);
    }
}

/// Decreases a count. Answers whether it is still above 0.
fn decrease<K: std::hash::Hash + Eq>(counts: &mut FxHashMap<K, u32>, key: K) -> bool {
    match counts.get_mut(&key) {
        Some(count) if *count > 1 => {
            *count -= 1;
            true
        }
        _ => {
            counts.remove(&key);
            false
        }
    }
}

impl Costs {
    /// Adds a message about a tracee.
    pub fn apply(&mut self, tracks: &mut Tracks, trace: &Trace<'_>, at: i64, ledger: &mut impl Ledger) {
        let applied = tracks.apply(trace, at);
        let index = applied.lane as usize;
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, CostLane::default);
        }
        let Some(lane) = self.lanes.get_mut(index) else { return };
        if applied.is_new {
            *lane = CostLane::default();
        }
        lane.last = applied.at;
        match trace.kind {
            Some(Kind::In | Kind::InExiting) => {
                if let Some(out) = lane.out.take() {
                    lane.away = lane.away.saturating_add(applied.at.saturating_sub(out));
                }
            }
            Some(Kind::Out | Kind::OutExiting | Kind::OutExited) if lane.out.is_none() => lane.out = Some(applied.at),
            _ => {}
        }
        let now = lane.time(applied.at);
        for step in &tracks.steps {
            lane.charge(now, ledger);
            match *step {
                Step::Open(name) => lane.begin_call(name, now, ledger),
                Step::Point(name) => {
                    lane.begin_call(name, now, ledger);
                    lane.end_call(now, ledger);
                }
                Step::Close(..) => lane.end_call(now, ledger),
                Step::Unmatched(_) => {}
            }
        }
    }

    /// Ends the open calls.
    pub fn end(&mut self, ledger: &mut impl Ledger) {
        for lane in &mut self.lanes {
            let now = lane.time(lane.last);
            while !lane.frames.is_empty() {
                lane.charge(now, ledger);
                lane.end_call(now, ledger);
            }
        }
    }
}
