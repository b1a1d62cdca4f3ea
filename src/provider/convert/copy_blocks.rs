//! Copies the cells of an array in blocks, which need not match the chunks of the source.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Float64Type;
use datafusion::common::{Result, exec_err};

use crate::format::array::{ArrayWriter, ChunkCells, Dataset, Dtype, copy_chunk};
use crate::format::io::parallel::call_on;
use crate::format::io::storage::Access;
use crate::grid::{ChunkGrid, Selection, Window};
use crate::provider::adapters::arrays::{StoredArray, StoredWindowReader};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::convert::{ConvertOptions, ConvertProgress};
use crate::provider::source::WindowReader;

/// The memory of a copy in blocks, or groups of blocks: one is read or waits, and another is written, copied as
/// chunks and compressed.
const IN_FLIGHT: u64 = 4;

/// The bytes of a group of small blocks. Smaller groups would spend more time on starting threads than on reading.
const GROUP_BYTES: u64 = 4 << 20;

/// The form in which the cells of a dataset are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellForm {
    /// The stored cells, unchanged.
    Cells,
    /// The stored cells, with all fill values replaced by a single one.
    CellsWithOneFill,
    /// The unpacked values.
    Values,
}

/// Copies an array. Blocks are read on several threads. Meanwhile, the blocks before are split into chunks,
/// which are compressed on several threads.
pub(super) fn copy(
    stored: &Arc<StoredArray>,
    copied: CellForm,
    number: usize,
    writer: &mut dyn ArrayWriter,
    options: &ConvertOptions,
    progress: &ConvertProgress,
) -> Result<()> {
    let Some(described) = writer.dataset(number).cloned() else {
        return exec_err!(
            "{}: no dataset with index {number}",
            writer.path().display()
        );
    };
    let dtype = described.check(writer.path())?;
    let size = dtype.size();
    let most_bytes = options.memory as u64 / IN_FLIGHT;
    let extents = extents(
        stored.chunk_grid(),
        described.chunk_shape(),
        size,
        most_bytes,
    );
    let shape = described.shape();
    let block_bytes = extents.iter().product::<u64>().saturating_mul(size).max(1);
    let threads = options.threads.max(1);
    // Blocks of a group, which are read on several threads.
    let most = (GROUP_BYTES / block_bytes).max(threads as u64);
    let together = (most_bytes / block_bytes).clamp(1, most);
    let grid = ChunkGrid::new(shape.to_vec(), extents);
    let windows = Selection::all(shape).chunks(&grid);
    let count = windows.count().unwrap_or(u64::MAX);
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Result<Vec<(Window, Vec<u8>)>>>(0);
        let (windows, grid) = (&windows, &grid);
        scope.spawn(move || {
            let readers = Mutex::new(Vec::new());
            let mut next = 0;
            while next < count {
                let some = next..count.min(next + together);
                next = some.end;
                let some = some.map_while(|nth| windows.nth(nth));
                let some: Vec<Window> = some.map(|position| grid.window(&position)).collect();
                let blocks = call_on(threads, stored.file().path(), &some, |window| {
                    let cells = read_with(&readers, stored, copied, window, progress)?;
                    match stored.dtype() == Dtype::I8 && dtype == Dtype::I16 {
                        true => Ok((window.clone(), widened(&cells))),
                        false => Ok((window.clone(), cells)),
                    }
                });
                let is_last = blocks.is_err();
                // The receiver is dropped if writing has failed.
                if sender.send(blocks).is_err() || is_last {
                    return;
                }
            }
        });
        for blocks in receiver {
            progress.check()?;
            let blocks = blocks?;
            let chunks = blocks.iter();
            let chunks =
                chunks.flat_map(|(window, cells)| chunks_of(window, cells, &described, size));
            writer.write_chunks(number, &chunks.collect::<Vec<_>>(), threads)?;
            let cells = blocks.iter().map(|(window, _)| window.cells()).sum();
            progress.done.fetch_add(cells, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// Reads a block with one of the readers that no thread uses, or with a new one.
fn read_with(
    readers: &Mutex<Vec<StoredWindowReader>>,
    array: &Arc<StoredArray>,
    copied: CellForm,
    window: &Window,
    progress: &ConvertProgress,
) -> Result<Vec<u8>> {
    let unused = || readers.lock().unwrap_or_else(PoisonError::into_inner);
    let reader = unused().pop();
    let mut reader = reader.unwrap_or_else(|| {
        let options = ReadOptions {
            access: Access::Pread,
            ..ReadOptions::default()
        };
        StoredWindowReader::new(Arc::clone(array), &options)
    });
    let cells = read(&mut reader, array, copied, window, progress)?;
    unused().push(reader);
    Ok(cells)
}

fn read(
    reader: &mut StoredWindowReader,
    array: &StoredArray,
    copied: CellForm,
    window: &Window,
    progress: &ConvertProgress,
) -> Result<Vec<u8>> {
    reader.open(window, None)?;
    loop {
        progress.check()?;
        if reader.advance()? {
            let all = 0..window.cells();
            if copied == CellForm::Values {
                return Ok(unpacked_cells(&reader.read(&[all])?[0]));
            }
            let mut cells = reader.cells(0, all)?.to_vec();
            if copied == CellForm::CellsWithOneFill {
                array.unify_fills(&mut cells);
            }
            return Ok(cells);
        }
    }
}

/// Converts cells of type `i8` to `i16`.
fn widened(cells: &[u8]) -> Vec<u8> {
    let cells = cells.iter();
    let cells = cells.map(|cell| i16::from(*cell as i8).to_le_bytes());
    cells.flatten().collect()
}

/// Returns unpacked values as bytes, with NaN in place of nulls.
fn unpacked_cells(values: &ArrayRef) -> Vec<u8> {
    let values = values.as_primitive::<Float64Type>().iter();
    let cells = values.map(|value| value.unwrap_or(f64::NAN).to_le_bytes());
    cells.flatten().collect()
}

/// Splits a block into chunks.
fn chunks_of<'a>(
    window: &Window,
    cells: &'a [u8],
    dataset: &Dataset,
    size: u64,
) -> Vec<ChunkCells<'a>> {
    let chunk_shape = dataset.chunk_shape().to_vec();
    let chunks = ChunkGrid::new(dataset.shape().to_vec(), chunk_shape.clone());
    if let Some(chunk) = chunks.chunk_equal_to(window) {
        let cells = Cow::Borrowed(cells);
        return vec![ChunkCells { chunk, cells }];
    }
    // Treat the block as an array of its own. Blocks begin at chunk boundaries, so their chunks are
    // chunks of the dataset.
    let shape: Vec<u64> = window.shape().collect();
    let local = Dataset {
        shape: shape.clone(),
        ..dataset.clone()
    };
    let first = window.ranges().iter().zip(dataset.chunk_shape());
    let first: Vec<u64> = first.map(|(range, extent)| range.start / extent).collect();
    let inside = Selection::all(&shape).chunks(&ChunkGrid::new(shape, chunk_shape));
    let positions = (0..inside.count().unwrap_or(0)).map_while(|nth| inside.nth(nth));
    let chunks = positions.map(|position| {
        let mut copied = Vec::new();
        copy_chunk(&local, size, &position, cells, &mut copied);
        ChunkCells {
            chunk: first.iter().zip(&position).map(|(a, b)| a + b).collect(),
            cells: Cow::Owned(copied),
        }
    });
    chunks.collect()
}

/// Returns the extents of the blocks in which an array is copied.
///
/// A block is a multiple of the output's chunks. It grows along the axes on which it would split
/// chunks of the input, as long as it has at most `most_bytes` bytes. A block of one output chunk
/// is used in any case.
fn extents(from: &ChunkGrid, to: &[u64], cell_bytes: u64, most_bytes: u64) -> Vec<u64> {
    let shape = from.shape();
    let clipped = |extent: u64, axis: usize| extent.min(shape[axis].max(1));
    let mut window: Vec<u64> = (0..to.len()).map(|axis| clipped(to[axis], axis)).collect();
    let bytes = |window: &[u64]| {
        let mut extents = window.iter();
        extents.try_fold(cell_bytes, |bytes, extent| bytes.checked_mul(*extent))
    };
    loop {
        // Grow the fastest-varying axis first, because neighbouring cells are likely in the same
        // input chunk.
        let grown = (0..to.len()).rev().find_map(|axis| {
            let wanted = clipped(from.chunk_shape()[axis], axis);
            if window[axis] >= wanted {
                return None;
            }
            let mut larger = window.clone();
            // Doubling keeps the extent a multiple of the output's chunk, unless it reaches the whole axis.
            larger[axis] = clipped(window[axis].saturating_mul(2), axis);
            bytes(&larger)
                .is_some_and(|bytes| bytes <= most_bytes)
                .then_some(larger)
        });
        match grown {
            Some(larger) => window = larger,
            None => return window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_until_chunks_are_read_once() {
        let from = ChunkGrid::new(vec![1000, 512, 512], vec![1, 512, 512]);
        let tall = [1000, 32, 32];
        assert_eq!(extents(&from, &tall, 4, 1 << 30), [1000, 512, 512]);
        assert_eq!(extents(&from, &tall, 4, 64 << 20), [1000, 32, 512]);
        assert_eq!(extents(&from, &tall, 4, 1), tall);
        assert_eq!(
            extents(&from, &[10, 256, 256], 4, 256 << 20),
            [10, 512, 512]
        );
        assert_eq!(
            extents(&from, &[5000, 7, 600], 4, 64 << 20),
            [1000, 28, 512]
        );
    }
}
