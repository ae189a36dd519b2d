//! Arrows from sendings of messages to their receipts.

use crate::{
    event::{Seq, Trace},
    pairs::Pairs,
};
use inviso_term::record::Kind;

/// The largest number of pending messages.
const UNDER_WAY: usize = 1 << 16;

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The beginning.
    Begin(u64),
    /// The end.
    End(u64),
}

/// The pending messages.
#[derive(Debug)]
pub struct Flows(Pairs<()>);

impl Default for Flows {
    fn default() -> Flows {
        Flows::new(false)
    }
}

impl Flows {
    /// Creates an empty set. `erlang`: the pids are an Erlang node's, which has no queues.
    #[must_use]
    pub fn new(erlang: bool) -> Flows {
        Flows(Pairs::new(UNDER_WAY, erlang))
    }

    /// The arrow's end of a message about a tracee.
    pub fn of_trace(&mut self, trace: &Trace<'_>) -> Option<Flow> {
        match trace.kind {
            Some(Kind::Send) => {
                let place = self.0.sent(trace, ())?;
                self.begin(place)
            }
            Some(Kind::Receive) if trace.number.is_some() => end(self.0.numbered(trace)),
            Some(Kind::Receive) => end(self.0.alike(trace.tracee, trace.value?)),
            _ => None,
        }
    }

    /// The arrow's end of a message about a token.
    pub fn of_seq(&mut self, seq: &Seq<'_>) -> Option<Flow> {
        match seq.word {
            b"send" => {
                let place = self.0.sent_with(seq, ())?;
                self.begin(place)
            }
            b"receive" => end(self.0.with(seq)),
            _ => None,
        }
    }

    fn begin(&mut self, place: u64) -> Option<Flow> {
        while self.0.forget(false).is_some() {}
        Some(Flow::Begin(place + 1)) // arrows are numbered from 1
    }
}

fn end(found: Option<(u64, ())>) -> Option<Flow> {
    found.map(|(place, ())| Flow::End(place + 1))
}
