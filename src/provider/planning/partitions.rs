//! Cuts the selected blocks of a table into partitions.

use std::ops::Range;

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::planned_blocks::PlannedBlocks;
use crate::provider::source::RowCount;

/// The maximum number of blocks whose size is looked up. In a longer list, evenly spaced blocks
/// stand for their neighbours, so that planning time does not depend on the number of blocks.
const MAX_SAMPLES: u64 = 1024;
/// The assumed bytes of a row when no values are read.
const ROW_WEIGHT: u64 = 8;

/// Cuts a list of blocks into ranges of about equal cost (or rows, if no values are read).
///
/// Returns at most `target` ranges, and fewer if the average cost would fall below `min_bytes`.
/// With `wanted_rows`, only the first blocks that together hold at least this many rows are kept.
pub(crate) fn cut(
    blocks: &PlannedBlocks,
    options: &ReadOptions,
    reads_values: bool,
    wanted_rows: Option<usize>,
    target: usize,
    min_bytes: usize,
) -> Vec<Range<u64>> {
    // A list of 2^64 or more blocks is not cut.
    let Some(mut count) = blocks.count() else {
        return std::iter::once(0..u64::MAX).collect();
    };
    if let Some(wanted) = wanted_rows {
        count = blocks_for_rows(blocks, wanted as u64, count);
    }
    let samples = count.min(MAX_SAMPLES);
    // Computed in 128 bits, since a grid may have nearly 2^64 chunks.
    let start_of =
        |sample: u64| (u128::from(count) * u128::from(sample) / u128::from(samples.max(1))) as u64;
    let weights: Vec<u128> = (0..samples)
        .map(|sample| {
            let (start, end) = (start_of(sample), start_of(sample + 1));
            let weight = if reads_values {
                blocks.cost_at(start, options)
            } else {
                let rows = blocks.rows_at(start);
                rows.map(|rows| rows.at_most().unwrap_or(1).saturating_mul(ROW_WEIGHT))
            };
            // If the block cannot be looked up, the scan reports the error when it reads the block.
            u128::from(weight.unwrap_or(1).max(1)) * u128::from(end - start)
        })
        .collect();
    let total: u128 = weights.iter().sum();
    let most = total / (min_bytes.max(1) as u128);
    let parts = most
        .clamp(1, target.max(1) as u128)
        .min(samples.max(1).into());
    let mut partitions = Vec::with_capacity(parts as usize);
    let mut start = 0;
    let mut weight = 0;
    for (sample, sample_weight) in weights.iter().enumerate() {
        // A sample belongs to the partition that its middle falls into.
        let part = (weight + sample_weight / 2) * parts / total;
        let here = start_of(sample as u64);
        if part > partitions.len() as u128 && here > start {
            partitions.push(start..here);
            start = here;
        }
        weight += sample_weight;
    }
    partitions.push(start..count);
    partitions
}

/// Returns the stored bytes of the first `count` blocks, and `true` if the sum is exact. The size
/// of many blocks is estimated from a sample. Blocks that cannot be looked up count as empty.
pub(crate) fn stored_bytes(
    blocks: &PlannedBlocks,
    count: u64,
    options: &ReadOptions,
) -> (u64, bool) {
    let samples = count.min(MAX_SAMPLES);
    let bytes: u128 = (0..samples)
        .map(|sample| {
            let block = u128::from(count) * u128::from(sample) / u128::from(samples);
            u128::from(blocks.bytes_at(block as u64, options).unwrap_or(0))
        })
        .sum();
    let estimate = bytes * u128::from(count) / u128::from(samples.max(1));
    (
        u64::try_from(estimate).unwrap_or(u64::MAX),
        samples == count,
    )
}

/// Returns the number of leading blocks that together have at least `wanted` rows. Blocks whose
/// rows are not known exactly may have none.
fn blocks_for_rows(blocks: &PlannedBlocks, wanted: u64, count: u64) -> u64 {
    let mut rows = 0u64;
    let mut needed = 0;
    while needed < count.min(MAX_SAMPLES) && rows < wanted {
        match blocks.rows_at(needed) {
            Ok(RowCount::Exact(block_rows)) => rows = rows.saturating_add(block_rows),
            Ok(RowCount::AtMost(_) | RowCount::Unknown) | Err(_) => return count,
        }
        needed += 1;
    }
    if rows < wanted {
        count
    } else {
        needed.max(1).min(count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::common::{Result, internal_err};

    use super::*;
    use crate::provider::planning::planned_blocks::BlockOrder;
    use crate::provider::source::{BlockList, BlockReader};

    /// Blocks of these sizes in bytes, with ten rows each, or at most ten.
    #[derive(Debug)]
    struct Sizes(Vec<u64>, fn(u64) -> RowCount);

    impl BlockList for Sizes {
        fn total(&self) -> Option<u64> {
            self.count()
        }
        fn count(&self) -> Option<u64> {
            Some(self.0.len() as u64)
        }
        fn rows(&self) -> RowCount {
            self.1(self.0.len() as u64 * 10)
        }
        fn rows_in(&self, blocks: &[u64]) -> Result<RowCount> {
            Ok(self.1(blocks.len() as u64 * 10))
        }
        fn block_bytes(&self, block: u64, _: &ReadOptions) -> Result<u64> {
            Ok(self.0[block as usize])
        }
        fn reader(&self, _: &[usize], _: usize, _: &ReadOptions) -> Result<Box<dyn BlockReader>> {
            internal_err!("not read")
        }
    }

    fn blocks(sizes: &[u64], rows: fn(u64) -> RowCount) -> PlannedBlocks {
        PlannedBlocks::new(Arc::new(Sizes(sizes.to_vec(), rows)), BlockOrder::All)
    }

    fn partitions(sizes: &[u64], wanted: Option<usize>, target: usize) -> Vec<Range<u64>> {
        let blocks = blocks(sizes, RowCount::Exact);
        cut(&blocks, &ReadOptions::default(), true, wanted, target, 100)
    }

    #[test]
    fn partitions_weigh_about_the_same() {
        assert_eq!(partitions(&[100; 8], None, 2), [0..4, 4..8]);
        assert_eq!(partitions(&[700, 100, 100, 500], None, 2), [0..1, 1..4]);
        assert_eq!(partitions(&[100; 3], None, 8), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn small_tables_stay_whole() {
        assert_eq!(partitions(&[10; 8], None, 4), [0..8]);
        assert_eq!(partitions(&[], None, 4), [0..0]);
        assert_eq!(partitions(&[10_000], None, 4), [0..1]);
    }

    #[test]
    fn a_limit_keeps_the_first_blocks() {
        assert_eq!(partitions(&[1000; 8], Some(5), 4), [0..1]);
        assert_eq!(partitions(&[1000; 8], Some(11), 1), [0..2]);
        assert_eq!(partitions(&[1000; 8], Some(1000), 1), [0..8]);
        assert_eq!(partitions(&[], Some(1000), 1), [0..0]);
        // Blocks may have fewer rows than they could, so none can be left out.
        let at_most = blocks(&[1000; 8], RowCount::AtMost);
        let all = cut(&at_most, &ReadOptions::default(), true, Some(5), 1, 100);
        assert_eq!(all, [0..8]);
    }

    #[test]
    fn stored_bytes_are_exact_unless_there_are_many_blocks() {
        let bytes = |sizes: &[u64], count| {
            let blocks = blocks(sizes, RowCount::Exact);
            stored_bytes(&blocks, count, &ReadOptions::default())
        };
        assert_eq!(bytes(&[1, 20, 300], 3), (321, true));
        assert_eq!(bytes(&[1, 20, 300], 2), (21, true));
        assert_eq!(bytes(&[], 0), (0, true));
        assert_eq!(bytes(&[7; 4096], 4096), (7 * 4096, false));
    }

    #[test]
    fn every_block_is_in_one_partition_whatever_the_numbers() {
        for count in [1, 2, 1023, 1024, 1025, 5000] {
            for target in [1, 2, 3, 7, 64, 5000] {
                let sizes: Vec<_> = (0..count).map(|block| block * 7919 % 1000).collect();
                let parts = partitions(&sizes, None, target);
                assert!(parts.len() <= target);
                assert_eq!(parts[0].start, 0);
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert_eq!(parts[parts.len() - 1].end, count);
            }
        }
    }
}
