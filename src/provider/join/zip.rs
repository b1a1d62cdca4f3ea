//! Replaces joins of arrays on all of their dimensions by a single scan of both arrays.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::grid::{Axis, Selection};
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::aligned::{AlignedGrids, grid_of_largest};
use crate::provider::join::side::Side;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::plans::below::{InlinedInput, columns_in, may_fail, replace_columns};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::rules::operators::replace_operators;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments};
use crate::provider::source::{BlockSource, GridSource, SelectedBlocks};

/// Replaces joins of two arrays on all of their dimensions by one scan of both, if their
/// coordinates are equal. Chunks with the same cells are read together, and nothing is hashed.
///
/// The rule leaves a join unchanged if the axes overlap only in part, if coordinates repeat, or if
/// filters leave rows of one side without a match.
///
/// [`enable_arrays`](crate::enable_arrays) puts the rule ahead of
/// [`ArrayAggregates`](crate::provider::aggregate::ArrayAggregates), which then computes aggregates
/// over such joins.
#[derive(Debug, Default)]
pub struct ZipJoins {}

impl ZipJoins {
    /// Creates the rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for ZipJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !ArraySettings::is_on(config, |settings| settings.zip_joins) {
            return Ok(plan);
        }
        // Work from the leaves up, so that the result of one join can be joined again.
        replace_operators(plan, |plan| {
            if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
                zip(join, config)
            } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
                narrow(projection, plan, config)
            } else {
                Ok(None)
            }
        })
    }

    fn name(&self) -> &str {
        "zip_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the plan that replaces a join; `None` if the join has to stay.
fn zip(join: &HashJoinExec, config: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let kind = *join.join_type();
    let is_taken = matches!(
        kind,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
    );
    if !is_taken || join.fetch().is_some() {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (Side::of(join.left())?, Side::of(join.right())?) else {
        return Ok(None);
    };
    let options = left.below.node.plan().options;
    // A conjunct below the null-filled side of an outer join removes rows of that side only. Their
    // matches on the other side stay.
    let fills_left = matches!(kind, JoinType::Right | JoinType::Full);
    let fills_right = matches!(kind, JoinType::Left | JoinType::Full);
    if right.below.node.plan().options != options
        || (fills_left && !left.below.conjuncts.is_empty())
        || (fills_right && !right.below.conjuncts.is_empty())
        || (kind != JoinType::Inner && join.filter().is_some())
        || !is_on_all_dimensions(join, &left, &right)?
        || !have_same_axes(left.part.grid.axes(), right.part.grid.axes())
    {
        return Ok(None);
    }
    if !outputs_both(kind, &left.part.selection, &right.part.selection) {
        return Ok(None);
    }

    let grids = [&left, &right].map(|side| Arc::clone(&side.part.grid));
    if grid_of_largest(&grids).is_none() {
        return Ok(None);
    }
    // The join condition would be evaluated on rows that the inputs filter out, and might fail
    // there.
    let leaves_rows_out = !(left.below.conjuncts.is_empty() && right.below.conjuncts.is_empty());
    if leaves_rows_out
        && join
            .filter()
            .is_some_and(|filter| may_fail(filter.expression()))
    {
        return Ok(None);
    }
    let grid: Arc<dyn GridSource> = Arc::new(AlignedGrids::new(
        format!("zip({}, {})", grids[0].name(), grids[1].name()),
        &grids,
        attributes(&grids, [fills_left, fills_right]),
    ));
    let source = Arc::new(GridTable::new(Arc::clone(&grid)));
    let schema = Arc::clone(source.schema());
    let column = |number: usize| -> Option<Arc<dyn PhysicalExpr>> {
        let field = schema.fields().get(number)?;
        Some(Arc::new(Column::new(field.name(), number)))
    };
    // The columns of the left table keep their indices, and the attributes of the right table
    // follow.
    let dimensions = grid.axes().len();
    let shift = grids[0].attributes().len();
    let of_left = |expr: &Arc<dyn PhysicalExpr>| replace_columns(expr, &column);
    let of_right = |expr: &Arc<dyn PhysicalExpr>| {
        replace_columns(expr, &|number| {
            column(if number < dimensions {
                number
            } else {
                number + shift
            })
        })
    };
    let all = |side: &Side, change: &dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<_>| {
        let columns = side.below.columns.iter().map(change);
        let conjuncts = side.below.conjuncts.iter().map(change);
        Ok::<_, datafusion::error::DataFusionError>((
            columns.collect::<Result<Vec<_>>>()?,
            conjuncts.collect::<Result<Vec<_>>>()?,
        ))
    };
    let (left_columns, mut conjuncts) = all(&left, &of_left)?;
    let (right_columns, more) = all(&right, &of_right)?;
    conjuncts.extend(more);
    if let Some(filter) = join.filter() {
        if is_volatile(filter.expression()) {
            return Ok(None);
        }
        let condition = replace_columns(filter.expression(), &|number| {
            let column = filter.column_indices().get(number)?;
            match column.side {
                JoinSide::Left => left_columns.get(column.index).cloned(),
                JoinSide::Right => right_columns.get(column.index).cloned(),
                JoinSide::None => None,
            }
        })?;
        conjuncts.extend(split_conjunction(&condition).into_iter().cloned());
    }
    let mut output: Vec<_> = left_columns.into_iter().chain(right_columns).collect();
    if let Some(projection) = &join.projection {
        output = projection.iter().map(|n| Arc::clone(&output[*n])).collect();
    }

    let mut filters = Vec::new();
    for (side, change) in [
        (
            &left,
            &of_left as &dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<_>,
        ),
        (&right, &of_right),
    ] {
        let own = &side.below.node.plan().selected_by.filters;
        for filter in own {
            filters.push(change(filter)?);
        }
    }
    let selected_by = SelectArguments {
        filters,
        columns: (0..schema.fields().len()).collect(),
    };
    let SelectedBlocks { blocks, kept, .. } =
        source.select(&selected_by.filters, &selected_by.columns, &options)?;
    let projection = columns_in(output.iter().chain(&conjuncts));
    let plan = ScanPlan {
        columns: projection.clone(),
        projection,
        filter: None,
        dynamic_filter: None,
        fetch: None,
        partitions: Vec::new(),
        ordering: Vec::new(),
        options,
        selected_by,
    };
    let predicate = conjunction_opt(conjuncts.iter().cloned());
    let scan = ArrayScan::of_blocks(
        source,
        PlannedBlocks::new(blocks, kept.map_or(BlockOrder::All, BlockOrder::Ascending)),
        predicate.as_ref(),
        plan,
        config,
    )?;
    let rows = InlinedInput {
        node: scan,
        columns: output,
        conjuncts,
        dynamic_filter: None,
    };
    plan_of(rows, &join.schema()).map(Some)
}

/// Narrows the scan of a replaced join to the columns that the projection above needs. A join
/// outputs the coordinates of both sides, whether they are used or not.
fn narrow(
    projection: &ProjectionExec,
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // The projection that `zip` adds only renames columns.
    let is_of_zip = projection.input().downcast_ref::<ProjectionExec>();
    let is_of_zip = is_of_zip.is_some_and(|inner| {
        let mut columns = inner.expr().iter();
        columns.all(|column| column.expr.downcast_ref::<Column>().is_some())
    });
    if !is_of_zip {
        return Ok(None);
    }
    let Some(mut rows) = InlinedInput::of_scan(plan)? else {
        return Ok(None);
    };
    let scan = rows.node.plan();
    let needed = columns_in(rows.columns.iter().chain(&rows.conjuncts));
    if scan.filter.is_some() || scan.dynamic_filter.is_some() || needed.len() >= scan.columns.len()
    {
        return Ok(None);
    }
    if let Some(scan) = rows.node.with_projection(needed)? {
        rows.node = scan.recut(config);
    }
    plan_of(rows, &projection.schema()).map(Some)
}

/// Returns the plan that computes rows from a scan, with the column names of `schema`.
fn plan_of(rows: InlinedInput<ArrayScan>, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
    let read = rows.node.plan().projection.clone();
    rows.over_narrowed(rows.node.clone().into_exec(), &read, schema)
}

/// Returns `true` if the join keys are the dimensions of both sides, each paired with its
/// counterpart.
fn is_on_all_dimensions(join: &HashJoinExec, left: &Side, right: &Side) -> Result<bool> {
    let mut keys = BTreeSet::new();
    for (of_left, of_right) in join.on() {
        match (left.dimension(of_left)?, right.dimension(of_right)?) {
            (Some(one), Some(other)) if one == other => keys.insert(one),
            _ => return Ok(false),
        };
    }
    let dimensions = left.part.grid.axes().len();
    Ok(dimensions == right.part.grid.axes().len() && keys.into_iter().eq(0..dimensions))
}

/// Returns `true` if every cell has exactly one match, at the same indices: all coordinates are
/// equal and unique. Unreadable coordinates give `false`; the scan reports them.
fn have_same_axes(left: &[Axis], right: &[Axis]) -> bool {
    left.iter().zip(right).all(|(one, other)| {
        one.has_same_coordinates(other).unwrap_or(false)
            && one.has_unique_coordinates().unwrap_or(false)
    })
}

/// Returns `true` if the join outputs just the cells that are selected on both sides, and none that
/// is selected on one side only.
fn outputs_both(kind: JoinType, left: &Selection, right: &Selection) -> bool {
    let both = left.intersect(right);
    match kind {
        JoinType::Left => both == *left,
        JoinType::Right => both == *right,
        JoinType::Full => both == *left && both == *right,
        _ => true,
    }
}

/// Returns the attributes of both grids under distinct names, nullable where the join may fill in
/// nulls.
fn attributes(grids: &[Arc<dyn GridSource>; 2], are_nullable: [bool; 2]) -> Vec<FieldRef> {
    let mut taken: BTreeSet<String> = grids[0]
        .axes()
        .iter()
        .map(|axis| axis.name().into())
        .collect();
    let mut attributes = Vec::new();
    for ((grid, side), is_nullable) in grids.iter().zip(["left", "right"]).zip(are_nullable) {
        for field in grid.attributes() {
            let mut name = format!("{side}.{}", field.name());
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            let field = Field::with_name(field.as_ref().clone(), name);
            let is_nullable = is_nullable || field.is_nullable();
            attributes.push(Arc::new(field.with_nullable(is_nullable)));
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;
    use tempfile::TempDir;

    use crate::provider::plans::fixtures::{arrays, before_and_after, set};

    /// Returns a session in which DataFusion joins what is not zipped.
    async fn arrays_without_lookups() -> (TempDir, SessionContext) {
        let (folder, ctx) = arrays().await;
        set(&ctx, "tet.lookup_joins", "false").await;
        (folder, ctx)
    }

    #[tokio::test]
    async fn all_dimensions() {
        let (_folder, ctx) = arrays_without_lookups().await;
        let sql = "SELECT a.value - b.value FROM a JOIN b USING (time, lat, lon)";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.zip_joins", sql).await, @r"
    -- before
    ProjectionExec: expr=[value@0 - value@1 as a.value - b.value]
      HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(time@0, time@0), (lat@1, lat@1), (lon@2, lon@2)], projection=[value@3, value@7]
        CoalescePartitionsExec
          DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[time, lat, lon, value]
        CooperativeExec
          DataSourceExec: tet=b, slice=[time: all, lat: all, lon: all], chunks=4 of 4, projection=[time, lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    -- after
    ProjectionExec: expr=[left.value@0 - right.value@1 as a.value - b.value]
      CooperativeExec
        DataSourceExec: tet=zip(a, b), slice=[time: all, lat: all, lon: all], chunks=4 of 4, projection=[left.value, right.value]
    ");
    }

    #[tokio::test]
    async fn predicate_and_aggregate_over_a_join() {
        let (_folder, ctx) = arrays_without_lookups().await;
        let sql = "SELECT a.lat, avg(a.value - b.value) FROM a JOIN b USING (time, lat, lon) WHERE a.value > 5 GROUP BY a.lat";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.zip_joins", sql).await, @r"
    -- before
    AggregateExec: mode=FinalPartitioned, gby=[lat@0 as lat], aggr=[avg(a.value - b.value)]
      RepartitionExec: partitioning=Hash([lat@0], 3), input_partitions=3
        AggregateExec: mode=Partial, gby=[lat@0 as lat], aggr=[avg(a.value - b.value)]
          HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(time@0, time@0), (lat@1, lat@1), (lon@2, lon@2)], projection=[lat@1, value@3, value@7]
            CoalescePartitionsExec
              DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[time, lat, lon, value], filter=value@3 > 5
            DataSourceExec: tet=b, slice=[time: all, lat: all, lon: all], chunks=4 of 4, projection=[time, lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    -- after
    ArrayAggregateExec: mode=Single, gby=[lat@1], aggr=[avg(a.value - b.value)], by_row=[avg(a.value - b.value)], predicate=left.value@3 > 5, tet=zip(a, b), slice=[time: all, lat: all, lon: all], chunks=4 of 4
    ");
    }

    #[tokio::test]
    async fn outer_join() {
        let (_folder, ctx) = arrays_without_lookups().await;
        let sql = "SELECT * FROM a LEFT JOIN b USING (time, lat, lon) WHERE a.lat = 0";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.zip_joins", sql).await, @r"
    -- before
    HashJoinExec: mode=CollectLeft, join_type=Left, on=[(time@0, time@0), (lat@1, lat@1), (lon@2, lon@2)], projection=[time@0, lat@1, lon@2, value@3, value@7]
      CoalescePartitionsExec
        DataSourceExec: tet=a, slice=[time: all, lat: 1 of 5, lon: all], chunks=4 of 12, projection=[time, lat, lon, value]
      CooperativeExec
        DataSourceExec: tet=b, slice=[time: all, lat: 1 of 5, lon: all], chunks=4 of 4, projection=[time, lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    -- after
    ProjectionExec: expr=[time@0 as time, lat@1 as lat, lon@2 as lon, left.value@3 as value, right.value@4 as value]
      CooperativeExec
        DataSourceExec: tet=zip(a, b), slice=[time: all, lat: 1 of 5, lon: all], chunks=4 of 4, projection=[time, lat, lon, left.value, right.value]
    ");
    }

    #[tokio::test]
    async fn join_on_some_dimensions_is_left_alone() {
        let (_folder, ctx) = arrays_without_lookups().await;
        let sql = "SELECT a.value, b.value FROM a JOIN b USING (lat, lon)";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.zip_joins", sql).await, @r"
    -- before
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(lat@0, lat@0), (lon@1, lon@1)], projection=[value@2, value@5]
      CoalescePartitionsExec
        DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[lat, lon, value]
      CooperativeExec
        DataSourceExec: tet=b, slice=[time: all, lat: all, lon: all], chunks=4 of 4, projection=[lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    -- after
    HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(lat@0, lat@0), (lon@1, lon@1)], projection=[value@2, value@5]
      CoalescePartitionsExec
        DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[lat, lon, value]
      CooperativeExec
        DataSourceExec: tet=b, slice=[time: all, lat: all, lon: all], chunks=4 of 4, projection=[lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    ");
    }

    #[tokio::test]
    async fn other_coordinates_are_left_alone() {
        let (_folder, ctx) = arrays_without_lookups().await;
        let sql = "SELECT a.value - c.value FROM a JOIN c USING (time, lat, lon)";
        insta::assert_snapshot!(before_and_after(&ctx, "tet.zip_joins", sql).await, @r"
    -- before
    ProjectionExec: expr=[value@0 - value@1 as a.value - c.value]
      HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(time@0, time@0), (lat@1, lat@1), (lon@2, lon@2)], projection=[value@3, value@7]
        CoalescePartitionsExec
          DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[time, lat, lon, value]
        CooperativeExec
          DataSourceExec: tet=c, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[time, lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    -- after
    ProjectionExec: expr=[value@0 - value@1 as a.value - c.value]
      HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(time@0, time@0), (lat@1, lat@1), (lon@2, lon@2)], projection=[value@3, value@7]
        CoalescePartitionsExec
          DataSourceExec: tet=a, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[time, lat, lon, value]
        CooperativeExec
          DataSourceExec: tet=c, slice=[time: all, lat: all, lon: all], chunks=12 of 12, projection=[time, lat, lon, value], dynamic_filter=DynamicFilter [ empty ]
    ");
    }
}
