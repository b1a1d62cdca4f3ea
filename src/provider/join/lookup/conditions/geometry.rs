//! Conditions on geometries: their bounds, as comparisons with the coordinates of an array, and tests of the
//! array's cells against polygons.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{Column, binary};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use geo::Geometry;

use crate::provider::functions::geometry::point_index::{PointIndex, Position};
use crate::provider::functions::geometry::point_relation::{PointRelation, geometries_of};
use crate::provider::functions::geometry::scalar;
use crate::provider::join::lookup::conditions::Condition;
use crate::provider::join::lookup::conditions::axis::ConditionAxis;
use crate::provider::join::lookup::conditions::runs::Run;
use crate::provider::join::lookup::conditions::sides::BothSides;
use crate::provider::plans::below::{columns_in, replace_columns};

type Expr = Arc<dyn PhysicalExpr>;

/// Returns the comparisons that follow from `ST_Contains(geometry, ST_Point(x, y))` and similar conditions,
/// where the geometry is of the build side: `x >= ST_XMin(geometry)`, and so on. They leave only the cells
/// within the bounds of the geometry for the condition itself. Empty for other conditions.
pub(super) fn bounds(condition: &Expr, both: &BothSides) -> Result<Vec<Expr>> {
    let Some((geometry, [x, y])) = point_in_geometry(condition) else {
        return Ok(Vec::new());
    };
    let of_build = columns_in([geometry].into_iter());
    if of_build.iter().any(|column| *column < both.width) {
        return Ok(Vec::new());
    }
    let bounds = [
        (x, Operator::GtEq, "st_xmin"),
        (x, Operator::LtEq, "st_xmax"),
        (y, Operator::GtEq, "st_ymin"),
        (y, Operator::LtEq, "st_ymax"),
    ];
    let mut comparisons = Vec::with_capacity(bounds.len());
    for (coordinate, operator, name) in bounds {
        let Some(function) = scalar(name) else {
            return Ok(Vec::new());
        };
        let bound = ScalarFunctionExpr::try_new(
            function,
            vec![Arc::clone(geometry)],
            &both.schema,
            Arc::new(ConfigOptions::default()),
        )?;
        let coordinate = Arc::clone(coordinate);
        comparisons.push(binary(coordinate, operator, Arc::new(bound), &both.schema)?);
    }
    Ok(comparisons)
}

/// Returns `true` if an expression is a function that cannot fail on any value of its arguments: a relation
/// of geometries that need no parsing, or a point.
pub(super) fn never_fails(expr: &dyn PhysicalExpr, schema: &Schema) -> bool {
    let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
        return false;
    };
    if function.fun().name() == "st_point" {
        return true;
    }
    let is_parsed = |argument: &Expr| {
        let is_unparsed = |data_type: DataType| data_type.is_string() || data_type.is_binary();
        argument
            .data_type(schema)
            .is_ok_and(|data_type| !is_unparsed(data_type))
    };
    function.fun().inner().is::<PointRelation>() && function.args().iter().all(is_parsed)
}

/// Splits `ST_Contains(geometry, ST_Point(x, y))` and similar conditions, which hold only within the bounds
/// of the geometry, into the geometry and the coordinates of the point.
fn point_in_geometry(condition: &Expr) -> Option<(&Expr, [&Expr; 2])> {
    let function = condition.downcast_ref::<ScalarFunctionExpr>()?;
    let relation = function.fun().inner().downcast_ref::<PointRelation>()?;
    let [one, other] = function.args() else {
        return None;
    };
    [(0, one, other), (1, other, one)]
        .into_iter()
        .filter(|(number, _, _)| relation.is_bounded_by(*number))
        .find_map(|(_, geometry, point)| {
            let point = point.downcast_ref::<ScalarFunctionExpr>()?;
            let is_point = point.fun().name() == "st_point";
            let [x, y, ..] = point.args() else {
                return None;
            };
            is_point.then_some((geometry, [x, y]))
        })
}

/// The operands of the condition `ST_Contains(geometry, ST_Point(x, y))`, or a similar one, for some rows of the
/// build side. The edges of a row's polygon are indexed, and the points tested against them without creating
/// geometries of points.
pub(super) struct PointsInPolygons {
    /// The geometry of each row; `None` for null.
    geometries: Vec<Option<Geometry>>,
    x: Coordinate,
    y: Coordinate,
}

/// A coordinate of points that depends on a single axis.
struct Coordinate {
    /// The number of combinations of the axes behind this one.
    behind: u32,
    /// The value for each number of the axis.
    values: Float64Array,
}

impl PointsInPolygons {
    /// Evaluates the operands of a condition. `axes` are those of its set. Returns `None` for other conditions, and
    /// if a coordinate depends on several axes or on the build side, or is null.
    pub fn of(
        condition: &Condition,
        axes: &[ConditionAxis],
        rows: &RecordBatch,
    ) -> Result<Option<Self>> {
        let Some((geometry, [x, y])) = point_in_geometry(&condition.expr) else {
            return Ok(None);
        };
        let of_axes = condition.axes.len();
        if columns_in([geometry].into_iter())
            .iter()
            .any(|column| *column < of_axes)
        {
            return Ok(None);
        }
        let (Some(x), Some(y)) = (
            Coordinate::of(x, condition, axes)?,
            Coordinate::of(y, condition, axes)?,
        ) else {
            return Ok(None);
        };
        let rows = rows.project(&condition.columns)?;
        let geometry = replace_columns(geometry, &|number| {
            let index = number.checked_sub(of_axes)?;
            let name = rows.schema_ref().field(index).name();
            Some(Arc::new(Column::new(name, index)))
        })?;
        let field = geometry.return_field(rows.schema_ref())?;
        let values = geometry.evaluate(&rows)?.into_array(rows.num_rows())?;
        let geometries = geometries_of(&values, &field)?;
        Ok(Some(Self { geometries, x, y }))
    }

    /// Returns the numbers among `candidates` whose points are inside the polygon of a row. `None` if its geometry is
    /// not a polygon, or if a point is on an edge.
    pub fn inside(&self, row: usize, candidates: &[Run]) -> Option<Vec<Range<u32>>> {
        let Some(geometry) = &self.geometries[row] else {
            return Some(Vec::new());
        };
        let index = PointIndex::new(geometry)?;
        let mut positions = index.positions();
        // Consecutive numbers are points with the same `y` if only `x` depends on the last axis.
        let is_by_line = self.x.behind == 1 && self.y.behind > 1;
        let mut inside: Vec<Range<u32>> = Vec::new();
        for run in candidates {
            let mut number = run.start;
            while number < run.end {
                let count = if is_by_line { run.end - number } else { 1 };
                let x = &self.x.values.values()[self.x.index(number)..];
                let x = &x[..x.len().min(count as usize)];
                let y = self.y.values.value(self.y.index(number));
                let (position, count) = positions.of_line(x, y);
                let end = number + count as u32;
                match (position, inside.last_mut()) {
                    (Position::Outside, _) => {}
                    (Position::OnEdge, _) => return None,
                    (Position::Inside, Some(last)) if last.end == number => last.end = end,
                    (Position::Inside, _) => inside.push(number..end),
                }
                number = end;
            }
        }
        Some(inside)
    }
}

impl Coordinate {
    fn of(expr: &Expr, condition: &Condition, axes: &[ConditionAxis]) -> Result<Option<Self>> {
        let used = columns_in([expr].into_iter());
        let [column] = used[..] else {
            return Ok(None);
        };
        let Some(axis) = condition.axes.get(column) else {
            return Ok(None);
        };
        let behind = axes[axis + 1..].iter();
        let behind = behind.map(|axis| axis.indices.len() as u32).product();
        let axis = &axes[*axis];
        let expr = replace_columns(expr, &|_| Some(Arc::new(Column::new(axis.field.name(), 0))))?;
        let schema = Schema::new(vec![Field::clone(&axis.field)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(&axis.coordinates)])?;
        let values = expr.evaluate(&batch)?.into_array(batch.num_rows())?;
        let values = values.as_primitive_opt::<Float64Type>();
        let values = values.filter(|values| values.null_count() == 0);
        Ok(values.map(|values| Self {
            behind,
            values: values.clone(),
        }))
    }

    /// Returns the index of the value of a combination of numbers of the set.
    fn index(&self, number: u32) -> usize {
        (number / self.behind) as usize % self.values.len()
    }
}
