//! Rejects COPY of types that the file format cannot store.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;

use crate::provider::planning::unions::contains_union;

/// Checks that a plan copies no union to Parquet, whose writer panics on them.
///
/// # Errors
/// Fails if a column contains a union.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        let LogicalPlan::Copy(copy) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let mut fields = copy.input.schema().fields().iter();
        match fields.find(|field| contains_union(field.data_type())) {
            Some(field) if copy.file_type.get_ext() == "parquet" => plan_err!(
                "{}: column {} has a union type (a geometry), which Parquet cannot store; copy ST_AsBinary({1}) instead",
                copy.output_url,
                field.name()
            ),
            _ => Ok(TreeNodeRecursion::Stop),
        }
    })
    .map(|_| ())
}
