//! Writes random arrays.

use std::path::Path;

use tet_sql::Error;
use tet_sql::format::tiledb::{
    ArrayWriter, DenseCellWriter, DenseWriter, Scalar, Schema, SparseWriter, TileBuffers,
    WriteOptions,
};

use super::cells::put_value;
use super::{RandomArray, Write};
use crate::formats::tiledb::rows;

impl RandomArray {
    /// Writes the array: the first fragment with the array, the others to the existing array.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        for (index, write) in self.writes.iter().enumerate() {
            let options = WriteOptions {
                timestamp: Some(10 * (index as u64 + 1)),
                key: self.key.clone(),
                // Sorts many cells with temporary files.
                sort_memory: 1000,
            };
            if index == 0 {
                let array = ArrayWriter::create(path, self.schema.clone(), &[], &options)?;
                match self.schema.is_sparse {
                    true => write_sparse(SparseWriter::new(&array)?, write)?,
                    false => write_dense(DenseWriter::new(&array, write.cells.clone())?, write)?,
                }
                array.finish()?;
                continue;
            }
            let array = self.open(path)?;
            match self.schema.is_sparse {
                true => write_sparse(SparseWriter::append(&array, &options)?, write)?,
                false if index == 1 => {
                    let writer = DenseCellWriter::append(&array, &options)?;
                    write_dense_cells(writer, &self.schema, write)?;
                }
                false => {
                    let cells = write.cells.clone();
                    write_dense(DenseWriter::append(&array, cells, &options)?, write)?;
                }
            }
        }
        Ok(())
    }
}

fn write_sparse(mut writer: SparseWriter, write: &Write) -> Result<(), Error> {
    // Two batches of cells.
    let middle = write.count / 2;
    for range in [0..middle, middle..write.count] {
        let rows: Vec<usize> = range.collect();
        writer.write(rows.len(), &take(&write.columns, &rows))?;
    }
    writer.finish().map(drop)
}

fn write_dense(mut writer: DenseWriter, write: &Write) -> Result<(), Error> {
    while let Some(window) = writer.next_tile() {
        let rows: Vec<usize> = rows::indices(&window)
            .iter()
            .map(|index| {
                let axes = index.iter().zip(&write.cells.ranges);
                axes.fold(0, |row, (index, range)| {
                    row * (range.end - range.start) as usize + (index - range.start) as usize
                })
            })
            .collect();
        writer.write(&take(&write.columns, &rows))?;
    }
    writer.finish().map(drop)
}

/// Writes the cells of a dense array in another order, with their coordinates.
fn write_dense_cells(
    mut writer: DenseCellWriter,
    schema: &Schema,
    write: &Write,
) -> Result<(), Error> {
    let indices = rows::indices(&write.cells);
    let mut columns = Vec::new();
    for (axis, dimension) in schema.dimensions.iter().enumerate() {
        let low = match dimension.domain.clone().unwrap().low {
            Scalar::Signed(low) => low,
            Scalar::Unsigned(low) => low as i64,
            other => panic!("{other:?}"),
        };
        let mut column = TileBuffers {
            cells: write.count,
            ..TileBuffers::default()
        };
        for index in &indices {
            put_value(
                dimension.datatype,
                low + index[axis] as i64,
                &mut column.values,
            );
        }
        columns.push(column);
    }
    columns.extend(write.columns.iter().cloned());
    let rows: Vec<usize> = (0..write.count).rev().collect();
    for rows in rows.chunks(7) {
        writer.write(rows.len(), &take(&columns, rows))?;
    }
    writer.finish(true).map(drop)
}

/// Returns some rows of columns.
fn take(columns: &[TileBuffers], rows: &[usize]) -> Vec<TileBuffers> {
    let take = |column: &TileBuffers| {
        let size = column.values.len() / column.cells.max(1);
        let mut taken = TileBuffers {
            cells: rows.len(),
            ..TileBuffers::default()
        };
        let is_variable = !column.offsets.is_empty();
        for row in rows {
            let range = match is_variable {
                true => column.offsets[*row] as usize..column.offsets[row + 1] as usize,
                false => row * size..(row + 1) * size,
            };
            if is_variable {
                taken.offsets.push(taken.values.len() as u64);
            }
            taken.values.extend(&column.values[range]);
            taken.validity.extend(column.validity.get(*row));
        }
        if is_variable {
            taken.offsets.push(taken.values.len() as u64);
        }
        taken
    };
    columns.iter().map(take).collect()
}
