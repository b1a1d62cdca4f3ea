//! Fetches of remote blocks, several at a time.

use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::provider::plans::tasks::result_of;
use crate::provider::source::{Fetch, FetchedBlock};

/// The maximum number of blocks that a partition of a scan, or a worker of an aggregate, fetches at
/// a time. The number starts at one and doubles after every block, so that few blocks are fetched
/// in vain if a limit or a dynamic filter ends the query early.
const MAX_IN_FLIGHT: usize = 8;

/// The fetches of one partition or worker. Their bytes are reserved in the memory pool until the
/// block has been read.
pub(crate) struct InFlight {
    /// The number of blocks to have in flight.
    depth: usize,
    /// The number of blocks in flight.
    count: usize,
    memory: MemoryReservation,
    /// The bytes of the blocks that have arrived and are being read.
    arrived: usize,
    /// The time spent waiting for blocks since [`InFlight::take_wait`] was called.
    waited: Duration,
}

/// The bytes of one block, which may still be in flight. Dropping the value aborts the fetch.
pub(crate) enum PendingBlock {
    /// The block is read in place.
    InPlace,
    /// The fetch has not started, because enough others are in flight or memory is short.
    Waiting(Fetch),
    /// The fetch has started.
    Started {
        task: SpawnedTask<Result<FetchedBlock>>,
        bytes: usize,
    },
}

impl PendingBlock {
    /// Returns `true` if the fetch has started.
    pub fn is_started(&self) -> bool {
        matches!(self, Self::Started { .. })
    }
}

impl InFlight {
    /// Creates a value without fetches. `memory` must be an empty reservation.
    pub fn new(memory: MemoryReservation) -> Self {
        Self {
            depth: 1,
            count: 0,
            memory,
            arrived: 0,
            waited: Duration::ZERO,
        }
    }

    /// Returns `true` if another fetch should start.
    pub fn has_room(&self) -> bool {
        self.count < self.depth
    }

    /// Starts a fetch, unless enough blocks are in flight, or others are and memory is short.
    /// `None` stands for a block that is read in place.
    pub fn start(&mut self, fetch: Option<Fetch>) -> Result<PendingBlock> {
        let Some(fetch) = fetch else {
            return Ok(PendingBlock::InPlace);
        };
        if !self.has_room() {
            return Ok(PendingBlock::Waiting(fetch));
        }
        match self.memory.try_grow(fetch.bytes) {
            Ok(()) => {
                self.count += 1;
                Ok(PendingBlock::Started {
                    task: SpawnedTask::spawn(fetch.fetched),
                    bytes: fetch.bytes,
                })
            }
            Err(error) if self.count == 0 => Err(error),
            Err(_) => Ok(PendingBlock::Waiting(fetch)),
        }
    }

    /// Starts those of several fetches that are waiting, in order, as long as there is room.
    pub fn start_waiting(&mut self, blocks: &mut [PendingBlock]) -> Result<()> {
        for block in blocks {
            if matches!(block, PendingBlock::Waiting(_)) && self.has_room() {
                let waiting = std::mem::replace(block, PendingBlock::InPlace);
                if let PendingBlock::Waiting(fetch) = waiting {
                    *block = self.start(Some(fetch))?;
                }
            }
        }
        Ok(())
    }

    /// Aborts a fetch and releases its memory.
    pub fn cancel(&mut self, block: PendingBlock) {
        if let PendingBlock::Started { bytes, .. } = block {
            self.count -= 1;
            self.memory.shrink(bytes);
        }
    }

    /// Returns `true` if this many bytes can be reserved now.
    pub fn has_memory(&mut self, bytes: usize) -> bool {
        let has_memory = self.memory.try_grow(bytes).is_ok();
        if has_memory {
            self.memory.shrink(bytes);
        }
        has_memory
    }

    /// Waits for a block to arrive; `None` if the block is read in place.
    pub async fn arrive(&mut self, block: PendingBlock) -> Result<Option<FetchedBlock>> {
        let (bytes, fetched) = match block {
            PendingBlock::InPlace => return Ok(None),
            PendingBlock::Waiting(fetch) => {
                self.memory.try_grow(fetch.bytes)?;
                let start = Instant::now();
                let fetched = fetch.fetched.await;
                self.waited += start.elapsed();
                (fetch.bytes, fetched?)
            }
            PendingBlock::Started { task, bytes } => {
                let start = Instant::now();
                let fetched = result_of(task).await;
                self.waited += start.elapsed();
                self.count -= 1;
                self.depth = (self.depth * 2).min(MAX_IN_FLIGHT);
                (bytes, fetched?)
            }
        };
        self.arrived += bytes;
        Ok(Some(fetched))
    }

    /// Returns the time spent waiting for blocks since the last call.
    pub fn take_wait(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Releases the memory of the blocks that have arrived, once they have been read.
    pub fn release(&mut self) {
        self.memory.shrink(std::mem::take(&mut self.arrived));
    }
}
