//! Evaluates predicates on rows.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::prep_null_mask_filter;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;

/// Evaluates a predicate on each row. Null becomes `false`.
pub(crate) fn mask(predicate: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<BooleanArray> {
    let mask = predicate.evaluate(rows)?.into_array(rows.num_rows())?;
    match mask.as_boolean_opt() {
        Some(mask) if mask.null_count() > 0 => Ok(prep_null_mask_filter(mask)),
        Some(mask) => Ok(mask.clone()),
        None => internal_err!("{predicate} does not return a boolean"),
    }
}
