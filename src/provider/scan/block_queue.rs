//! The queue of blocks that the partitions of a scan have yet to read.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The remaining blocks of each partition. A partition that has none left takes blocks from the
/// partition with the most, so that no partition waits for the slowest.
#[derive(Debug)]
pub(crate) struct BlockQueue {
    parts: Vec<PartitionBlocks>,
}

#[derive(Debug)]
struct PartitionBlocks {
    /// The next block; at most `end`.
    next: AtomicU64,
    end: u64,
}

impl PartitionBlocks {
    fn take(&self) -> Option<u64> {
        let next = |next| (next < self.end).then(|| next + 1);
        // Relaxed ordering is enough, since no other memory depends on the counter.
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
    }

    fn left(&self) -> u64 {
        self.end - self.next.load(Ordering::Relaxed)
    }
}

impl BlockQueue {
    pub fn new(parts: &[Range<u64>]) -> Self {
        let parts = parts.iter().map(|blocks| PartitionBlocks {
            next: AtomicU64::new(blocks.start),
            end: blocks.end.max(blocks.start),
        });
        Self {
            parts: parts.collect(),
        }
    }

    /// Takes the next block for a partition. Returns the block and the end of the range that it
    /// belongs to.
    pub fn take(&self, partition: usize) -> Option<(u64, u64)> {
        let own = &self.parts[partition];
        if let Some(block) = own.take() {
            return Some((block, own.end));
        }
        loop {
            let part = self.parts.iter().max_by_key(|part| part.left())?;
            if part.left() == 0 {
                return None;
            }
            // Another thread may have taken the last block.
            if let Some(block) = part.take() {
                return Some((block, part.end));
            }
        }
    }
}

/// The block queues of a scan whose partitions share their blocks. DataFusion may run a plan
/// several times, so there is one queue per run.
#[derive(Debug)]
pub(crate) struct SharedBlocks {
    parts: Vec<Range<u64>>,
    runs: Mutex<Runs>,
}

#[derive(Debug)]
struct Runs {
    /// The number of times that each partition was opened.
    opened: Vec<usize>,
    queues: Vec<Arc<BlockQueue>>,
}

impl SharedBlocks {
    pub fn new(parts: &[Range<u64>]) -> Self {
        let runs = Runs {
            opened: vec![0; parts.len()],
            queues: Vec::new(),
        };
        Self {
            parts: parts.to_vec(),
            runs: Mutex::new(runs),
        }
    }

    /// Returns the queue for a partition that is being opened.
    pub fn open(&self, partition: usize) -> Arc<BlockQueue> {
        // The code below cannot panic halfway, so a poisoned lock still guards a consistent value.
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let run = runs.opened[partition];
        runs.opened[partition] += 1;
        if run == runs.queues.len() {
            runs.queues.push(Arc::new(BlockQueue::new(&self.parts)));
        }
        Arc::clone(&runs.queues[run])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_taken_once() {
        let queue = BlockQueue::new(&[0..3, 3..3, 3..10]);
        assert_eq!(queue.take(0), Some((0, 3)));
        assert_eq!(queue.take(1), Some((3, 10)));
        assert_eq!(queue.take(0), Some((1, 3)));
        assert_eq!(queue.take(0), Some((2, 3)));
        let taken: Vec<_> = (0..8).map(|turn| queue.take(turn % 3)).collect();
        let left = (4..10).map(|block| Some((block, 10)));
        assert_eq!(taken, left.chain([None, None]).collect::<Vec<_>>());
    }

    #[test]
    fn every_run_has_a_queue() {
        let shared = SharedBlocks::new(&[0..1, 1..2]);
        let first = [shared.open(0), shared.open(1)];
        let second = [shared.open(1), shared.open(0)];
        assert!(Arc::ptr_eq(&first[0], &first[1]) && Arc::ptr_eq(&second[0], &second[1]));
        assert!(!Arc::ptr_eq(&first[0], &second[0]));
    }

    #[test]
    fn threads_share() {
        let queue = BlockQueue::new(&[0..1000, 1000..1500]);
        let take = |partition| {
            let taken = std::iter::from_fn(|| queue.take(partition));
            taken.map(|(block, _)| block).collect::<Vec<_>>()
        };
        let mut all = std::thread::scope(|scope| {
            let other = scope.spawn(|| take(1));
            let mut all = take(0);
            all.extend(other.join().unwrap());
            all
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1500));
    }
}
