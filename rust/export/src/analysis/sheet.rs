//! The rows of a table that is being built: cells by column, then the next row.

use crate::{
    batch::{Batch, Type, Values, FULL, ROWS},
    columns::{Coded, Ints, Terms, ValueFormat},
};

enum Cells {
    Ints(Ints),
    Names(Coded),
    Texts(Terms),
}

/// The rows. An empty cell is null.
pub struct Sheet {
    columns: Vec<Cells>,
    rows: usize,
    /// Bytes of text in the rows.
    bytes: usize,
    form: ValueFormat,
}

impl Sheet {
    /// Creates an empty sheet.
    pub fn new(fields: &[(&'static str, Type)]) -> Sheet {
        let cells = |of: &Type| match of {
            Type::Int64 | Type::Int32 | Type::Time => Cells::Ints(Ints::default()),
            Type::Names => Cells::Names(Coded::default()),
            Type::Text | Type::Binary => Cells::Texts(Terms::default()),
        };
        Sheet {
            columns: fields.iter().map(|(_, of)| cells(of)).collect(),
            rows: 0,
            bytes: 0,
            form: ValueFormat::new(Values::Text),
        }
    }

    /// Sets a number or null.
    #[inline]
    pub fn int(&mut self, column: usize, value: impl Into<Option<i64>>) {
        if let (Some(Cells::Ints(ints)), Some(value)) = (self.columns.get_mut(column), value.into()) {
            ints.put(self.rows, value);
        }
    }

    /// Sets a name of a dictionary.
    #[inline]
    pub fn name(&mut self, column: usize, name: &str) {
        if let Some(Cells::Names(names)) = self.columns.get_mut(column) {
            names.put(self.rows, name.as_bytes(), || name.to_owned());
        }
    }

    /// Sets a text.
    #[inline]
    pub fn text(&mut self, column: usize, text: &str) {
        if let Some(Cells::Texts(texts)) = self.columns.get_mut(column) {
            texts.put_text(self.rows, text, &mut self.form);
            self.bytes += text.len();
        }
    }

    /// Ends the row.
    #[inline]
    pub fn next(&mut self) {
        self.rows += 1;
    }

    /// Whether there are enough rows for a batch.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= FULL
    }

    /// Removes the rows so far; None if there are none.
    pub fn batch(&mut self) -> Option<Batch> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows == 0 {
            return None;
        }
        let column = |cells: &mut Cells| match cells {
            Cells::Ints(ints) => ints.column(rows),
            Cells::Names(names) => names.column(rows),
            Cells::Texts(texts) => texts.column(rows),
        };
        let columns = self.columns.iter_mut().map(column).collect();
        for cells in &mut self.columns {
            if let Cells::Names(names) = cells {
                if names.is_large() {
                    *names = Coded::default();
                }
            }
        }
        Some(Batch { rows, columns })
    }
}
