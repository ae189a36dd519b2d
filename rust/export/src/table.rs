//! Messages as a table: one row each, in Arrow's columns.
//!
//! A missing value is null and takes no time. Names, tags and pids are numbers of a dictionary. Later batches continue the
//! dictionary; a batch begins a new one when it has become too large.

use crate::{
    batch::FULL,
    columns::{Coded, FunctionColumns, Ints, Terms, ValueFormat},
    event::{Clock, Event, What},
    export::{unreadable, with_plain, Summary, Take},
    text,
};
use inviso_term::record::{self, Kind};

pub use crate::batch::{Batch, Column, Data, Strings, Type, Values, Values32, Values64, ROWS};

/// The columns' names and types.
#[must_use]
pub fn fields(values: Values) -> Vec<(&'static str, Type)> {
    let term = if values == Values::Binary { Type::Binary } else { Type::Text };
    vec![
        ("ts", Type::Int64),
        ("unique", Type::Int64),
        ("clock", Type::Names),
        ("kind", Type::Names),
        ("tag", Type::Names),
        ("pid", Type::Names),
        ("module", Type::Names),
        ("function", Type::Names),
        ("arity", Type::Int32),
        ("other", Type::Names),
        ("args", term),
        ("value", term),
        ("extra", term),
        ("scheduler", Type::Int64),
        ("label", term),
        ("serial_previous", Type::Int64),
        ("serial_current", Type::Int64),
        ("dropped", Type::Int64),
        ("message", Type::Int64),
    ]
}

const KINDS: [&str; 6] = [record::TRACE, Kind::Seq.tag(), Kind::Monitor.tag(), "term", Kind::Drop.tag(), "damage"];
const TRACE: i32 = 0;
const SEQ: i32 = 1;
const MONITOR: i32 = 2;
const TERM: i32 = 3;
const DROP: i32 = 4;
const DAMAGE: i32 = 5;

/// The tags of most messages.
const COMMON: [&str; 2] = [Kind::Call.tag(), Kind::ReturnFrom.tag()];

const CLOCKS: [&str; 2] = ["timestamp", "monotonic_timestamp"];

/// A table that is being built.
pub struct Table {
    form: ValueFormat,
    rows: usize,
    ts: Ints,
    unique: Ints,
    clock: Coded,
    kind: Coded,
    tag: Coded,
    pid: Coded,
    functions: FunctionColumns,
    arity: Ints,
    other: Coded,
    args: Terms,
    value: Terms,
    extra: Terms,
    scheduler: Ints,
    label: Terms,
    previous: Ints,
    current: Ints,
    dropped: Ints,
    message: Ints,
    /// The codes of the commonest tags.
    call: i32,
    return_from: i32,
    /// The counts of the input.
    pub summary: Summary,
}

impl Table {
    /// Creates an empty table.
    #[must_use]
    pub fn new(values: Values) -> Table {
        let mut tag = Coded::default();
        let (call, return_from) = (tag.name(COMMON[0].as_bytes()), tag.name(COMMON[1].as_bytes()));
        Table {
            form: ValueFormat::new(values),
            rows: 0,
            ts: Ints::default(),
            unique: Ints::default(),
            clock: Coded::with(&CLOCKS),
            kind: Coded::with(&KINDS),
            tag,
            pid: Coded::default(),
            functions: FunctionColumns::default(),
            arity: Ints::default(),
            other: Coded::default(),
            args: Terms::default(),
            value: Terms::default(),
            extra: Terms::default(),
            scheduler: Ints::default(),
            label: Terms::default(),
            previous: Ints::default(),
            current: Ints::default(),
            dropped: Ints::default(),
            message: Ints::default(),
            call,
            return_from,
            summary: Summary::default(),
        }
    }

    /// Whether there are enough rows for a batch.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.args.len() + self.value.len() + self.extra.len() + self.label.len() >= FULL
    }

    /// Removes the rows so far; None if there are none.
    pub fn batch(&mut self) -> Option<Batch> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return None;
        }
        let columns = vec![
            self.ts.column(rows),
            self.unique.column(rows),
            self.clock.column(rows),
            self.kind.column(rows),
            self.tag.column(rows),
            self.pid.column(rows),
            self.functions.module.column(rows),
            self.functions.function.column(rows),
            self.arity.column_of_32(rows),
            self.other.column(rows),
            self.args.column(rows),
            self.value.column(rows),
            self.extra.column(rows),
            self.scheduler.column(rows),
            self.label.column(rows),
            self.previous.column(rows),
            self.current.column(rows),
            self.dropped.column(rows),
            self.message.column(rows),
        ];
        for coded in [&mut self.pid, &mut self.other] {
            if coded.is_large() {
                *coded = Coded::default();
            }
        }
        if self.functions.is_large() {
            self.functions = FunctionColumns::default();
        }
        if self.tag.is_large() {
            self.tag = Coded::with(&COMMON);
        }
        Some(Batch { rows, columns })
    }

    #[inline]
    // more than 60 lines: one short line for each column
    fn row(&mut self, event: &Event<'_>) {
        let (row, form) = (self.rows, &mut self.form);
        let who = |bytes| move || text::who(bytes);
        match event.what {
            What::Dropped(count) => return self.dropped(count),
            What::Trace(trace) => {
                self.kind.put_code(row, TRACE);
                let tag = match trace.kind {
                    Some(Kind::Call) => self.call,
                    Some(Kind::ReturnFrom) => self.return_from,
                    _ => self.tag.name(trace.word),
                };
                self.tag.put_code(row, tag);
                self.pid.put(row, trace.tracee, who(trace.tracee));
                if let Some(name) = trace.name {
                    self.functions.put(row, name);
                    self.arity.put(row, i64::from(name.arity));
                }
                if let Some(other) = trace.other {
                    self.other.put(row, other, who(other));
                }
                if let Some(arguments) = trace.arguments {
                    self.args.put(row, arguments, form);
                }
                if let Some(value) = trace.value {
                    self.value.put(row, value, form);
                }
                if let Some(extra) = trace.extra {
                    self.extra.put(row, extra, form);
                }
                if let Some(scheduler) = trace.scheduler {
                    self.scheduler.put(row, scheduler);
                }
                if let Some(number) = trace.number {
                    self.message.put(row, number.number as i64);
                }
            }
            What::Seq(seq) => {
                self.kind.put_code(row, SEQ);
                self.tag.put_name(row, seq.word);
                self.label.put(row, seq.label, form);
                let (own, other) = if seq.word == b"receive" { (seq.to, seq.from) } else { (seq.from, seq.to) };
                if let Some(own) = own {
                    self.pid.put(row, own, who(own));
                }
                if let Some(other) = other {
                    self.other.put(row, other, who(other));
                }
                if let Some((previous, current)) = seq.serial {
                    self.previous.put(row, previous);
                    self.current.put(row, current);
                }
                if let Some(value) = seq.value {
                    self.value.put(row, value, form);
                }
            }
            What::Monitor { who: of, word, value } => {
                self.kind.put_code(row, MONITOR);
                self.tag.put_name(row, word);
                self.pid.put(row, of, who(of));
                self.value.put(row, value, form);
            }
            What::Term(term) => {
                self.summary.unknown += 1;
                self.kind.put_code(row, TERM);
                self.value.put(row, term, form);
            }
        }
        self.summary.messages += 1;
        match event.stamp {
            Some(stamp) => {
                self.ts.put(row, stamp.at);
                self.clock.put_code(row, if stamp.clock == Clock::Wall { 0 } else { 1 });
                if let Some(unique) = stamp.unique {
                    self.unique.put(row, unique);
                }
            }
            None => self.summary.untimed += 1,
        }
        self.rows += 1;
    }
}

impl Take for Table {
    #[inline]
    fn term(&mut self, bytes: &[u8]) {
        with_plain(bytes, |bytes| match Event::parse(bytes) {
            Some(event) => self.row(&event),
            None => self.damage(&unreadable(bytes)),
        });
    }

    fn dropped(&mut self, count: u64) {
        self.summary.dropped += count;
        self.kind.put_code(self.rows, DROP);
        self.tag.put_name(self.rows, Kind::Drop.tag().as_bytes());
        self.dropped.put(self.rows, i64::try_from(count).unwrap_or(i64::MAX));
        self.rows += 1;
    }

    fn damage(&mut self, text: &str) {
        self.summary.note(text);
        self.kind.put_code(self.rows, DAMAGE);
        self.value.put_text(self.rows, text, &mut self.form);
        self.rows += 1;
    }
}
