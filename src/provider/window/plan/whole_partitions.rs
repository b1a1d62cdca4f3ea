//! The rule that joins aggregates of partitions with the rows of an array.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::windows::{PlainAggregateWindowExpr, WindowExpr};

use crate::provider::aggregate::plan::aggregation::is_order_sensitive;
use crate::provider::catalog::settings::config::ArraySettings;
use crate::provider::join::lookup::keys::ProbeKeys;
use crate::provider::join::side::Side;
use crate::provider::plans::below::{InlinedInput, columns_in, replace_columns};
use crate::provider::source::GridSelection;
use crate::provider::window::plan::first_ranks::of_first_rows;
use crate::provider::window::plan::order::WindowInput;
use crate::provider::window::plan::rule::{has_filter, like, operator, windows_of};

/// The number of partitions up to which windows are always joined. Beyond, there are at most three for every four rows.
const MANY_PARTITIONS: u64 = 1 << 16;

/// Replaces windows that are whole partitions of an array, such as
/// `avg(value) OVER (PARTITION BY lat, lon, date_part('hour', time))`, by a join of the array with its aggregates.
///
/// The join is a lookup join, and the aggregates are computed on stored cells. DataFusion sorts all rows by the expressions of
/// `PARTITION BY`, and keeps the rows of a partition in memory. The rule leaves windows to [`AxisWindows`](super::rule::AxisWindows) or
/// DataFusion if
///
/// - the input is not the scan of an array or of arrays in several files, with filters and projections,
/// - a partition depends on cells, or there are too many partitions,
/// - a function depends on the order of its rows, or
/// - all windows lie along one axis.
///
/// If only the first rows of each partition are kept, fewer rows are sorted ([`of_first_rows`]).
///
/// [`enable_arrays`](crate::enable_arrays) adds the rule before [`LookupJoins`](crate::provider::join::lookup::LookupJoins).
#[derive(Debug, Default)]
pub(crate) struct WholePartitions;

impl PhysicalOptimizerRule for WholePartitions {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !ArraySettings::is_on(config, |settings| settings.axis_windows) {
            return Ok(plan);
        }
        let replaced = plan.transform_down(|plan| {
            let replaced = match of_first_rows(&plan, config)? {
                Some(plan) => Some(plan),
                None if is_along_axis(&plan, config)? => None,
                None => joined(&plan, config)?,
            };
            Ok(match replaced {
                Some(replaced) => Transformed::new(replaced, true, TreeNodeRecursion::Jump),
                None => Transformed::no(plan),
            })
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &str {
        "whole_partitions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns `true` for window operators that [`AxisWindows`](super::rule::AxisWindows) replaces.
fn is_along_axis(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<bool> {
    Ok(operator(plan, None, config)?.is_some())
}

/// The windows of a plan, over the same rows.
struct Windows {
    /// The input of the lowest window operator.
    rows: Arc<dyn ExecutionPlan>,
    /// Every window, in the order in which they are computed.
    windows: Vec<WindowColumn>,
    /// The output of the plan. The columns of the rows are followed by one for each window.
    output: Vec<Arc<dyn PhysicalExpr>>,
}

struct WindowColumn {
    window: Arc<dyn WindowExpr>,
    /// The operator that computes it.
    node: Arc<dyn ExecutionPlan>,
    /// The input of the operator, in the columns of [`Windows::output`].
    input: Arc<[Arc<dyn PhysicalExpr>]>,
}

impl Windows {
    /// Returns the windows of a plan whose root is a window operator, down to the lowest that has only projections between it and
    /// the root; `None` if the root is no window operator.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some((windows, input)) = windows_of(plan) else {
            return Ok(None);
        };
        let Some(below) = InlinedInput::of(input)? else {
            return Ok(None);
        };
        let inner = match below.conjuncts.is_empty() {
            true => Self::of(&below.node)?,
            false => None,
        };
        let mut all = match inner {
            Some(inner) => {
                let over_rows =
                    |expr| replace_columns(expr, &|number| inner.output.get(number).cloned());
                let output = below.columns.iter().map(over_rows).collect::<Result<_>>()?;
                Self { output, ..inner }
            }
            None => Self {
                rows: Arc::clone(input),
                windows: Vec::new(),
                output: columns(&input.schema()).collect(),
            },
        };
        let input: Arc<[_]> = all.output.clone().into();
        for window in windows {
            let number = all.rows.schema().fields().len() + all.windows.len();
            all.output
                .push(Arc::new(Column::new(window.name(), number)));
            all.windows.push(WindowColumn {
                window: Arc::clone(window),
                node: Arc::clone(plan),
                input: Arc::clone(&input),
            });
        }
        Ok(Some(all))
    }
}

impl WindowColumn {
    /// Rewrites an expression in terms of the rows; `None` if it uses the result of another window.
    fn over_rows(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        rows: &Schema,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let expr = replace_columns(expr, &|number| self.input.get(number).cloned())?;
        let last = columns_in([&expr].into_iter()).pop();
        Ok(last
            .is_none_or(|last| last < rows.fields().len())
            .then_some(expr))
    }

    /// Returns the keys of the partitions, over the rows, and the function. `None` if the window is not a whole partition, or is
    /// none of those that can be joined.
    fn aggregate(
        &self,
        input: &WindowInput,
        grids: &[GridSelection],
        rows: &SchemaRef,
    ) -> Result<Option<(Keys, Arc<AggregateFunctionExpr>)>> {
        let frame = self.window.get_window_frame();
        let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
        let plain = self
            .window
            .as_any()
            .downcast_ref::<PlainAggregateWindowExpr>();
        let Some(plain) = plain.filter(|_| is_whole && !has_filter(&self.window)) else {
            return Ok(None);
        };
        let function = plain.get_aggregate_expr();
        if is_order_sensitive(function) || !function.order_bys().is_empty() {
            return Ok(None);
        }
        let mut arguments = Vec::new();
        for argument in function.expressions() {
            match self.over_rows(&argument, rows)? {
                Some(argument) if input.over_table(&argument)?.is_some() => {
                    arguments.push(argument);
                }
                _ => return Ok(None),
            }
        }
        let (mut keys, mut over_table) = (Vec::new(), Vec::new());
        for key in self.window.partition_by() {
            let Some(key) = self.over_rows(key, rows)? else {
                return Ok(None);
            };
            let Some(of_table) = input.over_table(&key)? else {
                return Ok(None);
            };
            if !columns_in([&key].into_iter()).is_empty() {
                keys.push(key);
                over_table.push(of_table);
            }
        }
        if !keys.is_empty() {
            let Some(numbered) = ProbeKeys::of_cells(&over_table, grids)? else {
                return Ok(None);
            };
            let cells = GridSelection::cells(grids).unwrap_or(u64::MAX);
            if numbered.count as u64 > MANY_PARTITIONS.max(cells - cells / 4) {
                return Ok(None);
            }
        }
        let function = AggregateExprBuilder::new(Arc::new(function.fun().clone()), arguments)
            .schema(Arc::clone(rows))
            .alias(self.window.name())
            .with_ignore_nulls(function.ignore_nulls())
            .with_distinct(function.is_distinct())
            .build()?;
        Ok(Some((keys, Arc::new(function))))
    }

    /// Returns an operator that computes the window over rows that other columns may follow; `None` if the window uses other
    /// columns, or those of a projection.
    fn over(
        &self,
        rows: Arc<dyn ExecutionPlan>,
        width: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let used = self.window.all_expressions();
        let used = [used.args, used.partition_by_exprs, used.order_by_exprs].concat();
        let is_same = columns_in(used.iter()).into_iter().all(|number| {
            let column = self
                .input
                .get(number)
                .and_then(|input| input.downcast_ref::<Column>());
            number < width && column.is_some_and(|column| column.index() == number)
        });
        match is_same {
            true => like(&self.node, vec![Arc::clone(&self.window)], rows).map(Some),
            false => Ok(None),
        }
    }
}

/// Expressions that tell partitions apart.
type Keys = Vec<Arc<dyn PhysicalExpr>>;

/// Aggregates of the partitions by the same keys.
struct PartitionAggregates {
    /// The keys, over the rows.
    keys: Keys,
    functions: Vec<Arc<AggregateFunctionExpr>>,
}

/// The source of a window's column.
enum ColumnSource {
    /// The index of a window that stays a window.
    Other(usize),
    /// The index of joined aggregates, and of the function in them.
    Aggregate(usize, usize),
}

/// Returns the join that replaces the window operators at the root of a plan; `None` if they stay.
pub(super) fn joined(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(all) = Windows::of(plan)? else {
        return Ok(None);
    };
    let Some(side) = Side::of_files(&all.rows)? else {
        return Ok(None);
    };
    let rows = all.rows.schema();
    let (grids, input) = (side.grids(), WindowInput::new(&side, &rows));
    let width = rows.fields().len();
    let mut partitionings: Vec<PartitionAggregates> = Vec::new();
    let mut joined = Arc::clone(&all.rows);
    let (mut sources, mut others) = (Vec::new(), 0);
    for window in &all.windows {
        if let Some((keys, function)) = window.aggregate(&input, &grids, &rows)? {
            let known = partitionings.iter().position(|known| known.keys == keys);
            let index = known.unwrap_or_else(|| {
                let functions = Vec::new();
                partitionings.push(PartitionAggregates { keys, functions });
                partitionings.len() - 1
            });
            let functions = &mut partitionings[index].functions;
            sources.push(ColumnSource::Aggregate(index, functions.len()));
            functions.push(function);
        } else if let Some(other) = window.over(Arc::clone(&joined), width)? {
            joined = other;
            sources.push(ColumnSource::Other(others));
            others += 1;
        } else {
            return Ok(None);
        }
    }
    if partitionings.is_empty() {
        return Ok(None);
    }
    // Lookup joins are directly above the array.
    let mut order: Vec<usize> = (0..partitionings.len()).collect();
    order.sort_by_key(|index| partitionings[*index].keys.is_empty());
    // The number of columns before those of each partitioning, and before the rows.
    let (mut first_of_partitioning, mut first_row) = (vec![0; partitionings.len()], 0);
    for (number, index) in order.iter().enumerate() {
        let aggregates = partitionings[*index].aggregates(&all.rows, config)?;
        let added = aggregates.schema().fields().len();
        for earlier in &order[..number] {
            first_of_partitioning[*earlier] += added;
        }
        joined = partitionings[*index].join(aggregates, joined, first_row)?;
        first_row += added;
    }
    let of_windows = sources.into_iter().map(|source| match source {
        ColumnSource::Other(number) => first_row + width + number,
        ColumnSource::Aggregate(index, function) => {
            first_of_partitioning[index] + partitionings[index].keys.len() + function
        }
    });
    let from: Vec<usize> = (0..width)
        .map(|column| first_row + column)
        .chain(of_windows)
        .collect();
    let (schema, named) = (joined.schema(), plan.schema());
    let output = all.output.iter().zip(named.fields());
    let output = output.map(|(expr, field)| {
        let expr = replace_columns(expr, &|number| {
            let column = *from.get(number)?;
            Some(Arc::new(Column::new(schema.field(column).name(), column)))
        })?;
        let alias = field.name().clone();
        Ok(ProjectionExpr { expr, alias })
    });
    let projection = ProjectionExec::try_new(output.collect::<Result<Vec<_>>>()?, joined)?;
    Ok(Some(Arc::new(projection)))
}

/// Returns the columns of a schema.
fn columns(schema: &Schema) -> impl Iterator<Item = Arc<dyn PhysicalExpr>> {
    let fields = schema.fields().iter().enumerate();
    fields.map(|(number, field)| Arc::new(Column::new(field.name(), number)) as _)
}

impl PartitionAggregates {
    /// Returns the aggregates of each partition, after its keys.
    fn aggregates(
        &self,
        rows: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Scans share their chunks among their own partitions only.
        let rows = reset_plan_states(Arc::clone(rows))?;
        let named = self
            .keys
            .iter()
            .map(|key| (Arc::clone(key), key.to_string()));
        let groups = PhysicalGroupBy::new_single(named.collect());
        let (schema, of_last) = (rows.schema(), groups.as_final());
        let filters = vec![None; self.functions.len()];
        let partial = AggregateExec::try_new(
            AggregateMode::Partial,
            groups,
            self.functions.clone(),
            filters.clone(),
            rows,
            Arc::clone(&schema),
        )?;
        let is_spread = config.optimizer.repartition_aggregations
            && config.execution.target_partitions > 1
            && !self.keys.is_empty();
        let mode = match is_spread {
            true => AggregateMode::FinalPartitioned,
            false => AggregateMode::Final,
        };
        Ok(Arc::new(AggregateExec::try_new(
            mode,
            of_last,
            self.functions.clone(),
            filters,
            Arc::new(partial),
            schema,
        )?))
    }

    /// Returns the aggregates joined with the rows of their partitions. `first` is the first column of the rows.
    fn join(
        &self,
        aggregates: Arc<dyn ExecutionPlan>,
        rows: Arc<dyn ExecutionPlan>,
        first: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.keys.is_empty() {
            return Ok(Arc::new(CrossJoinExec::new(aggregates, rows)));
        }
        let (schema, of_rows) = (aggregates.schema(), rows.schema());
        let on = self.keys.iter().enumerate().map(|(index, key)| {
            let of_rows = replace_columns(key, &|number| {
                let column = first + number;
                Some(Arc::new(Column::new(of_rows.field(column).name(), column)))
            })?;
            let of_aggregates = Column::new(schema.field(index).name(), index);
            Ok((Arc::new(of_aggregates) as _, of_rows))
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(HashJoinExec::try_new(
            aggregates,
            rows,
            on,
            None,
            &JoinType::Inner,
            None,
            PartitionMode::Partitioned,
            NullEquality::NullEqualsNull,
            false,
        )?))
    }
}
