//! Cells that are kept until the schema of their array is known.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::bytes::u64s;
use crate::format::tiledb::writer::bytes::Append;

/// Size of the buffer of the file in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Keeps batches of cells in memory up to a budget, and the others in a temporary file.
#[derive(Debug)]
pub struct CellSpool {
    directory: PathBuf,
    budget: usize,
    batches: Vec<Vec<TileBuffers>>,
    bytes: usize,
    file: Option<BufWriter<File>>,
}

impl CellSpool {
    /// Returns a spool that keeps about `budget` bytes in memory. The temporary file is created in the
    /// directory, without a name where the system allows it.
    pub fn new(directory: &Path, budget: usize) -> Self {
        Self {
            directory: directory.to_path_buf(),
            budget,
            batches: Vec::new(),
            bytes: 0,
            file: None,
        }
    }

    /// Adds a batch: the columns of some cells.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be written.
    pub fn push(&mut self, columns: Vec<TileBuffers>) -> Result<()> {
        let lengths = columns
            .iter()
            .map(|column| column.values.len() + 8 * column.offsets.len() + column.validity.len());
        self.bytes = self.bytes.saturating_add(lengths.sum());
        if self.bytes <= self.budget {
            self.batches.push(columns);
            return Ok(());
        }
        let written = self.write(&columns);
        written.map_err(Error::io(&self.directory, "write a temporary file"))
    }

    fn write(&mut self, columns: &[TileBuffers]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = tempfile::tempfile_in(&self.directory)?;
                self.file
                    .insert(BufWriter::with_capacity(BUFFER_BYTES, file))
            }
        };
        file.write_all(&(columns.len() as u64).to_le_bytes())?;
        for column in columns {
            let lengths = [
                column.cells,
                column.values.len(),
                column.offsets.len(),
                column.validity.len(),
            ];
            for length in lengths {
                file.write_all(&(length as u64).to_le_bytes())?;
            }
            let mut offsets = Vec::with_capacity(8 * column.offsets.len());
            offsets.put_u64s(&column.offsets);
            for bytes in [&column.values, &offsets, &column.validity] {
                file.write_all(bytes)?;
            }
        }
        Ok(())
    }

    /// Calls a function with the columns of each batch, in the order in which they were added.
    ///
    /// # Errors
    /// Fails if the function does, or the temporary file cannot be read.
    pub fn finish(self, mut visit: impl FnMut(Vec<TileBuffers>) -> Result<()>) -> Result<()> {
        for columns in self.batches {
            visit(columns)?;
        }
        let Some(file) = self.file else {
            return Ok(());
        };
        let failed = || Error::io(&self.directory, "read a temporary file");
        let opened = file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(0))?;
                Ok(BufReader::with_capacity(BUFFER_BYTES, file))
            });
        let mut file = opened.map_err(failed())?;
        while let Some(columns) = read(&mut file).map_err(failed())? {
            visit(columns)?;
        }
        Ok(())
    }
}

/// Reads the next batch; `None` at the end of the file.
fn read(file: &mut impl Read) -> io::Result<Option<Vec<TileBuffers>>> {
    let mut word = [0; 8];
    let mut number = |file: &mut dyn Read| -> io::Result<u64> {
        file.read_exact(&mut word)?;
        Ok(u64::from_le_bytes(word))
    };
    let count = match number(file) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        count => count?,
    };
    let mut columns = Vec::new();
    for _ in 0..count {
        let cells = number(file)? as usize;
        let lengths: [u64; 3] = [number(file)?, number(file)?, number(file)?];
        let mut bytes = |length: u64| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        columns.push(TileBuffers {
            cells,
            values: bytes(lengths[0])?,
            offsets: u64s(&bytes(8 * lengths[1])?),
            validity: bytes(lengths[2])?,
        });
    }
    Ok(Some(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_in_memory_and_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let batch = |cells: usize| TileBuffers {
            cells,
            values: vec![7; 3 * cells],
            offsets: (0..=cells).map(|cell| 3 * cell as u64).collect(),
            validity: vec![1; cells],
        };
        for budget in [0, 100, 1 << 20] {
            let mut spool = CellSpool::new(folder.path(), budget);
            for cells in 0..9 {
                spool.push(vec![batch(cells), batch(1)]).unwrap();
            }
            let mut found = Vec::new();
            spool
                .finish(|columns| {
                    found.push(columns);
                    Ok(())
                })
                .unwrap();
            let expected: Vec<_> = (0..9).map(|cells| vec![batch(cells), batch(1)]).collect();
            assert_eq!(found, expected);
        }
    }
}
