//! The planes that have to be in memory for each plane of the output.

use std::ops::Range;
use std::sync::Arc;

use crate::provider::window::plan::spec::{OutputColumn, SeriesAggregate};

/// For each output plane of a walk, the planes that it needs.
#[derive(Debug, Clone)]
pub(in crate::provider::window) struct PlaneNeeds {
    /// The first plane that this output plane or a later one needs.
    pub low: Vec<u32>,
    /// The end of the planes that this output plane or an earlier one needs.
    pub high: Vec<u32>,
    /// The first output plane.
    pub first: usize,
    /// The maximum number of planes in memory.
    pub planes: usize,
    /// For each aggregate, the maximum number of states of its front.
    pub states: Vec<usize>,
    /// The maximum distance between an output plane and a plane that it depends on.
    pub reach: usize,
}

impl PlaneNeeds {
    /// Computes the needs of a range of output planes. If `without_totals`, those of totals are left
    /// out.
    pub fn new(
        outputs: &[OutputColumn],
        aggregates: &[SeriesAggregate],
        range: Range<usize>,
        without_totals: bool,
    ) -> Self {
        let first = range.start;
        let mut reach = 0;
        let mut depends = |index: usize, planes: &Range<u32>| {
            let behind = index.saturating_sub(planes.start as usize);
            reach = reach
                .max(behind)
                .max((planes.end as usize).saturating_sub(index));
        };
        let mut low = vec![u32::MAX; range.len()];
        let mut high = vec![0; range.len()];
        let mut need = |index: usize, planes: Range<u32>| {
            low[index - first] = low[index - first].min(planes.start);
            high[index - first] = high[index - first].max(planes.end);
        };
        for output in outputs {
            if without_totals && output.is_total() {
                continue;
            }
            if let OutputColumn::Rank(rank) = output {
                // The output holds the ranks of all planes, so the axis is not divided.
                let all = 0..rank.count() as u32;
                if !range.is_empty() {
                    depends(first, &all);
                    need(first, all);
                }
                continue;
            }
            for index in range.clone() {
                match output {
                    OutputColumn::Plane(_) => need(index, index as u32..index as u32 + 1),
                    OutputColumn::Pick { planes, .. } => {
                        let Some(plane) = planes[index] else {
                            continue;
                        };
                        depends(index, &(plane..plane + 1));
                        // The output holds the cells that it took last.
                        if index == first || planes[index - 1] != Some(plane) {
                            need(index, plane..plane + 1);
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut states = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            if without_totals && aggregate.is_total() {
                states.push(1);
                continue;
            }
            // The planes that `Sliding` reads.
            let (mut middle, mut end, mut most) = (0, 0, 1);
            for index in range.clone() {
                let frame = aggregate.frames[index].clone();
                if frame.is_empty() {
                    continue;
                }
                depends(index, &frame);
                if frame.start >= middle {
                    need(index, frame.clone());
                    middle = frame.end;
                    most = most.max(frame.len());
                } else if end < frame.end {
                    need(index, end..frame.end);
                }
                end = frame.end;
            }
            let mut neighbours = aggregate.frames.windows(2);
            let slides = neighbours.any(|two| two[0].start < two[1].start);
            states.push(if slides { most } else { 1 });
        }
        for index in (1..low.len()).rev() {
            low[index - 1] = low[index - 1].min(low[index]);
        }
        for index in 1..high.len() {
            high[index] = high[index].max(high[index - 1]);
        }
        let planes = low.iter().zip(&high);
        let planes = planes.map(|(low, high)| high.saturating_sub(*low) as usize);
        Self {
            planes: planes.max().unwrap_or(0),
            low,
            high,
            first,
            states,
            reach,
        }
    }

    /// Returns the planes that the output planes need, from the first to the last.
    pub fn all(&self) -> Range<usize> {
        let low = self.low.first().copied().unwrap_or(0);
        let high = self.high.last().copied().unwrap_or(0);
        (low.min(high) as usize)..high as usize
    }
}

/// Returns the frames in the opposite walking order.
pub(in crate::provider::window) fn mirrored(frames: &[Range<u32>]) -> Arc<[Range<u32>]> {
    let count = frames.len() as u32;
    let mirrored = frames.iter().rev();
    mirrored
        .map(|frame| count - frame.end..count - frame.start)
        .collect()
}

/// Returns the planes of partitions in the opposite walking order. The planes of a partition keep their
/// order.
pub(in crate::provider::window) fn mirrored_partitions(partitions: &[Vec<u32>]) -> Arc<[Vec<u32>]> {
    let count = partitions.iter().map(Vec::len).sum::<usize>() as u32;
    let mirrored = partitions
        .iter()
        .map(|planes| planes.iter().map(|plane| count - 1 - plane).collect());
    mirrored.collect()
}

/// Returns indices of planes in the opposite walking order.
pub(in crate::provider::window) fn mirrored_planes(planes: &[Option<u32>]) -> Arc<[Option<u32>]> {
    let count = planes.len() as u32;
    let mirrored = planes.iter().rev();
    mirrored
        .map(|plane| plane.map(|plane| count - 1 - plane))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirroring_twice_changes_nothing() {
        let frames = [0..1, 0..2, 1..4, 3..4, 4..4];
        assert_eq!(*mirrored(&mirrored(&frames)), frames);
        let planes = [None, Some(0), Some(3), Some(1)];
        assert_eq!(*mirrored_planes(&mirrored_planes(&planes)), planes);
    }
}
