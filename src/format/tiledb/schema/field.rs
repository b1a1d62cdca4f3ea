//! Dimensions, attributes and dimension labels of a schema.

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{
    CellValues, Datatype, Interval, Pipeline, Representation, Scalar,
};

/// A dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// The name, which may be empty.
    pub name: String,
    /// The datatype of coordinates.
    pub datatype: Datatype,
    /// The number of values per coordinate: one, or variable for texts.
    pub cell_values: CellValues,
    /// The filters of coordinates in sparse fragments.
    pub filters: Pipeline,
    /// The domain; `None` for texts.
    pub domain: Option<Interval>,
    /// The extent of space tiles, in the unit of the datatype.
    pub extent: Option<Scalar>,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The name, which may be empty.
    pub name: String,
    /// The datatype of values.
    pub datatype: Datatype,
    /// The number of values per cell.
    pub cell_values: CellValues,
    /// The filters of values.
    pub filters: Pipeline,
    /// The value of cells that were never written: one cell.
    pub fill: Vec<u8>,
    /// `true` if cells may be null.
    pub is_nullable: bool,
    /// `true` if cells of a nullable attribute that were never written hold the fill value, `false`
    /// if they are null.
    pub is_fill_valid: bool,
    /// The order of the values along the first dimension, which label arrays promise.
    pub order: DataOrder,
    /// The name of the enumeration whose values the cells index.
    pub enumeration: Option<String>,
}

/// An order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataOrder {
    /// No order is promised.
    Unordered,
    /// Values increase.
    Increasing,
    /// Values decrease.
    Decreasing,
}

/// A label of a dimension: the values of a one-dimensional array, one per index.
#[derive(Debug, Clone, PartialEq)]
pub struct DimensionLabel {
    /// The ordinal of the dimension.
    pub dimension: usize,
    /// The name of the label.
    pub name: String,
    /// `true` if the location is relative to the array's directory.
    pub is_relative: bool,
    /// The location of the label's array.
    pub location: String,
    /// The name of the attribute of the label's array that holds the values.
    pub attribute: String,
    /// The order of the values.
    pub order: DataOrder,
    /// The datatype of values.
    pub datatype: Datatype,
    /// The number of values per cell.
    pub cell_values: CellValues,
    /// `true` if the label's array lies outside of the array.
    pub is_external: bool,
}

impl Dimension {
    pub(super) fn read(fields: &mut Fields<'_>, coordinate_filters: &Pipeline) -> Decoded<Self> {
        let name = fields.text("dimension name")?;
        let field = "dimension datatype";
        let datatype = Datatype::from_code(field, fields.u8(field)?)?;
        let field = "dimension cell value number";
        let cell_values = CellValues::from_code(field, fields.u32(field)?)?;
        let is_text = datatype == Datatype::StringAscii;
        if is_text != cell_values.is_variable() || !is_text && cell_values != CellValues::Fixed(1) {
            let expected = "1, or variable for STRING_ASCII";
            return Err(Fault::new(field, format!("{cell_values:?}"), expected));
        }
        let filters = Pipeline::read(fields)?;
        let domain_bytes = fields.u64("domain length")?;
        let domain = fields.take_u64("domain", domain_bytes)?;
        let mut dimension = Self {
            name,
            datatype,
            cell_values,
            filters: match filters.filters() {
                [] => coordinate_filters.clone(),
                _ => filters,
            },
            domain: None,
            extent: None,
        };
        if !is_text || !domain.is_empty() {
            let mut domain = Fields::new(domain);
            dimension.domain = Some(dimension.interval("domain", &mut domain)?);
            domain.finish("domain")?;
        }
        if !fields.flag("null extent")? {
            let extent = Scalar::read("tile extent", datatype, fields)?;
            let is_valid = match extent {
                Scalar::Signed(extent) => extent != 0,
                Scalar::Unsigned(extent) => extent > 0,
                Scalar::Float(extent) => extent > 0.0,
                Scalar::Bytes(_) => false,
            };
            if !is_valid {
                let expected = "more than 0";
                return Err(Fault::new("tile extent", format!("{extent:?}"), expected));
            }
            dimension.extent = Some(extent);
        }
        Ok(dimension)
    }

    /// Returns the extent as a number of coordinates; `None` without an extent of integers. libtiledb
    /// computes extents in the datatype of the dimension, so that an extent of more than half of all
    /// values of a signed datatype is stored as a negative number.
    pub fn extent_length(&self) -> Option<u64> {
        match self.extent.as_ref()? {
            Scalar::Signed(extent) => {
                let unused = 64 - 8 * self.datatype.size() as u32;
                Some(extent.cast_unsigned() & (u64::MAX >> unused))
            }
            Scalar::Unsigned(extent) => Some(*extent),
            Scalar::Float(_) | Scalar::Bytes(_) => None,
        }
    }

    /// Reads an interval of coordinates.
    pub(crate) fn interval(
        &self,
        field: &'static str,
        fields: &mut Fields<'_>,
    ) -> Decoded<Interval> {
        Interval::read(field, self.datatype, self.cell_values.is_variable(), fields)
    }
}

impl Attribute {
    pub(super) fn read(fields: &mut Fields<'_>, version: u32) -> Decoded<Self> {
        let name = fields.text("attribute name")?;
        let field = "attribute datatype";
        let datatype = Datatype::from_code(field, fields.u8(field)?)?;
        let field = "attribute cell value number";
        let cell_values = CellValues::from_code(field, fields.u32(field)?)?;
        let filters = Pipeline::read(fields)?;
        let fill_bytes = fields.u64("fill value length")?;
        let fill = fields.take_u64("fill value", fill_bytes)?.to_vec();
        let is_nullable = fields.flag("nullable")?;
        let is_fill_valid = fields.u8("fill value validity")? != 0;
        let attribute = Self {
            name,
            datatype,
            cell_values,
            filters,
            fill,
            is_nullable,
            is_fill_valid,
            order: match version {
                17.. => DataOrder::read(fields)?,
                _ => DataOrder::Unordered,
            },
            enumeration: match version {
                20.. => Some(fields.text("enumeration name")?).filter(|name| !name.is_empty()),
                _ => None,
            },
        };
        let is_multiple = match attribute.cell_bytes() {
            Some(bytes) => attribute.fill.len() == bytes,
            None => attribute.fill.len().is_multiple_of(datatype.size()),
        };
        if !is_multiple {
            let found = format!("{fill_bytes} bytes");
            return Err(Fault::new("fill value", found, "one cell"));
        }
        if attribute.enumeration.is_some() && datatype.representation() == Representation::Float {
            let expected = "an integer datatype, as the attribute has an enumeration";
            return Err(Fault::new("attribute datatype", datatype, expected));
        }
        Ok(attribute)
    }

    /// The size of a cell in bytes; `None` if cells differ in length.
    pub fn cell_bytes(&self) -> Option<usize> {
        match self.cell_values {
            CellValues::Fixed(values) => (values as usize).checked_mul(self.datatype.size()),
            CellValues::Variable => None,
        }
    }
}

impl DataOrder {
    fn read(fields: &mut Fields<'_>) -> Decoded<Self> {
        match fields.u8("data order")? {
            0 => Ok(Self::Unordered),
            1 => Ok(Self::Increasing),
            2 => Ok(Self::Decreasing),
            other => Err(Fault::new("data order", other, "0, 1 or 2")),
        }
    }
}

impl DimensionLabel {
    pub(super) fn read(fields: &mut Fields<'_>) -> Decoded<Self> {
        Ok(Self {
            dimension: fields.u32("dimension of a label")? as usize,
            name: fields.text("label name")?,
            is_relative: fields.flag("relative label location")?,
            location: fields.text_u64("label location")?,
            attribute: fields.text("label attribute")?,
            order: DataOrder::read(fields)?,
            datatype: Datatype::from_code("label datatype", fields.u8("label datatype")?)?,
            cell_values: CellValues::from_code(
                "label cell value number",
                fields.u32("label cell value number")?,
            )?,
            is_external: fields.flag("external label")?,
        })
    }
}
