//! Reads runs of bytes, and converts big-endian cells to little-endian ones.

use multiversion::multiversion;

use crate::error::Result;
use crate::format::io::storage::{Access, Storage};
use crate::format::netcdf::layout::Runs;

/// Maximum number of bytes per read. They stay in the processor's cache until they are converted.
const READ_BYTES: u64 = 256 << 10;
/// Runs with gaps of at most this many bytes between them are fetched in one read.
const MAX_GAP: u64 = 32 << 10;

/// Reads runs, and passes their bytes to `visit` in order. A run may be passed in several parts, whose
/// lengths are multiples of `unit` bytes.
///
/// The runs must lie within the file. `buffer` is a scratch buffer.
pub(super) fn visit(
    storage: &Storage,
    runs: Runs,
    unit: u64,
    buffer: &mut Vec<u8>,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut read = |start: u64, length: u64, visit: &mut dyn FnMut(&[u8]) -> Result<()>| {
        let length = length as usize;
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        storage.copy_range(Access::Pread, start, &mut buffer[..length])?;
        visit(&buffer[..length])
    };
    if runs.length == 0 {
        return Ok(());
    }
    // Only the runs of several records have a gap.
    let is_dense =
        runs.count > 1 && runs.stride - runs.length <= MAX_GAP && runs.stride <= READ_BYTES;
    let per_read = if is_dense {
        READ_BYTES / runs.stride
    } else {
        1
    };
    let mut run = 0;
    while run < runs.count {
        let start = runs.start + run * runs.stride;
        let count = per_read.min(runs.count - run);
        if count > 1 {
            let length = (count - 1) * runs.stride + runs.length;
            read(start, length, &mut |bytes| {
                for record in bytes.chunks(runs.stride as usize) {
                    visit(&record[..runs.length as usize])?;
                }
                Ok(())
            })?;
        } else {
            let part = (READ_BYTES / unit).max(1) * unit;
            let mut done = 0;
            while done < runs.length {
                let length = part.min(runs.length - done);
                read(start + done, length, &mut visit)?;
                done += length;
            }
        }
        run += count;
    }
    Ok(())
}

/// Reads `length` bytes of big-endian cells of `size` bytes each, and converts them to little-endian
/// ones, which replace the contents of `cells`. The range must lie within the file.
pub(super) fn read_swapped(
    storage: &Storage,
    start: u64,
    length: u64,
    size: u64,
    cells: &mut Vec<u8>,
) -> Result<()> {
    cells.resize(length as usize, 0);
    let mut offset = start;
    for block in cells.chunks_mut(READ_BYTES as usize) {
        storage.copy_range(Access::Pread, offset, block)?;
        swap_all(block, size);
        offset += block.len() as u64;
    }
    Ok(())
}

/// Collects big-endian cells, and converts them to little-endian ones.
pub(super) struct Swapped<'a> {
    cells: &'a mut Vec<u8>,
    /// The number of bytes of a cell.
    size: u64,
    /// The number of bytes of `cells` that have been converted.
    done: usize,
}

impl<'a> Swapped<'a> {
    /// Creates a collection of cells of `size` bytes each, which replace the contents of `cells`.
    pub fn new(cells: &'a mut Vec<u8>, size: u64) -> Self {
        cells.clear();
        Self {
            cells,
            size,
            done: 0,
        }
    }

    /// Appends cells.
    pub fn push(&mut self, stored: &[u8]) {
        // Bytes that were just copied are in the fastest cache. Short runs of many records are
        // converted together.
        for block in stored.chunks(BLOCK) {
            self.cells.extend_from_slice(block);
            if self.cells.len() - self.done >= BLOCK {
                self.convert();
            }
        }
    }

    /// Converts the cells that have not been converted.
    pub fn finish(mut self) {
        self.convert();
    }

    fn convert(&mut self) {
        swap_all(&mut self.cells[self.done..], self.size);
        self.done = self.cells.len();
    }
}

/// Number of bytes that are copied and then converted: a multiple of every cell size.
const BLOCK: usize = 8 << 10;

/// Reverses the bytes of each cell of `size` bytes.
fn swap_all(cells: &mut [u8], size: u64) {
    match size {
        2 => swap(cells.as_chunks_mut::<2>().0),
        4 => swap(cells.as_chunks_mut::<4>().0),
        8 => swap(cells.as_chunks_mut::<8>().0),
        _ => {}
    }
}

/// Reverses the bytes of each cell.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
fn swap<const N: usize>(cells: &mut [[u8; N]]) {
    for cell in cells {
        cell.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_swapped_whatever_the_lengths_of_their_runs() {
        for size in [1usize, 2, 4, 8] {
            for run in [
                size,
                3 * size,
                1000 * size,
                BLOCK,
                BLOCK + size,
                5 * BLOCK + 3 * size,
            ] {
                let stored: Vec<u8> = (0..run * 3).map(|at| (at % 251) as u8).collect();
                let mut cells = vec![9; 5];
                let mut swapped = Swapped::new(&mut cells, size as u64);
                stored.chunks(run).for_each(|run| swapped.push(run));
                swapped.finish();
                let expected: Vec<u8> = stored
                    .chunks(size)
                    .flat_map(|cell| cell.iter().rev().copied())
                    .collect();
                assert_eq!(cells, expected, "{size} {run}");
            }
        }
    }

    #[test]
    fn runs_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let content: Vec<u8> = (0..1_000_000u32).map(|at| (at % 253) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let storage = Storage::open(&path).unwrap();
        for (length, count, stride) in [
            (0, 5, 10),
            (12, 1, 0),
            (700_000, 1, 0),
            (12, 3, 12),
            (12, 30_000, 32),
            (12, 20, 50_000),
            (300_000, 3, 350_000),
        ] {
            let runs = Runs {
                start: 3,
                length,
                count,
                stride,
            };
            assert!(runs.end().unwrap() <= content.len() as u64 + 3);
            let mut found = Vec::new();
            let take = |bytes: &[u8]| {
                assert_eq!(bytes.len() % 4, 0);
                found.extend_from_slice(bytes);
                Ok(())
            };
            if runs.end().unwrap() > content.len() as u64 {
                continue;
            }
            visit(&storage, runs, 4, &mut vec![1; 3], take).unwrap();
            let expected: Vec<u8> = (0..count)
                .flat_map(|run| {
                    let start = (3 + run * stride) as usize;
                    content[start..start + length as usize].to_vec()
                })
                .collect();
            assert!(found == expected, "{runs:?}");
        }
    }
}
