//! Assembles chunks from encoded rows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{Result, exec_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use crate::format::array::{ArrayWriter, ChunkCells};
use crate::provider::copy::arrays::chunk_lookup::{ChunkLookup, Piece};
use crate::provider::copy::arrays::spool::{BLOCK_ROWS, Block, Spool};
use crate::provider::copy::options::CopyOptions;

/// Memory in bytes for the chunks assembled together, if the pool grants it. A single chunk is
/// assembled in any case.
const MAX_CHUNK_MEMORY: u64 = 64 << 20;
/// The max number of temporary files that are open at a time.
const MAX_TEMPORARY_FILES: usize = 128;
/// The average number of reads per block up to which chunks are assembled without sorting rows
/// first.
const MAX_READS_PER_BLOCK: usize = 2;
/// The number of chunks per thread that are written before the next check for a cancelled statement, unless they are small.
const CHUNKS_PER_THREAD: usize = 4;
/// The bytes of small chunks per thread that are written before the next check.
const BYTES_PER_THREAD: usize = 1 << 20;

/// The context of writing chunks.
pub struct Assembly<'a> {
    pub lookup: ChunkLookup,
    /// For each dataset, the bytes of a missing cell.
    pub fills: Vec<Vec<u8>>,
    /// The index of the first value dataset in the writer. Coordinate datasets precede it.
    pub first_dataset: usize,
    pub options: &'a CopyOptions,
    pub context: &'a TaskContext,
    /// Set when the statement's future is dropped.
    pub is_cancelled: &'a AtomicBool,
    /// Formats the coordinates of a cell for messages.
    pub cell: &'a dyn Fn(&[u32]) -> String,
}

impl Assembly<'_> {
    /// Assembles and writes all chunks of all datasets.
    pub fn write(&self, spool: &Spool, writer: &mut dyn ArrayWriter) -> Result<()> {
        let memory = MemoryConsumer::new("chunks of COPY").register(self.context.memory_pool());
        let runs = self.runs(self.budget(&memory));
        let spans = self.spans(spool)?;
        let touched = |span: &Range<u64>| {
            let first = runs.partition_point(|run| run.end <= span.start);
            let end = runs.partition_point(|run| run.start < span.end);
            first..end.max(first)
        };
        let reads: usize = spans.iter().map(|span| touched(span).len()).sum();
        if reads <= MAX_READS_PER_BLOCK * spans.len().max(1) {
            // The rows are nearly in chunk order: each run of chunks needs only few blocks, so read
            // the blocks directly.
            let mut blocks = vec![Vec::new(); runs.len()];
            for (number, span) in spans.iter().enumerate() {
                for run in touched(span) {
                    blocks[run].push(number);
                }
            }
            for (run, blocks) in runs.iter().zip(blocks) {
                self.write_run(run, spool, blocks, writer)?;
            }
            return Ok(());
        }
        for some in runs.chunks(MAX_TEMPORARY_FILES) {
            let sorted = self.sort(spool, some)?;
            for (run, rows) in some.iter().zip(&sorted) {
                self.write_run(run, rows, 0..rows.len(), writer)?;
            }
        }
        Ok(())
    }

    /// Reserves memory for chunks, and returns its size in bytes.
    fn budget(&self, memory: &MemoryReservation) -> u64 {
        let mut bytes = MAX_CHUNK_MEMORY;
        while bytes > 1 << 20 && memory.try_resize(bytes as usize).is_err() {
            bytes /= 2;
        }
        bytes
    }

    /// Splits the chunks into runs that fit the budget.
    fn runs(&self, budget: u64) -> Vec<Range<u64>> {
        let cell: u64 = self.fills.iter().map(|fill| fill.len() as u64).sum();
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut bytes = u64::MAX;
        for chunk in 0..self.lookup.chunks() {
            // `has_row` takes one bit per cell, which is rounded up to a byte here.
            let more = self.lookup.cells(chunk).saturating_mul(cell + 1);
            bytes = bytes.saturating_add(more);
            match runs.last_mut() {
                Some(run) if bytes <= budget => run.end = chunk + 1,
                _ => {
                    bytes = more;
                    runs.push(chunk..chunk + 1);
                }
            }
        }
        runs
    }

    /// Returns the range of chunk ordinals in each block.
    fn spans(&self, spool: &Spool) -> Result<Vec<Range<u64>>> {
        let mut reader = spool.reader()?;
        let mut spans = Vec::with_capacity(spool.len());
        for number in 0..spool.len() {
            self.check_cancelled()?;
            reader.read(number, |block| {
                let (mut first, mut end) = (u64::MAX, 0);
                self.lookup.pieces(&block.runs, |piece| {
                    (first, end) = (first.min(piece.chunk), end.max(piece.chunk + 1));
                    Ok(())
                })?;
                spans.push(first..end);
                Ok(())
            })?;
        }
        Ok(spans)
    }

    /// Sorts the rows of these runs into one spool per run.
    fn sort(&self, spool: &Spool, runs: &[Range<u64>]) -> Result<Vec<Spool>> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return Ok(Vec::new());
        };
        let all = first.start..last.end;
        let none = || Block::empty(self.lookup.dimensions(), self.fills.len());
        let mut sorted = Vec::with_capacity(runs.len());
        sorted.resize_with(runs.len(), || {
            let memory = MAX_CHUNK_MEMORY as usize / runs.len();
            let spool = Spool::new(self.context, self.lookup.dimensions(), memory);
            (spool, none())
        });
        let mut reader = spool.reader()?;
        for number in 0..spool.len() {
            self.check_cancelled()?;
            reader.read(number, |block| {
                self.lookup.pieces(&block.runs, |piece| {
                    if !all.contains(&piece.chunk) {
                        return Ok(());
                    }
                    let run = runs.partition_point(|run| run.end <= piece.chunk);
                    let (spool, rows) = &mut sorted[run];
                    self.push_rows(rows, block, &piece);
                    if rows.rows >= BLOCK_ROWS {
                        spool.push(std::mem::replace(rows, none()), self.context)?;
                    }
                    Ok(())
                })
            })?;
        }
        let spools = sorted.into_iter().map(|(mut spool, rows)| {
            if rows.rows > 0 {
                spool.push(rows, self.context)?;
            }
            spool.finish()?;
            Ok(spool)
        });
        spools.collect()
    }

    /// Appends the rows of a piece of a block.
    fn push_rows(&self, target: &mut Block, block: &Block, piece: &Piece<'_>) {
        let rows = &piece.rows;
        target.runs.push(piece.codes, rows.len());
        for (measure, fill) in self.fills.iter().enumerate() {
            let size = fill.len();
            let values = &block.values[measure][rows.start * size..rows.end * size];
            target.values[measure].extend_from_slice(values);
            let valid = &mut target.valid[measure];
            match block.valid[measure].get(rows.clone()) {
                Some(some) => valid.extend_from_slice(some),
                None => valid.resize(valid.len() + rows.len(), 1),
            }
        }
        target.rows += rows.len();
    }

    /// Assembles and writes a run of chunks from the blocks that contain its rows.
    fn write_run(
        &self,
        run: &Range<u64>,
        spool: &Spool,
        blocks: impl IntoIterator<Item = usize>,
        writer: &mut dyn ArrayWriter,
    ) -> Result<()> {
        // The offset of each chunk's first cell.
        let mut starts = Vec::with_capacity((run.end - run.start) as usize + 1);
        let mut cells = 0u64;
        for chunk in run.clone() {
            starts.push(cells);
            cells += self.lookup.cells(chunk);
        }
        starts.push(cells);
        let Ok(cells) = usize::try_from(cells) else {
            return plan_err!(
                "a chunk of {cells} cells does not fit in memory; choose smaller chunks with {}",
                self.options.named("chunk")
            );
        };
        let mut arrays = Vec::with_capacity(self.fills.len());
        for fill in &self.fills {
            arrays.push(filled(fill, cells, self.options)?);
        }
        let mut has_row = vec![0u64; cells.div_ceil(64)];
        let mut reader = spool.reader()?;
        for number in blocks {
            self.check_cancelled()?;
            reader.read(number, |block| {
                self.lookup.pieces(&block.runs, |piece| {
                    let Piece { chunk, rows, .. } = &piece;
                    if !run.contains(chunk) {
                        return Ok(());
                    }
                    let start = starts[(chunk - run.start) as usize];
                    let first = (start + piece.cell) as usize;
                    for cell in first..first + rows.len() {
                        let bit = 1u64 << (cell % 64);
                        if has_row[cell / 64] & bit != 0 {
                            return self.duplicate_cell(&piece, cell - first);
                        }
                        has_row[cell / 64] |= bit;
                    }
                    for (measure, array) in arrays.iter_mut().enumerate() {
                        let size = self.fills[measure].len();
                        let values = &block.values[measure][rows.start * size..rows.end * size];
                        let cells = &mut array[first * size..][..values.len()];
                        match block.valid[measure].get(rows.clone()) {
                            None => cells.copy_from_slice(values),
                            Some(valid) => {
                                let cells = cells.chunks_exact_mut(size);
                                let cells = cells.zip(values.chunks_exact(size)).zip(valid);
                                cells
                                    .filter(|(_, valid)| **valid != 0)
                                    .for_each(|((cell, value), _)| cell.copy_from_slice(value));
                            }
                        }
                    }
                    Ok(())
                })
            })?;
        }
        let threads = self.context.session_config().target_partitions();
        for (measure, array) in arrays.iter().enumerate() {
            let size = self.fills[measure].len();
            let chunks = run.clone().zip(starts.windows(2));
            let chunks = chunks.map(|(chunk, cells)| ChunkCells {
                chunk: self.lookup.position(chunk),
                cells: Cow::Borrowed(&array[cells[0] as usize * size..cells[1] as usize * size]),
            });
            let chunks: Vec<_> = chunks.collect();
            let bytes = chunks.first().map_or(0, |one| one.cells.len());
            let count = CHUNKS_PER_THREAD.max(BYTES_PER_THREAD / bytes.max(1)) * threads;
            for chunks in chunks.chunks(count) {
                self.check_cancelled()?;
                writer.write_chunks(self.first_dataset + measure, chunks, threads)?;
            }
        }
        Ok(())
    }

    /// Returns the error of a second row for the same cell.
    fn duplicate_cell(&self, piece: &Piece<'_>, row: usize) -> Result<()> {
        let mut codes = piece.codes.to_vec();
        if let Some(last) = codes.last_mut() {
            *last += row as u32;
        }
        exec_err!(
            "two rows have the same cell {}; group the rows by all dimensions, or add the missing dimensions: {}",
            (self.cell)(&codes),
            self.options.spelled("dims", "...")
        )
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => exec_err!("COPY was cancelled"),
            false => Ok(()),
        }
    }
}

/// Returns a buffer with `cells` copies of the fill value.
fn filled(fill: &[u8], cells: usize, options: &CopyOptions) -> Result<Vec<u8>> {
    let mut array = Vec::new();
    let bytes = cells.saturating_mul(fill.len());
    if array.try_reserve_exact(bytes).is_err() {
        return plan_err!(
            "a chunk of {bytes} bytes does not fit in memory; choose smaller chunks with {}",
            options.named("chunk")
        );
    }
    if fill.iter().all(|byte| *byte == fill[0]) {
        array.resize(bytes, fill[0]);
    } else {
        (0..cells).for_each(|_| array.extend_from_slice(fill));
    }
    Ok(array)
}
