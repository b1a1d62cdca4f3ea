//! The bounds of geometries, as comparisons with the coordinates of an array.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::binary;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::provider::functions::geometry::point_relation::PointRelation;
use crate::provider::functions::geometry::scalar;
use crate::provider::join::lookup::conditions::sides::BothSides;
use crate::provider::plans::below::columns_in;

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
