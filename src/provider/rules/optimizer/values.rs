//! Aggregates over arrays that are combined with each row of a few values.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_table::generate_series::GenerateSeriesTable;
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::{Aggregate, Expr, Filter, Join, LogicalPlan, TableScan, Union, lit};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::catalog::table::ArrayTable;
use crate::provider::plans::lineage::origin;
use crate::provider::scan::sorting::is_remote;
use crate::provider::source::GridSource;

/// The maximum number of rows that are expanded, because each reads the arrays once.
const MAX_ROWS: usize = 32;
/// The maximum number of files of an array, because each is planned once per row.
const MAX_FILES: usize = 64;

/// Aggregates arrays once for each row of a cross join with literal values.
///
/// DataFusion repeats every row of the arrays for each row of values. With one row of values, they are constants,
/// so that joins and aggregates run on chunks:
///
/// ```text
/// Aggregate: groupBy=[l.lead]               Union
///   Inner Join: t.time = o.time + l.lead      Projection: 1 AS lead, ...
///     Cross Join                        ->      Aggregate: groupBy=[]
///       TableScan: o                              Inner Join: t.time = o.time + l.lead
///       Values: (1), (2)                            Projection: o.time, ..., 1 AS lead
///     TableScan: t                                    TableScan: o
///                                                 TableScan: t
///                                             Projection: 2 AS lead, ...
/// ```
///
/// A short series (`generate_series(1, 5)`) counts as values. The rule applies if all tables are arrays, and if the rows of values
/// differ in the grouped columns. It does not apply to joins of values with arrays by keys or by ranges of dimensions, which look up
/// the matches of all rows at once.
#[derive(Debug, Default)]
pub(crate) struct ExpandedValues;

impl OptimizerRule for ExpandedValues {
    fn name(&self) -> &str {
        "expanded_values"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        replace_aggregates(plan, expanded)
    }
}

/// Replaces the aggregations for which `replacement` returns another plan. `COPY` stays as it is, because it takes the keys of
/// `GROUP BY` for the dimensions of an array.
pub(super) fn replace_aggregates(
    plan: LogicalPlan,
    replacement: fn(&Aggregate) -> Result<Option<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::Copy(_))))? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else {
            return Ok(Transformed::no(node));
        };
        Ok(match replacement(aggregate)? {
            Some(replaced) => Transformed::yes(replaced),
            None => Transformed::no(node),
        })
    })
}

fn expanded(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let groups = &aggregate.group_expr;
    if groups
        .iter()
        .any(|expr| matches!(expr, Expr::GroupingSet(_)))
    {
        return Ok(None);
    }
    let Some(values) = only_values(&aggregate.input)? else {
        return Ok(None);
    };
    // For each group expression, the column of values that it is.
    let columns = groups.iter().map(|expr| match expr.try_as_col() {
        Some(column) => column_of(&aggregate.input, column, &values),
        None => Ok(None),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    // Groups by values of arrays are hashed, so that a pass per row gains little.
    let others = groups
        .iter()
        .zip(&columns)
        .filter(|(_, column)| column.is_none());
    let mut others = others.flat_map(|(expr, _)| expr.column_refs());
    if others.any(|column| !is_dimension(&aggregate.input, column)) {
        return Ok(None);
    }
    let keys = values
        .rows
        .iter()
        .map(|row| key_of(row, columns.iter().flatten()));
    let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let distinct: HashSet<_> = keys.iter().collect();
    if distinct.len() < keys.len() || keys.len() < 2 {
        return Ok(None);
    }
    let branches = keys.into_iter().enumerate().map(|(row, key)| {
        let mut key = key.into_iter();
        let constants = columns.iter().map(|column| column.and_then(|_| key.next()));
        branch(aggregate, row, &constants.collect::<Vec<_>>()).map(Arc::new)
    });
    let union = Union::try_new(branches.collect::<Result<_>>()?)?;
    // The columns keep their qualifiers.
    let columns = union.schema.columns().into_iter();
    let columns = columns.zip(aggregate.schema.iter());
    let columns = columns.map(|(column, (qualifier, field))| {
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<_> = columns.collect();
    project(LogicalPlan::Union(union), columns).map(Some)
}

/// Returns the groups of one row of values. `constants` has the value of each group expression that is a column of
/// values. There is no group without rows.
fn branch(
    aggregate: &Aggregate,
    row: usize,
    constants: &[Option<ScalarValue>],
) -> Result<LogicalPlan> {
    let groups = aggregate.group_expr.iter().zip(constants);
    let groups = groups.filter(|(_, constant)| constant.is_none());
    let groups: Vec<Expr> = groups.map(|(expr, _)| expr.clone()).collect();
    let is_one = groups.is_empty();
    let mut functions = aggregate.aggr_expr.clone();
    let count = count(lit(1i64));
    if is_one && !functions.contains(&count) {
        functions.push(count.clone());
    }
    let input = Arc::new(with_row(&aggregate.input, row)?);
    let mut plan = LogicalPlan::Aggregate(Aggregate::try_new(input, groups, functions)?);
    if is_one {
        let count = Expr::Column(Column::from_name(count.schema_name().to_string()));
        let predicate = count.gt(lit(0i64));
        plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
    }
    let constants = constants.iter().chain(std::iter::repeat(&None));
    let columns = aggregate.schema.iter().zip(constants);
    let columns = columns.map(|((qualifier, field), constant)| match constant {
        Some(value) => lit(value.clone()),
        None => Expr::Column(Column::new(qualifier.cloned(), field.name())),
    });
    // Two groups may have the same name, and a union has no qualifiers.
    let columns = columns.enumerate();
    let columns = columns.map(|(number, column)| column.alias(format!("column{number}")));
    let columns: Vec<_> = columns.collect();
    project(plan, columns)
}

/// Returns the grouped columns of a row of values; `None` if a value is NaN or has half precision.
fn key_of<'a>(
    row: &[ScalarValue],
    columns: impl Iterator<Item = &'a usize>,
) -> Option<Vec<ScalarValue>> {
    // Both zeros are one group.
    let key = columns.map(|column| match &row[*column] {
        ScalarValue::Float64(Some(number)) => (!number.is_nan()).then_some((number + 0.0).into()),
        ScalarValue::Float32(Some(number)) => (!number.is_nan()).then_some((number + 0.0).into()),
        ScalarValue::Float16(Some(_)) => None,
        value => Some(value.clone()),
    });
    key.collect()
}

/// A few rows of constants.
struct Literals<'a> {
    /// The node that returns the rows.
    node: &'a LogicalPlan,
    rows: Vec<Vec<ScalarValue>>,
}

/// Returns the values that arrays are combined with; `None` if there are none or several, or if the plan is anything but
/// inner joins of arrays, with filters and projections.
fn only_values(plan: &LogicalPlan) -> Result<Option<Literals<'_>>> {
    // Other plans need not look at their tables.
    let has_values =
        |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if values_of(join).is_some());
    if !plan.exists(|node| Ok(has_values(node)))? {
        return Ok(None);
    }
    let mut found: Option<Literals<'_>> = None;
    let mut is_known = true;
    let mut has_arrays = false;
    plan.apply(|node| {
        let is_volatile = |node: &LogicalPlan| node.expressions().iter().any(Expr::is_volatile);
        is_known &= !is_volatile(node);
        is_known &= match node {
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => {
                true
            }
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => match values_of(join) {
                Some((values, _)) => found.replace(values).is_none(),
                // Other joins would hash all cells again for each row.
                None => join.on.iter().all(|(left, right)| {
                    let left = left.column_refs().into_iter();
                    let mut columns = left.chain(right.column_refs());
                    columns.all(|column| !is_value(node, column))
                }),
            },
            LogicalPlan::TableScan(scan) if is_array(scan) => {
                has_arrays = true;
                scan.fetch.is_none()
            }
            // Found together with the join above.
            other => found
                .as_ref()
                .is_some_and(|values| std::ptr::eq(values.node, other)),
        };
        Ok(match is_known {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(found.filter(|_| is_known && has_arrays))
}

/// Returns `true` for the scan of an array in local files, of which there are few.
fn is_array(scan: &TableScan) -> bool {
    let provider = source_as_provider(&scan.source).ok();
    let table = provider.and_then(|provider| Some(provider.downcast_ref::<ArrayTable>()?.source()));
    table.is_some_and(|table| {
        let grids = table.grids();
        let is_remote =
            |grid: &Arc<dyn GridSource>| is_remote(grid.as_ref(), &ReadOptions::default());
        (1..=MAX_FILES).contains(&grids.len()) && !grids.iter().any(is_remote)
    })
}

/// Returns the literal values that are one input of a join without keys, and the other input. `None` if ranges of dimensions
/// decide which rows match.
fn values_of(join: &Join) -> Option<(Literals<'_>, &LogicalPlan)> {
    let sides = [(&join.left, &join.right), (&join.right, &join.left)];
    let mut sides = sides
        .into_iter()
        .filter_map(|(one, other)| Some((literals(one)?, other.as_ref())));
    let (values, other) = sides.next().filter(|_| join.on.is_empty())?;
    let is_joined = other.exists(|node| Ok(matches!(node, LogicalPlan::Join(_))));
    let mut columns = join.filter.iter().flat_map(Expr::column_refs);
    let has_dimension = columns.any(|column| is_dimension(other, column));
    (is_joined.unwrap_or(true) || !has_dimension).then_some((values, other))
}

/// Returns `true` if a column of a plan is a dimension of an array.
fn is_dimension(plan: &LogicalPlan, column: &Column) -> bool {
    column_of_array(plan, column) == Some(true)
}

/// Returns `true` if a column of a plan is a value of an array.
fn is_value(plan: &LogicalPlan, column: &Column) -> bool {
    column_of_array(plan, column) == Some(false)
}

/// Returns `true` for a dimension of an array, `false` for a value, and `None` for a column that comes from elsewhere.
fn column_of_array(plan: &LogicalPlan, column: &Column) -> Option<bool> {
    let (provider, name) = origin(&[plan], column)?;
    let table = provider.downcast_ref::<ArrayTable>()?.source();
    Some(table.dimensions().contains(&name.as_str()))
}

/// Returns the value of a literal, possibly cast; `None` for other expressions.
fn constant_of(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Alias(alias) => constant_of(&alias.expr),
        Expr::Cast(cast) => constant_of(&cast.expr)?
            .cast_to(cast.field.data_type())
            .ok(),
        _ => None,
    }
}

/// Returns the rows of literal values, or of a short series of integers or times, below projections; `None` for other plans.
fn literals(plan: &LogicalPlan) -> Option<Literals<'_>> {
    let rows = match plan {
        LogicalPlan::SubqueryAlias(alias) => return literals(&alias.input),
        LogicalPlan::Projection(projection) => {
            let is_volatile = projection.expr.iter().any(Expr::is_volatile);
            return literals(&projection.input).filter(|_| !is_volatile);
        }
        LogicalPlan::Values(values) if values.values.len() <= MAX_ROWS => {
            let types = values.schema.fields().iter().map(|field| field.data_type());
            let constant = |(value, data_type)| constant_of(value)?.cast_to(data_type).ok();
            let rows = values.values.iter();
            let rows = rows.map(|row| row.iter().zip(types.clone()).map(constant).collect());
            rows.collect::<Option<_>>()?
        }
        LogicalPlan::TableScan(scan) => {
            let is_whole = scan.fetch.is_none() && scan.filters.is_empty();
            let provider = source_as_provider(&scan.source).ok().filter(|_| is_whole)?;
            let series = provider.downcast_ref::<GenerateSeriesTable>()?;
            // One more than is used, to tell longer series.
            let generator = series.as_generator(MAX_ROWS + 1).ok()?;
            let batch = generator.write().generate_next_batch().ok()??;
            let columns = batch.columns().len() == 1 && plan.schema().fields().len() == 1;
            if batch.num_rows() > MAX_ROWS || !columns {
                return None;
            }
            let row = |row| {
                Some(vec![
                    ScalarValue::try_from_array(batch.column(0), row).ok()?,
                ])
            };
            (0..batch.num_rows()).map(row).collect::<Option<_>>()?
        }
        _ => return None,
    };
    Some(Literals { node: plan, rows })
}

/// Returns the column of `values` that a column of a plan is; `None` if the column comes from elsewhere, or is computed.
fn column_of(plan: &LogicalPlan, column: &Column, values: &Literals<'_>) -> Result<Option<usize>> {
    let Some(index) = plan.schema().maybe_index_of_column(column) else {
        return Ok(None);
    };
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr[index].clone().unalias() {
            Expr::Column(column) => column_of(&projection.input, &column, values),
            _ => Ok(None),
        },
        LogicalPlan::SubqueryAlias(alias) => {
            let column = Column::from(alias.input.schema().qualified_field(index));
            column_of(&alias.input, &column, values)
        }
        LogicalPlan::Filter(filter) => column_of(&filter.input, column, values),
        LogicalPlan::Join(join) => match column_of(&join.left, column, values)? {
            Some(index) => Ok(Some(index)),
            None => column_of(&join.right, column, values),
        },
        other => Ok(std::ptr::eq(other, values.node).then_some(index)),
    }
}

/// Returns a plan with constants in the place of its values: those of one row.
fn with_row(plan: &LogicalPlan, row: usize) -> Result<LogicalPlan> {
    let replaced = plan.clone().transform_down(|node| {
        let LogicalPlan::Join(join) = &node else {
            return Ok(Transformed::no(node));
        };
        let values = values_of(join).filter(|_| join.join_type == JoinType::Inner);
        let Some((values, other)) = values else {
            return Ok(Transformed::no(node));
        };
        let constants = match std::ptr::eq(other, join.left.as_ref()) {
            true => constants(&join.right, &values.rows[row])?,
            false => constants(&join.left, &values.rows[row])?,
        };
        let mut constants = constants.into_iter();
        let columns = join.schema.iter().map(|(qualifier, field)| {
            let column = Column::new(qualifier.cloned(), field.name());
            if other.schema().has_column(&column) {
                return Expr::Column(column);
            }
            let constant = constants.next().unwrap_or(Expr::Column(column));
            constant.alias_qualified(qualifier.cloned(), field.name())
        });
        let columns: Vec<_> = columns.collect();
        let mut plan = project(other.clone(), columns)?;
        if let Some(filter) = &join.filter {
            plan = LogicalPlan::Filter(Filter::try_new(filter.clone(), Arc::new(plan))?);
        }
        Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump))
    })?;
    // Constants are not null.
    let plan = replaced.data;
    Ok(plan
        .transform_up(|node| node.recompute_schema().map(Transformed::yes))?
        .data)
}

/// Returns the columns of values below projections, for one row of values.
fn constants(plan: &LogicalPlan, row: &[ScalarValue]) -> Result<Vec<Expr>> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => constants(&alias.input, row),
        LogicalPlan::Projection(projection) => {
            let input = constants(&projection.input, row)?;
            let schema = projection.input.schema();
            let columns = projection.expr.iter().map(|expr| {
                let constant = expr.clone().unalias().transform(|expr| match &expr {
                    Expr::Column(column) => {
                        let index = schema.index_of_column(column)?;
                        Ok(Transformed::yes(input[index].clone()))
                    }
                    _ => Ok(Transformed::no(expr)),
                })?;
                Ok(constant.data)
            });
            columns.collect()
        }
        _ => Ok(row.iter().map(|value| lit(value.clone())).collect()),
    }
}
