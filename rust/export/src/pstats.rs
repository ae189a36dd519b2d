//! Writes a file for `pstats.Stats`: a marshalled dict of the costs of each function, by caller.
//!
//! `{(file, line, function): (primitive calls, calls, own seconds, seconds, {caller: (calls, primitive calls, own seconds, seconds)})}`.
//! A function's file is its module, its line is 0, its name is `function/arity`. Without timestamps all times are 0.

use crate::{
    costs::{Costs, Ledger},
    event::{Event, What},
    export::{Times, Write},
    tracks::Tracks,
};
use rustc_hash::FxHashMap;
use std::io;

const PART: usize = 1 << 20;

/// The writer.
#[derive(Default)]
pub struct Pstats {
    tracks: Tracks,
    costs: Costs,
    book: Book,
    timed: bool,
    dropped: u64,
    damaged: u64,
    ended: bool,
    written: usize,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    calls: u64,
    primitive: u64,
    own: u64,
    all: u64,
}

/// The costs of each pair of function and caller. A call is one entry.
#[derive(Default)]
struct Book {
    /// Function and caller, `NOBODY` without a caller.
    edges: Vec<((u32, u32), Cost)>,
    by_edge: FxHashMap<(u32, u32), u32>,
    /// The part of the costs that is not the sum of the pairs: cumulative time, without nested calls.
    functions: Vec<Cost>,
}

const NOBODY: u32 = u32::MAX;

impl Book {
    fn name(&self, call: u32) -> u32 {
        self.edges.get(call as usize).map_or(NOBODY, |(edge, _)| edge.0)
    }

    fn function(&mut self, name: u32) -> Option<&mut Cost> {
        if self.functions.len() <= name as usize {
            self.functions.resize(name as usize + 1, Cost::default());
        }
        self.functions.get_mut(name as usize)
    }
}

impl Ledger for Book {
    fn begin_call(&mut self, below: Option<u32>, name: u32) -> u32 {
        let edge = (name, below.map_or(NOBODY, |below| self.name(below)));
        let next = self.edges.len() as u32;
        let call = *self.by_edge.entry(edge).or_insert(next);
        if call == next {
            self.edges.push((edge, Cost::default()));
        }
        call
    }

    fn own(&mut self, call: u32, time: u64) {
        let Some((edge, cost)) = self.edges.get_mut(call as usize) else { return };
        cost.own += time;
        let name = edge.0;
        if let Some(function) = self.function(name) {
            function.own += time;
        }
    }

    fn end_call(&mut self, _: Option<u32>, call: u32, time: u64, nested: bool, edge_nested: bool) {
        let Some((edge, cost)) = self.edges.get_mut(call as usize) else { return };
        cost.calls += 1;
        if !edge_nested {
            cost.primitive += 1;
            cost.all += time;
        }
        let name = edge.0;
        if let Some(function) = self.function(name) {
            function.calls += 1;
            if !nested {
                function.primitive += 1;
                function.all += time;
            }
        }
    }
}

/// Python values as `marshal.load` reads them.
mod marshal {
    pub fn int(value: u64, out: &mut Vec<u8>) {
        if let Ok(value) = i32::try_from(value) {
            out.push(b'i');
            out.extend_from_slice(&value.to_le_bytes());
            return;
        }
        // digits of 15 bits, the lowest first
        let digits: Vec<u16> = (0..5)
            .map(|n| (value >> (15 * n)) as u16 & 0x7fff)
            .take((64 - value.leading_zeros()).div_ceil(15) as usize)
            .collect();
        out.push(b'l');
        out.extend_from_slice(&(digits.len() as i32).to_le_bytes());
        digits.iter().for_each(|digit| out.extend_from_slice(&digit.to_le_bytes()));
    }

    pub fn float(value: f64, out: &mut Vec<u8>) {
        out.push(b'g');
        out.extend_from_slice(&value.to_le_bytes());
    }

    pub fn text(value: &str, out: &mut Vec<u8>) {
        out.push(b'u');
        out.extend_from_slice(&(value.len() as i32).to_le_bytes());
        out.extend_from_slice(value.as_bytes());
    }

    pub fn tuple(n: u32, out: &mut Vec<u8>) {
        out.push(b'(');
        out.extend_from_slice(&n.to_le_bytes());
    }

    pub const DICT: u8 = b'{';
    pub const END: u8 = b'0';
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn function(module: &str, name: &str, out: &mut Vec<u8>) {
    marshal::tuple(3, out);
    marshal::text(module, out);
    marshal::int(0, out);
    marshal::text(name, out);
}

impl Pstats {
    fn named(&self, name: u32, out: &mut Vec<u8>) {
        match self.tracks.names.get(name as usize) {
            Some(name) => function(&name.module, &format!("{}/{}", name.function, name.arity), out),
            None => function("~", "?", out),
        }
    }

    fn time(&self, ns: u64, out: &mut Vec<u8>) {
        marshal::float(if self.timed { seconds(ns) } else { 0.0 }, out);
    }

    /// Writes losses as a function with this many calls.
    fn note(&self, name: &str, count: u64, out: &mut Vec<u8>) {
        if count > 0 {
            function("~", name, out);
            marshal::tuple(5, out);
            marshal::int(count, out);
            marshal::int(count, out);
            marshal::float(0.0, out);
            marshal::float(0.0, out);
            out.extend([marshal::DICT, marshal::END]);
        }
    }
}

impl Write for Pstats {
    fn begin(&mut self, tracks: Tracks, times: Times, _: &mut Vec<u8>) {
        self.tracks = tracks;
        self.timed = times.clock.is_some();
    }

    fn event(&mut self, event: &Event<'_>, at: i64, _: &mut Vec<u8>) -> io::Result<()> {
        if let What::Trace(trace) = event.what {
            self.costs.apply(&mut self.tracks, &trace, at, &mut self.book);
        }
        Ok(())
    }

    fn lost(&mut self, _: &str, dropped: Option<u64>, _: i64, _: &mut Vec<u8>) -> io::Result<()> {
        match dropped {
            Some(count) => self.dropped += count,
            None => self.damaged += 1,
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        if !self.ended {
            self.ended = true;
            self.costs.end(&mut self.book);
            self.book.edges.sort_unstable_by_key(|(edge, _)| *edge);
            out.push(marshal::DICT);
            self.note("<messages dropped>", self.dropped, out);
            self.note("<damage>", self.damaged, out);
        }
        while let Some((edge, _)) = self.book.edges.get(self.written) {
            if out.len() >= PART {
                return Ok(false);
            }
            let name = edge.0;
            let cost = self.book.functions.get(name as usize).copied().unwrap_or_default();
            self.named(name, out);
            marshal::tuple(5, out);
            marshal::int(cost.primitive, out);
            marshal::int(cost.calls, out);
            self.time(cost.own, out);
            self.time(cost.all, out);
            out.push(marshal::DICT);
            while let Some(((_, caller), cost)) = self.book.edges.get(self.written).filter(|(edge, _)| edge.0 == name) {
                if *caller != NOBODY {
                    self.named(*caller, out);
                    marshal::tuple(4, out);
                    marshal::int(cost.calls, out);
                    marshal::int(cost.primitive, out);
                    self.time(cost.own, out);
                    self.time(cost.all, out);
                }
                self.written += 1;
            }
            out.push(marshal::END);
        }
        out.push(marshal::END);
        Ok(true)
    }
}
