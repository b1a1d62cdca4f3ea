//! The optimizer rule that replaces DataFusion's aggregations by [`ArrayAggregateExec`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::provider::aggregate::exec::operator::ArrayAggregateExec;
use crate::provider::aggregate::grouping_sets::grouping_sets;
use crate::provider::aggregate::joined::{self, ArrayJoinAggregateExec};
use crate::provider::aggregate::plan::aggregation::{Aggregation, Stage};
use crate::provider::aggregate::plan::group_columns::never_fail;
use crate::provider::aggregate::plan::groups::MAX_GROUPS;
use crate::provider::aggregate::plan::program::Presence;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::lookup::ArrayLookupJoinExec;
use crate::provider::plans::below::{InlinedInput, below_exchange};

/// The maximum number of groups per selected cell. Above it most groups are empty, and DataFusion's
/// hash aggregation, which creates groups on demand, is cheaper.
pub(super) const SPARSE: u64 = 4;
/// A number of groups that is always accepted.
pub(super) const FEW_GROUPS: u64 = 1 << 16;

/// Computes aggregations over array scans in array space if there are no grouping expressions or
/// each of them refers to one or two dimensions. Leaves all other aggregations unchanged.
///
/// [`enable_arrays`](crate::enable_arrays) puts the rule ahead of the one that distributes plans
/// over partitions, where it finds most aggregations. The rule works anywhere after the rule that
/// answers aggregates from statistics, even as the last one.
#[derive(Debug, Default)]
pub struct ArrayAggregates {}

impl ArrayAggregates {
    /// Creates the rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for ArrayAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !ArraySettings::is_on(config, |settings| settings.array_aggregates) {
            return Ok(plan);
        }
        replace_all(plan, config)
    }

    fn name(&self) -> &str {
        "array_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces all aggregations of a plan that can be computed in array space.
fn replace_all(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_down(|plan| {
        let Some(node) = plan.downcast_ref::<AggregateExec>() else {
            return Ok(Transformed::no(plan));
        };
        match replace(&plan, node, config)? {
            Some(replaced) => Ok(Transformed::new(replaced, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(plan)),
        }
    })?;
    Ok(replaced.data)
}

/// Returns the replacement of an aggregation; `None` if it has to stay. `plan` and `node` are the
/// same plan node, here and below.
fn replace(
    plan: &Arc<dyn ExecutionPlan>,
    node: &AggregateExec,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if *node.mode() == AggregateMode::Partial {
        return partial(plan, node);
    }
    let whole: Arc<dyn ExecutionPlan> = match operator(plan, Stage::Whole)? {
        Some(operator) => Arc::new(operator),
        None => match below_join(plan, node, config)? {
            None => return Ok(None),
            Some(plan) => match over_join(&plan, Stage::Whole, config)? {
                Some(operator) => Arc::new(operator),
                // The aggregations below the join are replaced, in any case.
                None => return Ok(Some(plan)),
            },
        },
    };
    let whole = in_order(whole, node)?;
    // If the rule runs late, the parent may rely on how the rows are distributed over partitions.
    Ok(Some(match &node.properties().partitioning {
        Partitioning::UnknownPartitioning(_) => whole,
        spread if spread.partition_count() == 1 => whole,
        spread => Arc::new(RepartitionExec::try_new(whole, spread.clone())?),
    }))
}

/// Returns the operator that computes this stage of the aggregation `plan` over a single scan; `None`
/// if the aggregation cannot be computed in array space.
pub(crate) fn operator(
    plan: &Arc<dyn ExecutionPlan>,
    stage: Stage,
) -> Result<Option<ArrayAggregateExec>> {
    let first = plan.downcast_ref::<AggregateExec>();
    let first = first.and_then(|node| first_stage(node, stage));
    let Some((first, aggregation)) = first.and_then(|first| Some((first, Aggregation::of(first)?)))
    else {
        return Ok(None);
    };
    over_scan(first.input(), &aggregation, plan, stage)
}

/// Returns the node whose input is rows; `None` if this stage of the aggregation has none.
pub(crate) fn first_stage(node: &AggregateExec, stage: Stage) -> Option<&AggregateExec> {
    match (stage, node.mode()) {
        (Stage::Whole, AggregateMode::Final | AggregateMode::FinalPartitioned) => {
            let below = below_exchange(node.input()).downcast_ref::<AggregateExec>();
            below.filter(|first| *first.mode() == AggregateMode::Partial)
        }
        (Stage::Whole, AggregateMode::Single | AggregateMode::SinglePartitioned)
        | (Stage::Partial, AggregateMode::Partial) => Some(node),
        _ => None,
    }
}

/// Returns an aggregation over a lookup join with the aggregations below the join replaced; `None` if
/// its input is not a lookup join.
fn below_join(
    plan: &Arc<dyn ExecutionPlan>,
    node: &AggregateExec,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(first) = first_stage(node, Stage::Whole) else {
        return Ok(None);
    };
    let Some(below) = InlinedInput::of(first.input())? else {
        return Ok(None);
    };
    if !below.node.is::<ArrayLookupJoinExec>() {
        return Ok(None);
    }
    let join = replace_all(Arc::clone(&below.node), config)?;
    match Arc::ptr_eq(&join, &below.node) {
        true => Ok(Some(Arc::clone(plan))),
        false => with_input(plan, &below.node, &join).map(Some),
    }
}

/// Returns the operator that computes this stage of the aggregation `plan` over a lookup join; `None` if
/// there is no such join, or if the groups cannot be numbered.
pub(crate) fn over_join(
    plan: &Arc<dyn ExecutionPlan>,
    stage: Stage,
    config: &ConfigOptions,
) -> Result<Option<ArrayJoinAggregateExec>> {
    let first = plan.downcast_ref::<AggregateExec>();
    match first.and_then(|node| first_stage(node, stage)) {
        Some(first) => joined::plan::operator(plan, first, stage, config),
        None => Ok(None),
    }
}

/// Sorts the rows of `plan` like those of `node` if necessary, since the parent of `node` may rely
/// on their order.
fn in_order(plan: Arc<dyn ExecutionPlan>, node: &AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(ordering) = node.properties().output_ordering() else {
        return Ok(plan);
    };
    let properties = plan.equivalence_properties();
    if properties.ordering_satisfy(ordering.iter().cloned())? {
        return Ok(plan);
    }
    // Sorting is cheap here: there is one row per group.
    let sorted = SortExec::new(ordering.clone(), plan).with_preserve_partitioning(true);
    Ok(Arc::new(sorted))
}

/// Replaces the partial stage of an aggregation over one scan or over a union of several.
fn partial(
    plan: &Arc<dyn ExecutionPlan>,
    node: &AggregateExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !node.group_expr().is_single() {
        return Ok(grouping_sets(plan)?.map(|operator| Arc::new(operator) as _));
    }
    let Some(aggregation) = Aggregation::of(node) else {
        return Ok(None);
    };
    let Some(below) = InlinedInput::of(node.input())? else {
        return Ok(None);
    };
    let Some(union) = below.node.downcast_ref::<UnionExec>() else {
        let one = operator(plan, Stage::Partial)?;
        return one.map(|one| in_order(Arc::new(one), node)).transpose();
    };
    let aggregation = aggregation.over(&below)?;
    let mut inputs = Vec::with_capacity(union.inputs().len());
    for input in union.inputs() {
        let alone = with_input(plan, &below.node, input)?;
        match over_scan(input, &aggregation, &alone, Stage::Partial)? {
            Some(operator) => inputs.push(in_order(Arc::new(operator), node)?),
            None => return Ok(None),
        }
    }
    UnionExec::try_new(inputs).map(Some)
}

/// Returns `plan` with `input` in place of the node `node`.
fn with_input(
    plan: &Arc<dyn ExecutionPlan>,
    node: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_down(|plan| {
        Ok(if Arc::ptr_eq(&plan, node) {
            Transformed::new(Arc::clone(input), true, TreeNodeRecursion::Jump)
        } else {
            Transformed::no(plan)
        })
    })?;
    Ok(replaced.data)
}

/// Returns the operator that aggregates the rows of `input` and produces the output of `plan`;
/// `None` if the aggregation cannot be computed in array space.
fn over_scan(
    input: &Arc<dyn ExecutionPlan>,
    aggregation: &Aggregation,
    plan: &Arc<dyn ExecutionPlan>,
    stage: Stage,
) -> Result<Option<ArrayAggregateExec>> {
    let Some(below) = InlinedInput::of_scan(input)? else {
        return Ok(None);
    };
    let aggregation = aggregation.over(&below)?;
    let scan = below.node;
    let blocks = scan.blocks().clone();
    let fallback = Arc::clone(plan);
    let operator =
        ArrayAggregateExec::try_new(stage, aggregation, scan, fallback, below.dynamic_filter);
    let Some(operator) = operator else {
        return Ok(None);
    };
    let program = operator.program();
    let parts = blocks.narrowed_selections().unwrap_or_default();
    // A predicate over pairs leaves out chunks whose cells do not count either.
    if program.presence == Presence::Selected && program.on_pairs.is_empty() {
        // All selected cells count, so none of them may be left out.
        if parts.iter().any(|part| part.kept.is_some()) {
            return Ok(None);
        }
    } else if !never_fail(&program.aggregation.groups, &program.group_columns, &parts) {
        // Grouping expressions are evaluated on all selected coordinates, including those that no row
        // has once the rest of the predicate is applied. Such an evaluation must not fail the query.
        return Ok(None);
    }
    let cells = blocks.rows().at_most();
    let is_small = operator.groups().is_some_and(|groups| {
        groups <= FEW_GROUPS
            || (groups <= MAX_GROUPS as u64
                && cells.is_none_or(|cells| groups <= cells.saturating_mul(SPARSE)))
    });
    Ok(is_small.then_some(operator))
}

#[cfg(test)]
mod tests {
    use crate::provider::plans::fixtures::{arrays, before_and_after};

    #[tokio::test]
    async fn whole_stack() {
        let (_folder, ctx) = arrays().await;
        let sql = "SELECT avg(value) FROM a";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.array_aggregates", sql).await, @r"
    -- before
    AggregateExec: mode=Final, gby=[], aggr=[avg(a.value)]
      CoalescePartitionsExec
        AggregateExec: mode=Partial, gby=[], aggr=[avg(a.value)]
          DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[value]
    -- after
    ArrayAggregateExec: mode=Single, gby=[], aggr=[avg(a.value)], tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12
    ");
    }

    #[tokio::test]
    async fn grouped_by_axes() {
        let (_folder, ctx) = arrays().await;
        let sql = "SELECT lat, lon, max(value) FROM a WHERE time > 0 GROUP BY lat, lon";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.array_aggregates", sql).await, @r"
    -- before
    AggregateExec: mode=FinalPartitioned, gby=[lat@0 as lat, lon@1 as lon], aggr=[max(a.value)]
      RepartitionExec: partitioning=Hash([lat@0, lon@1], 3), input_partitions=3
        AggregateExec: mode=Partial, gby=[lat@0 as lat, lon@1 as lon], aggr=[max(a.value)]
          DataSourceExec: tet=a, slice=[time: 3 of 4, lat: all, lon: all], chunks=12 of 12, projection=[lat, lon, value]
    -- after
    ArrayAggregateExec: mode=Single, gby=[lat@1, lon@2], aggr=[max(a.value)], tet=a, slice=[time: 3 of 4, lat: all, lon: all], chunks=12 of 12
    ");
    }

    #[tokio::test]
    async fn predicate_over_values() {
        let (_folder, ctx) = arrays().await;
        let sql = "SELECT lat, sum(value) FROM a WHERE value > 7 GROUP BY lat HAVING count(*) > 1 ORDER BY lat LIMIT 2";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.array_aggregates", sql).await, @r"
    -- before
    SortPreservingMergeExec: [lat@0 ASC NULLS LAST], fetch=2
      SortExec: TopK(fetch=2), expr=[lat@0 ASC NULLS LAST], preserve_partitioning=[true]
        FilterExec: count(Int64(1))@2 > 1, projection=[lat@0, sum(a.value)@1]
          AggregateExec: mode=FinalPartitioned, gby=[lat@0 as lat], aggr=[sum(a.value), count(Int64(1))]
            RepartitionExec: partitioning=Hash([lat@0], 3), input_partitions=3
              AggregateExec: mode=Partial, gby=[lat@0 as lat], aggr=[sum(a.value), count(Int64(1))]
                DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[lat, value], filter=value@1 > 7, dynamic_filter=DynamicFilter [ empty ]
    -- after
    SortPreservingMergeExec: [lat@0 ASC NULLS LAST], fetch=2
      FilterExec: count(Int64(1))@2 > 1, projection=[lat@0, sum(a.value)@1], fetch=2
        RepartitionExec: partitioning=RoundRobinBatch(3), input_partitions=1, maintains_sort_order=true
          ArrayAggregateExec: mode=Single, gby=[lat@1], aggr=[sum(a.value), count(Int64(1))], predicate=value@3 > 7, tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12
    ");
    }

    #[tokio::test]
    async fn row_by_row() {
        let (_folder, ctx) = arrays().await;
        let sql = "SELECT lat, median(value) FILTER (WHERE value < 90) FROM a GROUP BY lat";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.array_aggregates", sql).await, @r"
    -- before
    AggregateExec: mode=SinglePartitioned, gby=[lat@0 as lat], aggr=[median(a.value) FILTER (WHERE a.value < Float32(90)) as median(a.value) FILTER (WHERE a.value < Int64(90))]
      RepartitionExec: partitioning=Hash([lat@0], 3), input_partitions=3
        DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[lat, value]
    -- after
    ArrayAggregateExec: mode=Single, gby=[lat@1], aggr=[median(a.value) FILTER (WHERE a.value < Int64(90))], by_row=[median(a.value) FILTER (WHERE a.value < Int64(90))], tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12
    ");
    }

    #[tokio::test]
    async fn partial_stage_over_a_union() {
        let (_folder, ctx) = arrays().await;
        let sql =
            "SELECT lat, count(*) FROM (SELECT * FROM a UNION ALL SELECT * FROM b) GROUP BY lat";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.array_aggregates", sql).await, @r"
    -- before
    ProjectionExec: expr=[lat@0 as lat, count(Int64(1))@1 as count(*)]
      AggregateExec: mode=FinalPartitioned, gby=[lat@0 as lat], aggr=[count(Int64(1))]
        RepartitionExec: partitioning=Hash([lat@0], 3), input_partitions=6
          AggregateExec: mode=Partial, gby=[lat@0 as lat], aggr=[count(Int64(1))]
            UnionExec
              DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=0 of 12, projection=[lat]
              DataSourceExec: tet=b, slice=[time: all, lat: all, lon: all], chunks=0 of 4, projection=[lat]
    -- after
    ProjectionExec: expr=[lat@0 as lat, count(Int64(1))@1 as count(*)]
      AggregateExec: mode=FinalPartitioned, gby=[lat@0 as lat], aggr=[count(Int64(1))]
        RepartitionExec: partitioning=Hash([lat@0], 3), input_partitions=2
          UnionExec
            ArrayAggregateExec: mode=Partial, gby=[lat@1], aggr=[count(Int64(1))], tet=a, slice=[time: all, lat: all, lon: all], chunks=0 of 12
            ArrayAggregateExec: mode=Partial, gby=[lat@1], aggr=[count(Int64(1))], tet=b, slice=[time: all, lat: all, lon: all], chunks=0 of 4
    ");
    }

    #[tokio::test]
    async fn grouping_by_values_is_left_alone() {
        let (_folder, ctx) = arrays().await;
        let sql = "SELECT round(value), count(*) FROM a GROUP BY 1";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.array_aggregates", sql).await, @r"
    -- before
    ProjectionExec: expr=[round(a.value)@0 as round(a.value), count(Int64(1))@1 as count(*)]
      AggregateExec: mode=FinalPartitioned, gby=[round(a.value)@0 as round(a.value)], aggr=[count(Int64(1))]
        RepartitionExec: partitioning=Hash([round(a.value)@0], 3), input_partitions=3
          AggregateExec: mode=Partial, gby=[round(value@0) as round(a.value)], aggr=[count(Int64(1))]
            DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[value]
    -- after
    ProjectionExec: expr=[round(a.value)@0 as round(a.value), count(Int64(1))@1 as count(*)]
      AggregateExec: mode=FinalPartitioned, gby=[round(a.value)@0 as round(a.value)], aggr=[count(Int64(1))]
        RepartitionExec: partitioning=Hash([round(a.value)@0], 3), input_partitions=3
          AggregateExec: mode=Partial, gby=[round(value@0) as round(a.value)], aggr=[count(Int64(1))]
            DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[value]
    ");
    }
}
