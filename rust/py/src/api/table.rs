//! Small tables that Python has made, column by column, as streams of Arrow.

use crate::convert::arrow::{self, Batches};
use inviso_export::table::{Batch, Column, Data, Strings, Type};
use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::PyCapsule,
};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// The columns of `tprof.Profile`.
const PROFILE: [(&str, Type); 14] = [
    ("function_id", Type::Int64),
    ("module", Type::Names),
    ("name", Type::Names),
    ("arity", Type::Int32),
    ("file", Type::Names),
    ("line", Type::Int32),
    ("process_id", Type::Int64),
    ("process", Type::Names),
    ("calls", Type::Int64),
    ("own_ns", Type::Int64),
    ("cumulative_ns", Type::Int64),
    ("waiting_ns", Type::Int64),
    ("own_bytes", Type::Int64),
    ("cumulative_bytes", Type::Int64),
];

/// The columns of `tprof.Diff`.
const DIFF: [(&str, Type); 9] = [
    ("module", Type::Names),
    ("name", Type::Names),
    ("arity", Type::Int32),
    ("status", Type::Names),
    ("calls_before", Type::Int64),
    ("calls_after", Type::Int64),
    ("before", Type::Int64),
    ("after", Type::Int64),
    ("delta", Type::Int64),
];

/// A stream of one batch: a capsule `arrow_array_stream`. Each column is a list of int, or of str, with None for null.
#[pyfunction]
pub fn table_stream<'py>(
    py: Python<'py>, table: &str, columns: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let fields: &[(&'static str, Type)] = match table {
        "profile" => &PROFILE,
        "diff" => &DIFF,
        _ => return Err(PyKeyError::new_err(table.to_owned())),
    };
    if columns.len() != fields.len() {
        return Err(PyValueError::new_err("columns"));
    }
    let rows = columns.first().map_or(Ok(0), PyAnyMethods::len)?;
    let columns = columns.iter().zip(fields).map(|(values, (_, of))| column(values, *of)).collect::<PyResult<_>>()?;
    arrow::stream_capsule(py, fields.to_vec(), Box::new(Once(Some(Batch { rows, columns }))))
}

/// One batch.
struct Once(Option<Batch>);

impl Batches for Once {
    fn next(&mut self) -> Result<Option<Batch>, String> {
        Ok(self.0.take().filter(|batch| batch.rows > 0))
    }
}

fn column(values: &Bound<'_, PyAny>, of: Type) -> PyResult<Column> {
    match of {
        Type::Int32 => {
            let values: Vec<Option<i32>> = values.extract()?;
            Ok(with_nulls(&values, |values| Data::Int32(Cow::Owned(values))))
        }
        Type::Int64 => {
            let values: Vec<Option<i64>> = values.extract()?;
            Ok(with_nulls(&values, |values| Data::Int64(Cow::Owned(values))))
        }
        Type::Names => names(&values.extract::<Vec<Option<String>>>()?),
        Type::Time | Type::Text | Type::Binary => Err(PyValueError::new_err("type")),
    }
}

fn with_nulls<T: Copy + Default>(values: &[Option<T>], data: impl FnOnce(Vec<T>) -> Data) -> Column {
    let mut valid = vec![0u8; values.len().div_ceil(8)];
    for (row, _) in values.iter().enumerate().filter(|(_, value)| value.is_some()) {
        valid[row / 8] |= 1 << (row % 8);
    }
    let nulls = values.iter().filter(|value| value.is_none()).count();
    let data = data(values.iter().map(|value| value.unwrap_or_default()).collect());
    Column { data, valid: Cow::Owned(valid), nulls }
}

fn names(values: &[Option<String>]) -> PyResult<Column> {
    let mut known: HashMap<&str, i32> = HashMap::new();
    let mut strings = Strings { ends: vec![0], data: Vec::new() };
    let mut codes = Vec::with_capacity(values.len());
    for value in values {
        let Some(text) = value.as_deref() else {
            codes.push(None);
            continue;
        };
        let next = known.len() as i32;
        let code = *known.entry(text).or_insert(next);
        if code == next {
            strings.data.extend_from_slice(text.as_bytes());
            let end = i32::try_from(strings.data.len()).map_err(|_| PyValueError::new_err("too much text"))?;
            strings.ends.push(end);
        }
        codes.push(Some(code));
    }
    Ok(with_nulls(&codes, |codes| Data::Names(Cow::Owned(codes), Arc::new(strings))))
}
