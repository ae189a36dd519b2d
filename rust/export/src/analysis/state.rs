//! The state that all tables share: the trace's clock, processes and functions.

use super::{Options, Sheet};
use crate::{
    event::{Clock, Event, Name, Trace, What},
    export::Summary,
    places::Titles,
    scan::{Bytes, Identity},
    text,
    tracks::{Applied, Tracks},
};
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// The time of an event, in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time. A message without a timestamp has that of the last message with one.
    pub at: i64,
    /// Whether the message has a timestamp of its own.
    pub is_known: bool,
}

/// The low bits of a process's key. The place of its node is above them.
const NODE: u32 = 48;

/// The bit of a port.
const PORT: i64 = 1 << 47;

/// The class of a process or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A thread, or any Erlang process.
    Thread,
    /// A task.
    Task,
    /// A queue, future, executor or event loop.
    Queue,
    /// A port.
    Port,
    /// A registered name.
    Name,
}

impl Class {
    /// Its word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Class::Thread => "thread",
            Class::Task => "task",
            Class::Queue => "queue",
            Class::Port => "port",
            Class::Name => "name",
        }
    }
}

/// The state so far.
pub struct State {
    /// The functions, and each process's stack of calls.
    pub tracks: Tracks,
    /// The options of the table.
    pub options: Options,
    clock: Option<Clock>,
    last: i64,
    nodes: Vec<(Box<[u8]>, u32, Box<str>)>,
    names: FxHashMap<Box<[u8]>, i64>,
    /// A buffer for text.
    shown: String,
}

impl State {
    pub fn new(titles: Titles, options: Options) -> State {
        State {
            tracks: Tracks::new(titles, options.erlang),
            options,
            clock: None,
            last: 0,
            nodes: Vec::new(),
            names: FxHashMap::default(),
            shown: String::new(),
        }
    }

    /// Learns from a message before the first row.
    pub fn learn(&mut self, bytes: Bytes<'_>) {
        if let Some(Event { what: What::Trace(trace), .. }) = Event::parse(bytes) {
            self.tracks.learn(&trace);
        }
    }

    /// The time of a message.
    #[inline]
    pub fn moment(&mut self, event: &Event<'_>, summary: &mut Summary) -> Moment {
        match event.stamp {
            Some(stamp) if *self.clock.get_or_insert(stamp.clock) == stamp.clock => {
                self.last = stamp.at;
                Moment { at: stamp.at, is_known: true }
            }
            _ => {
                summary.untimed += 1;
                Moment { at: self.last, is_known: false }
            }
        }
    }

    /// The last time.
    pub fn now(&self) -> Option<i64> {
        self.clock.map(|_| self.last)
    }

    /// Numbers the functions of a message. Each table with functions calls it for each message, so that the numbers are the same.
    #[inline]
    pub fn note(&mut self, trace: &Trace<'_>) {
        if let (Some(Kind::Spawn | Kind::Spawned | Kind::In | Kind::Out | Kind::OutExited), Some(name)) =
            (trace.kind, trace.name)
        {
            self.tracks.name(name);
        }
    }

    /// Applies a message to the stack of its process.
    #[inline]
    pub fn apply(&mut self, trace: &Trace<'_>, at: i64) -> Applied {
        self.note(trace);
        self.tracks.apply(trace, at)
    }

    /// The number of a function.
    pub fn function(&mut self, name: Name<'_>) -> i64 {
        i64::from(self.tracks.name(name))
    }

    /// The key of a process, queue, port or registered name.
    #[inline]
    pub fn key(&mut self, of: Bytes<'_>) -> i64 {
        match Identity::of(of) {
            Some(of) => self.key_of(&of),
            None => self.name_key(of),
        }
    }

    #[inline]
    fn key_of(&mut self, of: &Identity<'_>) -> i64 {
        let port = if of.is_port { PORT } else { 0 };
        (self.node(of) as i64) << NODE | port | (of.id & (PORT as u64 - 1)) as i64
    }

    #[cold]
    fn name_key(&mut self, of: Bytes<'_>) -> i64 {
        let next = -1 - self.names.len() as i64;
        *self.names.entry(of.into()).or_insert(next)
    }

    #[inline]
    fn node(&mut self, of: &Identity<'_>) -> usize {
        let is = |known: &(Box<[u8]>, u32, Box<str>)| known.1 == of.creation && *known.0 == *of.node;
        match self.nodes.iter().position(is) {
            Some(at) => at,
            None => {
                let mut text = text::name(of.node).into_owned();
                // another start of a node with the same name is another node
                let starts = self.nodes.iter().filter(|known| *known.0 == *of.node).count();
                if starts > 0 {
                    let _ = write!(text, " ({})", starts + 1);
                }
                self.nodes.push((of.node.into(), of.creation, text.into()));
                self.nodes.len() - 1
            }
        }
    }

    /// The class of a pid or name.
    pub fn class(&self, of: Bytes<'_>) -> Class {
        match Identity::of(of) {
            None => Class::Name,
            Some(of) if of.is_port => Class::Port,
            Some(_) if self.options.erlang => Class::Thread,
            Some(of) => match of.id & 3 {
                0 => Class::Thread,
                1 => Class::Task,
                2 => Class::Queue,
                _ => Class::Port,
            },
        }
    }

    /// The name of a process key's node.
    pub fn node_of(&self, key: i64) -> &str {
        let at = usize::try_from(key >> NODE).ok();
        at.and_then(|at| self.nodes.get(at)).map_or("", |(_, _, text)| text)
    }

    /// A value as Python shows it, up to the longest length in the options.
    pub fn show(&mut self, value: Bytes<'_>) -> &str {
        self.shown.clear();
        if self.options.values > 0 {
            text::show(value, self.options.values, &mut self.shown);
        }
        &self.shown
    }

    /// Sets the cells of a time: the wall time, and the monotonic time in the next column.
    #[inline]
    pub fn put_time(&self, sheet: &mut Sheet, column: usize, at: Option<i64>) {
        let Some(at) = at else { return };
        match self.clock {
            Some(Clock::Wall) => sheet.int(column, at),
            _ => {
                sheet.int(column, self.options.wall.map(|wall| at.saturating_add(wall)));
                sheet.int(column + 1, at);
            }
        }
    }
}
