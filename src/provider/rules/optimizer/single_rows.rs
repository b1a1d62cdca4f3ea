//! Groups of a single row: those by all dimensions of an array.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, lit, when};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::prelude::cast;

use crate::provider::catalog::table::ArrayTable;
use crate::provider::plans::lineage::origin;
use crate::provider::rules::optimizer::values::replace_aggregates;
use crate::provider::scan::grid::blocks::MAX_READ;

/// Replaces aggregations by all dimensions of an array by projections.
///
/// Each cell has its own coordinates, so that each group has one row, and all rows differ:
///
/// ```text
/// SELECT DISTINCT time, lat, lon, value        Projection: time, lat, lon, value
/// sum(value) GROUP BY time, lat, lon     ->    Projection: time, lat, lon, CAST(value AS Float64)
/// ```
///
/// The rule leaves arrays in several files alone, whose coordinates may overlap, coordinates that repeat, and functions that it
/// does not know.
#[derive(Debug, Default)]
pub(crate) struct SingleRowGroups;

impl OptimizerRule for SingleRowGroups {
    fn name(&self) -> &str {
        "single_row_groups"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        replace_aggregates(plan, projection)
    }
}

/// Returns the groups as a projection of the rows; `None` if a group may have several rows, or a function is not supported.
fn projection(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    if !has_single_rows(aggregate)? {
        return Ok(None);
    }
    let groups = aggregate.group_expr.iter().map(|expr| (expr, true));
    let functions = aggregate.aggr_expr.iter().map(|expr| (expr, false));
    let columns = groups.chain(functions).zip(aggregate.schema.iter());
    let columns = columns.map(|((expr, is_group), (qualifier, field))| {
        let value = match is_group {
            true => expr.clone(),
            false => of_one_row(expr, field.data_type())?,
        };
        Some(value.alias_qualified(qualifier.cloned(), field.name()))
    });
    let Some(columns) = columns.collect::<Option<Vec<Expr>>>() else {
        return Ok(None);
    };
    project(aggregate.input.as_ref().clone(), columns).map(Some)
}

/// Returns `true` if the groups are by all dimensions of the only array below.
fn has_single_rows(aggregate: &Aggregate) -> Result<bool> {
    use LogicalPlan::{Filter, Projection, SubqueryAlias, TableScan};
    let is_plain = |node: &LogicalPlan| {
        matches!(
            node,
            Projection(_) | Filter(_) | SubqueryAlias(_) | TableScan(_)
        )
    };
    if aggregate.input.exists(|node| Ok(!is_plain(node)))? {
        return Ok(false);
    }
    let columns = aggregate.group_expr.iter().filter_map(Expr::try_as_col);
    let mut origins = columns
        .filter_map(|column| origin(&[&aggregate.input], column))
        .peekable();
    let Some((provider, _)) = origins.peek() else {
        return Ok(false);
    };
    let Some(table) = Arc::clone(provider)
        .downcast_ref::<ArrayTable>()
        .map(ArrayTable::source)
    else {
        return Ok(false);
    };
    let grouped: HashSet<String> = origins.map(|(_, name)| name).collect();
    let grids = table.grids();
    let [grid] = grids.as_slice() else {
        return Ok(false);
    };
    let is_file_table =
        table.schema().fields().len() != grid.axes().len() + grid.attributes().len();
    if is_file_table
        || grid
            .axes()
            .iter()
            .any(|axis| !grouped.contains(axis.name()))
    {
        return Ok(false);
    }
    for axis in grid.axes() {
        // Do not read a long axis only to plan.
        let is_cheap = axis.length() <= MAX_READ || axis.is_loaded();
        if !is_cheap || !axis.has_unique_coordinates()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the value of an aggregate function over one row; `None` if the function is not supported.
fn of_one_row(expr: &Expr, data_type: &DataType) -> Option<Expr> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr.clone().unalias() else {
        return None;
    };
    let filter = params.filter.map(|filter| *filter);
    let [argument] = <[Expr; 1]>::try_from(params.args).ok()?;
    match func.name() {
        "count" => {
            let is_counted = argument.is_not_null();
            let is_counted = match filter {
                Some(filter) => filter.and(is_counted),
                None => is_counted,
            };
            when(is_counted, lit(1i64)).otherwise(lit(0i64)).ok()
        }
        "sum" | "avg" | "min" | "max" | "median" | "first_value" | "last_value" => {
            let value = cast(argument, data_type.clone());
            match filter {
                Some(filter) => when(filter, value).end().ok(),
                None => Some(value),
            }
        }
        _ => None,
    }
}
