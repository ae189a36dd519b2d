//! The stack of calls of each process, as far as its messages show it.
//!
//! | message | effect on the tracee's stack |
//! | --- | --- |
//! | `call` | opens a frame |
//! | `return_from`, `exception_from` | closes the topmost frame of that function, and those above it, whose own end was not seen |
//! | the same without such a frame | nothing: tracing began inside the call |
//! | `return_to` after one of these | closes the frames above the topmost frame of its function, if there is one |
//! | another `return_to` | closes the topmost frame, and then does the same |
//! | `exit`, `closed` | closes all frames |
//! | `spawned`, `open` after one of these | begins another process with the same number |
//!
//! Later messages about an ended process (for example its last `out`) still belong to it, while it is one of those that ended
//! last.
//!
//! A function whose returns are not traced (its calls have no `return_trace`) has no frames but points. It is recognised when a
//! frame below closes its frame and it has never returned. In a trace without any return, all calls are points. [`Tracks::learn`]
//! finds this out beforehand, from the first part of a trace.
//!
//! Time never goes back in a process: a timestamp before the last one counts as the last one.

use crate::{
    event::{Name, Trace},
    places::{Node, Titles},
    scan::Bytes,
    text,
};
use inviso_log::about::Item;
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The largest number of frames of a process. Deeper calls are points.
const DEEP: usize = 1 << 20;

/// The largest number of ended processes that are kept.
const LATE: usize = 4096;

/// An effect of a message on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame of this function was opened.
    Open(u32),
    /// The topmost frame was closed. It was this function's.
    Close(u32, End),
    /// A call without a frame.
    Point(u32),
    /// A return without a frame.
    Unmatched(u32),
}

/// How a frame ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By a return.
    Return,
    /// By an exception.
    Exception,
    /// A frame below it ended or continued.
    Unseen,
    /// The process ended.
    Exit,
}

/// Whether a function's returns are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returns {
    Unknown,
    Seen,
    Never,
}

/// A function with its number.
#[derive(Clone, Debug)]
pub struct KnownFunction {
    /// Its module.
    pub module: Box<str>,
    /// Its name in the module.
    pub function: Box<str>,
    /// Its arity.
    pub arity: u32,
    /// `module:function/arity`.
    pub text: Box<str>,
    returns: Returns,
}

/// The state of a process.
#[derive(Debug, Default)]
pub struct Lane {
    /// Its place among all processes.
    pub number: u64,
    /// The pid or port, as text.
    pub title: String,
    /// The node that it belongs to, or belonged to: see [`Tracks::node`].
    pub node: u32,
    /// The operating system's number of a thread, if it is known.
    pub tid: Option<u64>,
    stack: Vec<u32>,
    last: i64,
    returned: bool,
    has_ended: bool,
}

/// The subject of a message.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// Its process.
    pub lane: u32,
    /// Whether this was the process's first message.
    pub is_new: bool,
    /// The time.
    pub at: i64,
}

/// The stacks of all processes.
#[derive(Debug, Default)]
pub struct Tracks {
    /// All functions by number.
    pub names: Vec<KnownFunction>,
    by_name: FxHashMap<Box<[u8]>, u32>,
    key: Vec<u8>,
    lanes: Vec<Lane>,
    by_process: FxHashMap<Box<[u8]>, u32>,
    free: Vec<u32>,
    /// Ended processes by their places among all and their pids, the latest last.
    ended: VecDeque<(u64, Box<[u8]>)>,
    count: u64,
    any_returns: bool,
    /// The effects of the last [`Tracks::apply`].
    pub steps: Vec<Step>,
    titles: Titles,
    erlang: bool,
}

impl Tracks {
    /// Creates an empty set. `titles` are names of processes. `erlang`: the pids are an Erlang node's, which has no queues.
    #[must_use]
    pub fn new(titles: Titles, erlang: bool) -> Tracks {
        Tracks { titles, erlang, ..Tracks::default() }
    }

    /// Whether pids have Erlang's numbers.
    #[must_use]
    pub fn erlang(&self) -> bool {
        self.erlang
    }

    /// The text of a pid, port or name.
    #[must_use]
    pub fn title(&self, of: Bytes<'_>) -> String {
        let text = text::who(of);
        match self.titles.get(of) {
            Some(title) => format!("{title} {text}"),
            None => text,
        }
    }

    /// The names.
    pub(crate) fn titles(&self) -> &Titles {
        &self.titles
    }

    /// See [`Titles::os`].
    pub(crate) fn os(&self, of: Bytes<'_>) -> (Option<&str>, Option<u64>, Option<u64>) {
        self.titles.os(of)
    }

    /// An operating system process.
    #[must_use]
    pub fn node(&self, place: u32) -> Option<&Node> {
        self.titles.nodes(place)
    }

    /// Adds the items after a message of this process.
    pub fn about(&mut self, of: Bytes<'_>, items: Vec<Item>) {
        self.titles.learn(of, items);
    }

    /// The number of a function.
    pub fn name(&mut self, of: Name<'_>) -> u32 {
        self.key.clear();
        self.key.extend_from_slice(&of.arity.to_le_bytes());
        self.key.extend_from_slice(&(of.module.len() as u32).to_le_bytes());
        self.key.extend_from_slice(of.module);
        self.key.extend_from_slice(of.function);
        if let Some(known) = self.by_name.get(&*self.key) {
            return *known;
        }
        let number = self.names.len() as u32;
        let (module, function) = (text::name(of.module).into(), text::name(of.function).into());
        self.names.push(KnownFunction {
            module,
            function,
            arity: of.arity,
            text: text::mfa(of).into(),
            returns: Returns::Unknown,
        });
        self.by_name.insert(self.key.as_slice().into(), number);
        number
    }

    /// The process of a pid or port, and whether it is new.
    pub fn lane(&mut self, of: Bytes<'_>) -> (u32, bool) {
        if let Some(lane) = self.by_process.get(of) {
            return (*lane, false);
        }
        let (node, tid) = self.titles.place(of);
        let new = Lane { number: self.count, title: self.title(of), node, tid, last: i64::MIN, ..Lane::default() };
        self.count += 1;
        let lane = match self.free.pop() {
            Some(lane) => lane,
            None => {
                self.lanes.push(Lane::default());
                self.lanes.len() as u32 - 1
            }
        };
        if let Some(place) = self.lanes.get_mut(lane as usize) {
            *place = new;
        }
        self.by_process.insert(of.into(), lane);
        (lane, true)
    }

    /// The state of a process.
    #[must_use]
    pub fn get(&self, lane: u32) -> Option<&Lane> {
        self.lanes.get(lane as usize)
    }

    /// The time of an event in a process: not before the one of its last event.
    pub fn moment(&mut self, lane: u32, at: i64) -> i64 {
        match self.lanes.get_mut(lane as usize) {
            Some(lane) => {
                lane.last = lane.last.max(at);
                lane.last
            }
            None => at,
        }
    }

    /// Applies a message. [`Tracks::steps`] then has the effects.
    pub fn apply(&mut self, trace: &Trace<'_>, at: i64) -> Applied {
        self.steps.clear();
        let begins = matches!(trace.kind, Some(Kind::Spawned | Kind::Open));
        if begins && self.by_process.get(trace.tracee).is_some_and(|lane| self.has_ended(*lane)) {
            self.forget(trace.tracee);
        }
        let (lane, is_new) = self.lane(trace.tracee);
        let at = self.moment(lane, at);
        let name = match trace.kind {
            Some(Kind::Call | Kind::ReturnFrom | Kind::ExceptionFrom | Kind::ReturnTo) => {
                trace.name.map(|name| self.name(name))
            }
            _ => None,
        };
        match (trace.kind, name) {
            (Some(Kind::Call), Some(name)) => self.call(lane, name),
            (Some(Kind::ReturnFrom), Some(name)) => self.returned(lane, name, End::Return),
            (Some(Kind::ExceptionFrom), Some(name)) => self.returned(lane, name, End::Exception),
            (Some(Kind::ReturnTo), name) => self.return_to(lane, name),
            (Some(Kind::Exit | Kind::Closed), _) => {
                while self.close(lane, End::Exit).is_some() {}
                self.end(lane, trace.tracee);
            }
            _ => {}
        }
        Applied { lane, is_new, at }
    }

    fn end(&mut self, lane: u32, of: Bytes<'_>) {
        let Some(lane) = self.lanes.get_mut(lane as usize).filter(|lane| !lane.has_ended) else { return };
        lane.has_ended = true;
        self.ended.push_back((lane.number, of.into()));
        if self.ended.len() > LATE {
            let Some((number, of)) = self.ended.pop_front() else { return };
            let lane = self.by_process.get(&of).and_then(|lane| self.lanes.get(*lane as usize));
            if lane.is_some_and(|lane| lane.number == number) {
                self.forget(&of);
            }
        }
    }

    /// The number of an ended process may be another one's from now on.
    fn forget(&mut self, of: Bytes<'_>) {
        self.free.extend(self.by_process.remove(of));
    }

    fn has_ended(&self, lane: u32) -> bool {
        self.lanes.get(lane as usize).is_some_and(|lane| lane.has_ended)
    }

    /// The functions of a process's open frames, from the bottom.
    #[must_use]
    pub fn stack(&self, lane: u32) -> &[u32] {
        self.lanes.get(lane as usize).map_or(&[], |lane| &lane.stack)
    }

    fn call(&mut self, lane: u32, name: u32) {
        let any_returns = self.any_returns;
        let never = self.names.get(name as usize).is_some_and(|name| name.returns == Returns::Never);
        let Some(lane) = self.lanes.get_mut(lane as usize) else { return };
        lane.returned = false;
        if never || !any_returns || lane.stack.len() >= DEEP {
            self.steps.push(Step::Point(name));
        } else {
            lane.stack.push(name);
            self.steps.push(Step::Open(name));
        }
    }

    fn returned(&mut self, lane: u32, name: u32, how: End) {
        self.note_return(name);
        let depth = self.stack(lane).iter().rposition(|open| *open == name);
        match depth {
            Some(depth) => {
                self.close_above(lane, depth + 1);
                self.close(lane, how);
            }
            None => self.steps.push(Step::Unmatched(name)),
        }
        if let Some(lane) = self.lanes.get_mut(lane as usize) {
            lane.returned = true;
        }
    }

    fn return_to(&mut self, lane: u32, name: Option<u32>) {
        self.any_returns = true;
        let returned = self.lanes.get_mut(lane as usize).is_some_and(|lane| std::mem::take(&mut lane.returned));
        if !returned {
            if let Some(name) = self.close(lane, End::Return) {
                self.note_return(name);
            }
        }
        if let Some(depth) = name.and_then(|name| self.stack(lane).iter().rposition(|open| *open == name)) {
            self.close_above(lane, depth + 1);
        }
    }

    fn note_return(&mut self, name: u32) {
        self.any_returns = true;
        if let Some(name) = self.names.get_mut(name as usize) {
            name.returns = Returns::Seen;
        }
    }

    fn close_above(&mut self, lane: u32, depth: usize) {
        while self.stack(lane).len() > depth {
            let Some(name) = self.close(lane, End::Unseen) else { return };
            self.note_missing_return(name);
        }
    }

    fn note_missing_return(&mut self, name: u32) {
        match self.names.get_mut(name as usize) {
            Some(name) if name.returns == Returns::Unknown => name.returns = Returns::Never,
            _ => {}
        }
    }

    fn close(&mut self, lane: u32, how: End) -> Option<u32> {
        let name = self.lanes.get_mut(lane as usize)?.stack.pop()?;
        self.steps.push(Step::Close(name, how));
        Some(name)
    }

    /// Learns from a message before the export begins.
    pub fn learn(&mut self, trace: &Trace<'_>) {
        let returns = matches!(trace.kind, Some(Kind::ReturnFrom | Kind::ExceptionFrom | Kind::ReturnTo));
        // messages before the first return count, too
        let any = std::mem::replace(&mut self.any_returns, true);
        self.apply(trace, 0);
        self.any_returns = any || returns;
    }

    /// Ends the learning of which functions return. A function that is open twice in a process and has never returned has no
    /// frames.
    pub fn finish_learning(&mut self) {
        let mut twice = Vec::new();
        for lane in &mut self.lanes {
            lane.stack.sort_unstable();
            twice.extend(lane.stack.windows(2).filter(|two| two.first() == two.last()).filter_map(|two| two.first()));
        }
        twice.into_iter().for_each(|name| self.note_missing_return(name));
        self.titles.forget_nodes();
        self.lanes.clear();
        self.by_process.clear();
        self.free.clear();
        self.ended.clear();
        self.steps.clear();
        self.count = 0;
    }
}
