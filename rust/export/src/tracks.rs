//! What each process is in the middle of, as far as its messages tell: a stack of calls.
//!
//! | message | what it does to the tracee's stack |
//! | --- | --- |
//! | `call` | opens a frame |
//! | `return_from`, `exception_from` | closes the topmost frame of that function, and those above it, whose own end was not seen |
//! | the same, no such frame | nothing: tracing began inside |
//! | `return_to` behind one of these | closes what is above the topmost frame of the function that it names, if there is one |
//! | any other `return_to` | closes the topmost frame, and then the same |
//! | `exit`, `closed` | closes all |
//! | `spawned`, `open`, behind one of these | another process of the same number begins |
//!
//! What else is told of a process that has ended (that it was scheduled out for ever, say) is still its own, while it is one of the
//! latest that have ended.
//!
//! A function that never returns as far as one can see (its calls have no `return_trace`) has no frames but points: once it was closed by a frame below it
//! without ever having returned. In a trace without any return, all calls are points. [`Tracks::learn`] finds this out beforehand,
//! in the first part of a trace.
//!
//! Time goes only forwards in a process: a stamp before its last one is taken for that.

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

/// Frames of a process at most. Deeper calls are points.
const DEEP: usize = 1 << 20;

/// Processes that have ended and are still known, at most.
const LATE: usize = 4096;

/// What a message did to a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame of this function was opened.
    Open(u32),
    /// The topmost frame was closed; it was this function's.
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
    /// Something below it ended, or went on.
    Unseen,
    /// The process ended.
    Exit,
}

/// Whether a function's returns are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returns {
    Unknown,
    Seen,
    Never,
}

/// A function that is known by a number.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its module.
    pub module: Box<str>,
    /// Its name there.
    pub function: Box<str>,
    /// Its arity.
    pub arity: u32,
    /// `module:function/arity`.
    pub text: Box<str>,
    returns: Returns,
}

/// What a process is in the middle of.
#[derive(Debug, Default)]
pub struct Lane {
    /// Its place among all processes.
    pub number: u64,
    /// The pid or port, as text.
    pub title: String,
    /// The node that it is of, or was: see [`Tracks::node`].
    pub node: u32,
    /// The operating system's number of a thread, where it is known.
    pub tid: Option<u64>,
    stack: Vec<u32>,
    last: i64,
    returned: bool,
    has_ended: bool,
}

/// What a message was about.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Whose it was.
    pub lane: u32,
    /// Whether this was its first.
    pub is_new: bool,
    /// When.
    pub at: i64,
}

/// The stacks of all processes.
#[derive(Debug, Default)]
pub struct Tracks {
    /// All functions by number.
    pub names: Vec<Known>,
    by_name: FxHashMap<Box<[u8]>, u32>,
    key: Vec<u8>,
    lanes: Vec<Lane>,
    by_process: FxHashMap<Box<[u8]>, u32>,
    free: Vec<u32>,
    /// Those that have ended, by their places among all and their pids, the latest last.
    ended: VecDeque<(u64, Box<[u8]>)>,
    count: u64,
    any_returns: bool,
    /// What [`Tracks::take`] did.
    pub steps: Vec<Step>,
    titles: Titles,
    erlang: bool,
}

impl Tracks {
    /// No process yet. `titles` are names of some; `erlang`: they are an Erlang node's, none of which is a queue.
    #[must_use]
    pub fn new(titles: Titles, erlang: bool) -> Tracks {
        Tracks { titles, erlang, ..Tracks::default() }
    }

    /// Whether pids are numbered as Erlang does.
    #[must_use]
    pub fn erlang(&self) -> bool {
        self.erlang
    }

    /// The text of a pid or port, or of a name.
    #[must_use]
    pub fn title(&self, of: Bytes<'_>) -> String {
        let text = text::who(of);
        match self.titles.get(of) {
            Some(title) => format!("{title} {text}"),
            None => text,
        }
    }

    /// Who is who.
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

    /// What a program has written of itself behind a message about this process of it.
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
        self.names.push(Known {
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

    /// What is known of a process.
    #[must_use]
    pub fn get(&self, lane: u32) -> Option<&Lane> {
        self.lanes.get(lane as usize)
    }

    /// When something happened in a process: not before what came before it.
    pub fn moment(&mut self, lane: u32, at: i64) -> i64 {
        match self.lanes.get_mut(lane as usize) {
            Some(lane) => {
                lane.last = lane.last.max(at);
                lane.last
            }
            None => at,
        }
    }

    /// What a message does; [`Tracks::steps`] has it then.
    pub fn take(&mut self, trace: &Trace<'_>, at: i64) -> Taken {
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
        Taken { lane, is_new, at }
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

    /// The number of a process that has ended goes to another one.
    fn forget(&mut self, of: Bytes<'_>) {
        self.free.extend(self.by_process.remove(of));
    }

    fn has_ended(&self, lane: u32) -> bool {
        self.lanes.get(lane as usize).is_some_and(|lane| lane.has_ended)
    }

    /// The functions that are open in a process, from the bottom.
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
        self.seen(name);
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
                self.seen(name);
            }
        }
        if let Some(depth) = name.and_then(|name| self.stack(lane).iter().rposition(|open| *open == name)) {
            self.close_above(lane, depth + 1);
        }
    }

    fn seen(&mut self, name: u32) {
        self.any_returns = true;
        if let Some(name) = self.names.get_mut(name as usize) {
            name.returns = Returns::Seen;
        }
    }

    fn close_above(&mut self, lane: u32, depth: usize) {
        while self.stack(lane).len() > depth {
            let Some(name) = self.close(lane, End::Unseen) else { return };
            self.unseen(name);
        }
    }

    fn unseen(&mut self, name: u32) {
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

    /// Looks at a message before the export begins.
    pub fn learn(&mut self, trace: &Trace<'_>) {
        let returns = matches!(trace.kind, Some(Kind::ReturnFrom | Kind::ExceptionFrom | Kind::ReturnTo));
        // so that what comes before the first return is seen too
        let any = std::mem::replace(&mut self.any_returns, true);
        self.take(trace, 0);
        self.any_returns = any || returns;
    }

    /// What was learned is kept: which functions return. A function that is open twice in a process and has never returned has no frames.
    pub fn learned(&mut self) {
        let mut twice = Vec::new();
        for lane in &mut self.lanes {
            lane.stack.sort_unstable();
            twice.extend(lane.stack.windows(2).filter(|two| two.first() == two.last()).filter_map(|two| two.first()));
        }
        twice.into_iter().for_each(|name| self.unseen(name));
        self.titles.leave();
        self.lanes.clear();
        self.by_process.clear();
        self.free.clear();
        self.ended.clear();
        self.steps.clear();
        self.count = 0;
    }
}
