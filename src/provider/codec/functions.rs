//! Encodes the functions that hold coordinates of an axis: `nearest` and `coordinate_term`.

use std::fmt::Display;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion_proto::protobuf;
use prost::Message;

use crate::grid::{Coordinates, SortedCoordinates, Steps};
use crate::provider::functions::nearest::NearestCoordinate;
use crate::provider::join::lookup::coordinate_term::CoordinateTerm;

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

/// The coordinates of an axis with the term of each.
#[derive(Clone, PartialEq, Message)]
struct Terms {
    /// The coordinates, as one list.
    #[prost(message, optional, tag = 1)]
    coordinates: Option<protobuf::ScalarValue>,
    #[prost(uint32, repeated, tag = 2)]
    terms: Vec<u32>,
}

/// Encodes a function that looks up the terms of coordinates.
pub(super) fn encode_terms(function: &CoordinateTerm) -> Result<Vec<u8>> {
    let message = Terms {
        coordinates: Some(list_of(function.coordinates()?)?),
        terms: function.terms().to_vec(),
    };
    Ok(message.encode_to_vec())
}

/// Decodes the message of a function that looks up the terms of coordinates.
pub(super) fn decode_terms(message: &[u8]) -> Result<CoordinateTerm> {
    let name = CoordinateTerm::NAME;
    let message = Terms::decode(message).map_err(|error| invalid(name, &error))?;
    let coordinates = values_of(name, message.coordinates.as_ref())?;
    let is_complete = coordinates.len() == message.terms.len();
    match CoordinateTerm::try_new(&coordinates, &message.terms)?.filter(|_| is_complete) {
        Some(function) => Ok(function),
        None => plan_err!(
            "cannot decode the function {name}: found {} coordinates and {} terms, expected one term \
             for each distinct coordinate and no nulls",
            coordinates.len(),
            message.terms.len()
        ),
    }
}

/// Returns values as the message of one list.
fn list_of(values: ArrayRef) -> Result<protobuf::ScalarValue> {
    let list = SingleRowListArrayBuilder::new(values).build_list_scalar();
    protobuf::ScalarValue::try_from(&list)
        .map_err(|error| plan_datafusion_err!("cannot encode coordinates: {error}"))
}

/// Returns the values of a list that [`list_of`] encoded for the function `name`.
fn values_of(name: &str, list: Option<&protobuf::ScalarValue>) -> Result<ArrayRef> {
    let list = list.map(ScalarValue::try_from).transpose();
    match list.map_err(|error| invalid(name, &error))? {
        Some(ScalarValue::List(list)) if list.len() == 1 => Ok(list.value(0)),
        _ => plan_err!("cannot decode the function {name}: it has no coordinates"),
    }
}

fn invalid(name: &str, error: &dyn Display) -> DataFusionError {
    plan_datafusion_err!("cannot decode the function {name}: {error}")
}

/// Encodes a function that looks up the nearest coordinate.
pub(super) fn encode_nearest(nearest: &NearestCoordinate) -> Result<Vec<u8>> {
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
    let axis = Axis {
        values: Some(list_of(values)?),
        steps,
    };
    Ok(axis.encode_to_vec())
}

/// Decodes the message of the function `name`.
pub(super) fn decode_nearest(name: &str, message: &[u8]) -> Result<NearestCoordinate> {
    let axis = Axis::decode(message).map_err(|error| invalid(name, &error))?;
    let list = values_of(name, axis.values.as_ref())?;
    let coordinates = match axis.steps.as_slice() {
        [] => Coordinates::Values(list),
        [start, step, length] => {
            let number =
                |text: &String| text.parse::<i128>().map_err(|error| invalid(name, &error));
            let length = u64::try_from(number(length)?).map_err(|error| invalid(name, &error))?;
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
