//! Numbers of coordinates, by which an aggregate can group the cells of an array before they are joined.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::provider::join::lookup::distinct_keys::DistinctKeys;

/// Returns the number of a coordinate, such as its term of a key index.
#[derive(Debug)]
pub(crate) struct CoordinateNumber {
    signature: Signature,
    coordinates: DistinctKeys,
    /// The number of each distinct coordinate.
    numbers: Vec<u32>,
}

impl CoordinateNumber {
    /// The name of the function.
    pub const NAME: &str = "coordinate_number";

    /// Creates the function of these coordinates, which have no nulls. Equal coordinates have the number of
    /// the first. Returns `None` if coordinates of this type cannot be compared.
    pub fn try_new(coordinates: &ArrayRef, numbers: &[u32]) -> Result<Option<Self>> {
        let data_type = coordinates.data_type().clone();
        let Some(mut distinct) = DistinctKeys::try_new(std::iter::once(data_type))? else {
            return Ok(None);
        };
        let mut of_distinct = Vec::with_capacity(numbers.len());
        let ordinals = distinct.insert(&[Arc::clone(coordinates)])?;
        for (ordinal, number) in ordinals.into_iter().zip(numbers) {
            if ordinal.is_some_and(|ordinal| ordinal as usize == of_distinct.len()) {
                of_distinct.push(*number);
            }
        }
        Ok(Some(Self {
            signature: Signature::any(1, Volatility::Immutable),
            coordinates: distinct,
            numbers: of_distinct,
        }))
    }

    /// Returns the distinct coordinates.
    pub fn coordinates(&self) -> Result<ArrayRef> {
        match self.coordinates.values()?.pop() {
            Some(coordinates) => Ok(coordinates),
            None => internal_err!("{} has no coordinates", Self::NAME),
        }
    }

    /// Returns the number of each distinct coordinate.
    #[cfg(feature = "proto")]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

impl PartialEq for CoordinateNumber {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
            && match (self.coordinates(), other.coordinates()) {
                (Ok(one), Ok(other)) => one == other,
                _ => false,
            }
    }
}

impl Eq for CoordinateNumber {}

impl Hash for CoordinateNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.numbers.hash(state);
    }
}

impl ScalarUDFImpl for CoordinateNumber {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [coordinates] = arguments.args.as_slice() else {
            return internal_err!("{} takes one argument", Self::NAME);
        };
        let coordinates = coordinates.to_array(arguments.number_rows)?;
        let ordinals = self.coordinates.find(&[coordinates])?.into_iter();
        let numbers = ordinals.map(|ordinal| match ordinal {
            Some(ordinal) => Ok(self.numbers[ordinal as usize]),
            None => internal_err!("{} was called with an unknown coordinate", Self::NAME),
        });
        let numbers = UInt32Array::from(numbers.collect::<Result<Vec<_>>>()?);
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }
}
