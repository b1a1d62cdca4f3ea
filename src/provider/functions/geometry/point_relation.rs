//! Relations of geometries: `ST_Contains`, `ST_Within`, `ST_Covers`, `ST_CoveredBy`, `ST_Intersects` and `ST_Disjoint`,
//! which are fast for one polygon and many points, and `ST_Touches`, `ST_Crosses`, `ST_Overlaps` and `ST_Equals`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{filter, take};
use arrow::datatypes::{Field, FieldRef, Float64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};
use geo::Geometry;
use geoarrow_array::array::{CoordBuffer, PointArray, from_arrow_array};
use geoarrow_array::{GeoArrowArray, GeoArrowArrayAccessor, downcast_geoarrow_array};
use geoarrow_expr_geo::util::to_geo::geometry_to_geo;

use crate::provider::functions::forwarding::forward_to_inner;
use crate::provider::functions::geometry::compact::compact;
use crate::provider::functions::geometry::point_index::{PointIndex, Position};

/// A function of geodatafusion that relates two geometries. If one of them is a constant polygon, and the
/// other is a column of points, the points are tested against an index of the polygon's edges instead of
/// building a topology for each point. Points on an edge are left to geodatafusion.
///
/// A null geometry gives null, and a point with a coordinate that is NaN is disjoint from every geometry and has no other
/// relation. geodatafusion 0.6 exchanges the arguments if only the first is a constant, so
/// the inverse function is called then, with the arguments exchanged.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct PointRelation {
    /// geodatafusion's function.
    inner: Arc<ScalarUDF>,
    /// The function that gives the same answer for exchanged arguments.
    inverse: Arc<ScalarUDF>,
    relation: Relation,
}

/// The relations that hold for all points inside a polygon, or for all points outside, and for no other
/// point but those on an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Relation {
    /// The first geometry is the polygon.
    Contains,
    /// The second geometry is the polygon.
    Within,
    /// Either geometry is the polygon.
    Intersects,
    /// Either geometry is the polygon, and the points are outside.
    Disjoint,
    /// None of these.
    Other,
}

impl PointRelation {
    /// Returns the replacement of a function; `None` if it is none of the relations. `function_of` returns
    /// geodatafusion's function of a name.
    pub fn replacement(
        name: &str,
        function_of: impl Fn(&str) -> Option<Arc<ScalarUDF>>,
    ) -> Option<ScalarUDF> {
        let (relation, inverse) = match name {
            "st_contains" => (Relation::Contains, "st_within"),
            "st_covers" => (Relation::Contains, "st_coveredby"),
            "st_within" => (Relation::Within, "st_contains"),
            "st_coveredby" => (Relation::Within, "st_covers"),
            "st_intersects" => (Relation::Intersects, name),
            "st_disjoint" => (Relation::Disjoint, name),
            "st_touches" | "st_crosses" | "st_overlaps" | "st_equals" => (Relation::Other, name),
            _ => return None,
        };
        Some(ScalarUDF::from(Self {
            inner: function_of(name)?,
            inverse: function_of(inverse)?,
            relation,
        }))
    }

    /// Calls geodatafusion's function, without points that have a coordinate that is NaN.
    fn call(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let (mut is_nan, mut nulls): (Option<BooleanBuffer>, Option<NullBuffer>) = (None, None);
        for value in &arguments.args {
            let found = match value {
                ColumnarValue::Array(array) => {
                    nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
                    nan_points(array)
                }
                ColumnarValue::Scalar(scalar) => {
                    nan_points(&scalar.to_array()?).map(|_| BooleanBuffer::new_set(rows))
                }
            };
            is_nan = match (is_nan, found) {
                (Some(one), Some(other)) => Some(&one | &other),
                (one, other) => one.or(other),
            };
        }
        let Some(is_nan) = is_nan else {
            return self.call_inner(arguments);
        };
        let holds = BooleanBuffer::collect_bool(rows, |_| self.relation == Relation::Disjoint);
        let all = BooleanArray::new(holds, nulls);
        let is_number = BooleanArray::new(!&is_nan, None);
        let count = is_number.true_count();
        if count == 0 {
            return Ok(ColumnarValue::Array(Arc::new(all)));
        }
        for value in &mut arguments.args {
            if let ColumnarValue::Array(array) = value {
                *array = filter(array, &is_number)?;
            }
        }
        arguments.number_rows = count;
        let related = self.call_inner(arguments)?.into_array(count)?;
        let mut related = related.as_boolean().iter();
        let all = all
            .iter()
            .zip(&is_nan)
            .map(|(of_nan, is_nan)| match is_nan {
                true => of_nan,
                false => related.next().flatten(),
            });
        let all: BooleanArray = all.collect();
        Ok(ColumnarValue::Array(Arc::new(all)))
    }

    /// Calls geodatafusion's function.
    fn call_inner(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Scalar(_), ColumnarValue::Array(_)] => {
                arguments.args.reverse();
                arguments.arg_fields.reverse();
                self.inverse.invoke_with_args(arguments)
            }
            _ => self.inner.invoke_with_args(arguments),
        }
    }

    /// Returns `true` if the relation can hold only for points within the bounds of the geometry that is
    /// argument number `geometry`, when the other one is a point.
    pub fn is_bounded_by(&self, geometry: usize) -> bool {
        match self.relation {
            Relation::Contains => geometry == 0,
            Relation::Within => geometry == 1,
            Relation::Intersects => true,
            Relation::Disjoint | Relation::Other => false,
        }
    }

    /// Relates points with a polygon, where `points` is the number of their argument. Returns `None` if
    /// the arguments are other geometries.
    fn relate(
        &self,
        polygon: &Geometry,
        points: usize,
        arguments: &ScalarFunctionArgs,
    ) -> Result<Option<ArrayRef>> {
        let ColumnarValue::Array(array) = &arguments.args[points] else {
            return Ok(None);
        };
        let array = from_arrow_array(array, &arguments.arg_fields[points]).map_err(external)?;
        let Some(coordinates) = array.as_any().downcast_ref::<PointArray>() else {
            return Ok(None);
        };
        let CoordBuffer::Separated(buffer) = coordinates.coords() else {
            return Ok(None);
        };
        let Some(index) = PointIndex::new(polygon) else {
            return Ok(None);
        };
        let [xs, ys, ..] = buffer.raw_buffers();
        let mut positions = index.positions();
        let mut on_edge: Vec<u32> = Vec::new();
        let holds_outside = self.relation == Relation::Disjoint;
        let points_of = xs.iter().zip(ys.iter()).enumerate();
        let mut holds: Vec<bool> = points_of
            .map(|(row, (x, y))| match positions.of(*x, *y) {
                Position::Inside => !holds_outside,
                Position::Outside => holds_outside,
                Position::OnEdge => {
                    on_edge.push(row as u32);
                    false
                }
            })
            .collect();
        if !on_edge.is_empty() {
            let rows = UInt32Array::from(on_edge);
            let mut of_edges = arguments.clone();
            if let ColumnarValue::Array(points) = &mut of_edges.args[points] {
                *points = take(points.as_ref(), &rows, None)?;
            }
            of_edges.number_rows = rows.len();
            let related = self.call(of_edges)?.into_array(rows.len())?;
            let related = related.as_boolean();
            for (number, row) in rows.values().iter().enumerate() {
                holds[*row as usize] = related.is_valid(number) && related.value(number);
            }
        }
        let nulls = array.logical_nulls();
        Ok(Some(Arc::new(BooleanArray::new(holds.into(), nulls))))
    }
}

impl ScalarUDFImpl for PointRelation {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for (number, value) in arguments.args.iter().enumerate() {
            let ColumnarValue::Scalar(scalar) = value else {
                continue;
            };
            // geodatafusion does not accept a null geometry beside a column.
            let Some(geometry) = geometry_of(scalar, &arguments.arg_fields[number])? else {
                return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
            };
            let applies = self.is_bounded_by(number) || self.relation == Relation::Disjoint;
            if applies && let Some(related) = self.relate(&geometry, 1 - number, &arguments)? {
                return Ok(ColumnarValue::Array(related));
            }
        }
        self.call(arguments)
    }
}

/// Returns one bit per geometry, which is set for points with a coordinate that is NaN. Returns `None` if there are no such
/// points.
fn nan_points(array: &ArrayRef) -> Option<BooleanBuffer> {
    // Points that are made of columns are structs of coordinates.
    let mut found: Option<BooleanBuffer> = None;
    let coordinates = array.as_struct_opt()?;
    for name in ["x", "y"] {
        let values = coordinates.column_by_name(name)?;
        let values = values.as_primitive_opt::<Float64Type>()?;
        if values.values().iter().any(|value| value.is_nan()) {
            let values = values.values();
            let is_nan = BooleanBuffer::collect_bool(values.len(), |row| values[row].is_nan());
            found = Some(match found {
                Some(found) => &found | &is_nan,
                None => is_nan,
            });
        }
    }
    found
}

/// Returns a geometry; `None` if it is null.
fn geometry_of(scalar: &ScalarValue, field: &Field) -> Result<Option<Geometry>> {
    let mut geometries = geometries_of(&scalar.to_array()?, field)?;
    Ok(geometries.pop().flatten())
}

/// Returns the geometries of a column; `None` for null.
pub(crate) fn geometries_of(array: &ArrayRef, field: &Field) -> Result<Vec<Option<Geometry>>> {
    let array = from_arrow_array(&compact(array)?, field).map_err(external)?;
    let array = array.as_ref();
    downcast_geoarrow_array!(array, geometries)
}

fn geometries<'a>(array: &'a impl GeoArrowArrayAccessor<'a>) -> Result<Vec<Option<Geometry>>> {
    let geometries = array.iter().map(|geometry| {
        let geometry = geometry.transpose().map_err(external)?;
        let geometry = geometry.map(|geometry| geometry_to_geo(&geometry));
        geometry.transpose().map_err(external)
    });
    geometries.collect()
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use crate::{ArrayOptions, enable_arrays};

    /// Polygons whose corners and edges are on points of the grid, beside it, or far from it.
    const SHAPES: [&str; 11] = [
        "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))",
        "POLYGON((0 0, 0 4, 4 4, 4 0, 0 0))",
        "POLYGON((-1.3 0.2, 2.7 -0.4, 5.1 3.3, 1 2, -2 4, -1.3 0.2))",
        "POLYGON((-3 -3, 5 -3, 5 5, -3 5, -3 -3), (0 0, 2 0, 2 2, 0 2, 0 0), (3 3, 4 3, 3 4, 3 3))",
        "POLYGON((-2 -2, 4 -2, 1 4, -2 -2), (0 -1, 1 1, 2 -1, 0 -1))",
        "MULTIPOLYGON(((-3 -3, -1 -3, -1 -1, -3 -1, -3 -3)), ((1 1, 3 0, 4 4, 1 1)))",
        "MULTIPOLYGON(((0 0, 2 0, 2 2, 0 2, 0 0)), ((2 2, 4 2, 4 4, 2 4, 2 2)))",
        // A line that touches itself, and an hourglass.
        "POLYGON((-2 0, 0 2, 2 0, 4 2, 4 -2, -2 -2, -2 0))",
        "POLYGON((0 0, 4 4, 4 0, 0 4, 0 0))",
        "POLYGON((100 100, 101 100, 101 101, 100 100))",
        "POLYGON EMPTY",
    ];
    const FUNCTIONS: [&str; 6] = [
        "ST_Contains",
        "ST_Covers",
        "ST_Within",
        "ST_CoveredBy",
        "ST_Intersects",
        "ST_Disjoint",
    ];

    /// The functions that give the same answers for exchanged arguments.
    const INVERSES: [&str; 6] = [
        "ST_Within",
        "ST_CoveredBy",
        "ST_Contains",
        "ST_Covers",
        "ST_Intersects",
        "ST_Disjoint",
    ];

    /// Returns the answers of all functions for the shape and points of a grid. If `is_exchanged`, the points
    /// are always the first argument, where geodatafusion is right.
    async fn answers(ctx: &SessionContext, shape: &str, is_exchanged: bool) -> String {
        let both = FUNCTIONS.iter().zip(INVERSES);
        let columns = both.flat_map(|(function, inverse)| {
            let first = match is_exchanged {
                true => format!("{inverse}(p, g)"),
                false => format!("{function}(g, p)"),
            };
            [first, format!("{function}(p, g)")]
        });
        let columns: Vec<_> = columns
            .enumerate()
            .map(|(number, call)| {
                let geometry = format!("ST_GeomFromText('{shape}')");
                let call = call.replace("(g", &format!("({geometry}"));
                let call = call.replace(" g)", &format!(" {geometry})"));
                let call = call.replace("(p", "(ST_Point(x, y)");
                let call = call.replace(" p)", " ST_Point(x, y))");
                format!("{call} AS c{number}")
            })
            .collect();
        let axis = "SELECT value / 2.0 FROM generate_series(-8, 12)";
        let mut all = String::new();
        // Consecutive points have the same x or the same y.
        for (outer, inner) in [("x", "y"), ("y", "x")] {
            let query = format!(
                "SELECT {} FROM ({axis}) a({outer}), ({axis}) b({inner}) ORDER BY x, y",
                columns.join(", ")
            );
            let rows = ctx.sql(&query).await.unwrap().to_string().await.unwrap();
            let names = rows.lines().skip(3);
            all += &names.collect::<Vec<_>>().join("\n");
        }
        all
    }

    #[tokio::test]
    async fn points_relate_to_polygons_as_in_geodatafusion() {
        let plain = SessionContext::new();
        geodatafusion::register(&plain);
        let ours = enable_arrays(SessionContext::new(), ArrayOptions::new());
        for shape in SHAPES {
            let found = answers(&ours, shape, false).await;
            let expected = answers(&plain, shape, true).await;
            assert!(expected.lines().count() > 800, "{shape}");
            assert_eq!(found, expected, "{shape}");
        }
    }

    #[tokio::test]
    async fn borders_are_covered_but_not_contained() {
        let ours = enable_arrays(SessionContext::new(), ArrayOptions::new());
        let square = "ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))')";
        let query = format!(
            "SELECT ST_Contains({square}, p), ST_Covers({square}, p), ST_Within({square}, p), ST_Within(p, {square})
             FROM (SELECT ST_Point(x, 1.0) AS p FROM (VALUES (2.0), (4.0), (5.0)) t(x))"
        );
        let rows = ours.sql(&query).await.unwrap().to_string().await.unwrap();
        let rows: Vec<_> = rows
            .lines()
            .skip(3)
            .map(|row| row.replace(' ', ""))
            .collect();
        let expected = [
            "|true|true|false|true|",
            "|false|true|false|false|",
            "|false|false|false|false|",
        ];
        assert_eq!(rows[..3], expected);
    }

    #[tokio::test]
    async fn null_geometries_and_nan_have_no_relation() {
        let ours = enable_arrays(SessionContext::new(), ArrayOptions::new());
        let relations = ["Touches", "Crosses", "Overlaps", "Equals", "Within"];
        let columns = relations.map(|name| format!("ST_{name}(ST_Point(x, y), g)"));
        for geometry in [
            "ST_GeomFromText(NULL)",
            "ST_GeomFromText(CASE WHEN y = 1 THEN 'POLYGON((1 0, 3 0, 3 2, 1 0))' END)",
        ] {
            let query = format!(
                "SELECT y, {}, ST_Disjoint(ST_Point(x, y), g) FROM (SELECT *, {geometry} AS g
                 FROM (VALUES (2, 1), ('NaN'::double, 1), (2.5, 1), ('NaN'::double, 2)) t(x, y))",
                columns.join(", ")
            );
            let rows = ours.sql(&query).await.unwrap().to_string().await.unwrap();
            let rows = rows.lines().skip(3).map(|row| row.replace(' ', ""));
            let rows: Vec<_> = rows.take(4).collect();
            let expected = match geometry.contains("CASE") {
                // On an edge, with NaN, and inside.
                true => [
                    "|1|true|false|false|false|false|false|",
                    "|1|false|false|false|false|false|true|",
                    "|1|false|false|false|false|true|false|",
                    "|2|||||||",
                ],
                false => ["|1|||||||", "|1|||||||", "|1|||||||", "|2|||||||"],
            };
            assert_eq!(rows, expected, "{geometry}");
        }
    }

    #[tokio::test]
    async fn null_and_empty_points_are_in_no_polygon() {
        let ours = enable_arrays(SessionContext::new(), ArrayOptions::new());
        let query = "SELECT ST_Contains(ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 0))'), ST_Point(x, 1.0)),
                            ST_Contains(ST_GeomFromText(NULL), ST_Point(x, 1.0))
                     FROM (VALUES (1.5), (NULL), ('NaN'::double), (3.0), (1.0)) t(x)";
        let rows = ours.sql(query).await.unwrap().to_string().await.unwrap();
        let rows: Vec<_> = rows
            .lines()
            .skip(3)
            .map(|row| row.replace(' ', ""))
            .collect();
        assert_eq!(
            &rows[..5],
            ["|true||", "|||", "|false||", "|true||", "|false||"]
        );
    }
}
