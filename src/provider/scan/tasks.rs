//! Scans of some of the blocks of another scan, one for each task of a cluster.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;

use crate::grid::{Axis, IndexSet};
use crate::provider::planning::partitions;
use crate::provider::planning::planned_blocks::{BlockOrder, PlannedBlocks};
use crate::provider::scan::{ArrayScan, ScanPlan};

/// The assumed bytes of a row when no values are read.
const ROW_BYTES: u64 = 8;

/// The maximum number of ranges of chunk ordinals of all tasks.
const MAX_RANGES: u64 = 1 << 20;

/// The way in which the blocks of a scan are divided among tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) enum Division {
    /// Ranges of blocks of about the same cost.
    Blocks,
    /// Ranges of chunks whose cells are products of index sets, as aggregates need them. Chunks that
    /// are left after pruning need not be products.
    Products,
}

/// Returns a plan with this scan in place of its scans of arrays.
pub(in crate::provider) fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &ArrayScan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_up(|node| {
        Ok(match ArrayScan::of(node.as_ref()) {
            Some((source, _)) => {
                let source = source.clone().with_data_source(Arc::new(scan.clone()));
                Transformed::yes(Arc::new(source) as _)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(replaced.data)
}

impl ArrayScan {
    /// Returns the number of bytes to read, or to make if no values are read; `None` if there are 2^64
    /// blocks or more. The size of many blocks is estimated.
    pub(in crate::provider) fn weight(&self) -> Option<u64> {
        let count = self.blocks.count()?;
        if self.reads_values() {
            return Some(partitions::stored_bytes(&self.blocks, count, &self.plan.options).0);
        }
        let rows = self.blocks.rows().at_most().unwrap_or(u64::MAX);
        Some(rows.saturating_mul(ROW_BYTES))
    }

    /// Returns the scan without its dynamic filter, which is optional.
    pub(in crate::provider) fn without_dynamic_filter(&self) -> Self {
        self.with_plan(ScanPlan {
            dynamic_filter: None,
            ..self.plan.as_ref().clone()
        })
    }

    /// Divides the scan into at most `tasks` scans, which together read every block once. Each has the
    /// same number of partitions, at most `partitions`. `None` if the scan cannot be divided.
    pub(in crate::provider) fn in_tasks(
        &self,
        tasks: usize,
        partitions: usize,
        division: Division,
    ) -> Result<Option<Vec<Self>>> {
        // A limit on rows holds for all partitions of a scan together.
        if self.plan.fetch.is_some() || self.plan.keeps_partitions {
            return Ok(None);
        }
        let Some(count) = self.blocks.count() else {
            return Ok(None);
        };
        let options = &self.plan.options;
        let products = match division {
            Division::Products => self.products(tasks as u64),
            Division::Blocks => None,
        };
        let ranges = products.unwrap_or_else(|| {
            partitions::cut(&self.blocks, options, self.reads_values(), None, tasks, 1)
        });
        let scans = ranges.into_iter().enumerate();
        let scans = scans.map(|(task, steps)| self.of_steps(task, steps, count, partitions));
        let mut scans = scans.collect::<Result<Vec<_>>>()?;
        let most = scans.iter().map(|scan| scan.plan.partitions.len());
        let most = most.max().unwrap_or(0);
        for scan in &mut scans {
            let partitions = &mut Arc::make_mut(&mut scan.plan).partitions;
            let end = partitions.last().map_or(0, |last| last.end);
            partitions.resize(most, end..end);
        }
        Ok(Some(scans))
    }

    /// Returns a scan of these steps only.
    fn of_steps(
        &self,
        task: usize,
        steps: Range<u64>,
        count: u64,
        partitions: usize,
    ) -> Result<Self> {
        let plan = self.plan.as_ref();
        let kept = IndexSet::from_ranges(count, std::iter::once(steps.clone()));
        let blocks = self.blocks.keep(&kept)?;
        let cut: Vec<Range<u64>> = if plan.options.declare_ordering || !plan.ordering.is_empty() {
            // The rows of each partition are sorted, and remain so in a part of a partition.
            let own = plan.partitions.iter().map(|partition| {
                let start = partition.start.clamp(steps.start, steps.end);
                start - steps.start..partition.end.clamp(start, steps.end) - steps.start
            });
            own.filter(|partition| !partition.is_empty()).collect()
        } else {
            let reads_values = self.reads_values();
            partitions::cut(&blocks, &plan.options, reads_values, None, partitions, 1)
        };
        Ok(self.of_task(task, blocks, cut, steps.end - steps.start, count))
    }

    /// Returns the scan of a task, which reads `own` of `count` blocks.
    fn of_task(
        &self,
        task: usize,
        blocks: PlannedBlocks,
        partitions: Vec<Range<u64>>,
        own: u64,
        count: u64,
    ) -> Self {
        let mut scan = self.with_plan(ScanPlan {
            partitions,
            ..self.plan.as_ref().clone()
        });
        scan.blocks = blocks;
        scan.shared = None;
        scan.column_statistics = Arc::default();
        // The first task counts all blocks that no task reads.
        scan.elsewhere = match task {
            0 => count - own,
            _ => {
                scan.pruned = Default::default();
                self.blocks.list().total().unwrap_or(u64::MAX) - own
            }
        };
        scan
    }

    /// Returns the axes of the grid, each with the number of chunks along it that the scan reads. Returns `None` if
    /// the scan has a limit, reads several grids, or reads only some of the selected chunks.
    pub(in crate::provider) fn chunk_counts(&self) -> Option<Vec<(Axis, u64)>> {
        if *self.blocks.order() != BlockOrder::All || self.plan.fetch.is_some() {
            return None;
        }
        let grids = self.blocks.list().grid_selections()?;
        let [part] = &grids[..] else {
            return None;
        };
        let chunks = part.selection.chunks(part.grid.chunk_grid());
        let counts = chunks.axes().iter().map(IndexSet::count);
        Some(part.grid.axes().iter().cloned().zip(counts).collect())
    }

    /// Divides the scan along an axis into at most `tasks` scans, which together read every chunk once. Returns
    /// `None` if [`Self::chunk_counts`] does, if the axis has one chunk for several tasks, or if the division
    /// needs more than [`MAX_RANGES`] ranges.
    pub(in crate::provider) fn along_axis(
        &self,
        axis: usize,
        tasks: usize,
        partitions: usize,
    ) -> Result<Option<Vec<Self>>> {
        let axes = self.chunk_counts().into_iter().flatten();
        let counts: Vec<u64> = axes.map(|(_, count)| count).collect();
        let sets = along(&counts, axis, tasks as u64);
        let (Some(sets), Some(count)) = (sets, self.blocks.count()) else {
            return Ok(None);
        };
        let options = &self.plan.options;
        let scans = sets.iter().enumerate().map(|(task, kept)| {
            let blocks = self.blocks.keep(kept)?;
            let reads_values = self.reads_values();
            let cut = partitions::cut(&blocks, options, reads_values, None, partitions, 1);
            Ok(self.of_task(task, blocks, cut, kept.count(), count))
        });
        scans.collect::<Result<Vec<_>>>().map(Some)
    }

    /// Returns ranges of chunks whose cells are products; `None` if the scan does not read all selected
    /// chunks of grids.
    fn products(&self, tasks: u64) -> Option<Vec<Range<u64>>> {
        if *self.blocks.order() != BlockOrder::All {
            return None;
        }
        let grids = self.blocks.list().grid_selections()?;
        let counts = grids.iter().map(|part| {
            let chunks = part.selection.chunks(part.grid.chunk_grid());
            let counts = chunks.axes().iter().map(IndexSet::count);
            counts.collect::<Vec<u64>>()
        });
        Some(divide(&counts.collect::<Vec<_>>(), tasks))
    }
}

/// Divides the chunks of several grids into at most `tasks` ranges of chunk ordinals. `grids` are the
/// numbers of chunks along each axis.
fn divide(grids: &[Vec<u64>], tasks: u64) -> Vec<Range<u64>> {
    let size = |counts: &[u64]| counts.iter().product::<u64>();
    let grids: Vec<&Vec<u64>> = grids.iter().filter(|counts| size(counts) > 0).collect();
    let total: u64 = grids.iter().map(|counts| size(counts)).sum();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let (mut start, mut last_task) = (0, None);
    for (number, counts) in grids.iter().enumerate() {
        let end = start + size(counts);
        if grids.len() as u64 >= tasks {
            // A whole file belongs to the task that its middle falls into.
            let middle = u128::from(start) + u128::from((end - start) / 2);
            let task = Some(middle * u128::from(tasks) / u128::from(total.max(1)));
            match ranges.last_mut().filter(|_| task == last_task) {
                Some(last) => last.end = end,
                None => ranges.push(start..end),
            }
            last_task = task;
        } else {
            let share = |number: usize| tasks * number as u64 / grids.len() as u64;
            let slabs = slabs(counts, share(number + 1) - share(number)).into_iter();
            ranges.extend(slabs.map(|slab| start + slab.start..start + slab.end));
        }
        start = end;
    }
    ranges
}

/// Divides the chunks of a grid into at most `tasks` ranges, each of which is a product of ranges
/// along the axes: it holds several chunks along one axis, one along each axis before it, and all
/// along each axis after it.
fn slabs(counts: &[u64], tasks: u64) -> Vec<Range<u64>> {
    let Some((first, rest)) = counts.split_first() else {
        return std::iter::once(0..1).collect();
    };
    let unit: u64 = rest.iter().product();
    if rest.is_empty() || *first >= tasks {
        let parts = tasks.min(*first);
        let start = |part: u64| (u128::from(*first) * u128::from(part) / u128::from(parts)) as u64;
        return (0..parts)
            .map(|part| start(part) * unit..start(part + 1) * unit)
            .collect();
    }
    let share = |index: u64| tasks * index / first;
    let of_index = |index: u64| {
        let own = slabs(rest, share(index + 1) - share(index)).into_iter();
        own.map(move |slab| index * unit + slab.start..index * unit + slab.end)
    };
    (0..*first).flat_map(of_index).collect()
}

/// Divides the chunks of a grid along an axis into at most `tasks` sets of chunk ordinals. `None` if there is no
/// such axis, if it has one chunk for several tasks, or if the sets have too many ranges.
fn along(counts: &[u64], axis: usize, tasks: u64) -> Option<Vec<IndexSet>> {
    let length = *counts.get(axis)?;
    let total: u64 = counts.iter().product();
    let outer: u64 = counts[..axis].iter().product();
    let inner: u64 = counts[axis + 1..].iter().product();
    if length == 0 || length == 1 && tasks > 1 {
        return None;
    }
    let tasks = tasks.clamp(1, length);
    if outer.saturating_mul(tasks) > MAX_RANGES {
        return None;
    }
    let start = |task: u64| (u128::from(length) * u128::from(task) / u128::from(tasks)) as u64;
    let sets = (0..tasks).map(|task| {
        let (first, last) = (start(task), start(task + 1));
        let slabs = (0..outer).map(|slab| slab * length);
        let ranges = slabs.map(|slab| (slab + first) * inner..(slab + last) * inner);
        IndexSet::from_ranges(total, ranges)
    });
    Some(sets.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `true` if the chunks of a range are a product of ranges along the axes.
    fn is_product(counts: &[u64], range: &Range<u64>) -> bool {
        let mut bounds: Vec<(u64, u64)> = vec![(u64::MAX, 0); counts.len()];
        for chunk in range.clone() {
            let mut rest = chunk;
            for (axis, count) in counts.iter().enumerate().rev() {
                let index = rest % count;
                rest /= count;
                bounds[axis] = (bounds[axis].0.min(index), bounds[axis].1.max(index));
            }
        }
        let cells: u64 = bounds
            .iter()
            .map(|(first, last)| last - first + 1)
            .product();
        cells == range.end - range.start
    }

    #[test]
    fn slabs_are_products_and_hold_every_chunk_once() {
        for counts in [
            vec![12],
            vec![1, 12],
            vec![3, 4],
            vec![2, 1, 5],
            vec![1],
            vec![7, 3, 2],
            vec![2, 100, 3],
        ] {
            let total: u64 = counts.iter().product();
            for tasks in [1, 2, 3, 4, 7, 100] {
                let slabs = slabs(&counts, tasks);
                assert_eq!(slabs[0].start, 0);
                assert!(slabs.windows(2).all(|two| two[0].end == two[1].start));
                assert_eq!(slabs[slabs.len() - 1].end, total);
                assert!(slabs.iter().all(|slab| is_product(&counts, slab)));
                assert!(slabs.len() as u64 <= tasks, "{counts:?} {tasks}");
            }
        }
        assert_eq!(slabs(&[12, 5], 4), [0..15, 15..30, 30..45, 45..60]);
        assert_eq!(slabs(&[2, 6], 4), [0..3, 3..6, 6..9, 9..12]);
    }

    #[test]
    fn chunks_along_an_axis() {
        let ranges = |set: &IndexSet| set.ranges().collect::<Vec<_>>();
        let sets = along(&[3, 4, 2], 1, 2).unwrap();
        assert_eq!(ranges(&sets[0]), [0..4, 8..12, 16..20]);
        assert_eq!(ranges(&sets[1]), [4..8, 12..16, 20..24]);
        let sets = along(&[3, 4, 2], 0, 3).unwrap();
        assert_eq!(ranges(&sets[2]), [16..24]);
        assert_eq!(along(&[3, 4, 2], 0, 4).unwrap().len(), 3);
        assert!(along(&[3, 1, 1], 1, 2).is_none());
    }

    #[test]
    fn files_are_divided_whole_if_there_are_enough() {
        let file = |chunks| vec![chunks];
        let files = [file(2), file(0), file(2), file(2), file(2)];
        assert_eq!(divide(&files, 2), [0..4, 4..8]);
        assert_eq!(divide(&files, 4), [0..2, 2..4, 4..6, 6..8]);
        assert_eq!(divide(&[file(4), file(4)], 4), [0..2, 2..4, 4..6, 6..8]);
        assert_eq!(
            divide(&[file(100), file(1), file(1)], 2),
            [0..100, 100..102]
        );
        assert!(divide(&[], 3).is_empty());
    }
}
