//! Messages as a table: one row each, in columns as Arrow lays them out.
//!
//! A column gets a value only where there is one; what is left out is null. Names, tags and pids are numbers of a dictionary, which
//! later batches continue: only when it has got too large does a batch begin a new one.

use crate::{
    event::{Clock, Event, Name, Tag, What},
    export::{with_plain, Summary, Take},
    scan::Bytes,
    text,
};
use rustc_hash::FxHashMap;
use std::{borrow::Cow, sync::Arc};

/// Rows of a batch at most: so few that the columns of one take up the memory that those of the last have left, which is in the
/// processor's cache.
pub const ROWS: usize = 16_000;

/// Bytes of one column at which a batch is full.
const FULL: usize = 32 << 20;

/// Entries of a dictionary beyond which the next batch begins a new one.
const ENTRIES: usize = 1 << 16;

/// Bytes of a name at most.
const LONGEST: usize = 4096;

/// How values are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// As Python shows them.
    Text,
    /// In the external term format.
    Binary,
    /// Not at all.
    None,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Integers of 64 bits.
    Int64,
    /// Integers of 32 bits.
    Int32,
    /// Numbers (32 bits) of a dictionary of text.
    Names,
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

/// Integers of 64 bits; those of a column without any value are shared.
pub type Values64 = Cow<'static, [i64]>;

/// Integers of 32 bits, in the same way.
pub type Values32 = Cow<'static, [i32]>;

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Data {
    /// Integers of 64 bits.
    Int64(Values64),
    /// Integers of 32 bits.
    Int32(Values32),
    /// Numbers, and what they are numbers of.
    Names(Values32, Arc<Strings>),
    /// Text or bytes: where each value ends, beginning with 0, and all of them.
    Bytes(Values32, Vec<u8>),
}

/// A column of a batch.
#[derive(Clone, Debug)]
pub struct Column {
    /// The values, zero where there is none.
    pub data: Data,
    /// A bit for each row that has a value, the low bit first.
    pub valid: Cow<'static, [u8]>,
    /// How many have none.
    pub nulls: usize,
}

/// Text that numbers stand for.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    /// Where each ends, beginning with 0.
    pub ends: Vec<i32>,
    /// All of it.
    pub data: Vec<u8>,
}

/// Some rows.
#[derive(Clone, Debug)]
pub struct Batch {
    /// How many.
    pub rows: usize,
    /// In the order of [`fields`].
    pub columns: Vec<Column>,
}

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
    ]
}

/// What columns without any value have.
static NONE_64: [i64; ROWS] = [0; ROWS];
static NONE_32: [i32; ROWS + 1] = [0; ROWS + 1];
static NONE_VALID: [u8; ROWS.div_ceil(8)] = [0; ROWS.div_ceil(8)];

/// As many as that, those that are not there yet 0: `none`, where there are none.
fn filled<T: Copy + Default>(values: Vec<T>, length: usize, none: &'static [T]) -> Cow<'static, [T]> {
    match none.get(..length) {
        Some(none) if values.is_empty() => Cow::Borrowed(none),
        _ => Cow::Owned(padded(values, length)),
    }
}

fn padded<T: Copy + Default>(mut values: Vec<T>, length: usize) -> Vec<T> {
    if values.is_empty() {
        return vec![T::default(); length];
    }
    values.resize(length, T::default());
    values
}

/// Which rows have a value. Room is made when the first has one.
#[derive(Default)]
struct Valid(Vec<u8>);

impl Valid {
    #[inline]
    fn set(&mut self, row: usize) {
        if let Some(byte) = self.0.get_mut(row / 8) {
            *byte |= 1 << (row % 8);
        } else {
            self.grow(row);
        }
    }

    #[cold]
    fn grow(&mut self, row: usize) {
        self.0 = padded(std::mem::take(&mut self.0), (row + 1).max(ROWS).div_ceil(8));
        self.set(row);
    }

    fn column(&mut self, data: Data, rows: usize) -> Column {
        let valid = filled(std::mem::take(&mut self.0), rows.div_ceil(8), &NONE_VALID);
        let set: usize = valid.iter().map(|byte| byte.count_ones() as usize).sum();
        Column { data, valid, nulls: rows - set }
    }
}

#[derive(Default)]
struct Ints {
    values: Vec<i64>,
    valid: Valid,
}

impl Ints {
    #[inline]
    fn put(&mut self, row: usize, value: i64) {
        match self.values.get_mut(row) {
            Some(place) => *place = value,
            None => return self.grow(row, value),
        }
        self.valid.set(row);
    }

    #[cold]
    fn grow(&mut self, row: usize, value: i64) {
        self.values = padded(std::mem::take(&mut self.values), (row + 1).max(ROWS));
        self.put(row, value);
    }

    fn column(&mut self, rows: usize) -> Column {
        let values = filled(std::mem::take(&mut self.values), rows, &NONE_64);
        self.valid.column(Data::Int64(values), rows)
    }

    fn column_of_32(&mut self, rows: usize) -> Column {
        let Column { data, valid, nulls } = self.column(rows);
        let data = match data {
            Data::Int64(values) => Data::Int32(values.iter().map(|value| *value as i32).collect()),
            other => other,
        };
        Column { data, valid, nulls }
    }
}

#[derive(Default)]
struct Terms {
    ends: Vec<i32>,
    data: String,
    bytes: Vec<u8>,
    valid: Valid,
}

impl Terms {
    #[inline]
    fn put(&mut self, row: usize, term: Bytes<'_>, values: Values) {
        let end = match values {
            Values::None => return,
            Values::Text => {
                self.fill(row, self.data.len());
                text::show(term, usize::MAX / 2, &mut self.data);
                self.data.len()
            }
            Values::Binary => {
                self.fill(row, self.bytes.len());
                self.bytes.push(inviso_term::etf::VERSION);
                self.bytes.extend_from_slice(term);
                self.bytes.len()
            }
        };
        self.ends.push(end as i32);
        self.valid.set(row);
    }

    /// Text that is no term.
    fn put_text(&mut self, row: usize, told: &str, values: Values) {
        if values == Values::Text {
            self.fill(row, self.data.len());
            self.data.push_str(told);
            self.ends.push(self.data.len() as i32);
            self.valid.set(row);
        } else {
            let term = inviso_term::etf::encode(&inviso_term::term::Term::str(told));
            self.put(row, &term, values);
        }
    }

    #[inline]
    fn fill(&mut self, row: usize, end: usize) {
        if self.ends.len() < row + 1 {
            self.ends.resize(row + 1, end as i32);
        }
    }

    fn column(&mut self, rows: usize) -> Column {
        let room = (self.data.len(), self.bytes.len(), self.ends.len());
        let mut data = std::mem::replace(&mut self.data, String::with_capacity(room.0)).into_bytes();
        if data.is_empty() {
            data = std::mem::replace(&mut self.bytes, Vec::with_capacity(room.1));
        }
        let mut ends = std::mem::replace(&mut self.ends, Vec::with_capacity(room.2));
        if !data.is_empty() {
            ends.resize(rows + 1, data.len() as i32);
        }
        self.valid.column(Data::Bytes(filled(ends, rows + 1, &NONE_32), data), rows)
    }

    fn len(&self) -> usize {
        self.data.len() + self.bytes.len()
    }
}

/// A column of names.
#[derive(Default)]
struct Coded {
    codes: Vec<i32>,
    valid: Valid,
    /// By the bytes that were in the message, and by their text: the first may be written in several ways.
    by_bytes: FxHashMap<Box<[u8]>, i32>,
    by_text: FxHashMap<Box<str>, i32>,
    strings: Strings,
    shared: Option<Arc<Strings>>,
    last: (Vec<u8>, i32),
}

impl Coded {
    #[inline]
    fn put(&mut self, row: usize, bytes: &[u8], text: impl FnOnce() -> String) {
        // most messages are of the process that the one before was of
        if self.last.0 != bytes || bytes.is_empty() {
            self.last.1 = self.code(bytes, text);
            self.last.0.clear();
            self.last.0.extend_from_slice(bytes);
        }
        self.put_code(row, self.last.1);
    }

    #[inline]
    fn put_code(&mut self, row: usize, code: i32) {
        match self.codes.get_mut(row) {
            Some(place) => *place = code,
            None => return self.grow(row, code),
        }
        self.valid.set(row);
    }

    #[cold]
    fn grow(&mut self, row: usize, code: i32) {
        self.codes = padded(std::mem::take(&mut self.codes), (row + 1).max(ROWS));
        self.put_code(row, code);
    }

    fn name(&mut self, name: &[u8]) -> i32 {
        self.code(name, || text::name(name).into_owned())
    }

    fn put_name(&mut self, row: usize, name: &[u8]) {
        let code = self.name(name);
        self.put_code(row, code);
    }

    /// A dictionary that begins with these.
    fn with(names: &[&str]) -> Coded {
        let mut coded = Coded::default();
        for name in names {
            coded.name(name.as_bytes());
        }
        coded
    }

    #[inline]
    fn code(&mut self, bytes: &[u8], text: impl FnOnce() -> String) -> i32 {
        match self.by_bytes.get(bytes) {
            Some(code) => *code,
            None => self.new_code(bytes, text()),
        }
    }

    #[cold]
    fn new_code(&mut self, bytes: &[u8], mut text: String) -> i32 {
        // atoms are shorter; what is not, must not bring the dictionary to its end
        if text.len() > LONGEST {
            let at = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(at);
        }
        let next = self.by_text.len() as i32;
        let code = match self.by_text.get(&*text) {
            Some(code) => *code,
            None => {
                if self.strings.ends.is_empty() {
                    self.strings.ends.push(0);
                }
                self.strings.data.extend_from_slice(text.as_bytes());
                self.strings.ends.push(self.strings.data.len() as i32);
                self.shared = None;
                self.by_text.insert(text.into(), next);
                next
            }
        };
        self.by_bytes.insert(bytes.into(), code);
        code
    }

    /// Whether the next batch should begin a new dictionary.
    fn is_large(&self) -> bool {
        self.by_bytes.len() > ENTRIES || self.strings.data.len() > FULL
    }

    fn column(&mut self, rows: usize) -> Column {
        let codes = filled(std::mem::take(&mut self.codes), rows, &NONE_32);
        let strings = &mut self.strings;
        let shared = self.shared.get_or_insert_with(|| {
            if strings.ends.is_empty() {
                strings.ends.push(0);
            }
            Arc::new(strings.clone())
        });
        self.valid.column(Data::Names(codes, shared.clone()), rows)
    }
}

const KINDS: [&str; 6] = ["trace", "seq_trace", "monitor", "term", "drop", "damage"];
const TRACE: i32 = 0;
const SEQ: i32 = 1;
const MONITOR: i32 = 2;
const TERM: i32 = 3;
const DROP: i32 = 4;
const DAMAGE: i32 = 5;

const CLOCKS: [&str; 2] = ["timestamp", "monotonic_timestamp"];

/// Rows in the making.
pub struct Table {
    values: Values,
    rows: usize,
    ts: Ints,
    unique: Ints,
    clock: Coded,
    kind: Coded,
    tag: Coded,
    pid: Coded,
    module: Coded,
    function: Coded,
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
    /// The codes of module and function by both as they were written.
    functions: FxHashMap<Box<[u8]>, (i32, i32)>,
    /// The codes of the commonest tags.
    call: i32,
    return_from: i32,
    /// What was exported.
    pub summary: Summary,
}

impl Table {
    /// No rows yet.
    #[must_use]
    pub fn new(values: Values) -> Table {
        let mut tag = Coded::default();
        let (call, return_from) = (tag.name(b"call"), tag.name(b"return_from"));
        Table {
            values,
            rows: 0,
            ts: Ints::default(),
            unique: Ints::default(),
            clock: Coded::with(&CLOCKS),
            kind: Coded::with(&KINDS),
            tag,
            pid: Coded::default(),
            module: Coded::default(),
            function: Coded::default(),
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
            functions: FxHashMap::default(),
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

    /// The rows that there are; None if there is none.
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
            self.module.column(rows),
            self.function.column(rows),
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
        ];
        for coded in [&mut self.pid, &mut self.other] {
            if coded.is_large() {
                *coded = Coded::default();
            }
        }
        if self.module.is_large() || self.function.is_large() || self.functions.len() > ENTRIES {
            (self.module, self.function) = Default::default();
            self.functions.clear();
        }
        if self.tag.is_large() {
            self.tag = Coded::with(&["call", "return_from"]);
        }
        Some(Batch { rows, columns })
    }

    #[cold]
    fn new_function(&mut self, name: Name<'_>) -> (i32, i32) {
        let codes = (self.module.name(name.module), self.function.name(name.function));
        self.functions.insert(name.written.into(), codes);
        codes
    }

    #[inline]
    fn row(&mut self, event: &Event<'_>) {
        let (row, values) = (self.rows, self.values);
        let who = |bytes| move || text::who(bytes);
        match event.what {
            What::Dropped(count) => return self.dropped(count),
            What::Trace(trace) => {
                self.kind.put_code(row, TRACE);
                let tag = match trace.tag {
                    Tag::Call => self.call,
                    Tag::ReturnFrom => self.return_from,
                    _ => self.tag.name(trace.word),
                };
                self.tag.put_code(row, tag);
                self.pid.put(row, trace.tracee, who(trace.tracee));
                if let Some(name) = trace.name {
                    let (module, function) = match self.functions.get(name.written) {
                        Some(codes) => *codes,
                        None => self.new_function(name),
                    };
                    self.module.put_code(row, module);
                    self.function.put_code(row, function);
                    self.arity.put(row, i64::from(name.arity));
                }
                if let Some(other) = trace.other {
                    self.other.put(row, other, who(other));
                }
                if let Some(arguments) = trace.arguments {
                    self.args.put(row, arguments, values);
                }
                if let Some(value) = trace.value {
                    self.value.put(row, value, values);
                }
                if let Some(extra) = trace.extra {
                    self.extra.put(row, extra, values);
                }
                if let Some(scheduler) = trace.scheduler {
                    self.scheduler.put(row, scheduler);
                }
            }
            What::Seq(seq) => {
                self.kind.put_code(row, SEQ);
                self.tag.put_name(row, seq.word);
                self.label.put(row, seq.label, values);
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
                    self.value.put(row, value, values);
                }
            }
            What::Monitor { who: of, word, value } => {
                self.kind.put_code(row, MONITOR);
                self.tag.put_name(row, word);
                self.pid.put(row, of, who(of));
                self.value.put(row, value, values);
            }
            What::Term(term) => {
                self.summary.unknown += 1;
                self.kind.put_code(row, TERM);
                self.value.put(row, term, values);
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
            None => self.damage("a record without a term"),
        });
    }

    fn dropped(&mut self, count: u64) {
        self.summary.dropped += count;
        self.kind.put_code(self.rows, DROP);
        self.tag.put_name(self.rows, b"drop");
        self.dropped.put(self.rows, i64::try_from(count).unwrap_or(i64::MAX));
        self.rows += 1;
    }

    fn damage(&mut self, text: &str) {
        self.summary.note(text);
        self.kind.put_code(self.rows, DAMAGE);
        self.value.put_text(self.rows, text, self.values);
        self.rows += 1;
    }
}
