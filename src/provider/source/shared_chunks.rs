//! Decoded chunks that several operators of one plan read.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use crate::format::array::{ArrayFile, ChunkReader, Dataset};
use crate::grid::ChunkGrid;
use crate::provider::source::Windows;

/// The maximum number of bytes of chunks in memory.
const MAX_BYTES: usize = 256 << 20;
/// In a limited memory pool, a chunk is kept only if at most one part in this many of the whole pool is
/// then reserved.
const POOL_PARTS: usize = 4;

/// The path and the name of an array.
pub(in crate::provider) type ArrayName = (PathBuf, String);

/// The windows of an array that one column of an operator reads.
#[derive(Debug)]
pub(in crate::provider) struct ArrayRead {
    /// The chunks of the array.
    pub chunks: ChunkGrid,
    /// The windows that are read one by one. Each needs all chunks that it touches.
    pub windows: Windows,
}

impl ArrayRead {
    /// Returns `true` if several windows may need the same chunk.
    pub fn may_repeat(&self) -> bool {
        self.windows.may_share_chunks(&self.chunks)
    }
}

/// Decoded chunks that several windows or operators of a plan need.
///
/// In `SELECT ... FROM t JOIN (SELECT lat, lon, avg(value) ... FROM t GROUP BY lat, lon) ...`, the
/// aggregate decodes the chunks of `t`, and the scan takes them from here. Each chunk is dropped once
/// it was read for every window. If there is no space, a chunk is decoded again.
pub struct SharedChunks {
    /// The reads of each array.
    reads: HashMap<ArrayName, Vec<ArrayRead>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The execution that the chunks belong to.
    execution: Weak<TaskContext>,
    pool: Option<Arc<dyn MemoryPool>>,
    /// The number of bytes of all chunks.
    bytes: usize,
    /// The files of each array. A path may have been opened several times, with other content in
    /// between.
    files: HashMap<ArrayName, Vec<NumberedFile>>,
    /// The number of files.
    count: usize,
    /// The chunks that are still needed after a reader has decoded them, by the number of their file and their indices.
    chunks: HashMap<(usize, Vec<u64>), DecodedChunk>,
}

struct NumberedFile {
    file: Arc<dyn ArrayFile>,
    number: usize,
}

struct DecodedChunk {
    /// The cells and their memory; `None` if there was no space.
    cells: Option<(Arc<Vec<u8>>, MemoryReservation)>,
    /// The number of times that the chunk is still needed.
    left: usize,
}

impl State {
    /// Returns the cells of a chunk, which is then needed once less; `None` if they have to be decoded.
    fn take(&mut self, key: &(usize, Vec<u64>)) -> Option<Arc<Vec<u8>>> {
        let (cells, _) = self.chunks.get(key)?.cells.as_ref()?;
        let cells = Arc::clone(cells);
        self.count_read(key);
        Some(cells)
    }

    /// Notes that a chunk is needed once less, and drops it if it is no longer needed.
    fn count_read(&mut self, key: &(usize, Vec<u64>)) {
        if let Some(chunk) = self.chunks.get_mut(key) {
            chunk.left = chunk.left.saturating_sub(1);
            if chunk.left == 0
                && let Some(chunk) = self.chunks.remove(key)
                && let Some((_, memory)) = chunk.cells
            {
                self.bytes -= memory.size();
            }
        }
    }

    /// Reserves memory for a chunk; `None` if there is no space.
    fn reserve(&self, bytes: usize) -> Option<MemoryReservation> {
        let pool = self.pool.as_ref()?;
        let is_free = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => pool.reserved() + bytes <= limit / POOL_PARTS,
            _ => true,
        };
        if !is_free || self.bytes + bytes > MAX_BYTES {
            return None;
        }
        let memory = MemoryConsumer::new("SharedChunks").register(pool);
        memory.try_grow(bytes).ok().map(|()| memory)
    }
}

impl fmt::Debug for SharedChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedChunks")
            .field("arrays", &self.reads.keys())
            .finish_non_exhaustive()
    }
}

impl SharedChunks {
    /// Creates a value without chunks.
    pub(in crate::provider) fn new(reads: HashMap<ArrayName, Vec<ArrayRead>>) -> Self {
        Self {
            reads,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an execution, unless another operator has started it. Drops the chunks of others.
    pub(in crate::provider) fn start(&self, context: &Arc<TaskContext>) {
        let mut state = self.state();
        if std::ptr::eq(state.execution.as_ptr(), Arc::as_ptr(context)) {
            return;
        }
        state.execution = Arc::downgrade(context);
        state.pool = Some(Arc::clone(context.memory_pool()));
        state.bytes = 0;
        state.chunks.clear();
    }

    /// Returns the chunks of an array for one of its readers; `None` if the array is not shared.
    pub(in crate::provider) fn of(
        self: &Arc<Self>,
        file: &Arc<dyn ArrayFile>,
        dataset: &Dataset,
    ) -> Result<Option<ChunksOfArray>> {
        let name = (file.path().to_path_buf(), dataset.name().to_string());
        if !self.reads.contains_key(&name) {
            return Ok(None);
        }
        let mut state = self.state();
        let next = state.count;
        let files = state.files.entry(name.clone()).or_default();
        let mut known = None;
        for NumberedFile {
            file: other,
            number,
        } in files.iter()
        {
            if Arc::ptr_eq(other, file) || other.identity(dataset)? == file.identity(dataset)? {
                known = Some(*number);
                break;
            }
        }
        let number = known.unwrap_or(next);
        if known.is_none() {
            let file = Arc::clone(file);
            files.push(NumberedFile { file, number });
            state.count += 1;
        }
        Ok(Some(ChunksOfArray {
            shared: Arc::clone(self),
            name,
            file: number,
        }))
    }
}

/// The shared chunks of one array.
pub(in crate::provider) struct ChunksOfArray {
    shared: Arc<SharedChunks>,
    name: ArrayName,
    /// The number of the file.
    file: usize,
}

impl ChunksOfArray {
    /// Takes a decoded chunk out of the cache; `None` if the chunk still has to be decoded.
    pub fn take(&self, chunk: &[u64]) -> Option<Arc<Vec<u8>>> {
        self.shared.state().take(&(self.file, chunk.to_vec()))
    }

    /// Returns the number of times that a chunk is needed.
    fn reads(&self, chunk: &[u64]) -> usize {
        let reads = self.shared.reads.get(&self.name).into_iter().flatten();
        let reads = reads.map(|read| read.windows.touching(&read.chunks.window(chunk)));
        reads.fold(0, usize::saturating_add)
    }

    /// Counts the read of a chunk that a reader has decoded, and adds the cells if they are needed again, there is space,
    /// and no other reader has added them.
    pub fn add(&self, chunk: Vec<u64>, reader: &mut ChunkReader) {
        let left = self.reads(&chunk);
        let Some(bytes) = reader.decoded_bytes().filter(|_| left > 1) else {
            return;
        };
        let key = (self.file, chunk);
        let mut guard = self.shared.state();
        let state = &mut *guard;
        let new = || DecodedChunk { cells: None, left };
        state.chunks.entry(key.clone()).or_insert_with(new);
        state.count_read(&key);
        if state
            .chunks
            .get(&key)
            .is_some_and(|chunk| chunk.cells.is_none())
            && let Some(memory) = state.reserve(bytes)
            && let Some(cells) = reader.share()
            && let Some(chunk) = state.chunks.get_mut(&key)
        {
            chunk.cells = Some((cells, memory));
            state.bytes += bytes;
        }
    }
}
