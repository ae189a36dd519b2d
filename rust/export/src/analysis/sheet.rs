//! The rows of one table in the making: cells by column, then the next row.

use crate::{
    columns::{Coded, Form, Ints, Terms},
    table::{Batch, Type, Values, FULL, ROWS},
};

enum Cells {
    Ints(Ints),
    Names(Coded),
    Texts(Terms),
}

/// Rows in the making. A cell that nothing was put into is null.
pub struct Sheet {
    columns: Vec<Cells>,
    rows: usize,
    /// Bytes of text in them.
    bytes: usize,
    form: Form,
}

impl Sheet {
    /// No row yet.
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
            form: Form::new(Values::Text),
        }
    }

    /// A number, or nothing.
    #[inline]
    pub fn int(&mut self, column: usize, value: impl Into<Option<i64>>) {
        if let (Some(Cells::Ints(ints)), Some(value)) = (self.columns.get_mut(column), value.into()) {
            ints.put(self.rows, value);
        }
    }

    /// One of the names of a dictionary.
    #[inline]
    pub fn name(&mut self, column: usize, name: &str) {
        if let Some(Cells::Names(names)) = self.columns.get_mut(column) {
            names.put(self.rows, name.as_bytes(), || name.to_owned());
        }
    }

    /// Text.
    #[inline]
    pub fn text(&mut self, column: usize, text: &str) {
        if let Some(Cells::Texts(texts)) = self.columns.get_mut(column) {
            texts.put_text(self.rows, text, &mut self.form);
            self.bytes += text.len();
        }
    }

    /// The row is whole.
    #[inline]
    pub fn next(&mut self) {
        self.rows += 1;
    }

    /// Whether there are enough rows for a batch.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= FULL
    }

    /// The rows that there are; None if there is none.
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
