//! The blocks that one partition of a scan reads, with remote blocks fetched ahead.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::planned_blocks::PlannedBlocks;
use crate::provider::planning::pruning::Pruner;
use crate::provider::scan::block_queue::BlockQueue;
use crate::provider::source::FetchedBlock;

/// The maximum number of blocks that a partition fetches at a time. It fetches one at first, and
/// twice as many after every block that it has read, so that a limit or a dynamic filter ends the
/// scan before many blocks are fetched in vain.
const MOST_IN_FLIGHT: usize = 8;

/// The blocks that one partition reads next. Blocks that are read in place pass through; others are
/// fetched by tasks, several at a time, which dropping this value aborts.
pub(crate) struct BlockFetcher {
    blocks: PlannedBlocks,
    /// The columns that are fetched.
    columns: Vec<usize>,
    options: ReadOptions,
    queue: Arc<BlockQueue>,
    /// The index of the partition among those that share the queue.
    partition: usize,
    pruner: Option<Pruner>,
    in_flight: VecDeque<InFlight>,
    /// The number of blocks to have in flight.
    depth: usize,
    /// Accounts for the bytes of the blocks in flight and of the current block.
    memory: MemoryReservation,
    /// The bytes of the current block.
    current: usize,
}

struct InFlight {
    step: u64,
    /// The end of the range of steps that the block belongs to.
    end: u64,
    block: u64,
    bytes: usize,
    /// `None` if the block is read in place, or not fetched yet because memory is short.
    task: Option<SpawnedTask<Result<FetchedBlock>>>,
}

/// The next block of a partition.
pub(crate) enum NextBlock {
    /// A block to read.
    Block(u64, Option<FetchedBlock>),
    /// A block that the dynamic filter rules out.
    Pruned,
    /// There is none.
    End,
}

impl BlockFetcher {
    /// Creates the fetcher of these columns for one partition.
    pub fn new(
        blocks: &PlannedBlocks,
        columns: Vec<usize>,
        options: ReadOptions,
        queue: Arc<BlockQueue>,
        partition: usize,
        pruner: Option<Pruner>,
        context: &TaskContext,
    ) -> Self {
        Self {
            blocks: blocks.clone(),
            columns,
            options,
            queue,
            partition,
            pruner,
            in_flight: VecDeque::new(),
            depth: 1,
            memory: MemoryConsumer::new("ArrayScan").register(context.memory_pool()),
            current: 0,
        }
    }

    /// Returns the next block, once it is fetched.
    pub async fn next(&mut self) -> Result<NextBlock> {
        self.memory.shrink(std::mem::take(&mut self.current));
        while self.in_flight.len() < self.depth {
            let Some((step, end)) = self.queue.take(self.partition) else {
                break;
            };
            if !self.keeps(step, end)? {
                return Ok(NextBlock::Pruned);
            }
            let block = self.blocks.block(step)?;
            let list = self.blocks.list();
            let fetch = list.fetch(block, &self.columns, &self.options);
            let is_in_place = fetch.is_none();
            let bytes = fetch.as_ref().map_or(0, |fetch| fetch.bytes);
            let is_short = match self.memory.try_grow(bytes) {
                Ok(()) => false,
                Err(error) if self.in_flight.is_empty() => return Err(error),
                Err(_) => true,
            };
            let task = fetch.filter(|_| !is_short);
            self.in_flight.push_back(InFlight {
                step,
                end,
                block,
                bytes: if is_short { 0 } else { bytes },
                task: task.map(|fetch| SpawnedTask::spawn(fetch.fetched)),
            });
            if is_short || is_in_place {
                break;
            }
        }
        let Some(next) = self.in_flight.pop_front() else {
            return Ok(NextBlock::End);
        };
        self.current = next.bytes;
        let fetched = match next.task {
            Some(task) => {
                let joined = task.join().await;
                joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??
            }
            None => match self.fetch_now(next.block, None).await? {
                Some(fetched) => fetched,
                None => return Ok(NextBlock::Block(next.block, None)),
            },
        };
        // The filter may have changed while the block was in flight.
        if !self.keeps(next.step, next.end)? {
            return Ok(NextBlock::Pruned);
        }
        self.depth = (self.depth * 2).min(MOST_IN_FLIGHT);
        Ok(NextBlock::Block(next.block, Some(fetched)))
    }

    /// Fetches columns of the current block, or of the next one if there is no current block; `None`
    /// if they are read in place. `columns` are other columns than those that are fetched ahead.
    pub async fn fetch_now(
        &mut self,
        block: u64,
        columns: Option<&[usize]>,
    ) -> Result<Option<FetchedBlock>> {
        let columns = columns.unwrap_or(&self.columns);
        let Some(fetch) = self.blocks.list().fetch(block, columns, &self.options) else {
            return Ok(None);
        };
        self.memory.try_grow(fetch.bytes)?;
        self.current += fetch.bytes;
        fetch.fetched.await.map(Some)
    }

    fn keeps(&mut self, step: u64, end: u64) -> Result<bool> {
        match &mut self.pruner {
            Some(pruner) => pruner.keeps(step, end),
            None => Ok(true),
        }
    }
}
