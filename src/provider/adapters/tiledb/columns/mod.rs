//! Columns of tables over TileDB arrays.

mod cells;
mod types;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;

use crate::error::Result;
use crate::format::tiledb::{
    Attribute, CellValues, Datatype, Dimension, DimensionLabel, Enumeration, Interval,
    Representation, Scalar, TileBuffers,
};
use crate::provider::adapters::tiledb::columns::types::{Element, unit};

pub(super) use types::converted;

/// The name of the column of an attribute without a name.
pub(super) const ANONYMOUS: &str = "__attr";
/// The field metadata key of the unit of numbers.
const UNITS: &str = "units";

/// The column of a dimension or an attribute.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The path of the array, for errors.
    path: PathBuf,
    name: String,
    datatype: Datatype,
    cell_values: CellValues,
    data_type: DataType,
    /// The stored cell that stands for a missing value, if there is one.
    fill: Option<Vec<u8>>,
    /// `true` if cells are null only where no fragment holds them.
    is_null_where_missing: bool,
    is_nullable: bool,
    /// The values that cells index.
    enumeration: Option<ArrayRef>,
}

/// The values that are null, beside those that are stored as null.
#[derive(Debug, Clone, Copy)]
pub(super) struct NullValues {
    /// `true` if NaN is null.
    pub nan: bool,
    /// `true` if the fill value is null.
    pub fill: bool,
}

impl NullValues {
    /// No value is null.
    pub const NONE: Self = Self {
        nan: false,
        fill: false,
    };
}

impl Column {
    /// Creates the column of a dimension, the coordinates of which are never null.
    pub fn of_dimension(path: &Path, index: usize, dimension: &Dimension) -> Self {
        let name = match dimension.name.as_str() {
            "" => format!("__dim_{index}"),
            name => name.to_string(),
        };
        Self::new(path, name, dimension.datatype, dimension.cell_values)
    }

    /// Creates the column of an attribute. Fill values are null in dense arrays, where they stand
    /// for cells that were never written. Only the fill values of integers of 8 bits, such as 255 in
    /// an image, are values like any other: of these attributes, missing cells alone are null.
    pub fn of_attribute(
        path: &Path,
        attribute: &Attribute,
        enumeration: Option<&Enumeration>,
        is_sparse: bool,
    ) -> Result<Self> {
        let name = match attribute.name.as_str() {
            "" => ANONYMOUS.to_string(),
            name => name.to_string(),
        };
        let mut column = Self::new(path, name, attribute.datatype, attribute.cell_values);
        column.is_nullable = attribute.is_nullable;
        let is_index = attribute.cell_values == CellValues::Fixed(1);
        if let Some(enumeration) = enumeration.filter(|_| is_index) {
            let values = Self::new(
                path,
                format!("enumeration {}", enumeration.name),
                enumeration.datatype,
                enumeration.cell_values,
            );
            let buffers = TileBuffers {
                cells: enumeration.len(),
                values: enumeration.data().to_vec(),
                offsets: match enumeration.cell_values {
                    CellValues::Variable => enumeration.offsets().to_vec(),
                    CellValues::Fixed(_) => Vec::new(),
                },
                validity: Vec::new(),
            };
            let values = values.array(buffers, NullValues::NONE)?;
            column.data_type = match values.data_type() {
                bytes @ (DataType::Utf8 | DataType::Binary) => {
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(bytes.clone()))
                }
                // Most of DataFusion's functions of numbers take no dictionaries.
                other => other.clone(),
            };
            column.enumeration = Some(values);
        } else if !is_sparse && !attribute.is_nullable {
            let is_single = attribute.cell_values == CellValues::Fixed(1);
            match attribute.datatype {
                Datatype::Bool => {}
                Datatype::Int8 | Datatype::Uint8 if is_single => {
                    column.is_null_where_missing = true;
                }
                _ => column.fill = Some(attribute.fill.clone()),
            }
        }
        Ok(column)
    }

    /// Creates the column of a dimension label.
    pub fn of_label(path: &Path, label: &DimensionLabel) -> Self {
        Self::new(path, label.name.clone(), label.datatype, label.cell_values)
    }

    fn new(path: &Path, name: String, datatype: Datatype, cell_values: CellValues) -> Self {
        Self {
            path: path.to_path_buf(),
            name,
            datatype,
            cell_values,
            data_type: Element::of(datatype).cell_type(cell_values),
            fill: None,
            is_null_where_missing: false,
            is_nullable: false,
            enumeration: None,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stored datatype.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// The SQL type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The stored cell that stands for a missing value, if there is one.
    pub fn fill(&self) -> Option<&[u8]> {
        self.fill.as_deref()
    }

    /// Returns `true` if cells are null only where no fragment holds them, whatever their value.
    pub fn is_null_where_missing(&self) -> bool {
        self.is_null_where_missing
    }

    /// The values that cells index, if the attribute has an enumeration.
    pub fn enumeration(&self) -> Option<&ArrayRef> {
        self.enumeration.as_ref()
    }

    /// Returns `true` if cells are single numbers whose stored bytes are those of the column.
    pub fn is_plain_number(&self) -> bool {
        let is_number = self.data_type.is_numeric() && self.cell_values == CellValues::Fixed(1);
        is_number && !self.is_nullable && self.enumeration.is_none()
    }

    /// Returns `true` if cells that a fragment holds may be null.
    pub fn may_have_nulls(&self, nulls: NullValues) -> bool {
        self.is_nullable
            || self.enumeration.is_some()
            || self.has_not_a_time()
            || (nulls.nan && self.data_type.is_floating())
            || (nulls.fill && self.fill.is_some())
    }

    /// Returns `true` if one number stands for a missing date, time or duration.
    pub fn has_not_a_time(&self) -> bool {
        self.datatype.is_datetime() || self.datatype.is_time()
    }

    /// The average size of a decoded cell in bytes, roughly.
    pub fn cell_bytes(&self) -> u64 {
        let values = match self.cell_values {
            CellValues::Fixed(values) => u64::from(values),
            CellValues::Variable => 16,
        };
        values * self.datatype.size() as u64
    }

    /// The stored type as introspection shows it: `INT32`, `FLOAT32[2]`, `STRING_UTF8[]`.
    pub fn stored_type(&self) -> String {
        match self.cell_values {
            CellValues::Fixed(1) => self.datatype.to_string(),
            CellValues::Fixed(values) => format!("{}[{values}]", self.datatype),
            CellValues::Variable => format!("{}[]", self.datatype),
        }
    }

    /// Returns the field of the column.
    pub fn field(&self, is_nullable: bool) -> Field {
        let unit = unit(self.datatype).filter(|_| self.enumeration.is_none());
        let unit = unit.map(|unit| (UNITS.to_string(), unit.to_string()));
        Field::new(&self.name, self.data_type.clone(), is_nullable)
            .with_metadata(unit.into_iter().collect())
    }

    /// Converts scalars of the datatype, for example bounds, to values of the SQL type. A scalar that
    /// the type cannot hold becomes null.
    pub fn scalars<'a>(
        &self,
        scalars: impl Iterator<Item = Option<&'a Scalar>>,
    ) -> Result<ArrayRef> {
        let is_bytes = matches!(Element::of(self.datatype), Element::Text | Element::Byte);
        if is_bytes || self.enumeration.is_some() || self.cell_values != CellValues::Fixed(1) {
            let texts = scalars.map(|scalar| match scalar {
                Some(Scalar::Bytes(bytes)) => Some(bytes.as_slice()),
                _ => None,
            });
            return match self.data_type {
                DataType::Binary => Ok(Arc::new(texts.collect::<BinaryArray>())),
                DataType::Utf8 => {
                    let texts = texts.map(|text| std::str::from_utf8(text?).ok());
                    Ok(Arc::new(texts.collect::<StringArray>()))
                }
                _ => Ok(new_null_array(&self.data_type, texts.count())),
            };
        }
        let size = self.datatype.size();
        let mut buffers = TileBuffers::default();
        for scalar in scalars {
            let word = match scalar {
                Some(Scalar::Signed(value)) if self.has_not_a_time() => {
                    converted(self.datatype, *value).map(|_| value.to_le_bytes())
                }
                Some(Scalar::Signed(value)) => Some(value.to_le_bytes()),
                Some(Scalar::Unsigned(value)) => Some(value.to_le_bytes()),
                Some(Scalar::Float(value)) if size == 4 => {
                    let bits = u64::from((*value as f32).to_bits());
                    Some(bits.to_le_bytes())
                }
                Some(Scalar::Float(value)) => Some(value.to_le_bytes()),
                Some(Scalar::Bytes(_)) | None => None,
            };
            buffers.cells += 1;
            buffers.validity.push(u8::from(word.is_some()));
            buffers.values.extend(&word.unwrap_or_default()[..size]);
        }
        self.array(buffers, NullValues::NONE)
    }

    /// Converts the lower and the upper bounds of intervals to values of the SQL type.
    pub fn intervals<'a>(
        &self,
        intervals: impl Iterator<Item = Option<&'a Interval>> + Clone,
    ) -> Result<(ArrayRef, ArrayRef)> {
        let lows = intervals.clone().map(|interval| Some(&interval?.low));
        let highs = intervals.map(|interval| Some(&interval?.high));
        Ok((self.scalars(lows)?, self.scalars(highs)?))
    }

    /// Compares values with bounds of the stored indices of an enumeration: `false` if no cell within
    /// the bounds has any of the values, null if unknown. Returns `None` if there is no enumeration,
    /// or if its values cannot be compared.
    pub fn contained<E>(
        &self,
        values: &HashSet<ScalarValue>,
        bounds: impl Iterator<Item = Result<Option<(Scalar, Scalar)>, E>>,
    ) -> Result<Option<BooleanArray>, E> {
        let Some(indices) = self.indices_of(values) else {
            return Ok(None);
        };
        let contains = bounds.map(|bounds| {
            let bounds = bounds?.and_then(|(low, high)| low.integer().zip(high.integer()));
            let is_between = |(low, high)| {
                let mut indices = indices.iter();
                indices.any(|index| (low..=high).contains(index))
            };
            Ok(bounds.filter(|bounds| !is_between(*bounds)).map(|_| false))
        });
        contains.collect::<Result<_, E>>().map(Some)
    }

    /// Returns the indices of the enumeration's values that are among these values. Returns `None` if
    /// they are not texts or integers, which are equal exactly if their texts are.
    fn indices_of(&self, wanted: &HashSet<ScalarValue>) -> Option<Vec<i128>> {
        let values = self.enumeration.as_ref()?;
        let data_type = values.data_type();
        if !data_type.is_integer() && data_type != &DataType::Utf8 {
            return None;
        }
        let wanted = ScalarValue::iter_to_array(wanted.iter().cloned()).ok()?;
        let wanted = cast(&wanted, data_type).ok()?;
        let texts = |array| cast(array, &DataType::Utf8).ok();
        let (values, wanted) = (texts(values)?, texts(&wanted)?);
        let (values, wanted) = (values.as_string::<i32>(), wanted.as_string::<i32>());
        let is_wanted = |value: Option<&str>| wanted.iter().any(|one| one == value);
        let indices = (0..).zip(values).filter(|(_, value)| is_wanted(*value));
        Some(indices.map(|(index, _)| index).collect())
    }

    /// Returns the text of the fill value, if it is a single value.
    pub fn fill_text(&self) -> Option<String> {
        let is_number = matches!(Element::of(self.datatype), Element::Plain(_));
        let fill = self.fill_scalar().filter(|_| is_number)?;
        Some(fill.to_string())
    }

    /// Returns the fill value, if it is a single number.
    pub fn fill_scalar(&self) -> Option<Scalar> {
        let fill = self.fill.as_deref()?;
        let is_single = self.cell_values == CellValues::Fixed(1);
        Scalar::from_bytes(self.datatype, fill).filter(|_| is_single)
    }

    /// Returns `true` if values are floating-point numbers.
    pub fn is_float(&self) -> bool {
        self.datatype.representation() == Representation::Float
    }
}
