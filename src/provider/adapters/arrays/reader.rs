//! Reads windows of a dataset.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::ArrayRef;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::ArrowNativeType;
use datafusion::common::{Result, internal_err};

use crate::error::Error;
use crate::format::array::ChunkReader;
use crate::grid::{Cells, ChunkGrid, Selection, Window};
use crate::provider::adapters::arrays::array::StoredArray;
#[cfg(feature = "remote")]
use crate::provider::adapters::arrays::fetching::FetchedChunks;
use crate::provider::adapters::arrays::values::{self, NullCells};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::shared_chunks::{ChunksOfArray, SharedChunks};
use crate::provider::source::{FetchedBlock, ReadCounts, WindowReader, runs_of};

/// The maximum size, in bytes, of a window that is assembled from chunks.
const MAX_WINDOW: u64 = 4 << 30;

/// Reads windows of one dataset. A window that is exactly one chunk is read in place. Any other
/// window is assembled from the chunks that it intersects.
pub(in crate::provider) struct StoredWindowReader {
    array: Arc<StoredArray>,
    missing: NullCells,
    chunks: ChunkReader,
    state: State,
    /// The cells of an assembled window in row-major order. Longer than the window if an earlier
    /// window was larger.
    assembled: Vec<u8>,
    /// A buffer for cells read from the file, before they are copied to their place in the window.
    gathered: Vec<u8>,
    /// The chunks that other operators of the plan have decoded or need.
    shared: Option<ChunksOfArray>,
    /// The indices of the open chunk, if it is to be shared once it is decoded.
    to_share: Option<Vec<u64>>,
    counts: ReadCounts,
    /// The chunks of the window that were fetched ahead.
    #[cfg(feature = "remote")]
    fetched: FetchedChunks,
}

enum State {
    Closed,
    /// The window is the current chunk.
    Chunk,
    /// The window is assembled from chunks.
    Assembly(Assembly),
}

/// A window that is assembled from chunks.
struct Assembly {
    window: Window,
    /// The chunks that the window intersects, as a range along each axis. `done` of them have been
    /// copied.
    touched: Vec<Range<u64>>,
    done: u64,
    /// `true` if the next chunk is open and its cells have not been copied yet.
    is_open: bool,
    /// `true` if all chunks have been copied.
    is_complete: bool,
}

impl StoredWindowReader {
    pub fn new(array: Arc<StoredArray>, options: &ReadOptions) -> Self {
        Self {
            missing: array.missing(options),
            chunks: ChunkReader::new(Arc::clone(array.file()), options.access),
            array,
            state: State::Closed,
            assembled: Vec::new(),
            gathered: Vec::new(),
            shared: None,
            to_share: None,
            counts: ReadCounts::default(),
            #[cfg(feature = "remote")]
            fetched: FetchedChunks::default(),
        }
    }

    fn open_chunk(&mut self, chunk: &[u64]) -> Result<()> {
        self.counts.chunks += 1;
        self.to_share = None;
        if let Some(cells) = self.shared.as_ref().and_then(|shared| shared.take(chunk)) {
            self.chunks.open_shared(cells);
            return Ok(());
        }
        #[cfg(feature = "remote")]
        match self.fetched.take(chunk) {
            Some(fetched) => {
                let dataset = self.array.dataset();
                self.chunks.open_fetched(dataset, chunk, fetched);
            }
            None => {
                self.chunks.open(self.array.dataset(), chunk)?;
            }
        }
        #[cfg(not(feature = "remote"))]
        self.chunks.open(self.array.dataset(), chunk)?;
        if !self.chunks.is_raw() {
            // Decompression needs the whole chunk.
            self.chunks.read_ahead();
            self.to_share = self.shared.as_ref().map(|_| chunk.to_vec());
        }
        Ok(())
    }

    fn advance_chunk(&mut self) -> Result<bool> {
        if self.chunks.is_raw() {
            return Ok(true);
        }
        let start = Instant::now();
        let ready = self.chunks.advance();
        self.counts.decode_time += start.elapsed();
        let ready = ready?;
        if ready && let (Some(chunk), Some(shared)) = (self.to_share.take(), &self.shared) {
            shared.add(chunk, &mut self.chunks);
        }
        Ok(ready)
    }

    /// Checks the index rows of these chunks. Fails at the first missing or broken row.
    fn check_chunks(&self, chunks: &[Range<u64>]) -> Result<()> {
        let Some(mut chunk) = chunks
            .iter()
            .map(|range| (!range.is_empty()).then_some(range.start))
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(());
        };
        loop {
            let dataset = self.array.dataset();
            let file = self.array.file();
            file.chunk(dataset, &chunk, self.chunks.access())?;
            let next = (0..chunks.len())
                .rev()
                .find(|axis| chunk[*axis] + 1 < chunks[*axis].end);
            let Some(axis) = next else {
                return Ok(());
            };
            chunk[axis] += 1;
            for later in axis + 1..chunks.len() {
                chunk[later] = chunks[later].start;
            }
        }
    }

    /// Continues with the next chunk of a window. Returns `true` once the window is complete.
    fn assemble(&mut self, assembly: &mut Assembly) -> Result<bool> {
        let count: u64 = assembly
            .touched
            .iter()
            .map(|range| range.end - range.start)
            .product();
        if assembly.done == count {
            return Ok(true);
        }
        let chunk = ChunkGrid::nth_of(&assembly.touched, assembly.done);
        if !assembly.is_open {
            self.open_chunk(&chunk)?;
            assembly.is_open = true;
        }
        if !self.advance_chunk()? {
            return Ok(false);
        }
        let size = self.array.dtype().size();
        let chunk_window = self.array.chunk_grid().window(&chunk);
        let shape = self.array.chunk_grid().shape();
        let common = common_part(&assembly.window, &chunk_window, shape);
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        let from = Cells::new(&chunk_window, &common);
        from.runs(0..from.rows(), &mut sources);
        let into = Cells::new(&assembly.window, &common);
        into.runs(0..into.rows(), &mut targets);
        let (sources, targets) = (in_bytes(&sources, size), in_bytes(&targets, size));
        if self.chunks.is_raw() && self.chunks.mapped().is_none() {
            // Without a memory map, gathering all rows into one buffer before copying them takes the
            // fewest reads.
            self.gathered.resize((from.rows() * size) as usize, 0);
            self.chunks.gather(&sources, &mut self.gathered)?;
            let mut start = 0;
            for target in targets {
                let end = start + target.len();
                self.assembled[target].copy_from_slice(&self.gathered[start..end]);
                start = end;
            }
        } else {
            for (source, target) in aligned_runs(&sources, &targets) {
                let target = &mut self.assembled[target];
                self.chunks.gather(std::slice::from_ref(&source), target)?;
            }
        }
        assembly.is_open = false;
        assembly.done += 1;
        Ok(assembly.done == count)
    }
}

impl WindowReader for StoredWindowReader {
    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        self.state = State::Closed;
        #[cfg(feature = "remote")]
        {
            self.fetched = FetchedChunks::of(fetched)?;
        }
        #[cfg(not(feature = "remote"))]
        drop(fetched);
        if let Some(chunk) = self.array.chunk_grid().chunk_equal_to(window) {
            self.open_chunk(&chunk)?;
            self.state = State::Chunk;
        } else {
            let touched = self.array.chunk_grid().chunks_in(window);
            // Checked before memory is allocated, since a file can claim far more cells than it
            // holds.
            if self.array.file().listed_chunks().is_some() {
                self.check_chunks(&touched)?;
            }
            let bytes = window.cells() * self.array.dtype().size();
            if bytes > MAX_WINDOW {
                return Err(Error::malformed(
                    self.array.location(),
                    "chunk shape",
                    format!("such that {bytes} bytes must be assembled from several chunks"),
                    format!("at most {MAX_WINDOW} bytes"),
                )
                .into());
            }
            if self.assembled.len() < bytes as usize {
                self.assembled.resize(bytes as usize, 0);
            }
            self.state = State::Assembly(Assembly {
                touched,
                window: window.clone(),
                done: 0,
                is_open: false,
                is_complete: false,
            });
        }
        Ok(())
    }

    fn share_decoded(&mut self, chunks: &Arc<SharedChunks>) -> Result<()> {
        self.shared = chunks.of(self.array.file(), self.array.dataset())?;
        Ok(())
    }

    fn read_ahead(&mut self) {
        if matches!(self.state, State::Chunk) && self.chunks.is_raw() {
            self.chunks.read_ahead();
        }
    }

    fn advance(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => internal_err!("a window reader was advanced without a window"),
            State::Chunk => {
                let ready = self.advance_chunk()?;
                self.state = State::Chunk;
                Ok(ready)
            }
            State::Assembly(mut assembly) => {
                assembly.is_complete = self.assemble(&mut assembly)?;
                let ready = assembly.is_complete;
                self.state = State::Assembly(assembly);
                Ok(ready)
            }
        }
    }

    fn cells(&mut self, _attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        let size = self.array.dtype().size();
        let range = (range.start * size) as usize..(range.end * size) as usize;
        match &self.state {
            State::Closed => internal_err!("a window reader was read without a window"),
            State::Chunk => Ok(self.chunks.cells(range)?),
            State::Assembly(assembly) if !assembly.is_complete => {
                internal_err!("a window was read before it was ready")
            }
            State::Assembly(_) => Ok(&self.assembled[range]),
        }
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let runs = in_bytes(runs, self.array.dtype().size());
        let length = runs.iter().map(Range::len).sum();
        let cells = match (&self.state, runs.as_slice(), self.chunks.mapped()) {
            (State::Closed, ..) => {
                return internal_err!("a window reader was read without a window");
            }
            (State::Chunk, [run], Some((map, chunk))) => {
                let start = chunk.start + run.start;
                let buffer = values::mapped_buffer(map, start..start + run.len());
                self.chunks.count_used(run.len());
                buffer
            }
            (State::Chunk, ..) => {
                let mut buffer = MutableBuffer::from_len_zeroed(length);
                self.chunks.gather(&runs, &mut buffer)?;
                Buffer::from(buffer)
            }
            (State::Assembly(assembly), ..) => {
                if !assembly.is_complete {
                    return internal_err!("a window was read before it was ready");
                }
                let mut buffer = MutableBuffer::with_capacity(length);
                for run in runs {
                    buffer.extend_from_slice(&self.assembled[run]);
                }
                Buffer::from(buffer)
            }
        };
        Ok(vec![self.array.column(cells, self.missing)?])
    }

    fn gather(&mut self, cells: &[u64]) -> Result<Vec<ArrayRef>> {
        let size = self.array.dtype().size();
        let stored = match &self.state {
            State::Chunk => self.chunks.in_memory(),
            State::Assembly(assembly) if assembly.is_complete => Some(&self.assembled[..]),
            _ => None,
        };
        let Some(stored) = stored else {
            return self.read(&runs_of(cells));
        };
        let gathered = match size {
            1 => gathered(stored, cells, u8::from_le_bytes),
            2 => gathered(stored, cells, u16::from_le_bytes),
            4 => gathered(stored, cells, u32::from_le_bytes),
            _ => gathered(stored, cells, u64::from_le_bytes),
        };
        if matches!(self.state, State::Chunk) && self.chunks.is_raw() {
            self.chunks.count_used(gathered.len());
        }
        Ok(vec![self.array.column(gathered, self.missing)?])
    }

    fn counts(&self) -> ReadCounts {
        let (requests, bytes_fetched) = self.chunks.fetched();
        ReadCounts {
            bytes: self.chunks.bytes_read(),
            requests,
            bytes_fetched,
            ..self.counts
        }
    }
}

/// Gathers the cells at these offsets. A cell has `N` bytes.
fn gathered<const N: usize, T: ArrowNativeType>(
    stored: &[u8],
    cells: &[u64],
    cell: impl Fn([u8; N]) -> T,
) -> Buffer {
    let (stored, _) = stored.as_chunks();
    let cells = cells.iter().map(|offset| cell(stored[*offset as usize]));
    Buffer::from_vec(cells.collect::<Vec<T>>())
}

/// The intersection of two windows, as a selection of the whole grid.
fn common_part(a: &Window, b: &Window, shape: &[u64]) -> Selection {
    let axes = a
        .ranges()
        .iter()
        .zip(b.ranges())
        .zip(shape)
        .map(|((a, b), extent)| {
            let range = a.start.max(b.start)..a.end.min(b.end);
            crate::grid::IndexSet::from_ranges(*extent, [range])
        })
        .collect();
    Selection::new(axes)
}

/// Splits two lists of runs, equal in total length, into pairs of ranges of equal length. Each
/// range lies within one run.
fn aligned_runs<'a>(
    sources: &'a [Range<usize>],
    targets: &'a [Range<usize>],
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + 'a {
    let (mut sources, mut targets) = (sources.iter().cloned(), targets.iter().cloned());
    let (mut source, mut target) = (0..0, 0..0);
    std::iter::from_fn(move || {
        if source.is_empty() {
            source = sources.next()?;
        }
        if target.is_empty() {
            target = targets.next()?;
        }
        let length = source.len().min(target.len());
        let piece = (
            source.start..source.start + length,
            target.start..target.start + length,
        );
        source.start += length;
        target.start += length;
        Some(piece)
    })
}

/// Converts runs of cells to runs of bytes. They lie within a window in memory or in a memory map,
/// so they fit into `usize`.
fn in_bytes(runs: &[Range<u64>], size: u64) -> Vec<Range<usize>> {
    runs.iter()
        .map(|run| (run.start * size) as usize..(run.end * size) as usize)
        .collect()
}
