//! Decoded chunks that several operators of one plan read.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};

use crate::format::array::{ArrayFile, Dataset};

/// The maximum number of bytes of chunks in memory.
const MAX_BYTES: usize = 256 << 20;
/// The chunks take at most one part in this many of a limited memory pool.
const POOL_PARTS: usize = 4;

/// The path and the name of an array.
pub(in crate::provider) type ArrayName = (PathBuf, String);

/// Chunks that were decoded by one operator of a plan, and wait for the others that read the same
/// array.
///
/// In `SELECT ... FROM t JOIN (SELECT lat, lon, avg(value) ... FROM t GROUP BY lat, lon) ...`, the
/// aggregate decodes the chunks of `t`, and the scan takes them from here. Each chunk is dropped once
/// every operator has taken it. If there is no space, a chunk is decoded again.
pub struct SharedChunks {
    /// The number of operators that read each array, at least one.
    readers: HashMap<ArrayName, usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The execution that the chunks belong to.
    execution: Weak<TaskContext>,
    memory: Option<MemoryReservation>,
    max_bytes: usize,
    arrays: Vec<(Arc<dyn ArrayFile>, ArrayName)>,
    /// The chunks, by the index of their array and their indices.
    chunks: HashMap<(usize, Vec<u64>), DecodedChunk>,
}

struct DecodedChunk {
    cells: Arc<Vec<u8>>,
    /// The number of operators that have not taken the chunk yet.
    left: usize,
}

impl fmt::Debug for SharedChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers = &self.readers;
        f.debug_struct("SharedChunks")
            .field("readers", readers)
            .finish_non_exhaustive()
    }
}

impl SharedChunks {
    /// Creates a value without chunks, for arrays with this number of operators that read them.
    pub(in crate::provider) fn new(readers: HashMap<ArrayName, usize>) -> Self {
        Self {
            readers,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an execution, unless another operator has started it. Drops the chunks of others.
    pub(in crate::provider) fn start(&self, context: &Arc<TaskContext>) {
        let pool = context.memory_pool();
        let mut state = self.state();
        if std::ptr::eq(state.execution.as_ptr(), Arc::as_ptr(context)) {
            return;
        }
        let max_bytes = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => MAX_BYTES.min(bytes / POOL_PARTS),
            _ => MAX_BYTES,
        };
        *state = State {
            execution: Arc::downgrade(context),
            memory: Some(MemoryConsumer::new("SharedChunks").register(pool)),
            max_bytes,
            arrays: std::mem::take(&mut state.arrays),
            chunks: HashMap::new(),
        };
    }

    /// Returns the chunks of an array for one of its readers; `None` if no other operator reads it.
    pub(in crate::provider) fn of(
        self: &Arc<Self>,
        file: &Arc<dyn ArrayFile>,
        dataset: &Dataset,
    ) -> Result<Option<ChunksOfArray>> {
        let name = (file.path().to_path_buf(), dataset.name().to_string());
        let others = self.readers.get(&name).map_or(0, |all| all - 1);
        if others == 0 {
            return Ok(None);
        }
        let mut state = self.state();
        let mut known = None;
        for (number, (other, other_name)) in state.arrays.iter().enumerate() {
            // The same path may have been opened twice, with other content in between.
            if *other_name == name
                && (Arc::ptr_eq(other, file)
                    || other.identity(dataset)? == file.identity(dataset)?)
            {
                known = Some(number);
            }
        }
        let array = known.unwrap_or(state.arrays.len());
        if known.is_none() {
            state.arrays.push((Arc::clone(file), name));
        }
        Ok(Some(ChunksOfArray {
            shared: Arc::clone(self),
            array,
            others,
        }))
    }
}

/// The shared chunks of one array.
pub(in crate::provider) struct ChunksOfArray {
    shared: Arc<SharedChunks>,
    /// The index of the array.
    array: usize,
    /// The number of other operators that read the array.
    others: usize,
}

impl ChunksOfArray {
    /// Takes a chunk; `None` if it has to be decoded.
    pub fn take(&self, chunk: &[u64]) -> Option<Arc<Vec<u8>>> {
        let mut state = self.shared.state();
        let key = (self.array, chunk.to_vec());
        let chunk = state.chunks.get_mut(&key)?;
        let cells = Arc::clone(&chunk.cells);
        chunk.left -= 1;
        if chunk.left == 0 {
            state.chunks.remove(&key);
            if let Some(memory) = &state.memory {
                memory.shrink(cells.len());
            }
        }
        Some(cells)
    }

    /// Reserves space for a decoded chunk. Returns `false` if there is none, or if another reader was
    /// faster.
    pub fn reserve(&self, chunk: &[u64], bytes: usize) -> bool {
        let state = self.shared.state();
        let Some(memory) = &state.memory else {
            return false;
        };
        memory.size() + bytes <= state.max_bytes
            && !state.chunks.contains_key(&(self.array, chunk.to_vec()))
            && memory.try_grow(bytes).is_ok()
    }

    /// Adds a chunk that this reader decoded, after reserving space for it.
    pub fn add(&self, chunk: Vec<u64>, cells: Arc<Vec<u8>>) {
        let mut state = self.shared.state();
        let decoded = DecodedChunk {
            cells,
            left: self.others,
        };
        if let Some(other) = state.chunks.insert((self.array, chunk), decoded)
            && let Some(memory) = &state.memory
        {
            memory.shrink(other.cells.len());
        }
    }
}
