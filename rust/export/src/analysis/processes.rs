//! The processes and functions of a trace.

use super::{state::Class, Moment, Rows, Sheet, State};
use crate::{
    event::{Event, Trace, What},
    scan::{Bytes, Identity, Scan},
    table::Type,
    text,
};
use inviso_log::about::Function;
use inviso_term::record::Kind;
use rustc_hash::FxHashMap;
use std::fmt::Write;

pub const PROCESSES: &[(&str, Type)] = &[
    ("process_id", Type::Int64),
    ("node", Type::Names),
    ("pid", Type::Text),
    ("name", Type::Text),
    ("kind", Type::Names),
    ("program", Type::Names),
    ("os_pid", Type::Int64),
    ("os_tid", Type::Int64),
    ("parent_id", Type::Int64),
    ("function_id", Type::Int64),
    ("started", Type::Time),
    ("started_mono_ns", Type::Int64),
    ("ended", Type::Time),
    ("ended_mono_ns", Type::Int64),
    ("exit", Type::Text),
    ("links", Type::Text),
    ("events", Type::Int64),
];

pub const FUNCTIONS: &[(&str, Type)] = &[
    ("function_id", Type::Int64),
    ("module", Type::Names),
    ("name", Type::Text),
    ("arity", Type::Int64),
    ("kind", Type::Names),
    ("file", Type::Names),
    ("line", Type::Int64),
];

/// A process, queue or port.
struct ProcessFacts {
    /// Its pid.
    of: Box<[u8]>,
    pid: Box<str>,
    /// The first name that it was registered under.
    registered: Box<str>,
    class: Class,
    parent: Option<i64>,
    function: Option<i64>,
    started: Option<i64>,
    ended: Option<i64>,
    exit: Option<Box<str>>,
    links: Vec<i64>,
    events: i64,
}

/// Builds the table of processes.
#[derive(Default)]
pub struct Processes {
    places: FxHashMap<i64, usize>,
    all: Vec<(i64, ProcessFacts)>,
}

impl Processes {
    fn known(&mut self, of: Bytes<'_>, state: &mut State) -> Option<(i64, &mut ProcessFacts)> {
        Identity::of(of)?;
        let key = state.key(of);
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None => {
                let class = state.class(of);
                let known = ProcessFacts {
                    of: of.into(),
                    pid: text::who(of).into(),
                    registered: "".into(),
                    class,
                    parent: None,
                    function: None,
                    started: None,
                    ended: None,
                    exit: None,
                    links: Vec::new(),
                    events: 0,
                };
                self.places.insert(key, self.all.len());
                self.all.push((key, known));
                self.all.len() - 1
            }
        };
        self.all.get_mut(at).map(|(key, known)| (*key, known))
    }

    fn trace(&mut self, trace: &Trace<'_>, at: Option<i64>, state: &mut State) {
        state.note(trace);
        let function = trace.name.filter(|_| matches!(trace.kind, Some(Kind::Spawn | Kind::Spawned)));
        let function = function.map(|name| state.function(name));
        let other = trace.other.map(|other| state.key(other));
        let word = trace.value.map(|value| state.show(value).to_owned());
        if trace.kind == Some(Kind::Spawn) {
            let parent = state.key(trace.tracee);
            if let Some((_, known)) = trace.other.and_then(|other| self.known(other, state)) {
                (known.parent, known.started) = (Some(parent), known.started.or(at));
                known.function = known.function.or(function);
            }
        }
        let Some((_, known)) = self.known(trace.tracee, state) else { return };
        known.events += 1;
        match trace.kind {
            Some(Kind::Spawned) => {
                (known.parent, known.function) = (other, function.or(known.function));
                known.started = at.or(known.started);
            }
            Some(Kind::Open) => (known.parent, known.started) = (other, at),
            Some(Kind::Exit | Kind::Closed) => (known.ended, known.exit) = (at, word.map(String::into_boxed_str)),
            Some(Kind::Register) if known.registered.is_empty() => {
                let name = trace.value.and_then(|value| Scan(value).name());
                known.registered = text::name(name.unwrap_or_default()).into();
            }
            Some(Kind::Link | Kind::GettingLinked) => known.links.extend(other.filter(|it| !known.links.contains(it))),
            Some(Kind::Unlink | Kind::GettingUnlinked) => known.links.retain(|link| Some(*link) != other),
            _ => {}
        }
    }
}

impl Rows for Processes {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, _: &mut Sheet) {
        match event.what {
            What::Trace(trace) => {
                self.trace(&trace, at.is_known.then_some(at.at), state);
                if let (Some(Kind::Send), Some(to)) = (trace.kind, trace.other) {
                    self.known(to, state);
                }
            }
            What::Seq(seq) => {
                for of in [seq.from, seq.to].into_iter().flatten() {
                    self.known(of, state);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        for (key, known) in self.all.drain(..) {
            sheet.int(0, key);
            sheet.name(1, state.node_of(key));
            sheet.text(2, &known.pid);
            // a log may name a process after its events
            let name = state.tracks.titles().get(&known.of).unwrap_or(&known.registered);
            if !name.is_empty() {
                sheet.text(3, name);
            }
            sheet.name(4, known.class.word());
            let (program, os_pid, os_tid) = state.tracks.os(&known.of);
            if let Some(program) = program {
                sheet.name(5, program);
            }
            sheet.int(6, os_pid.map(|pid| pid as i64));
            sheet.int(7, os_tid.map(|tid| tid as i64));
            sheet.int(8, known.parent);
            sheet.int(9, known.function);
            state.put_time(sheet, 10, known.started);
            state.put_time(sheet, 12, known.ended);
            if let Some(exit) = &known.exit {
                sheet.text(14, exit);
            }
            let mut links = String::new();
            for link in &known.links {
                let _ = write!(links, "{}{link}", if links.is_empty() { "[" } else { ", " });
            }
            sheet.text(
                15,
                if links.is_empty() {
                    "[]"
                } else {
                    links.push(']');
                    &links
                },
            );
            sheet.int(16, known.events);
            sheet.next();
        }
    }
}

/// Builds the table of functions.
pub struct Functions;

impl Rows for Functions {
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, _: &mut Sheet) {
        if let What::Trace(trace) = event.what {
            state.apply(&trace, at.at);
        }
    }

    fn end(&mut self, state: &mut State, sheet: &mut Sheet) {
        for (number, known) in state.tracks.names.iter().enumerate() {
            sheet.int(0, number as i64);
            sheet.name(1, &known.module);
            sheet.text(2, &known.function);
            sheet.int(3, i64::from(known.arity));
            let facts = state.tracks.titles().function(&known.module, &known.function, known.arity);
            if let Some(Function { is_c, source: (file, line), .. }) = facts {
                sheet.name(4, if *is_c { "c" } else { "python" });
                if *line > 0 {
                    sheet.name(5, file);
                    sheet.int(6, i64::from(*line));
                }
            }
            sheet.next();
        }
    }
}
