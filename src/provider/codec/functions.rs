//! Encodes functions that hold data of a plan, such as the coordinates of `nearest`.

use std::sync::Arc;

use arrow::array::Array;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion_proto::protobuf;
use prost::Message;

use crate::grid::{Coordinates, SortedCoordinates, Steps};
use crate::provider::functions::nearest::NearestCoordinate;

/// The coordinates of an axis, in ascending order.
#[derive(Clone, PartialEq, Message)]
struct Axis {
    /// The coordinates, as one list. Empty if they are evenly spaced; its type is still used.
    #[prost(message, optional, tag = 1)]
    values: Option<protobuf::ScalarValue>,
    /// The start, the step and the number of evenly spaced coordinates, in decimal digits. Empty for
    /// other coordinates.
    #[prost(string, repeated, tag = 2)]
    steps: Vec<String>,
}

/// Encodes a function that looks up the nearest coordinate.
pub(super) fn encode(nearest: &NearestCoordinate) -> Result<Vec<u8>> {
    let (values, steps) = match nearest.coordinates().coordinates() {
        Coordinates::Values(values) => (Arc::clone(values), Vec::new()),
        Coordinates::Steps(steps) => (
            steps.at(std::iter::empty()),
            vec![
                steps.start().to_string(),
                steps.step().to_string(),
                steps.length().to_string(),
            ],
        ),
    };
    let list = SingleRowListArrayBuilder::new(values).build_list_scalar();
    let values = protobuf::ScalarValue::try_from(&list)
        .map_err(|error| plan_datafusion_err!("cannot encode coordinates: {error}"))?;
    let axis = Axis {
        values: Some(values),
        steps,
    };
    Ok(axis.encode_to_vec())
}

/// Decodes the message of the function `name`.
pub(super) fn decode(name: &str, message: &[u8]) -> Result<NearestCoordinate> {
    let invalid = |error: &dyn std::fmt::Display| {
        plan_datafusion_err!("cannot decode the function {name}: {error}")
    };
    let axis = Axis::decode(message).map_err(|error| invalid(&error))?;
    let list = axis.values.as_ref().map(ScalarValue::try_from).transpose();
    let list = match list.map_err(|error| invalid(&error))? {
        Some(ScalarValue::List(list)) if list.len() == 1 => list.value(0),
        _ => return plan_err!("cannot decode the function {name}: it has no coordinates"),
    };
    let coordinates = match axis.steps.as_slice() {
        [] => Coordinates::Values(list),
        [start, step, length] => {
            let number = |text: &String| text.parse::<i128>().map_err(|error| invalid(&error));
            let length = u64::try_from(number(length)?).map_err(|error| invalid(&error))?;
            let steps = Steps::try_new(
                list.data_type().clone(),
                number(start)?,
                number(step)?,
                length,
            );
            Coordinates::Steps(steps?)
        }
        _ => return plan_err!("cannot decode the function {name}: expected start, step, length"),
    };
    let dimension = name.strip_prefix(NearestCoordinate::PREFIX).unwrap_or(name);
    let coordinates = SortedCoordinates::of(coordinates)?;
    Ok(NearestCoordinate::new(dimension, Arc::new(coordinates)))
}
