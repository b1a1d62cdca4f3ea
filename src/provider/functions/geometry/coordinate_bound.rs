//! `ST_XMin`, `ST_XMax`, `ST_YMin` and `ST_YMax`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use crate::provider::functions::forwarding::forward_to_inner;

/// A function of geodatafusion that returns the min or max of a coordinate of geometries. Coordinates that are stored in a
/// column per dimension are read from it, which is faster than geodatafusion, which makes a scalar of each geometry.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CoordinateBound {
    /// geodatafusion's function.
    inner: Arc<ScalarUDF>,
    /// The name of the column of the coordinate.
    coordinate: &'static str,
    is_max: bool,
}

impl CoordinateBound {
    /// Returns the replacement of a function; `None` for other functions.
    pub fn replacement(inner: &Arc<ScalarUDF>) -> Option<ScalarUDF> {
        let (coordinate, is_max) = match inner.name() {
            "st_xmin" => ("x", false),
            "st_xmax" => ("x", true),
            "st_ymin" => ("y", false),
            "st_ymax" => ("y", true),
            _ => return None,
        };
        Some(ScalarUDF::from(Self {
            inner: Arc::clone(inner),
            coordinate,
            is_max,
        }))
    }

    /// Returns the bound of each geometry. `None` if a geometry has no coordinates, or for other layouts.
    fn bounds(&self, geometries: &ArrayRef) -> Option<Float64Array> {
        let bounds = (0..geometries.len()).map(|row| {
            let (array, row) = match geometries.as_union_opt() {
                Some(union) => (union.child(union.type_id(row)), union.value_offset(row)),
                None => (geometries, row),
            };
            if array.is_null(row) {
                return Some(None);
            }
            let coordinates = self.coordinates(array, row..row + 1)?;
            // Of -0.0 and 0.0, the first one is returned, as by geodatafusion.
            let bound = coordinates.iter().copied().reduce(|bound, other| {
                let is_beyond = match self.is_max {
                    true => other > bound,
                    false => other < bound,
                };
                if is_beyond { other } else { bound }
            });
            // Empty points, whose coordinates are NaN, and infinite bounds are left to geodatafusion.
            bound.filter(|bound| bound.is_finite()).map(Some)
        });
        bounds.collect()
    }

    /// Returns the coordinates of a range of geometries, or of parts of geometries.
    fn coordinates<'a>(&self, array: &'a ArrayRef, range: Range<usize>) -> Option<&'a [f64]> {
        match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let offsets = lists.offsets();
                let values = offsets[range.start] as usize..offsets[range.end] as usize;
                self.coordinates(lists.values(), values)
            }
            DataType::Struct(_) => {
                let column = array.as_struct().column_by_name(self.coordinate)?;
                let column = column.as_primitive_opt::<Float64Type>()?;
                Some(&column.values()[range])
            }
            _ => None,
        }
    }
}

impl ScalarUDFImpl for CoordinateBound {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Array(geometries)] = arguments.args.as_slice()
            && let Some(bounds) = self.bounds(geometries)
        {
            return Ok(ColumnarValue::Array(Arc::new(bounds)));
        }
        self.inner.invoke_with_args(arguments)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use crate::{ArrayOptions, enable_arrays};

    #[tokio::test]
    async fn bounds_are_those_of_geodatafusion() {
        let plain = SessionContext::new();
        geodatafusion::register(&plain);
        let ours = enable_arrays(SessionContext::new(), ArrayOptions::new());
        let shapes = [
            "('POINT(3 -4)')",
            "('LINESTRING(3 4, -1 7.5, 2 -0.0)')",
            "('POLYGON((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5))')",
            "('MULTIPOLYGON(((-3 -3, -1 -3, -1 -1, -3 -3)), ((1 1, 3 0, 4 4, 1 1)))')",
            "('MULTIPOINT(1 2, 3 4)')",
            "('MULTIPOINT(0 -0.0, -0.0 0)')",
            "('POINT Z(3 -4 9)')",
            "('POLYGON EMPTY')",
            "('GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(3 4, 5 6))')",
            "(NULL)",
        ];
        let all = shapes.join(", ");
        // One kind of geometry, all kinds, and slices of these columns.
        for rows in shapes.into_iter().chain([all.as_str()]) {
            for batch_size in [1, 8192] {
                let mut answers = Vec::new();
                for ctx in [&plain, &ours] {
                    ctx.sql(&format!(
                        "SET datafusion.execution.batch_size = {batch_size}"
                    ))
                    .await
                    .unwrap();
                    let query = format!(
                        "SELECT ST_XMin(g), ST_XMax(g), ST_YMin(g), ST_YMax(g)
                         FROM (SELECT ST_GeomFromText(w) AS g FROM (VALUES {rows}) v(w) LIMIT 8)"
                    );
                    let found = ctx.sql(&query).await.unwrap().to_string().await;
                    answers.push(found.map_err(|error| error.to_string()));
                }
                assert_eq!(answers[0], answers[1], "{rows}");
            }
        }
    }
}
