//! Traces the columns of a plan to array dimensions, keys of a `GROUP BY`, or values.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use crate::grid::Axis;
use crate::provider::scan::ArrayScan;
use crate::provider::source::DIMENSION;

/// The formats whose attributes `scale_factor` and `add_offset` describe the stored cells. In `.tet` files,
/// these attributes may be left over from before a converter unpacked the values.
const DESCRIBED: [&str; 4] = ["hdf5", "kerchunk", "netcdf", "zarr"];

/// A dimension or key that identifies the rows of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coordinate {
    /// The array dimension with this name.
    Dimension(String),
    /// The key with this index in the topmost `GROUP BY`.
    Key(usize),
}

/// The origin of one column of a plan.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The coordinates that determine the column. Empty if the column depends on anything else.
    pub coordinates: BTreeSet<Coordinate>,
    /// `true` if the column is its only coordinate, and not computed from it.
    pub is_plain: bool,
    /// The axes from which a plain column takes its values. Several arrays may feed one column, as
    /// with `UNION ALL` or a table of many files. The axes are then in the order of the arrays.
    pub axes: Vec<Axis>,
    /// `true` if the column is computed from the values of an array, or by an aggregate function.
    pub has_values: bool,
    /// `true` if the column has unchanged values of an array in a [`DESCRIBED`] format.
    pub is_described: bool,
}

impl Origin {
    /// Returns the origin of each column of a plan.
    pub fn of_columns(plan: &Arc<dyn ExecutionPlan>) -> Vec<Self> {
        let columns = 0..plan.schema().fields().len();
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            return match source.data_source().downcast_ref::<ArrayScan>() {
                Some(scan) => columns.map(|column| Self::of_scan(scan, column)).collect(),
                None => columns.map(|_| Self::default()).collect(),
            };
        }
        let children = plan.children();
        // Compute the origins of each input once. Expressions may use a column many times.
        let inputs = children.iter().map(|child| Self::of_columns(child));
        let inputs: Vec<_> = inputs.collect();
        if let (Some(projection), [input]) = (plan.downcast_ref::<ProjectionExec>(), &inputs[..]) {
            let projected = projection.expr().iter();
            return projected
                .map(|projected| Self::of_expression(&projected.expr, input))
                .collect();
        }
        if let (Some(aggregate), [input]) = (plan.downcast_ref::<AggregateExec>(), &inputs[..]) {
            return columns
                .map(|column| Self::of_aggregate(aggregate, column, input))
                .collect();
        }
        if plan.downcast_ref::<UnionExec>().is_some() {
            return columns
                .map(|column| {
                    let origins = inputs.iter().filter_map(|input| input.get(column).cloned());
                    origins.reduce(Self::union).unwrap_or_default()
                })
                .collect();
        }
        let is_window = plan.downcast_ref::<WindowAggExec>().is_some()
            || plan.downcast_ref::<BoundedWindowAggExec>().is_some();
        columns
            .map(
                |column| match passed_through_column(plan, &children, column) {
                    Some((child, column)) => {
                        let origin = inputs[child].get(column).cloned().unwrap_or_default();
                        match children.len() > 1 {
                            true => origin.joined(),
                            false => origin,
                        }
                    }
                    None if is_window => Self::of_values(),
                    None => Self::default(),
                },
            )
            .collect()
    }

    fn of_aggregate(aggregate: &AggregateExec, column: usize, input: &[Self]) -> Self {
        let groups = aggregate.group_expr();
        match groups.expr().get(column) {
            Some(_) if groups.has_grouping_set() => Self::default(),
            Some((expression, _)) => Self {
                coordinates: [Coordinate::Key(column)].into(),
                is_plain: true,
                axes: Self::of_expression(expression, input).axes,
                ..Self::default()
            },
            None => Self::of_values(),
        }
    }

    /// Returns the origin of the column in the output of a join. The `GROUP BY` keys of one input
    /// do not identify the rows of the join, so they are dropped.
    fn joined(mut self) -> Self {
        let is_key = |coordinate: &Coordinate| matches!(coordinate, Coordinate::Key(_));
        if self.coordinates.iter().any(is_key) {
            self.coordinates.clear();
            self.is_plain = false;
        }
        self
    }

    fn of_values() -> Self {
        Self {
            has_values: true,
            ..Self::default()
        }
    }

    fn of_scan(scan: &ArrayScan, column: usize) -> Self {
        let source = scan.source();
        let field = scan.plan().projection.get(column);
        let Some(field) = field.and_then(|number| source.schema().fields().get(*number)) else {
            return Self::default();
        };
        let name = field.name();
        // The coordinates of sparse arrays are dimensions without axes.
        let is_marked = field.metadata().contains_key(DIMENSION);
        let grids = source.grids();
        if !is_marked && !source.dimensions().contains(&name.as_str()) {
            let mut formats = grids.iter().map(|grid| grid.format());
            return Self {
                is_described: !grids.is_empty() && formats.all(|name| DESCRIBED.contains(&name)),
                ..Self::of_values()
            };
        }
        let axes = grids.iter().filter_map(|grid| {
            let mut axes = grid.axes().iter();
            axes.find(|axis| axis.name() == name).cloned()
        });
        Self {
            coordinates: [Coordinate::Dimension(name.clone())].into(),
            is_plain: true,
            axes: axes.collect(),
            ..Self::default()
        }
    }

    fn of_expression(expression: &Arc<dyn PhysicalExpr>, input: &[Self]) -> Self {
        let of_column = |column: &Column| input.get(column.index()).cloned().unwrap_or_default();
        if let Some(column) = expression.downcast_ref::<Column>() {
            return of_column(column);
        }
        let columns = collect_columns(expression);
        let origins: Vec<_> = columns.iter().map(of_column).collect();
        let mut computed = Self {
            has_values: origins.iter().any(|origin| origin.has_values),
            ..Self::default()
        };
        if !is_volatile(expression) && origins.iter().all(|origin| !origin.coordinates.is_empty()) {
            let coordinates = origins.into_iter().flat_map(|origin| origin.coordinates);
            computed.coordinates = coordinates.collect();
        }
        computed
    }

    /// Combines the origins of a column in two inputs of a `UNION ALL`.
    fn union(mut self, other: Self) -> Self {
        let is_same = self.coordinates == other.coordinates && self.is_plain == other.is_plain;
        self.has_values |= other.has_values;
        self.is_described &= other.is_described;
        if is_same {
            self.axes.extend(other.axes);
        } else {
            self.coordinates.clear();
            self.axes.clear();
            self.is_plain = false;
        }
        self
    }
}

/// Finds the input column that a node passes on unchanged as output column `column`. Returns the
/// index of the input, and of the column within the input.
fn passed_through_column(
    plan: &Arc<dyn ExecutionPlan>,
    children: &[&Arc<dyn ExecutionPlan>],
    column: usize,
) -> Option<(usize, usize)> {
    let schema = plan.schema();
    let name = schema.fields().get(column)?.name();
    // Joins output the columns of their inputs side by side. Other nodes append columns to those of
    // their input.
    let mut start = 0;
    for (child, input) in children.iter().enumerate() {
        let input = input.schema();
        let field = column
            .checked_sub(start)
            .and_then(|column| input.fields().get(column));
        if field.is_some_and(|field| field.name() == name) {
            return Some((child, column - start));
        }
        start += input.fields().len();
    }
    // Semi joins and nodes with an embedded projection output fewer columns, so search by name.
    let mut found = Vec::new();
    for (child, input) in children.iter().enumerate() {
        for (number, field) in input.schema().fields().iter().enumerate() {
            if field.name() == name {
                found.push((child, number));
            }
        }
    }
    match found[..] {
        [only] => Some(only),
        _ => None,
    }
}
