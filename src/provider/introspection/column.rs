//! Typed columns of the introspection tables, each computed from a row by a function.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, ListBuilder, StringArray, StringBuilder, TimestampMicrosecondArray,
    UInt64Array, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::Result;

/// A column over rows of type `R`. Its cells are computed only if a query asks for the column.
#[derive(Debug)]
pub(super) struct Column<R> {
    pub name: &'static str,
    cell: Cell<R>,
}

/// The function that computes a cell from a row. `None` stands for null.
#[derive(Debug)]
enum Cell<R> {
    Text(fn(&R) -> Result<Option<String>>),
    Number(fn(&R) -> Result<Option<u64>>),
    Flag(fn(&R) -> Result<Option<bool>>),
    /// Microseconds since 1970, in UTC.
    Time(fn(&R) -> Result<Option<i64>>),
    Texts(fn(&R) -> Result<Option<Vec<String>>>),
    Numbers(fn(&R) -> Result<Option<Vec<u64>>>),
}

impl<R> Column<R> {
    pub const fn text(name: &'static str, of: fn(&R) -> Result<Option<String>>) -> Self {
        let cell = Cell::Text(of);
        Self { name, cell }
    }

    pub const fn number(name: &'static str, of: fn(&R) -> Result<Option<u64>>) -> Self {
        let cell = Cell::Number(of);
        Self { name, cell }
    }

    pub const fn flag(name: &'static str, of: fn(&R) -> Result<Option<bool>>) -> Self {
        let cell = Cell::Flag(of);
        Self { name, cell }
    }

    /// Creates a column of timestamps, as microseconds since 1970 in UTC.
    pub const fn time(name: &'static str, of: fn(&R) -> Result<Option<i64>>) -> Self {
        let cell = Cell::Time(of);
        Self { name, cell }
    }

    pub const fn texts(name: &'static str, of: fn(&R) -> Result<Option<Vec<String>>>) -> Self {
        let cell = Cell::Texts(of);
        Self { name, cell }
    }

    pub const fn numbers(name: &'static str, of: fn(&R) -> Result<Option<Vec<u64>>>) -> Self {
        let cell = Cell::Numbers(of);
        Self { name, cell }
    }

    pub fn field(&self) -> Field {
        let data_type = match self.cell {
            Cell::Text(_) => DataType::Utf8,
            Cell::Number(_) => DataType::UInt64,
            Cell::Flag(_) => DataType::Boolean,
            Cell::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Cell::Texts(_) => list_of(DataType::Utf8),
            Cell::Numbers(_) => list_of(DataType::UInt64),
        };
        Field::new(self.name, data_type, true)
    }

    /// Computes the column for some rows.
    pub fn over(&self, rows: &[R]) -> Result<ArrayRef> {
        Ok(match self.cell {
            Cell::Text(of) => Arc::new(rows.iter().map(of).collect::<Result<StringArray>>()?),
            Cell::Number(of) => Arc::new(rows.iter().map(of).collect::<Result<UInt64Array>>()?),
            Cell::Flag(of) => Arc::new(rows.iter().map(of).collect::<Result<BooleanArray>>()?),
            Cell::Time(of) => {
                let times = rows.iter().map(of);
                Arc::new(times.collect::<Result<TimestampMicrosecondArray>>()?)
            }
            Cell::Texts(of) => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in rows {
                    lists.append_option(of(row)?.map(|texts| texts.into_iter().map(Some)));
                }
                Arc::new(lists.finish())
            }
            Cell::Numbers(of) => {
                let mut lists = ListBuilder::new(UInt64Builder::new());
                for row in rows {
                    lists.append_option(of(row)?.map(|numbers| numbers.into_iter().map(Some)));
                }
                Arc::new(lists.finish())
            }
        })
    }
}

/// The type of lists of `item`, with the field name that Arrow's list builders use.
pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// An array that repeats one text in every row.
pub(super) fn repeated(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
        text, rows,
    )))
}
