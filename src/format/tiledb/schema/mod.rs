//! Array schemas: dimensions, attributes, datatypes, filter pipelines and enumerations.
//!
//! ```text
//! Schema
//!   Dimension, Attribute   Datatype, CellValues, Pipeline of Filters
//!     Enumeration              the values that the cells of an attribute index
//!   Interval of Scalars    domains and bounds
//! ```

mod datatype;
mod enumeration;
mod field;
mod pipeline;
mod pipeline_text;
mod value;

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};

pub use datatype::{CellValues, Datatype, Layout, Representation};
pub use enumeration::Enumeration;
pub use field::{Attribute, DataOrder, Dimension, DimensionLabel};
pub use pipeline::{Filter, Pipeline};
pub use value::{Interval, Scalar};

/// First format version that is read: the first one with several schemas per array.
pub const MIN_VERSION: u32 = 10;
/// Last format version that is read.
pub const MAX_VERSION: u32 = 23;
/// Maximum number of dimensions, and of attributes.
const MAX_FIELDS: usize = 1 << 16;

/// Checks that a format version is one that is read.
pub(crate) fn check_version(field: &'static str, version: u32) -> Decoded<u32> {
    match version {
        MIN_VERSION..=MAX_VERSION => Ok(version),
        _ => {
            let expected = format!("{MIN_VERSION} to {MAX_VERSION}");
            Err(Fault::new(field, version, expected))
        }
    }
}

/// An array schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The format version of the schema.
    pub version: u32,
    /// `true` if cells of a sparse array may share their coordinates.
    pub allows_duplicates: bool,
    /// `true` for sparse arrays.
    pub is_sparse: bool,
    /// The order of space tiles.
    pub tile_order: Layout,
    /// The order of cells within a space tile.
    pub cell_order: Layout,
    /// The number of cells in each data tile of a sparse fragment, except for the last.
    pub capacity: u64,
    /// Filters of coordinates, where the dimension has none of its own, and of timestamps.
    pub coordinate_filters: Pipeline,
    /// Filters of the offsets of cells of variable length.
    pub offset_filters: Pipeline,
    /// Filters of validity bytes.
    pub validity_filters: Pipeline,
    /// The dimensions, in order.
    pub dimensions: Vec<Dimension>,
    /// The attributes, in order.
    pub attributes: Vec<Attribute>,
    /// Labels of dimensions, which are arrays of their own.
    pub labels: Vec<DimensionLabel>,
    /// Names of enumerations, each with the name of the file that holds its values.
    pub enumerations: Vec<(String, String)>,
    /// The part of the domain that is in use, if the schema limits it: one interval per dimension.
    pub current_domain: Option<Vec<Interval>>,
}

impl Schema {
    /// Parses a schema, the payload of a generic tile.
    pub(crate) fn parse(payload: &[u8]) -> Decoded<Self> {
        let mut fields = Fields::new(payload);
        let version = check_version("schema version", fields.u32("schema version")?)?;
        let allows_duplicates = fields.flag("allows duplicates")?;
        let is_sparse = fields.flag("array type")?;
        let tile_order = Layout::from_code("tile order", fields.u8("tile order")?)?;
        let cell_order = Layout::from_code("cell order", fields.u8("cell order")?)?;
        let capacity = fields.u64("capacity")?;
        let coordinate_filters = Pipeline::read(&mut fields)?;
        let offset_filters = Pipeline::read(&mut fields)?;
        let validity_filters = Pipeline::read(&mut fields)?;
        let dimensions = many("dimensions", &mut fields, |fields| {
            Dimension::read(fields, &coordinate_filters)
        })?;
        let attributes = many("attributes", &mut fields, |fields| {
            Attribute::read(fields, version)
        })?;
        let mut labels = Vec::new();
        if version >= 18 {
            labels = many("dimension labels", &mut fields, DimensionLabel::read)?;
        }
        let mut enumerations = Vec::new();
        if version >= 20 {
            enumerations = many("enumerations", &mut fields, |fields| {
                Ok((
                    fields.text("enumeration name")?,
                    fields.text("enumeration file")?,
                ))
            })?;
        }
        let mut current_domain = None;
        if version >= 22 {
            current_domain = read_current_domain(&mut fields, &dimensions)?;
        }
        fields.finish("schema")?;
        let schema = Self {
            version,
            allows_duplicates,
            is_sparse,
            tile_order,
            cell_order,
            capacity,
            coordinate_filters,
            offset_filters,
            validity_filters,
            dimensions,
            attributes,
            labels,
            enumerations,
            current_domain,
        };
        schema.check()?;
        Ok(schema)
    }

    /// Checks the rules that span several fields.
    fn check(&self) -> Decoded<()> {
        if self.dimensions.is_empty() {
            return Err(Fault::new("number of dimensions", 0, "at least 1"));
        }
        if self.tile_order == Layout::Hilbert {
            return Err(Fault::new(
                "tile order",
                "hilbert",
                "row-major or column-major",
            ));
        }
        for label in &self.labels {
            if label.dimension >= self.dimensions.len() {
                let expected = format!("less than {}", self.dimensions.len());
                return Err(Fault::new(
                    "dimension of a label",
                    label.dimension,
                    expected,
                ));
            }
        }
        if self.is_sparse {
            return match self.capacity {
                0 => Err(Fault::new("capacity", 0, "at least 1")),
                _ => Ok(()),
            };
        }
        if self.cell_order == Layout::Hilbert {
            return Err(Fault::new(
                "cell order",
                "hilbert",
                "another order in a dense array",
            ));
        }
        let datatype = self.dimensions[0].datatype;
        for dimension in &self.dimensions {
            let is_integer = datatype.is_integer() || datatype.is_datetime() || datatype.is_time();
            if dimension.datatype != datatype || !is_integer {
                let expected = "one integer datatype for all dimensions of a dense array";
                return Err(Fault::new(
                    "dimension datatype",
                    dimension.datatype,
                    expected,
                ));
            }
            if dimension.extent.is_none() {
                let expected = "an extent, as the array is dense";
                return Err(Fault::new("tile extent", "missing", expected));
            }
        }
        Ok(())
    }

    /// Returns the ordinal of an attribute.
    pub fn attribute_index(&self, name: &str) -> Option<usize> {
        let is_named = |attribute: &Attribute| attribute.name == name;
        self.attributes.iter().position(is_named)
    }

    /// Returns the ordinal of a dimension.
    pub fn dimension_index(&self, name: &str) -> Option<usize> {
        let is_named = |dimension: &Dimension| dimension.name == name;
        self.dimensions.iter().position(is_named)
    }

    /// Returns the name of the file that holds the values of an enumeration.
    pub fn enumeration_file(&self, name: &str) -> Option<&str> {
        let found = self.enumerations.iter().find(|(known, _)| known == name);
        found.map(|(_, file)| file.as_str())
    }
}

/// Reads a number of items and the items.
fn many<T>(
    field: &'static str,
    fields: &mut Fields<'_>,
    mut read: impl FnMut(&mut Fields<'_>) -> Decoded<T>,
) -> Decoded<Vec<T>> {
    // No item takes less than eight bytes.
    let count = fields.count(field, 8)?;
    if count > MAX_FIELDS {
        return Err(Fault::new(field, count, format!("at most {MAX_FIELDS}")));
    }
    (0..count).map(|_| read(fields)).collect()
}

/// Reads the part of the domain that is in use.
fn read_current_domain(
    fields: &mut Fields<'_>,
    dimensions: &[Dimension],
) -> Decoded<Option<Vec<Interval>>> {
    // Writers of version 22 store 0 here.
    let version = fields.u32("current domain version")?;
    if version > 1 {
        return Err(Fault::new("current domain version", version, "0 or 1"));
    }
    if fields.flag("current domain")? {
        return Ok(None);
    }
    match fields.u8("current domain type")? {
        0 => {}
        other => return Err(Fault::new("current domain type", other, "0, a rectangle")),
    }
    let intervals = dimensions
        .iter()
        .map(|dimension| dimension.interval("current domain", fields));
    intervals.collect::<Decoded<_>>().map(Some)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes the schema of a sparse array with one dimension of `INT32` and one attribute.
    pub(crate) fn schema_bytes(version: u32) -> Vec<u8> {
        let pipeline = [65536u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
        let mut bytes = version.to_le_bytes().to_vec();
        bytes.extend([1, 1, 0, 4]);
        bytes.extend(100u64.to_le_bytes());
        bytes.extend([&pipeline[..]; 3].concat());
        bytes.extend([1u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
        bytes.push(b'd');
        bytes.push(0);
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(&pipeline);
        bytes.extend(8u64.to_le_bytes());
        bytes.extend([0i32.to_le_bytes(), 99i32.to_le_bytes()].concat());
        bytes.push(0);
        bytes.extend(10i32.to_le_bytes());
        bytes.extend([1u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
        bytes.extend([b'a', 8]);
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(&pipeline);
        bytes.extend(4u64.to_le_bytes());
        bytes.extend([1, 2, 3, 4, 1, 0]);
        if version >= 17 {
            bytes.push(1);
        }
        if version >= 20 {
            bytes.extend(0u32.to_le_bytes());
        }
        if version >= 18 {
            bytes.extend(0u32.to_le_bytes());
        }
        if version >= 20 {
            bytes.extend(0u32.to_le_bytes());
        }
        if version >= 22 {
            bytes.extend([0, 0, 0, 0, 0, 0]);
            bytes.extend([5i32.to_le_bytes(), 50i32.to_le_bytes()].concat());
        }
        bytes
    }

    #[test]
    fn schemas_of_all_versions() {
        for version in MIN_VERSION..=MAX_VERSION {
            let bytes = schema_bytes(version);
            let schema = Schema::parse(&bytes).unwrap();
            assert!(schema.allows_duplicates && schema.is_sparse);
            assert_eq!((schema.cell_order, schema.capacity), (Layout::Hilbert, 100));
            assert_eq!(schema.dimension_index("d"), Some(0));
            assert_eq!(schema.dimensions[0].extent, Some(Scalar::Signed(10)));
            let attribute = &schema.attributes[schema.attribute_index("a").unwrap()];
            assert_eq!(
                (attribute.cell_bytes(), attribute.is_nullable),
                (Some(4), true)
            );
            assert_eq!(attribute.order == DataOrder::Increasing, version >= 17);
            let current = Interval {
                low: Scalar::Signed(5),
                high: Scalar::Signed(50),
            };
            assert_eq!(
                schema.current_domain,
                (version >= 22).then(|| vec![current])
            );
            for end in 0..bytes.len() {
                Schema::parse(&bytes[..end]).unwrap_err();
            }
        }
    }
}
