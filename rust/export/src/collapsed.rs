//! Collapsed stacks, one per line: `bottom;…;top value`, the input of flame graphs.
//!
//! The value is own time in nanoseconds, summed over all processes. If messages have no timestamps, it is the number of calls.
//! Memory holds a tree of all stacks.

use crate::{
    costs::{Costs, Ledger},
    event::{Event, What},
    export::{Times, Write},
    tracks::Tracks,
};
use rustc_hash::FxHashMap;
use std::io::{self, Write as _};

/// Bytes of one part of the output.
const PART: usize = 1 << 20;

/// The writer.
pub struct Collapsed {
    tracks: Tracks,
    costs: Costs,
    tree: Tree,
    lost: Vec<(String, u64)>,
    ended: bool,
    written: usize,
}

#[derive(Default)]
struct Tree {
    nodes: Vec<StackNode>,
    children: FxHashMap<(u32, u32), u32>,
    /// Whether the values are numbers of calls, because there are no times.
    counts: bool,
}

struct StackNode {
    below: u32,
    name: u32,
    value: u64,
}

const ROOT: u32 = u32::MAX;

impl Ledger for Tree {
    fn begin_call(&mut self, below: Option<u32>, name: u32) -> u32 {
        let below = below.unwrap_or(ROOT);
        let next = self.nodes.len() as u32;
        let call = *self.children.entry((below, name)).or_insert(next);
        if call == next {
            self.nodes.push(StackNode { below, name, value: 0 });
        }
        if self.counts {
            self.add(call, 1);
        }
        call
    }

    fn own(&mut self, call: u32, time: u64) {
        if !self.counts {
            self.add(call, time);
        }
    }

    fn end_call(&mut self, _: Option<u32>, _: u32, _: u64, _: bool, _: bool) {}
}

impl Tree {
    fn add(&mut self, call: u32, value: u64) {
        if let Some(node) = self.nodes.get_mut(call as usize) {
            node.value += value;
        }
    }
}

impl Default for Collapsed {
    fn default() -> Self {
        let (tracks, costs, tree) = (Tracks::default(), Costs::default(), Tree::default());
        Collapsed { tracks, costs, tree, lost: Vec::new(), ended: false, written: 0 }
    }
}

/// Writes a frame's name so that it can't look like the end of a frame.
fn frame(text: &str, out: &mut Vec<u8>) {
    out.extend(text.bytes().map(|byte| match byte {
        b';' => b',',
        byte if byte < b' ' => b' ',
        byte => byte,
    }));
}

impl Collapsed {
    fn line(&self, node: &StackNode, out: &mut Vec<u8>) {
        let mut names = vec![node.name];
        let mut below = node.below;
        while let Some(node) = self.tree.nodes.get(below as usize) {
            names.push(node.name);
            below = node.below;
        }
        for (n, name) in names.iter().rev().enumerate() {
            if n > 0 {
                out.push(b';');
            }
            frame(self.tracks.names.get(*name as usize).map_or("?", |name| &name.text), out);
        }
        let _ = writeln!(out, " {}", node.value);
    }
}

impl Write for Collapsed {
    fn begin(&mut self, tracks: Tracks, times: Times, _: &mut Vec<u8>) {
        self.tracks = tracks;
        self.tree.counts = times.clock.is_none();
    }

    fn event(&mut self, event: &Event<'_>, at: i64, _: &mut Vec<u8>) -> io::Result<()> {
        if let What::Trace(trace) = event.what {
            self.costs.apply(&mut self.tracks, &trace, at, &mut self.tree);
        }
        Ok(())
    }

    fn lost(&mut self, text: &str, dropped: Option<u64>, _: i64, _: &mut Vec<u8>) -> io::Result<()> {
        let text = if dropped.is_some() { "messages dropped" } else { text };
        let count = dropped.unwrap_or(1);
        if let Some((_, known)) = self.lost.iter_mut().find(|(name, _)| name == text) {
            *known += count;
        } else if self.lost.len() < 100 {
            self.lost.push((text.to_owned(), count));
        }
        Ok(())
    }

    /// Losses come first, each as a stack of its own of value 1: `[17 messages dropped]`.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        if !self.ended {
            self.ended = true;
            self.costs.end(&mut self.tree);
            for (text, count) in &self.lost {
                out.push(b'[');
                let text = match (&**text, count) {
                    ("messages dropped", 1) => "1 message dropped".to_owned(),
                    ("messages dropped", count) => format!("{count} messages dropped"),
                    (text, _) => text.to_owned(),
                };
                frame(&text, out);
                out.extend_from_slice(b"] 1\n");
            }
        }
        while let Some(node) = self.tree.nodes.get(self.written) {
            if out.len() >= PART {
                return Ok(false);
            }
            if node.value > 0 {
                self.line(node, out);
            }
            self.written += 1;
        }
        Ok(true)
    }
}
