//! The same work without an engine: what the hardware and zstd leave a query to hope for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tet_sql::Access;
use tet_sql::format::tet::{ChunkRow, OpenOptions, TetFile};

use crate::Result;

/// Where the chunks of a file's only dataset are.
fn chunk_rows(path: &Path) -> Result<Vec<ChunkRow>> {
    let file = TetFile::open(path, OpenOptions::default())?;
    let [dataset] = file.datasets() else {
        return Err(format!("{} has several datasets", path.display()).into());
    };
    let grid: Vec<u64> = dataset
        .shape()
        .iter()
        .zip(dataset.chunk_shape())
        .map(|(extent, chunk)| extent.div_ceil(*chunk))
        .collect();
    (0..grid.iter().product())
        .map(|number: u64| {
            let mut rest = number;
            let mut chunk = vec![0; grid.len()];
            for (position, extent) in chunk.iter_mut().zip(&grid).rev() {
                *position = rest % extent;
                rest /= extent;
            }
            Ok(file.chunk_row(dataset, &chunk, Access::Mmap)?)
        })
        .collect()
}

/// Reads, and decompresses if asked to, every chunk on so many threads; adds the cells up if asked to.
fn each_chunk(
    path: &Path,
    threads: usize,
    work: impl Fn(&mut Scratch, &[u8], &ChunkRow) -> Result<f64> + Sync,
) -> Result<f64> {
    let rows = chunk_rows(path)?;
    let file = File::open(path)?;
    let next = AtomicU64::new(0);
    let sums = std::thread::scope(|scope| {
        let run = || -> Result<f64> {
            let mut scratch = Scratch {
                decompressor: zstd::bulk::Decompressor::new()?,
                cells: Vec::new(),
            };
            let mut stored = Vec::new();
            let mut sum = 0.0;
            while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                stored.resize(row.stored_bytes as usize, 0);
                file.read_exact_at(&mut stored, row.payload_offset)?;
                sum += work(&mut scratch, &stored, row)?;
            }
            Ok(sum)
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let results = handles.into_iter().map(|handle| match handle.join() {
            Ok(result) => result,
            Err(_) => Err("a thread panicked".into()),
        });
        results.collect::<Result<Vec<_>>>()
    })?;
    Ok(sums.into_iter().sum())
}

struct Scratch {
    decompressor: zstd::bulk::Decompressor<'static>,
    cells: Vec<u8>,
}

/// Reads all chunks of a raw file and adds their cells up.
pub fn sum_raw(path: &Path, threads: usize) -> Result<f64> {
    each_chunk(path, threads, |_, stored, _| Ok(sum(stored)))
}

/// Reads and decompresses all chunks of a zstd file.
pub fn decompress(path: &Path, threads: usize) -> Result<f64> {
    each_chunk(path, threads, |scratch, stored, row| {
        scratch.cells.resize(row.raw_bytes as usize, 0);
        let produced = scratch
            .decompressor
            .decompress_to_buffer(stored, &mut scratch.cells[..])?;
        Ok(produced as f64)
    })
}

fn sum(cells: &[u8]) -> f64 {
    // Several sums at once, since a single one would wait for each addition.
    let mut sums = [0.0; 16];
    for cells in cells.chunks_exact(64) {
        for (sum, cell) in sums.iter_mut().zip(cells.chunks_exact(4)) {
            *sum += f64::from(f32::from_le_bytes([cell[0], cell[1], cell[2], cell[3]]));
        }
    }
    sums.iter().sum()
}
