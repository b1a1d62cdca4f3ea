//! The scalar function `nearest(dimension, target)`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::UInt64Array;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::grid::{CoordinateKey, SortedCoordinates};

/// Returns `true` where a dimension equals the coordinate of its axis that is nearest to a target.
///
/// An analyzer rule replaces each call by a comparison with that coordinate, so the function itself
/// never runs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Nearest {
    signature: Signature,
}

impl Nearest {
    /// Creates the function.
    pub fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl Default for Nearest {
    fn default() -> Self {
        Self::new()
    }
}

impl ScalarUDFImpl for Nearest {
    fn name(&self) -> &str {
        "nearest"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!(
            "nearest(dimension, target) works only on dimensions of array tables, in sessions set up by \
             enable_arrays"
        )
    }
}

/// Returns the coordinate of an axis that is nearest to a target, or null if the target is null or
/// NaN or the axis is empty.
#[derive(Debug)]
pub(crate) struct NearestCoordinate {
    name: String,
    signature: Signature,
    /// The type that targets are cast to.
    target: DataType,
    coordinates: Arc<SortedCoordinates>,
}

impl NearestCoordinate {
    /// The prefix of the function names.
    pub const PREFIX: &str = "nearest_";

    /// The sorted coordinates of the axis.
    #[cfg(feature = "proto")]
    pub fn coordinates(&self) -> &SortedCoordinates {
        &self.coordinates
    }

    pub fn new(dimension: &str, coordinates: Arc<SortedCoordinates>) -> Self {
        let target = match coordinates.data_type() {
            data_type if data_type.is_numeric() => DataType::Float64,
            _ => DataType::Timestamp(TimeUnit::Microsecond, None),
        };
        Self {
            name: format!("{}{dimension}", Self::PREFIX),
            signature: Signature::user_defined(Volatility::Immutable),
            target,
            coordinates,
        }
    }
}

/// Returns `true` if a value of this type can be a target: a number for an axis of numbers, a time,
/// a date or text for an axis of times.
fn is_target(argument: &DataType, target: &DataType) -> bool {
    match argument {
        DataType::Null => true,
        DataType::Dictionary(_, values) => is_target(values, target),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => target.is_temporal(),
        text if text.is_string() => target.is_temporal(),
        other => other.is_numeric() && target.is_numeric(),
    }
}

impl PartialEq for NearestCoordinate {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.coordinates, &other.coordinates)
    }
}

impl Eq for NearestCoordinate {}

impl Hash for NearestCoordinate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for NearestCoordinate {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [argument] if is_target(argument, &self.target) => Ok(vec![self.target.clone()]),
            _ => plan_err!(
                "the target of nearest has the type {}, expected {}",
                arguments
                    .iter()
                    .map(DataType::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
                self.target
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.coordinates.data_type())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [target] = arguments.args.as_slice() else {
            return internal_err!("{} takes one argument", self.name);
        };
        let targets = target.to_array_of_size(match target {
            ColumnarValue::Array(array) => array.len(),
            ColumnarValue::Scalar(_) => 1,
        })?;
        let Some(keys) = CoordinateKey::of(targets.as_ref())? else {
            return internal_err!("{} has no distance to {}", self.name, targets.data_type());
        };
        let indices = keys.into_iter().map(|key| self.coordinates.nearest(key?));
        let nearest = self.coordinates.take(&UInt64Array::from_iter(indices))?;
        match target {
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(nearest)),
            ColumnarValue::Scalar(_) => {
                let nearest = ScalarValue::try_from_array(&nearest, 0)?;
                Ok(ColumnarValue::Scalar(nearest))
            }
        }
    }
}
