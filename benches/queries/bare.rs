//! Measures the same work without DataFusion, over the same mapped bytes: hand-written loops and bare
//! zstd.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::Mmap;
use tet_sql::Access;
use tet_sql::format::tet::{ChunkRow, Dtype, OpenOptions, TetFile};

use crate::{Result, probe};

/// The only dataset of a file, with three axes, and the file's memory map.
#[derive(Debug)]
pub struct Chunks {
    map: Mmap,
    rows: Vec<([u64; 3], ChunkRow)>,
    shape: [usize; 3],
    chunk_shape: [usize; 3],
    dtype: Dtype,
}

/// The group keys of an average.
#[derive(Debug, Clone, Copy)]
pub enum AverageKeys {
    Nothing,
    Time,
    LatLon,
}

impl Chunks {
    /// Opens a file and maps it.
    pub fn open(path: &Path) -> Result<Self> {
        let file = TetFile::open(path, OpenOptions::default())?;
        let [dataset] = file.datasets() else {
            return Err(format!("{} has several datasets", path.display()).into());
        };
        let shape: [u64; 3] = dataset.shape().try_into()?;
        let chunk_shape: [u64; 3] = dataset.chunk_shape().try_into()?;
        let counts: [u64; 3] = std::array::from_fn(|axis| shape[axis].div_ceil(chunk_shape[axis]));
        let rows = (0..counts.iter().product()).map(|number: u64| {
            let [_, b, c] = counts;
            let chunk = [number / (b * c), number / c % b, number % c];
            Ok((chunk, file.chunk_row(dataset, &chunk, Access::Mmap)?))
        });
        Ok(Self {
            map: probe::map(path)?,
            rows: rows.collect::<Result<_>>()?,
            shape: shape.map(|extent| extent as usize),
            chunk_shape: chunk_shape.map(|extent| extent as usize),
            dtype: dataset
                .dtype()
                .ok_or("the type of the dataset is unknown")?,
        })
    }

    /// Distributes the chunks over the given number of threads, each with a state of its own.
    /// Returns all states.
    fn each<S: Send>(
        &self,
        threads: usize,
        state: impl Fn() -> Result<S> + Sync,
        work: impl Fn(&mut S, [u64; 3], &[u8], &ChunkRow) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let next = AtomicUsize::new(0);
        let run = || -> Result<S> {
            let mut own = state()?;
            while let Some((chunk, row)) = self.rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                let start = row.payload_offset as usize;
                let stored = &self.map[start..][..row.stored_bytes as usize];
                work(&mut own, *chunk, stored, row)?;
            }
            Ok(own)
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let results = handles.into_iter().map(|handle| match handle.join() {
                Ok(result) => result,
                Err(_) => Err("a thread panicked".into()),
            });
            results.collect()
        })
    }

    /// Decompresses all chunks.
    pub fn decompress(&self, threads: usize) -> Result<()> {
        let state = || Ok((zstd::bulk::Decompressor::new()?, Vec::new()));
        self.each(threads, state, |(decompressor, cells), _, stored, row| {
            cells.resize(row.raw_bytes as usize, 0);
            decompressor.decompress_to_buffer(stored, &mut cells[..])?;
            Ok(())
        })?;
        Ok(())
    }

    /// Returns averages of all cells of a raw file by simple loops, without checks for missing
    /// cells. The extents must be multiples of those of the chunks.
    pub fn averages(&self, by: AverageKeys, threads: usize) -> Result<Vec<f64>> {
        match self.dtype {
            Dtype::F32 => self.averages_of(by, threads, |cell| f32::from_le_bytes(cell).into()),
            Dtype::F64 => self.averages_of(by, threads, f64::from_le_bytes),
            Dtype::I16 => self.averages_of(by, threads, |cell| i16::from_le_bytes(cell).into()),
            other => Err(format!("no hand-written loop for type {other}").into()),
        }
    }

    fn averages_of<const SIZE: usize>(
        &self,
        by: AverageKeys,
        threads: usize,
        load: impl Fn([u8; SIZE]) -> f64 + Copy + Sync,
    ) -> Result<Vec<f64>> {
        let [times, lats, lons] = self.shape;
        let [of_time, of_lat, of_lon] = self.chunk_shape;
        let groups = match by {
            AverageKeys::Nothing => 1,
            AverageKeys::Time => times,
            AverageKeys::LatLon => lats * lons,
        };
        let state = || Ok(vec![0.0; groups]);
        let totals = self.each(threads, state, |totals: &mut Vec<f64>, chunk, stored, _| {
            let [a, b, c] = chunk.map(|number| number as usize);
            let rows = stored.as_chunks::<SIZE>().0.chunks_exact(of_lon);
            for (row, cells) in rows.enumerate() {
                match by {
                    AverageKeys::Nothing => totals[0] += sum(cells, load),
                    AverageKeys::Time => totals[a * of_time + row / of_lat] += sum(cells, load),
                    AverageKeys::LatLon => {
                        let first = (b * of_lat + row % of_lat) * lons + c * of_lon;
                        let totals = &mut totals[first..][..of_lon];
                        for (total, cell) in totals.iter_mut().zip(cells) {
                            *total += load(*cell);
                        }
                    }
                }
            }
            Ok(())
        })?;
        let per_group = (times * lats * lons / groups) as f64;
        let averages = (0..groups).map(|group| {
            let of_threads = totals.iter().map(|totals| totals[group]);
            of_threads.sum::<f64>() / per_group
        });
        Ok(averages.collect())
    }
}

fn sum<const SIZE: usize>(cells: &[[u8; SIZE]], load: impl Fn([u8; SIZE]) -> f64) -> f64 {
    // Several independent sums, since a single one would wait for each addition.
    let mut sums = [0.0; 16];
    let (blocks, rest) = cells.as_chunks::<16>();
    for cells in blocks {
        for (sum, cell) in sums.iter_mut().zip(cells) {
            *sum += load(*cell);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|cell| load(*cell)).sum::<f64>()
}
