//! Compares the answers of different formats to the same query.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use crate::Result;

/// Sums in another order differ in their last digits.
const RELATIVE_TOLERANCE: f64 = 1e-6;

/// An answer as numbers, in an order independent of that of its rows. Compact, since the answers of
/// the first layout are kept until all layouts have been measured and must not dominate the memory
/// figures.
#[derive(Debug)]
pub struct Answer {
    numbers: Vec<f64>,
    columns: usize,
}

impl Answer {
    /// Converts an answer to numbers. Key columns must precede value columns.
    pub fn new(batches: &[RecordBatch]) -> Result<Self> {
        let columns = batches.first().map_or(1, RecordBatch::num_columns).max(1);
        let mut unordered = Vec::new();
        for batch in batches {
            let columns = batch
                .columns()
                .iter()
                .map(|column| cast(column, &DataType::Float64))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                unordered.extend(columns.iter().map(|column| {
                    if column.is_null(row) {
                        f64::NAN
                    } else {
                        column.as_primitive::<Float64Type>().value(row)
                    }
                }));
            }
        }
        let mut rows: Vec<&[f64]> = unordered.chunks(columns).collect();
        rows.sort_by(|a, b| {
            let orders = a.iter().zip(*b).map(|(a, b)| a.total_cmp(b));
            orders.fold(Ordering::Equal, Ordering::then)
        });
        Ok(Self {
            columns,
            numbers: rows.concat(),
        })
    }

    /// The number of rows of the answer.
    pub fn rows(&self) -> usize {
        self.numbers.len() / self.columns
    }

    /// Fails if the answers differ by more than the order of additions explains.
    pub fn check_against(&self, other: &Self) -> Result<()> {
        if self.rows() != other.rows() {
            return Err(format!("{} rows and {} rows", self.rows(), other.rows()).into());
        }
        let rows = self.numbers.chunks(self.columns);
        for (mine, theirs) in rows.zip(other.numbers.chunks(other.columns)) {
            let agree =
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| agree(*a, *b));
            if !agree {
                return Err(format!("row {mine:?} and row {theirs:?}").into());
            }
        }
        Ok(())
    }

    /// Fails if the last column, in key order, differs from the given values.
    pub fn check_values(&self, values: &[f64]) -> Result<()> {
        if self.rows() != values.len() {
            return Err(format!("{} rows and {} rows", self.rows(), values.len()).into());
        }
        for (row, value) in self.numbers.chunks(self.columns).zip(values) {
            if !row.last().is_some_and(|mine| agree(*mine, *value)) {
                return Err(format!("row {row:?} and {value}").into());
            }
        }
        Ok(())
    }
}

fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= RELATIVE_TOLERANCE * a.abs().max(b.abs()) || (a.is_nan() && b.is_nan())
}
