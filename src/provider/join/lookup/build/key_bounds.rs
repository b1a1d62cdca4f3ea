//! Bounds of the join keys of a build side, as predicates on the probe side.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, in_list, lit};
use datafusion::physical_expr::{PhysicalExpr, conjunction};

use crate::provider::planning::axis_bounds::fold;
use crate::provider::planning::value_set::is_float_zero;

/// The maximum number of values of a key that a predicate lists.
const MAX_LISTED: usize = 1000;

/// Returns a predicate that holds for all values of `key` that are between the min and max of
/// `values`; `None` if their type has no order. `schema` has the columns of `key`.
pub(in crate::provider::join) fn between_extremes(
    key: &Arc<dyn PhysicalExpr>,
    values: &ArrayRef,
    schema: &Schema,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let bounds = KeyBounds::new([(Arc::clone(values), false)])?;
    let is_known = bounds.extremes[0].is_some();
    let predicate = bounds.predicate(std::slice::from_ref(key), schema)?;
    Ok(is_known.then_some(predicate))
}

/// Bounds of the join keys: the min and max of each key, and its values if there are few.
#[derive(Debug)]
pub(in crate::provider::join::lookup) struct KeyBounds {
    /// For each key, its min and max; `None` if its type has no order.
    extremes: Vec<Option<(ScalarValue, ScalarValue)>>,
    /// For each key, its values; `None` if there are too many.
    values: Vec<Option<HashSet<ScalarValue>>>,
}

impl KeyBounds {
    /// Returns the bounds of the values of each key. `true` stands for values that may be listed.
    pub fn new(keys: impl IntoIterator<Item = (ArrayRef, bool)>) -> Result<Self> {
        let (mut all_extremes, mut all_values) = (Vec::new(), Vec::new());
        for (values, may_list) in keys {
            all_extremes.push(extremes(&values)?);
            let is_listed = may_list && values.len() <= MAX_LISTED;
            let rows = is_listed.then_some(0..values.len());
            let listed = rows.map(|rows| {
                rows.map(|row| ScalarValue::try_from_array(&values, row))
                    .collect()
            });
            all_values.push(listed.transpose()?);
        }
        Ok(Self {
            extremes: all_extremes,
            values: all_values,
        })
    }

    /// Returns a predicate that holds for all keys that are not null. `columns` are the expressions
    /// that it compares with the bounds, one per key, over the columns of `schema`.
    pub fn predicate(
        &self,
        columns: &[Arc<dyn PhysicalExpr>],
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let mut all: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        for (key, column) in columns.iter().enumerate() {
            let values = self.values[key].as_ref();
            // `IN` distinguishes -0.0 from 0.0, which are equal as join keys.
            if let Some(values) = values.filter(|values| !values.iter().any(is_float_zero)) {
                let values = values.iter().filter(|value| !value.is_null());
                let mut values: Vec<_> = values.cloned().collect();
                values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
                let values = values.into_iter().map(lit).collect();
                all.push(in_list(Arc::clone(column), values, &false, schema)?);
            } else if let Some((min, max)) = &self.extremes[key] {
                let (min, max) = (lit(with_zeros(min, -0.0)), lit(with_zeros(max, 0.0)));
                all.push(binary(Arc::clone(column), Operator::GtEq, min, schema)?);
                all.push(binary(Arc::clone(column), Operator::LtEq, max, schema)?);
            }
        }
        Ok(conjunction(all))
    }
}

/// Returns `true` if predicates can compare values of a type with its min and max.
pub(in crate::provider::join::lookup) fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal() || data_type.is_string()
}

/// Returns `bound`, or `zero` if the bound is a floating-point zero of either sign.
pub(in crate::provider::join::lookup) fn with_zeros(bound: &ScalarValue, zero: f32) -> ScalarValue {
    match bound {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(zero)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(zero.into())),
        bound => bound.clone(),
    }
}

/// Returns the min and max of an array, without nulls; `None` if its type has no order.
fn extremes(values: &ArrayRef) -> Result<Option<(ScalarValue, ScalarValue)>> {
    is_ordered(values.data_type())
        .then(|| Ok((fold(values, false)?, fold(values, true)?)))
        .transpose()
}
