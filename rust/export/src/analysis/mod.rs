//! Tables of answers instead of events: a row for each call, message, step …
//!
//! | module | table: a row for each |
//! | --- | --- |
//! | [`calls`] | `calls`: a call; `profile`: a function of a process |
//! | [`messages`] | `messages`: a message; `channels`: a destination; `talks`: a sender and a receiver; `waits by …`; `depths` |
//! | [`message_rows`] | no table of its own: the rows of the tables of [`messages`] |
//! | [`processes`] | `processes`: a thread, task or port; `functions`: a function |
//! | [`steps`] | `steps`: a time that a process ran without a break; `gc`: a collection; `losses`: a gap in the trace |
//! | [`path`] | a part of the time of one label |
//! | [`blockers`] | a step that made others wait |
//! | [`sheet`] | no table of its own: the cells and rows of a table that is being built |
//! | [`state`] | no table of its own: the clock, processes and functions that all tables share |
//!
//! One pass builds one table. Memory is bounded except for open calls, pending messages, processes and functions. All tables of
//! one trace have the same keys: a process's key is made of its pid, a function's key is its place among the trace's functions.
//!
//! Times are nanoseconds of the clock of the first message with a timestamp. If that is the wall clock, it fills the columns of
//! time. If it is monotonic, it fills the columns `…_mono_ns`, and the columns of time only if the difference of the two clocks
//! is known. A message of another clock counts as one without a time: its cells of time are null.

mod blockers;
mod calls;
mod message_rows;
mod messages;
mod path;
mod processes;
mod sheet;
mod state;
mod steps;

use crate::{
    event::{Event, What},
    export::{learn_about, unreadable, with_plain, Summary, Take},
    places::Titles,
    table::{Batch, Type},
};
use sheet::Sheet;
use state::{Moment, State};
use std::collections::VecDeque;

/// Bytes of messages that are read before the first row, to learn which functions' returns are traced.
const LEARN: usize = 4 << 20;

/// A builder of the rows of one table.
trait Rows: Send {
    /// Adds a message.
    fn event(&mut self, event: &Event<'_>, at: Moment, state: &mut State, sheet: &mut Sheet);
    /// Adds a gap: this many messages, or the text's.
    fn lost(&mut self, _count: u64, _text: &str, _state: &mut State, _sheet: &mut Sheet) {}
    /// Ends the table.
    fn end(&mut self, state: &mut State, sheet: &mut Sheet);
}

/// Options of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest text of a value, in bytes; 0 for no values.
    pub values: usize,
    /// Whether the pids are an Erlang node's, which has no queues.
    pub erlang: bool,
    /// The wall time at monotonic time 0, if it is known.
    pub wall: Option<i64>,
    /// The label as Python shows it, for the tables of one label.
    pub label: Option<String>,
    /// The key that a table is about: a channel, or the process where a path ends. None: all channels, or the last process.
    pub of: Option<i64>,
    /// The shortest step that counts as a blocker, in nanoseconds.
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
        "messages" => message_rows::MESSAGES,
        "channels" => message_rows::CHANNELS,
        "talks" => message_rows::TALKS,
        "waits by channel" | "waits by sender" | "waits by receiver" => message_rows::WAITS,
        "depths" => message_rows::DEPTHS,
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

/// A table that is being built.
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
    /// Messages to learn from before the first row; None after that.
    first: Option<(VecDeque<First>, usize)>,
    ended: bool,
    /// The counts of the input.
    pub summary: Summary,
}

enum First {
    Term(Vec<u8>),
    Dropped(u64),
    Damage(String),
}

impl Analysis {
    /// Creates an empty table; None for an unknown one. `titles` are names of processes.
    #[must_use]
    pub fn new(table: &str, titles: Titles, options: Options) -> Option<Analysis> {
        let rows: Box<dyn Rows> = match table {
            "calls" => Box::new(calls::Calls::default()),
            "profile" => Box::new(calls::Profile::default()),
            "processes" => Box::new(processes::Processes::default()),
            "functions" => Box::new(processes::Functions),
            "steps" => Box::new(steps::StepRows::default()),
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

    /// Removes the rows so far; None if there are none.
    pub fn batch(&mut self) -> Option<Batch> {
        self.sheet.batch()
    }

    /// Ends the input.
    pub fn end(&mut self) {
        self.finish_learning();
        if !std::mem::replace(&mut self.ended, true) {
            self.rows.end(&mut self.state, &mut self.sheet);
        }
    }

    /// Builds the rows of the messages that were only learned from.
    fn finish_learning(&mut self) {
        let Some((first, _)) = self.first.take() else { return };
        self.state.tracks.finish_learning();
        for record in first {
            match record {
                First::Term(bytes) => self.term(&bytes),
                First::Dropped(count) => self.dropped(count),
                First::Damage(text) => self.damage(&text),
            }
        }
    }

    fn learn_first(&mut self, record: First) {
        let Some((first, bytes)) = &mut self.first else { return };
        *bytes += match &record {
            First::Term(term) => term.len(),
            First::Dropped(_) | First::Damage(_) => 8,
        };
        first.push_back(record);
        if *bytes >= LEARN {
            self.finish_learning();
        }
    }

    fn add_gap(&mut self, count: u64, text: &str) {
        self.rows.lost(count, text, &mut self.state, &mut self.sheet);
    }
}

impl Take for Analysis {
    #[inline]
    fn term(&mut self, bytes: &[u8]) {
        learn_about(bytes, |of, items| self.state.tracks.about(of, items));
        if self.first.is_some() {
            with_plain(bytes, |bytes| self.state.learn(bytes));
            return self.learn_first(First::Term(bytes.to_vec()));
        }
        with_plain(bytes, |bytes| {
            let Some(event) = Event::parse(bytes) else { return self.damage(&unreadable(bytes)) };
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
            return self.learn_first(First::Dropped(count));
        }
        self.summary.dropped += count;
        self.add_gap(count, "lost");
    }

    fn damage(&mut self, text: &str) {
        if self.first.is_some() {
            return self.learn_first(First::Damage(text.to_owned()));
        }
        self.summary.note(text);
        self.add_gap(0, text);
    }
}
