//! The files of one field of a fragment under construction.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::hold_removal;
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::codecs::{Encoder, EncryptionKey};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::{Field, FieldFile};
use crate::format::tiledb::writer::bytes::Append;
use crate::format::tiledb::writer::fragment::statistics::{FieldStatistics, TileStatistics};
use crate::format::tiledb::writer::tile::{NO_CHUNKS, put_fixed, put_variable};

/// Bytes of a file that are kept in memory before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// A data file under construction. It is open only while bytes are written, so that arrays may have any
/// number of fields.
#[derive(Debug)]
pub(super) struct TileFile {
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    /// The position of each tile.
    pub offsets: Vec<u64>,
}

impl TileFile {
    fn new(directory: &Path, name: String) -> Self {
        Self {
            path: directory.join(name),
            buffer: Vec::new(),
            written: 0,
            offsets: Vec::new(),
        }
    }

    /// The length in bytes.
    pub fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Starts a tile at the end of the file. Its bytes are appended to the buffer that is returned.
    fn start_tile(&mut self) -> &mut Vec<u8> {
        self.offsets.push(self.length());
        &mut self.buffer
    }

    /// Writes the buffer if it is full.
    fn flush(&mut self) -> Result<()> {
        match self.buffer.len() {
            ..BUFFER_BYTES => Ok(()),
            _ => self.write(false),
        }
    }

    fn write(&mut self, is_last: bool) -> Result<()> {
        let _held = hold_removal();
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&self.path);
        let written = file.and_then(|mut file| {
            file.write_all(&self.buffer)?;
            if is_last { file.sync_all() } else { Ok(()) }
        });
        written.map_err(Error::io(&self.path, "write"))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest of the buffer, and syncs the file.
    fn finish(&mut self) -> Result<()> {
        self.write(true)
    }
}

/// A field of a fragment under construction.
#[derive(Debug)]
pub(super) struct FieldWriter {
    pub field: Field,
    pub fixed: TileFile,
    pub variable: Option<TileFile>,
    pub validity: Option<TileFile>,
    /// The unfiltered size of the values of variable length of each tile.
    pub variable_sizes: Vec<u64>,
    pub statistics: FieldStatistics,
}

impl FieldWriter {
    pub fn new(directory: &Path, field: Field) -> Self {
        let file = |kind| TileFile::new(directory, field.file_name(kind));
        Self {
            fixed: file(FieldFile::Fixed),
            variable: field.variable.as_ref().map(|_| file(FieldFile::Variable)),
            validity: field.validity.as_ref().map(|_| file(FieldFile::Validity)),
            variable_sizes: Vec::new(),
            statistics: FieldStatistics::new(&field),
            field,
        }
    }

    /// Appends a tile. The statistics count only the cells that are no padding.
    pub fn encode_tile(
        &mut self,
        encoder: &mut Encoder,
        key: Option<&EncryptionKey>,
        cells: &TileBuffers,
        statistics: &TileStatistics,
    ) -> Decoded<()> {
        self.statistics.push(statistics);
        let (field, fixed) = (&self.field, self.fixed.start_tile());
        let values = cells.values.as_slice();
        match (&field.variable, &mut self.variable) {
            (Some(steps), Some(file)) => {
                self.variable_sizes.push(values.len() as u64);
                let texts = (values, cells.offsets.as_slice());
                put_variable(encoder, steps, key, texts, file.start_tile())?;
                match &field.fixed {
                    Some(steps) => {
                        let starts = cells.offsets.split_last().map_or(&[][..], |(_, rest)| rest);
                        let mut offsets = Vec::with_capacity(8 * starts.len());
                        offsets.put_u64s(starts);
                        put_fixed(encoder, steps, key, (&offsets, 8), fixed)?;
                    }
                    None => fixed.put(&NO_CHUNKS),
                }
            }
            _ => {
                if let Some(steps) = &field.fixed {
                    put_fixed(encoder, steps, key, (values, field.cell_bytes), fixed)?;
                }
            }
        }
        if let (Some(steps), Some(file)) = (&field.validity, &mut self.validity) {
            put_fixed(encoder, steps, key, (&cells.validity, 1), file.start_tile())?;
        }
        Ok(())
    }

    /// Writes full buffers.
    pub fn flush(&mut self) -> Result<()> {
        let files = [self.variable.as_mut(), self.validity.as_mut()];
        self.fixed.flush()?;
        files.into_iter().flatten().try_for_each(TileFile::flush)
    }

    /// Writes and syncs all files.
    pub fn finish(&mut self) -> Result<()> {
        let files = [self.variable.as_mut(), self.validity.as_mut()];
        self.fixed.finish()?;
        files.into_iter().flatten().try_for_each(TileFile::finish)
    }
}

/// Checks that there is one column per field, each with this number of cells.
pub(crate) fn check_columns<'a>(
    fields: impl ExactSizeIterator<Item = &'a Field>,
    columns: &[TileBuffers],
    cells: usize,
) -> Decoded<()> {
    if columns.len() != fields.len() {
        let expected = fields.len();
        return Err(Fault::new("number of columns", columns.len(), expected));
    }
    let mut columns = fields.zip(columns);
    columns.try_for_each(|(field, column)| check_cells(field, column, cells))
}

/// Checks that buffers hold exactly `expected` cells of a field.
fn check_cells(field: &Field, cells: &TileBuffers, expected: usize) -> Decoded<()> {
    let fault = |what: &'static str, found: usize, expected: usize| {
        let (found, expected) = (format!("{found}, in field {:?}", field.name), expected);
        Err(Fault::new(what, found, expected))
    };
    if cells.cells != expected {
        return fault("number of cells", cells.cells, expected);
    }
    if field.cell_values.is_variable() {
        if cells.offsets.len() != expected + 1 {
            return fault("number of offsets", cells.offsets.len(), expected + 1);
        }
        let size = field.datatype.size() as u64;
        let is_valid = cells.offsets.first() == Some(&0)
            && cells.offsets.last() == Some(&(cells.values.len() as u64))
            && cells.offsets.is_sorted()
            && (size == 1
                || cells
                    .offsets
                    .iter()
                    .all(|offset| offset.is_multiple_of(size)));
        if !is_valid {
            let found = format!("inconsistent, in field {:?}", field.name);
            let expected = "whole values in order, from 0 to the number of bytes";
            return Err(Fault::new("offsets", found, expected));
        }
    } else if Some(cells.values.len()) != expected.checked_mul(field.cell_bytes) {
        let bytes = expected.saturating_mul(field.cell_bytes);
        return fault("length of values", cells.values.len(), bytes);
    }
    let validity = if field.is_nullable { expected } else { 0 };
    if cells.validity.len() != validity {
        return fault("length of validity", cells.validity.len(), validity);
    }
    Ok(())
}
