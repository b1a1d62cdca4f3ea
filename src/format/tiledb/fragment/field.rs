//! Fields of fragments.

use crate::format::tiledb::codecs::Steps;
use crate::format::tiledb::datatype::{CellValues, Datatype};

/// One of the files of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
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
    /// The name of a file of the field in the directory of the fragment.
    pub(super) fn file_name(&self, file: FileKind) -> String {
        let stem = match self.kind {
            FieldKind::Attribute(index) => format!("a{index}"),
            FieldKind::Dimension(index) => format!("d{index}"),
            FieldKind::Timestamps => "t".to_string(),
            FieldKind::DeleteTimes => "dt".to_string(),
        };
        match file {
            FileKind::Fixed => format!("{stem}.tdb"),
            FileKind::Variable => format!("{stem}_var.tdb"),
            FileKind::Validity => format!("{stem}_validity.tdb"),
        }
    }
}
