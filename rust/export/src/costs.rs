//! Own and cumulative time, call by call: what collapsed stacks and pstats are made of.
//!
//! A process's time stands still between `out` and `in`: what it waits is nobody's own time. Time before the first `call` that is
//! open belongs to nobody. Calls that are still open at the end last until their process's last message.

use crate::{
    event::Trace,
    tracks::{Step, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;

/// What is told of calls as they end.
pub trait Ledger {
    /// A call begins, or a point stands, on top of this path; what it is from then on.
    fn enter(&mut self, below: Option<u32>, name: u32) -> u32;
    /// So much own time belongs to a call.
    fn own(&mut self, call: u32, time: u64);
    /// A call ends. `time` is all of it, in this process; `nested` and `edge_nested` whether its function, or its function called
    /// by the same one, is open below it.
    fn leave(&mut self, below: Option<u32>, call: u32, time: u64, nested: bool, edge_nested: bool);
}

#[derive(Clone, Copy)]
struct Frame {
    call: u32,
    name: u32,
    begun: i64,
}

/// Where a process is.
#[derive(Default)]
struct Lane {
    frames: Vec<Frame>,
    /// How often each function is open.
    open: FxHashMap<u32, u32>,
    edges: FxHashMap<(u32, u32), u32>,
    /// When own time was last given to the topmost.
    mark: i64,
    /// The last message.
    last: i64,
    /// How long it was out, and since when.
    away: i64,
    out: Option<i64>,
}

/// All processes.
#[derive(Default)]
pub struct Costs {
    lanes: Vec<Lane>,
}

impl Lane {
    /// The process's own time.
    fn time(&self, at: i64) -> i64 {
        self.out.unwrap_or(at).saturating_sub(self.away)
    }

    fn charge(&mut self, now: i64, ledger: &mut impl Ledger) {
        if let Some(frame) = self.frames.last() {
            ledger.own(frame.call, now.saturating_sub(self.mark).max(0) as u64);
        }
        self.mark = now;
    }

    fn enter(&mut self, name: u32, now: i64, ledger: &mut impl Ledger) {
        let below = self.frames.last().copied();
        let call = ledger.enter(below.map(|below| below.call), name);
        *self.open.entry(name).or_default() += 1;
        if let Some(below) = below {
            *self.edges.entry((below.name, name)).or_default() += 1;
        }
        self.frames.push(Frame { call, name, begun: now });
    }

    fn leave(&mut self, now: i64, ledger: &mut impl Ledger) {
        let Some(frame) = self.frames.pop() else { return };
        let below = self.frames.last().copied();
        let nested = less(&mut self.open, frame.name);
        let edge_nested = below.is_some_and(|below| less(&mut self.edges, (below.name, frame.name)));
        let time = now.saturating_sub(frame.begun).max(0) as u64;
        ledger.leave(below.map(|below| below.call), frame.call, time, nested, edge_nested);
    }
}

/// One less; whether there are others.
fn less<K: std::hash::Hash + Eq>(counts: &mut FxHashMap<K, u32>, key: K) -> bool {
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
    /// A message about a tracee.
    pub fn take(&mut self, tracks: &mut Tracks, trace: &Trace<'_>, at: i64, ledger: &mut impl Ledger) {
        let taken = tracks.take(trace, at);
        let index = taken.lane as usize;
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, Lane::default);
        }
        let Some(lane) = self.lanes.get_mut(index) else { return };
        if taken.is_new {
            *lane = Lane::default();
        }
        lane.last = taken.at;
        match trace.kind {
            Some(Kind::In | Kind::InExiting) => {
                if let Some(out) = lane.out.take() {
                    lane.away = lane.away.saturating_add(taken.at.saturating_sub(out));
                }
            }
            Some(Kind::Out | Kind::OutExiting | Kind::OutExited) if lane.out.is_none() => lane.out = Some(taken.at),
            _ => {}
        }
        let now = lane.time(taken.at);
        for step in &tracks.steps {
            lane.charge(now, ledger);
            match *step {
                Step::Open(name) => lane.enter(name, now, ledger),
                Step::Point(name) => {
                    lane.enter(name, now, ledger);
                    lane.leave(now, ledger);
                }
                Step::Close(..) => lane.leave(now, ledger),
                Step::Unmatched(_) => {}
            }
        }
    }

    /// Ends what is open.
    pub fn end(&mut self, ledger: &mut impl Ledger) {
        for lane in &mut self.lanes {
            let now = lane.time(lane.last);
            while !lane.frames.is_empty() {
                lane.charge(now, ledger);
                lane.leave(now, ledger);
            }
        }
    }
}
