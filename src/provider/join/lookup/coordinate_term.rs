//! The function that maps a coordinate to its term of a key index or of a group number.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::provider::join::lookup::distinct_keys::DistinctKeys;

/// The scalar function that returns the term of a coordinate: its share of the key index, or of the
/// group number, of a cell.
#[derive(Debug)]
pub(crate) struct CoordinateTerm {
    signature: Signature,
    data_type: DataType,
    coordinates: DistinctKeys,
    /// The term of each distinct coordinate.
    terms: Vec<u32>,
}

impl CoordinateTerm {
    /// The name of the function.
    pub const NAME: &str = "coordinate_term";

    /// Creates the function. `terms` holds one term per coordinate. Returns `None` if coordinates of this
    /// type cannot be compared, if one is null, or if equal coordinates have different terms.
    pub fn try_new(coordinates: &ArrayRef, terms: &[u32]) -> Result<Option<Self>> {
        let data_type = coordinates.data_type().clone();
        let Some(mut distinct) = DistinctKeys::try_new(std::iter::once(data_type.clone()))? else {
            return Ok(None);
        };
        let mut of_distinct = Vec::with_capacity(terms.len());
        let ordinals = distinct.insert(&[Arc::clone(coordinates)])?;
        for (ordinal, term) in ordinals.into_iter().zip(terms) {
            let Some(ordinal) = ordinal else {
                return Ok(None);
            };
            match of_distinct.get(ordinal as usize) {
                None => of_distinct.push(*term),
                Some(known) if known != term => return Ok(None),
                Some(_) => {}
            }
        }
        Ok(Some(Self {
            signature: Signature::any(1, Volatility::Immutable),
            data_type,
            coordinates: distinct,
            terms: of_distinct,
        }))
    }

    /// Returns the distinct coordinates.
    pub fn coordinates(&self) -> Result<ArrayRef> {
        match self.coordinates.values()?.pop() {
            Some(coordinates) => Ok(coordinates),
            None => internal_err!("{} has no coordinates", Self::NAME),
        }
    }

    /// Returns the term of each distinct coordinate.
    #[cfg(feature = "proto")]
    pub fn terms(&self) -> &[u32] {
        &self.terms
    }
}

impl PartialEq for CoordinateTerm {
    fn eq(&self, other: &Self) -> bool {
        self.terms == other.terms
            && match (self.coordinates(), other.coordinates()) {
                (Ok(one), Ok(other)) => one == other,
                _ => false,
            }
    }
}

impl Eq for CoordinateTerm {}

impl Hash for CoordinateTerm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.terms.hash(state);
    }
}

impl ScalarUDFImpl for CoordinateTerm {
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
        if coordinates.data_type() != &self.data_type {
            return internal_err!(
                "{} takes {}, found {}",
                Self::NAME,
                self.data_type,
                coordinates.data_type()
            );
        }
        let ordinals = self.coordinates.find(&[coordinates])?.into_iter();
        let terms = ordinals.map(|ordinal| match ordinal {
            Some(ordinal) => Ok(self.terms[ordinal as usize]),
            None => internal_err!("{} was called with an unknown coordinate", Self::NAME),
        });
        let terms = UInt32Array::from(terms.collect::<Result<Vec<_>>>()?);
        Ok(ColumnarValue::Array(Arc::new(terms)))
    }
}
