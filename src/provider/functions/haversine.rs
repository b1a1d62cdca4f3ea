//! The scalar function `haversine(lat1, lon1, lat2, lon2)`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The mean radius of the Earth in kilometres, as defined by the International Union of Geodesy and
/// Geophysics.
const EARTH_RADIUS: f64 = 6371.0088;

/// The great-circle distance between two points in kilometres, on a sphere with the mean radius of
/// the Earth. Latitudes and longitudes are in degrees. Longitudes may start at -180 or at 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Haversine {
    signature: Signature,
}

impl Haversine {
    /// Creates the function.
    pub fn new() -> Self {
        Self {
            signature: Signature::exact(vec![DataType::Float64; 4], Volatility::Immutable),
        }
    }
}

impl Default for Haversine {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for Haversine {
    fn name(&self) -> &str {
        "haversine"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_array = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Array(_));
        let are_scalars = !arguments.args.iter().any(is_array);
        let degrees = ColumnarValue::values_to_arrays(&arguments.args)?;
        let rows = degrees.first().map_or(0, |array| array.len());
        let at = |argument: usize, row: usize| {
            let array = degrees.get(argument)?.as_primitive::<Float64Type>();
            array.is_valid(row).then(|| array.value(row))
        };
        let distances = (0..rows).map(|row| {
            let one = (at(0, row)?, at(1, row)?);
            Some(distance(one, (at(2, row)?, at(3, row)?)))
        });
        let distances: ArrayRef = Arc::new(Float64Array::from_iter(distances));
        Ok(match are_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&distances, 0)?),
            false => ColumnarValue::Array(distances),
        })
    }
}

/// Returns the distance in kilometres between two points, each given as latitude and longitude.
fn distance(one: (f64, f64), other: (f64, f64)) -> f64 {
    let half_sine = |one: f64, other: f64| ((other - one).to_radians() / 2.0).sin();
    let latitude = half_sine(one.0, other.0);
    let longitude = half_sine(one.1, other.1);
    let cosines = one.0.to_radians().cos() * other.0.to_radians().cos();
    let haversine = latitude * latitude + cosines * longitude * longitude;
    // Rounding errors may lift the haversine of antipodes above 1.
    2.0 * EARTH_RADIUS * haversine.min(1.0).sqrt().asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_of_the_globe() {
        let quarter = EARTH_RADIUS * std::f64::consts::FRAC_PI_2;
        for (one, other, quarters) in [
            ((0.0, 0.0), (90.0, 17.0), 1.0),
            ((0.0, 0.0), (0.0, 270.0), 1.0),
            ((0.0, -90.0), (0.0, 270.0), 0.0),
            ((30.0, 10.0), (-30.0, 190.0), 2.0),
        ] {
            assert!((distance(one, other) - quarters * quarter).abs() < 1e-6);
        }
    }

    #[test]
    fn seattle_to_london() {
        // 2 R asin(sqrt(h)), computed with Python's math module.
        let found = distance((47.6062, -122.3321), (51.5074, -0.1278));
        assert!((found - 7_699.571_291_979_66).abs() < 1e-6, "{found}");
    }
}
