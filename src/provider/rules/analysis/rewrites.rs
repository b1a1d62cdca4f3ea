//! The rule that applies rewrites of expressions whose types are not resolved yet.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, config::ConfigOptions};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::optimizer::AnalyzerRule;

use crate::provider::rules::analysis::filtered_windows::without_filters;
use crate::provider::rules::analysis::{
    AddedProducts, CoarseTimes, ComparedDurations, ComparedZones, DurationWindows, FixedSizes,
    RepeatedSortKeys, SimilarPatterns, UnorderedCasts, WrittenTimes,
};
use crate::provider::rules::logic::GuardedBranches;
use crate::provider::rules::names::change_expressions;

/// Applies [`FixedSizes`], [`WrittenTimes`], [`ComparedZones`], [`CoarseTimes`], [`ComparedDurations`],
/// [`AddedProducts`], [`DurationWindows`], [`UnorderedCasts`], [`GuardedBranches`], [`RepeatedSortKeys`] and
/// [`SimilarPatterns`] to the expressions of a plan, and [`without_filters`] to its windows.
///
/// DataFusion 55 applies the rewrites that an analyzer has itself, but loses the names of columns in
/// ROLLUP, CUBE and GROUPING SETS.
#[derive(Debug, Default)]
pub(crate) struct ExpressionRewrites;

impl AnalyzerRule for ExpressionRewrites {
    fn name(&self) -> &str {
        "expression_rewrites"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrites: [&dyn FunctionRewrite; 11] = [
            &FixedSizes,
            &WrittenTimes,
            &ComparedZones,
            &CoarseTimes,
            &ComparedDurations,
            &AddedProducts,
            &DurationWindows,
            &UnorderedCasts,
            &GuardedBranches,
            &RepeatedSortKeys,
            &SimilarPatterns,
        ];
        let plan = plan.transform_up_with_subqueries(|node| {
            let mut schema = merge_schema(&node.inputs());
            if let LogicalPlan::TableScan(scan) = &node {
                let table = scan.table_name.clone();
                let columns = DFSchema::try_from_qualified_schema(table, &scan.source.schema())?;
                schema.merge(&columns);
            }
            let node = without_filters(RepeatedSortKeys::of_distinct(node))?;
            change_expressions(node, |expression| {
                expression.transform_up(|one| {
                    let unchanged = Transformed::no(one);
                    rewrites.iter().try_fold(unchanged, |one, rewrite| {
                        one.transform_data(|one| rewrite.rewrite(one, &schema, config))
                    })
                })
            })
        })?;
        Ok(plan.data)
    }
}
