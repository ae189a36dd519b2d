//! Answers in place of events: what a trace tells as tables with a row for each call, message, step …
//!
//! | module | table: a row for each |
//! | --- | --- |
//! | [`calls`] | `calls`: call; `profile`: function of a process |
//! | [`messages`] | `messages`: message; `channels`: where messages were sent to; `talks`: sender and receiver; `waits by …`; `depths` |
//! | [`processes`] | `processes`: thread, task or port; `functions`: function |
//! | [`steps`] | `steps`: time that a process ran without a break; `gc`: collection; `losses`: place where something is missing |
//! | [`path`] | what the time of one label was spent on |
//! | [`blockers`] | steps while which others had to wait |
//!
//! One table is made in one pass, in bounded memory but for what is open (calls, messages under way) and for what it is about (processes,
//! functions). Keys are the same in each table of one trace: that of a process is made of its pid, that of a function is its place among
//! the functions that the trace names.
//!
//! Times: nanoseconds of the clock of the first message that has a stamp. Where that is the time of day, columns of time have it; where it is
//! monotonic, those of `…_mono_ns` have it, and those of time only if it is known by how much the two differ. A message of another clock
//! counts as one without a time, whose cells of time are null.

mod blockers;
mod calls;
mod messages;
mod path;
mod processes;
mod sheet;
mod state;
mod steps;

use crate::{
    event::{Event, What},
    export::{learn_about, unread, with_plain, Summary, Take},
    places::Titles,
    table::{Batch, Type},
};
use sheet::Sheet;
use state::{Moment, State};
use std::collections::VecDeque;

/// Bytes of messages that are looked at before the first row is made: which functions' returns are traced is known then.
const LEARN: usize = 4 << 20;

/// Something that makes the rows of one table.
trait Rows: Send {
    /// A message.
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet);
    /// Here something is missing: so many messages, or what the text says.
    fn lost(&mut self, _count: u64, _text: &str, _state: &mut State, _sheet: &mut Sheet) {}
    /// There is no more.
    fn end(&mut self, state: &mut State, sheet: &mut Sheet);
}

/// What an analysis is asked for besides the table.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of text of a value at most; 0 for none.
    pub values: usize,
    /// Pids are an Erlang node's, none of which is a queue.
    pub erlang: bool,
    /// What is added to monotonic time for the time of day, if it is known.
    pub wall: Option<i64>,
    /// The label, as Python shows it, for the tables that are about one.
    pub label: Option<String>,
    /// The key of what a table is about: a channel, or the process where a path ends; None for all, or for the last one.
    pub of: Option<i64>,
    /// The shortest step that may hold others up, in nanoseconds.
    pub shortest: i64,
}

impl Default for Options {
    fn default() -> Options {
        Options { values: 200, erlang: false, wall: None, label: None, of: None, shortest: 0 }
    }
}

/// The columns of a table; None for an unknown one.
#[must_use]
pub fn fields(table: &str) -> Option<&'static [(&'static str, Type)]> {
    Some(match table {
        "calls" => calls::CALLS,
        "profile" => calls::PROFILE,
        "messages" => messages::MESSAGES,
        "channels" => messages::CHANNELS,
        "talks" => messages::TALKS,
        "waits by channel" | "waits by sender" | "waits by receiver" => messages::WAITS,
        "depths" => messages::DEPTHS,
        "processes" => processes::PROCESSES,
        "functions" => processes::FUNCTIONS,
        "steps" => steps::STEPS,
        "gc" => steps::GC,
        "losses" => steps::LOSSES,
        "path" => path::PATH,
        "blockers" => blockers::BLOCKERS,
        _ => return None,
    })
}

/// A table in the making.
///
/// ```
/// use inviso_export::{analysis::{Analysis, Options}, export::Take, places::Titles, table::Data};
/// use inviso_term::{etf, term::{Identifier, Term}};
///
/// let message = |tag: &str, more: Vec<Term>, at: i64| {
///     let mfa = Term::Tuple(vec![Term::atom("shop"), Term::atom("order"), Term::from(1)]);
///     let head = vec![Term::atom("trace_ts"), Term::Pid(Identifier::own(4)), Term::atom(tag), mfa];
///     etf::encode_versioned(&Term::Tuple([head, more, vec![Term::from(at)]].concat()))
/// };
/// let mut calls = Analysis::new("calls", Titles::default(), Options::default()).unwrap();
/// calls.term(&message("call", vec![], 100));
/// calls.term(&message("return_from", vec![Term::from(7)], 150));
/// calls.end();
/// let batch = calls.batch().unwrap();
/// let column = calls.fields().iter().position(|(name, _)| *name == "duration_ns").unwrap();
/// let Data::Int64(durations) = &batch.columns[column].data else { panic!() };
/// assert_eq!((batch.rows, durations[0]), (1, 50));
/// ```
pub struct Analysis {
    fields: &'static [(&'static str, Type)],
    rows: Box<dyn Rows>,
    sheet: Sheet,
    state: State,
    /// Messages that are looked at first; None when that is done.
    first: Option<(VecDeque<First>, usize)>,
    ended: bool,
    /// What was read.
    pub summary: Summary,
}

enum First {
    Term(Vec<u8>),
    Dropped(u64),
    Damage(String),
}

impl Analysis {
    /// Nothing was read yet; None for an unknown table. `titles` are names of processes.
    #[must_use]
    pub fn new(table: &str, titles: Titles, options: Options) -> Option<Analysis> {
        let rows: Box<dyn Rows> = match table {
            "calls" => Box::new(calls::Calls::default()),
            "profile" => Box::new(calls::Profile::default()),
            "processes" => Box::new(processes::Processes::default()),
            "functions" => Box::new(processes::Functions),
            "steps" => Box::new(steps::Steps::default()),
            "gc" => Box::new(steps::Collections::default()),
            "losses" => Box::new(steps::Losses),
            "path" => Box::new(path::Path::new(options.label.clone().unwrap_or_default(), options.of)),
            "blockers" => Box::new(blockers::Blockers::new(&options)),
            _ => Box::new(messages::Messages::new(table, &options)?),
        };
        let fields = fields(table)?;
        Some(Analysis {
            fields,
            rows,
            sheet: Sheet::new(fields),
            state: State::new(titles, options),
            first: Some((VecDeque::new(), 0)),
            ended: false,
            summary: Summary::default(),
        })
    }

    /// The columns.
    #[must_use]
    pub fn fields(&self) -> &'static [(&'static str, Type)] {
        self.fields
    }

    /// Whether there are enough rows for a batch.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.sheet.is_full()
    }

    /// The rows that there are; None if there is none.
    pub fn batch(&mut self) -> Option<Batch> {
        self.sheet.batch()
    }

    /// There is no more to be read.
    pub fn end(&mut self) {
        self.learned();
        if !std::mem::replace(&mut self.ended, true) {
            self.rows.end(&mut self.state, &mut self.sheet);
        }
    }

    /// What was looked at first is taken now.
    fn learned(&mut self) {
        let Some((first, _)) = self.first.take() else { return };
        self.state.tracks.learned();
        for record in first {
            match record {
                First::Term(bytes) => self.term(&bytes),
                First::Dropped(count) => self.dropped(count),
                First::Damage(text) => self.damage(&text),
            }
        }
    }

    fn look_first(&mut self, record: First) {
        let Some((first, bytes)) = &mut self.first else { return };
        *bytes += match &record {
            First::Term(term) => term.len(),
            First::Dropped(_) | First::Damage(_) => 8,
        };
        first.push_back(record);
        if *bytes >= LEARN {
            self.learned();
        }
    }

    fn missing(&mut self, count: u64, text: &str) {
        self.rows.lost(count, text, &mut self.state, &mut self.sheet);
    }
}

impl Take for Analysis {
    #[inline]
    fn term(&mut self, bytes: &[u8]) {
        learn_about(bytes, |of, items| self.state.tracks.about(of, items));
        if self.first.is_some() {
            with_plain(bytes, |bytes| self.state.learn(bytes));
            return self.look_first(First::Term(bytes.to_vec()));
        }
        with_plain(bytes, |bytes| {
            let Some(event) = Event::parse(bytes) else { return self.damage(&unread(bytes)) };
            if let What::Dropped(count) = event.what {
                return self.dropped(count);
            }
            self.summary.messages += 1;
            let at = self.state.moment(&event, &mut self.summary);
            self.rows.event(&event, at, &mut self.state, &mut self.sheet);
        });
    }

    fn dropped(&mut self, count: u64) {
        if self.first.is_some() {
            return self.look_first(First::Dropped(count));
        }
        self.summary.dropped += count;
        self.missing(count, "lost");
    }

    fn damage(&mut self, text: &str) {
        if self.first.is_some() {
            return self.look_first(First::Damage(text.to_owned()));
        }
        self.summary.note(text);
        self.missing(0, text);
    }
}
