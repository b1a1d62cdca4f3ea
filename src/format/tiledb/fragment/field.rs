//! Fields of fragments.

use crate::format::tiledb::codecs::Steps;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{CellValues, Datatype, Filter, Pipeline, Schema};

/// One of the files of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldFile {
    /// Cells of fixed size, or offsets.
    Fixed,
    /// The values of cells of variable length.
    Variable,
    Validity,
}

/// A kind of field of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// The attribute with an ordinal in the schema of the fragment.
    Attribute(usize),
    /// The coordinates of the dimension with an ordinal, in sparse fragments.
    Dimension(usize),
    /// The timestamps of cells, in milliseconds since 1970.
    Timestamps,
    /// The times at which cells were deleted, in milliseconds since 1970; `u64::MAX` for others.
    DeleteTimes,
}

/// A field of a fragment, ready to be read.
#[derive(Debug, Clone)]
pub struct Field {
    /// The kind of the field.
    pub kind: FieldKind,
    /// The name, which is empty for anonymous attributes, timestamps and deletes.
    pub name: String,
    /// The datatype of values.
    pub datatype: Datatype,
    /// The number of values per cell.
    pub cell_values: CellValues,
    /// `true` if cells may be null.
    pub is_nullable: bool,
    pub(crate) slot: usize,
    /// The size of a cell of the fixed file: the cell itself, or an offset.
    pub(crate) cell_bytes: usize,
    /// The filters of the fixed file, or of offsets. `None` if texts hold their offsets.
    pub(crate) fixed: Option<Steps>,
    pub(crate) variable: Option<Steps>,
    pub(crate) validity: Option<Steps>,
}

impl Field {
    /// Returns a field of a schema, as a fragment of a format version stores it. `slot` is the field's
    /// place in the lists of the footer.
    pub(crate) fn new(
        schema: &Schema,
        kind: FieldKind,
        slot: usize,
        version: u32,
        is_encrypted: bool,
    ) -> Decoded<Self> {
        let number = (Datatype::Uint64, CellValues::Fixed(1));
        let no_name = String::new();
        // Callers check the ordinals.
        let (name, (datatype, cell_values), is_nullable, filters) = match kind {
            FieldKind::Attribute(index) => {
                let attribute = &schema.attributes[index];
                let values = (attribute.datatype, attribute.cell_values);
                let is_nullable = attribute.is_nullable;
                (&attribute.name, values, is_nullable, &attribute.filters)
            }
            FieldKind::Dimension(index) => {
                let dimension = &schema.dimensions[index];
                let values = (dimension.datatype, dimension.cell_values);
                (&dimension.name, values, false, &dimension.filters)
            }
            FieldKind::Timestamps | FieldKind::DeleteTimes => {
                (&no_name, number, false, &schema.coordinate_filters)
            }
        };
        let steps = |filters: &Pipeline, datatype, cell_bytes, holds_offsets| {
            let pipeline = match is_encrypted {
                true => &filters.followed_by(Filter::Aes256Gcm),
                false => filters,
            };
            let steps = Steps::new(pipeline, datatype, cell_bytes, holds_offsets, version);
            steps.map_err(|fault| Fault {
                found: format!("{}, in field {name:?}", fault.found),
                ..fault
            })
        };
        let (cell_bytes, fixed, variable) = match cell_values {
            CellValues::Fixed(values) => {
                let bytes = (values as usize).saturating_mul(datatype.size());
                (bytes, Some(steps(filters, datatype, bytes, false)?), None)
            }
            CellValues::Variable => {
                let holds_offsets = filters.holds_offsets(datatype, version);
                let offsets = match holds_offsets {
                    true => None,
                    false => Some(steps(&schema.offset_filters, Datatype::Uint64, 8, false)?),
                };
                let values = steps(filters, datatype, datatype.size(), holds_offsets)?;
                (8, offsets, Some(values))
            }
        };
        let validity = match is_nullable {
            true => Some(steps(&schema.validity_filters, Datatype::Uint8, 1, false)?),
            false => None,
        };
        Ok(Self {
            kind,
            name: name.clone(),
            datatype,
            cell_values,
            is_nullable,
            slot,
            cell_bytes,
            fixed,
            variable,
            validity,
        })
    }

    /// The files of the field.
    #[cfg(feature = "remote")]
    pub(crate) fn files(&self) -> impl Iterator<Item = FieldFile> {
        let files = [
            (FieldFile::Fixed, &self.fixed),
            (FieldFile::Variable, &self.variable),
            (FieldFile::Validity, &self.validity),
        ];
        files
            .into_iter()
            .filter_map(|(file, steps)| steps.is_some().then_some(file))
    }

    /// The name of a file of the field in the directory of the fragment.
    pub(crate) fn file_name(&self, file: FieldFile) -> String {
        let stem = match self.kind {
            FieldKind::Attribute(index) => format!("a{index}"),
            FieldKind::Dimension(index) => format!("d{index}"),
            FieldKind::Timestamps => "t".to_string(),
            FieldKind::DeleteTimes => "dt".to_string(),
        };
        match file {
            FieldFile::Fixed => format!("{stem}.tdb"),
            FieldFile::Variable => format!("{stem}_var.tdb"),
            FieldFile::Validity => format!("{stem}_validity.tdb"),
        }
    }
}
