//! Columns of a table that is being built.
//!
//! A column gets its memory with its first value, and gives it away with each batch.

use crate::{
    batch::{Column, Data, Strings, Values, FULL, ROWS},
    event::Name,
    recent::Recent,
    scan::Bytes,
    text,
};
use inviso_term::etf;
use rustc_hash::FxHashMap;
use std::{borrow::Cow, sync::Arc};

/// The size of a dictionary above which the next batch begins a new one.
const ENTRIES: usize = 1 << 16;

/// The longest name, in bytes.
const LONGEST: usize = 4096;

/// The data of columns without any value.
static NONE_64: [i64; ROWS] = [0; ROWS];
static NONE_32: [i32; ROWS + 1] = [0; ROWS + 1];
static NONE_VALID: [u8; ROWS.div_ceil(8)] = [0; ROWS.div_ceil(8)];

/// The values, padded with 0 to the length; `none` if there are none.
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

/// Which rows have a value. It gets its memory with the first value.
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

/// A column of integers.
#[derive(Default)]
pub(crate) struct Ints {
    values: Vec<i64>,
    valid: Valid,
}

impl Ints {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, value: i64) {
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

    pub(crate) fn column(&mut self, rows: usize) -> Column {
        let values = filled(std::mem::take(&mut self.values), rows, &NONE_64);
        self.valid.column(Data::Int64(values), rows)
    }

    pub(crate) fn column_of_32(&mut self, rows: usize) -> Column {
        let Column { data, valid, nulls } = self.column(rows);
        let data = match data {
            Data::Int64(values) => Data::Int32(values.iter().map(|value| *value as i32).collect()),
            other => other,
        };
        Column { data, valid, nulls }
    }
}

/// A short text.
#[derive(Clone, Copy)]
struct ShortText {
    text: [u8; ShortText::MOST],
    length: usize,
}

impl Default for ShortText {
    fn default() -> ShortText {
        ShortText { text: [0; ShortText::MOST], length: 0 }
    }
}

impl ShortText {
    const MOST: usize = 48;

    /// None if the text is too long.
    fn of(text: &str) -> Option<ShortText> {
        let mut short = ShortText { length: text.len(), ..ShortText::default() };
        short.text.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(short)
    }
}

/// Terms as text.
#[derive(Default)]
struct CachedTexts {
    recent: Recent<32, Option<ShortText>>,
    text: String,
}

impl CachedTexts {
    #[inline]
    fn add(&mut self, term: Bytes<'_>, out: &mut Vec<u8>) {
        match self.recent.get_or(term, || ShortText::of(show(term, &mut self.text))) {
            Some(Some(text)) => {
                // copying all of it takes no longer than finding its length
                let end = out.len() + text.length;
                out.extend_from_slice(&text.text);
                out.truncate(end);
            }
            _ => out.extend_from_slice(show(term, &mut self.text).as_bytes()),
        }
    }
}

fn show<'o>(term: Bytes<'_>, out: &'o mut String) -> &'o str {
    out.clear();
    text::show(term, usize::MAX / 2, out);
    out
}

/// The conversion of values to a column's form.
pub(crate) struct ValueFormat {
    values: Values,
    shown: CachedTexts,
}

impl ValueFormat {
    pub(crate) fn new(values: Values) -> ValueFormat {
        ValueFormat { values, shown: CachedTexts::default() }
    }

    #[inline]
    fn add(&mut self, term: Bytes<'_>, out: &mut Vec<u8>) {
        match self.values {
            Values::None => {}
            Values::Text => self.shown.add(term, out),
            Values::Binary => {
                // a term that is not from a log may have parts that Erlang and the column's readers would refuse
                let term = etf::portable(term);
                out.push(etf::VERSION);
                out.extend_from_slice(term.strip_prefix(&[etf::VERSION]).unwrap_or(&term));
            }
        }
    }
}

/// A column of values.
#[derive(Default)]
pub(crate) struct Terms {
    ends: Vec<i32>,
    data: Vec<u8>,
    valid: Valid,
}

impl Terms {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, term: Bytes<'_>, form: &mut ValueFormat) {
        if form.values != Values::None {
            self.fill(row);
            form.add(term, &mut self.data);
            self.end(row);
        }
    }

    /// Adds a text that is not a term.
    pub(crate) fn put_text(&mut self, row: usize, text: &str, form: &mut ValueFormat) {
        if form.values == Values::Text {
            self.fill(row);
            self.data.extend_from_slice(text.as_bytes());
            self.end(row);
        } else {
            let term = inviso_term::etf::encode(&inviso_term::term::Term::str(text));
            self.put(row, &term, form);
        }
    }

    /// Ends the rows before this one.
    #[inline]
    fn fill(&mut self, row: usize) {
        if self.ends.len() < row + 1 {
            self.ends.resize(row + 1, self.data.len() as i32);
        }
    }

    #[inline]
    fn end(&mut self, row: usize) {
        self.ends.push(self.data.len() as i32);
        self.valid.set(row);
    }

    pub(crate) fn column(&mut self, rows: usize) -> Column {
        let room = (self.data.len(), self.ends.len());
        let data = std::mem::replace(&mut self.data, Vec::with_capacity(room.0));
        let mut ends = std::mem::replace(&mut self.ends, Vec::with_capacity(room.1));
        if !data.is_empty() {
            ends.resize(rows + 1, data.len() as i32);
        }
        self.valid.column(Data::Bytes(filled(ends, rows + 1, &NONE_32), data), rows)
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }
}

/// A dictionary of names.
#[derive(Default)]
struct Dictionary {
    /// Codes by the bytes in messages and by text. One name may have several encodings.
    by_bytes: FxHashMap<Box<[u8]>, i32>,
    by_text: FxHashMap<Box<str>, i32>,
    strings: Strings,
    shared: Option<Arc<Strings>>,
}

impl Dictionary {
    #[inline]
    fn code(&mut self, bytes: &[u8], text: impl FnOnce() -> String) -> i32 {
        match self.by_bytes.get(bytes) {
            Some(code) => *code,
            None => self.new_code(bytes, text()),
        }
    }

    #[cold]
    fn new_code(&mut self, bytes: &[u8], mut text: String) -> i32 {
        // atoms are shorter. A longer name must not fill the dictionary
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

    fn shared(&mut self) -> Arc<Strings> {
        let strings = &mut self.strings;
        let shared = self.shared.get_or_insert_with(|| {
            if strings.ends.is_empty() {
                strings.ends.push(0);
            }
            Arc::new(strings.clone())
        });
        shared.clone()
    }

    /// Whether the next batch should begin a new one.
    fn is_large(&self) -> bool {
        self.by_bytes.len() > ENTRIES || self.strings.data.len() > FULL
    }
}

/// A column of names.
#[derive(Default)]
pub(crate) struct Coded {
    codes: Vec<i32>,
    valid: Valid,
    names: Dictionary,
    recent: Recent<40, i32>,
}

impl Coded {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, bytes: &[u8], text: impl Fn() -> String) {
        let code = match self.recent.get_or(bytes, || self.names.code(bytes, &text)) {
            Some(code) => *code,
            None => self.names.code(bytes, &text),
        };
        self.put_code(row, code);
    }

    #[inline]
    pub(crate) fn put_code(&mut self, row: usize, code: i32) {
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

    pub(crate) fn name(&mut self, name: &[u8]) -> i32 {
        self.names.code(name, || text::name(name).into_owned())
    }

    pub(crate) fn put_name(&mut self, row: usize, name: &[u8]) {
        let code = self.name(name);
        self.put_code(row, code);
    }

    /// Creates a dictionary that begins with these names.
    pub(crate) fn with(names: &[&str]) -> Coded {
        let mut coded = Coded::default();
        for name in names {
            coded.name(name.as_bytes());
        }
        coded
    }

    pub(crate) fn is_large(&self) -> bool {
        self.names.is_large()
    }

    pub(crate) fn column(&mut self, rows: usize) -> Column {
        let codes = filled(std::mem::take(&mut self.codes), rows, &NONE_32);
        self.valid.column(Data::Names(codes, self.names.shared()), rows)
    }
}

/// The columns of modules and functions.
#[derive(Default)]
pub(crate) struct FunctionColumns {
    pub(crate) module: Coded,
    pub(crate) function: Coded,
    /// The two codes of each name, by its bytes.
    codes: FxHashMap<Box<[u8]>, (i32, i32)>,
    recent: Recent<64, (i32, i32)>,
}

impl FunctionColumns {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, name: Name<'_>) {
        let FunctionColumns { module, function, codes, recent } = self;
        let mut find = || match codes.get(name.written) {
            Some(codes) => *codes,
            None => {
                let new = (module.name(name.module), function.name(name.function));
                codes.insert(name.written.into(), new);
                new
            }
        };
        let (of_module, of_function) = match recent.get_or(name.written, &mut find) {
            Some(codes) => *codes,
            None => find(),
        };
        module.put_code(row, of_module);
        function.put_code(row, of_function);
    }

    pub(crate) fn is_large(&self) -> bool {
        self.module.is_large() || self.function.is_large() || self.codes.len() > ENTRIES
    }
}
