//! Assigns a group index to each distinct combination of values of grouping expressions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{concat, take};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

/// The distinct combinations of values of some columns, in the order in which they are first seen.
#[derive(Default)]
pub(crate) struct GroupKeys {
    converter: Option<RowConverter>,
    known: HashMap<Box<[u8]>, u32>,
    /// For each batch with new rows, the values of the new rows.
    new: Vec<Vec<ArrayRef>>,
}

impl GroupKeys {
    /// Returns the group index of each row of these columns.
    ///
    /// # Errors
    /// Fails if a column has a type that cannot be grouped by.
    pub fn intern(&mut self, columns: Vec<ArrayRef>) -> Result<Vec<u32>> {
        // GROUP BY takes both zeros as equal.
        let columns: Vec<ArrayRef> = columns.iter().map(normalize_float_zero).collect();
        let converter = match &mut self.converter {
            Some(converter) => converter,
            None => {
                let types = columns.iter().map(|column| column.data_type().clone());
                let fields = types.map(SortField::new);
                self.converter.insert(RowConverter::new(fields.collect())?)
            }
        };
        let rows = converter.convert_columns(&columns)?;
        let mut indices: Vec<u32> = Vec::with_capacity(rows.num_rows());
        let mut new = Vec::new();
        for row in 0..rows.num_rows() {
            // Neighbouring rows are often equal, which saves the hash lookup.
            let same = indices
                .last()
                .copied()
                .filter(|_| rows.row(row) == rows.row(row - 1));
            let found = same.or_else(|| self.known.get(rows.row(row).as_ref()).copied());
            indices.push(found.unwrap_or_else(|| {
                let next = self.known.len() as u32;
                self.known.insert(rows.row(row).as_ref().into(), next);
                new.push(row as u64);
                next
            }));
        }
        if !new.is_empty() {
            let new = UInt64Array::from(new);
            let columns = columns.iter().map(|column| take(column, &new, None));
            self.new.push(columns.collect::<Result<_, _>>()?);
        }
        Ok(indices)
    }

    /// Returns the number of distinct rows.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Returns the values of the distinct rows, in the order of their group indices; no columns if there are
    /// none.
    pub fn values(&self) -> Result<Vec<ArrayRef>> {
        let columns = 0..self.new.first().map_or(0, Vec::len);
        let values = columns.map(|column| {
            let batches = self.new.iter().map(|batch| batch[column].as_ref());
            Ok(concat(&batches.collect::<Vec<&dyn Array>>())?)
        });
        values.collect()
    }
}

/// Evaluates expressions over dimensions on the columns of a batch, which are found by name.
pub(crate) fn evaluate_on(
    expressions: &[&Arc<dyn PhysicalExpr>],
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>> {
    let values = expressions.iter().map(|expr| {
        let expr = reassign_expr_columns(Arc::clone(expr), batch.schema_ref())?;
        expr.evaluate(batch)?.into_array(batch.num_rows())
    });
    values.collect()
}
