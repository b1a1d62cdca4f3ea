//! The blocks that one partition of a scan reads, with remote blocks fetched ahead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::planned_blocks::PlannedBlocks;
use crate::provider::planning::pruning::Pruner;
use crate::provider::scan::block_queue::BlockQueue;
use crate::provider::scan::in_flight::{InFlight, PendingBlock};
use crate::provider::source::FetchedBlock;

/// The blocks that one partition reads next. Blocks that are read in place pass through; others are
/// fetched by tasks, several at a time. Dropping the fetcher aborts the tasks.
pub(crate) struct BlockFetcher {
    blocks: PlannedBlocks,
    /// The columns that are fetched ahead.
    columns: Vec<usize>,
    options: ReadOptions,
    queue: Arc<BlockQueue>,
    /// The index of the partition among those that share the queue.
    partition: usize,
    pruner: Option<Pruner>,
    /// The blocks taken from the queue, in the order in which they are read.
    taken: VecDeque<TakenBlock>,
    in_flight: InFlight,
}

/// A block that was taken from the queue.
struct TakenBlock {
    /// The step in which the block is read.
    step: u64,
    /// The end of the range of steps that the step belongs to.
    end: u64,
    /// The ordinal of the block.
    block: u64,
    pending: PendingBlock,
}

/// The next block of a partition.
pub(crate) enum NextBlock {
    /// A block to read.
    Block(u64, Option<FetchedBlock>),
    /// A block that the dynamic filter rules out.
    Pruned,
    /// The partition has no more blocks.
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
        let memory = MemoryConsumer::new("ArrayScan").register(context.memory_pool());
        Self {
            blocks: blocks.clone(),
            columns,
            options,
            queue,
            partition,
            pruner,
            taken: VecDeque::new(),
            in_flight: InFlight::new(memory),
        }
    }

    /// Returns the next block, once it is fetched.
    pub async fn next(&mut self) -> Result<NextBlock> {
        self.in_flight.release();
        // Nothing is taken behind a block that is read in place, or that waits for memory.
        let is_started = |taken: &TakenBlock| taken.pending.is_started();
        while self.taken.back().is_none_or(is_started) && self.in_flight.has_room() {
            let Some((step, end)) = self.queue.take(self.partition) else {
                break;
            };
            if !self.keeps(step, end)? {
                return Ok(NextBlock::Pruned);
            }
            let block = self.blocks.block(step)?;
            let list = self.blocks.list();
            let fetch = list.fetch(block, &self.columns, &self.options);
            let pending = self.in_flight.start(fetch)?;
            self.taken.push_back(TakenBlock {
                step,
                end,
                block,
                pending,
            });
        }
        let Some(next) = self.taken.pop_front() else {
            return Ok(NextBlock::End);
        };
        let fetched = self.in_flight.arrive(next.pending).await?;
        // The filter may have changed while the block was in flight.
        if fetched.is_some() && !self.keeps(next.step, next.end)? {
            return Ok(NextBlock::Pruned);
        }
        Ok(NextBlock::Block(next.block, fetched))
    }

    /// Fetches further columns of the current block; `None` if they are read in place.
    pub async fn fetch_now(
        &mut self,
        block: u64,
        columns: &[usize],
    ) -> Result<Option<FetchedBlock>> {
        let list = self.blocks.list();
        let Some(fetch) = list.fetch(block, columns, &self.options) else {
            return Ok(None);
        };
        // The blocks that are fetched ahead give way.
        let mut others = self.taken.iter_mut().rev();
        while !self.in_flight.has_memory(fetch.bytes) {
            let Some(other) = others.next() else {
                break;
            };
            if let Some(fetch) = list.fetch(other.block, &self.columns, &self.options) {
                let waiting = PendingBlock::Waiting(fetch);
                let started = std::mem::replace(&mut other.pending, waiting);
                self.in_flight.cancel(started);
            }
        }
        self.in_flight.arrive(PendingBlock::Waiting(fetch)).await
    }

    /// Returns the time spent waiting for blocks since the last call.
    pub fn take_wait(&mut self) -> Duration {
        self.in_flight.take_wait()
    }

    fn keeps(&mut self, step: u64, end: u64) -> Result<bool> {
        match &mut self.pruner {
            Some(pruner) => pruner.keeps(step, end),
            None => Ok(true),
        }
    }
}
