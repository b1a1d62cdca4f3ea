//! Replaces joins of arrays on all dimensions of one of them by a single scan of both arrays.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, SchemaRef};
use datafusion::common::{JoinSide, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinOn;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::aligned::AlignedGrids;
use crate::provider::join::matched_rows::{Input, MatchedRows, Matching};
use crate::provider::join::pair::Pair;
use crate::provider::join::side::Side;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::plans::below::{InlinedInput, columns_in, replace_columns};
use crate::provider::plans::conjunction::conjunction_opt;
use crate::provider::plans::safety::may_fail;
use crate::provider::rules::operators::replace_operators;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::scan::{ArrayScan, ScanPlan, SelectArguments};
use crate::provider::source::{BlockSource, GridSource, SelectedBlocks};

/// Replaces joins of two arrays on all dimensions of one of them by one scan of both. Cells that match are read together,
/// and nothing is hashed.
///
/// Either the axes of both arrays have equal coordinates, or the dimensions of one array are equal to expressions over
/// dimensions of the other, such as `init + lead = time`.
///
/// The rule leaves a join unchanged if coordinates repeat, if a full join has rows without a match, or if chunks would
/// be decoded many times.
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
                match narrow(projection, plan, config)? {
                    Some(narrowed) => Ok(Some(narrowed)),
                    None => zip_below(plan, config),
                }
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
    if join.fetch().is_some() || join.null_aware {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (Side::of(join.left())?, Side::of(join.right())?) else {
        return Ok(None);
    };
    let options = left.below.node.plan().options;
    if right.below.node.plan().options != options {
        return Ok(None);
    }
    let Some(pair) = Pair::of(join, &left, &right)? else {
        return Ok(None);
    };
    let grids = [Arc::clone(&pair.first.part.grid), Arc::clone(&pair.second)];
    let mut sides = ["left", "right"];
    if !pair.is_left_first {
        sides.reverse();
    }
    let grid: Arc<dyn GridSource> = Arc::new(AlignedGrids::new(
        format!("zip({}, {})", grids[0].name(), grids[1].name()),
        &grids,
        attributes(&grids, sides),
    ));
    let source = Arc::new(GridTable::new(Arc::clone(&grid)));
    let schema = Arc::clone(source.schema());
    let column = |number: usize| -> Option<Arc<dyn PhysicalExpr>> {
        let field = schema.fields().get(number)?;
        Some(Arc::new(Column::new(field.name(), number)))
    };
    // The columns of the first table keep their indices, and the attributes of the second table
    // follow.
    let before = grid.axes().len() + grids[0].attributes().len();
    let of_first = |expr: &Arc<dyn PhysicalExpr>| replace_columns(expr, &column);
    let dimensions = pair.dimensions.iter().map(of_first);
    let dimensions = dimensions.collect::<Result<Vec<_>>>()?;
    let of_second = |expr: &Arc<dyn PhysicalExpr>| {
        replace_columns(expr, &|number| match number.checked_sub(dimensions.len()) {
            Some(attribute) => column(before + attribute),
            None => dimensions.get(number).cloned(),
        })
    };
    let change = |side: &Side, expr: &Arc<dyn PhysicalExpr>| match std::ptr::eq(side, pair.first) {
        true => of_first(expr),
        false => of_second(expr),
    };
    let all = |side: &Side, exprs: &[Arc<dyn PhysicalExpr>]| {
        let changed = exprs.iter().map(|expr| change(side, expr));
        changed.collect::<Result<Vec<_>>>()
    };
    let input = |side: &Side| -> Result<Input> {
        Ok(Input {
            columns: all(side, &side.below.columns)?,
            conjuncts: all(side, &side.below.conjuncts)?,
            filters: all(side, &side.below.node.plan().selected_by.filters)?,
        })
    };
    let [left, right] = [input(&left)?, input(&right)?];
    let bounds = pair.bounds.iter().map(of_first);
    let columns = [&*left.columns, &*right.columns];
    let matching = Matching {
        keys: equalities(join, &pair.other_keys, columns)?,
        filter: filter(join, columns)?,
        bounds: bounds.collect::<Result<_>>()?,
        is_everywhere: pair.is_everywhere,
    };
    if matching
        .keys
        .iter()
        .chain(&matching.filter)
        .any(is_volatile)
    {
        return Ok(None);
    }
    let rows = MatchedRows::of(*join.join_type(), left, right, matching, &schema)?;
    let Some(MatchedRows {
        mut output,
        mut conjuncts,
        filters,
    }) = rows
    else {
        return Ok(None);
    };
    if let Some(projection) = &join.projection {
        output = projection.iter().map(|n| Arc::clone(&output[*n])).collect();
    }

    let mut fields = output.iter().zip(join.schema().fields().to_vec());
    let becomes_nullable =
        fields.any(|(expr, field)| !field.is_nullable() && expr.nullable(&schema).unwrap_or(true));
    if becomes_nullable {
        return Ok(None);
    }

    if pair.is_reindexed {
        // A filter over one dimension may have become a filter over several, which selects too many cells.
        let over_several = filters.iter().filter(|filter| {
            let columns = collect_columns(filter);
            columns.len() > 1
                && columns
                    .iter()
                    .all(|column| column.index() < grid.axes().len())
                && !conjuncts.contains(filter)
        });
        let over_several: Vec<_> = over_several.cloned().collect();
        // Conjuncts would be evaluated on these cells as well.
        if !over_several.is_empty() && conjuncts.iter().any(may_fail) {
            return Ok(None);
        }
        conjuncts.extend(over_several);
    }
    let selected_by = SelectArguments {
        filters,
        columns: (0..schema.fields().len()).collect(),
    };
    let SelectedBlocks {
        blocks,
        kept,
        residual,
    } = source.select(&selected_by.filters, &selected_by.columns, &options)?;
    if pair.is_reindexed && !residual.is_empty() {
        return Ok(None);
    }
    let projection = columns_in(output.iter().chain(&conjuncts));
    let plan = ScanPlan {
        columns: projection.clone(),
        projection,
        filter: None,
        dynamic_filter: None,
        fetch: None,
        partitions: Vec::new(),
        ordering: Vec::new(),
        keeps_partitions: false,
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

/// Returns the equalities of join keys. `columns` are the expressions of the columns of both inputs.
fn equalities(
    join: &HashJoinExec,
    keys: &JoinOn,
    columns: [&[Arc<dyn PhysicalExpr>]; 2],
) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let over =
        |side: usize, expr| replace_columns(expr, &|number| columns[side].get(number).cloned());
    let equals = match join.null_equality() {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let equalities = keys.iter().map(|(left, right)| {
        let equality = BinaryExpr::new(over(0, left)?, equals, over(1, right)?);
        Ok(Arc::new(equality) as _)
    });
    equalities.collect()
}

/// Returns the conjuncts of the filter of a join. `columns` are the expressions of the columns of both inputs.
fn filter(
    join: &HashJoinExec,
    columns: [&[Arc<dyn PhysicalExpr>]; 2],
) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let Some(filter) = join.filter() else {
        return Ok(Vec::new());
    };
    let condition = replace_columns(filter.expression(), &|number| {
        let column = filter.column_indices().get(number)?;
        match column.side {
            JoinSide::Left => columns[0].get(column.index).cloned(),
            JoinSide::Right => columns[1].get(column.index).cloned(),
            JoinSide::None => None,
        }
    })?;
    Ok(split_conjunction(&condition).into_iter().cloned().collect())
}

/// Replaces the join below a projection by a scan of the columns that the projection uses, if all columns of the
/// join cannot be scanned.
fn zip_below(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(below) = InlinedInput::of(plan)? else {
        return Ok(None);
    };
    let Some(join) = below.node.downcast_ref::<HashJoinExec>() else {
        return Ok(None);
    };
    let used = columns_in(below.columns.iter().chain(&below.conjuncts));
    if used.is_empty() || used.len() == join.schema().fields().len() {
        return Ok(None);
    }
    match zip(&join.with_projection(Some(used.clone()))?, config)? {
        Some(zipped) => below.over_narrowed(zipped, &used, &plan.schema()).map(Some),
        None => Ok(None),
    }
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

/// Returns the attributes of both grids under distinct names. `sides` are the names of the sides of the join.
fn attributes(grids: &[Arc<dyn GridSource>; 2], sides: [&str; 2]) -> Vec<FieldRef> {
    let axes = grids[0].axes().iter();
    let mut taken: BTreeSet<String> = axes.map(|axis| axis.name().into()).collect();
    let mut attributes = Vec::new();
    for (grid, side) in grids.iter().zip(sides) {
        for field in grid.attributes() {
            let mut name = format!("{side}.{}", field.name());
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            attributes.push(Arc::new(Field::with_name(field.as_ref().clone(), name)));
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
    async fn coordinates_that_overlap_in_part() {
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
    ProjectionExec: expr=[left.value@1 - right.value@0 as a.value - c.value]
      CooperativeExec
        DataSourceExec: tet=zip(c, reindexed(a)), slice=[time: all, lat: 4 of 5, lon: all], chunks=8 of 12, projection=[right.value, left.value]
    ");
    }
}
