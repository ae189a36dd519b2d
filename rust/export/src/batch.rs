//! The rows and columns of a table, in Arrow's layout.

use std::{borrow::Cow, sync::Arc};

/// The largest number of rows of a batch. It is small enough that the columns of the next batch reuse memory that is in the
/// processor's cache.
pub const ROWS: usize = 16_000;

/// Bytes of one column that make a batch full.
pub(crate) const FULL: usize = 32 << 20;

/// The form of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// As text, as Python shows them.
    Text,
    /// In the external term format.
    Binary,
    /// Without values.
    None,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 64-bit integers.
    Int64,
    /// 32-bit integers.
    Int32,
    /// Nanoseconds since 1970, UTC.
    Time,
    /// 32-bit numbers of a dictionary of text.
    Names,
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

/// 64-bit integers. All columns without any value share one array.
pub type Values64 = Cow<'static, [i64]>;

/// 32-bit integers, also shared.
pub type Values32 = Cow<'static, [i32]>;

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Data {
    /// 64-bit integers.
    Int64(Values64),
    /// 32-bit integers.
    Int32(Values32),
    /// Numbers, and their dictionary.
    Names(Values32, Arc<Strings>),
    /// Text or bytes: the end of each value, after a 0, and all bytes.
    Bytes(Values32, Vec<u8>),
}

/// A column of a batch.
#[derive(Clone, Debug)]
pub struct Column {
    /// The values; zero for null.
    pub data: Data,
    /// A bit for each row with a value, the low bit first.
    pub valid: Cow<'static, [u8]>,
    /// The number of nulls.
    pub nulls: usize,
}

/// The text of a dictionary.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    /// The end of each text, after a 0.
    pub ends: Vec<i32>,
    /// All texts.
    pub data: Vec<u8>,
}

/// Several rows.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Their number.
    pub rows: usize,
    /// The columns, in the order of [`fields`](crate::table::fields).
    pub columns: Vec<Column>,
}
