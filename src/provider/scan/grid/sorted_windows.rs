//! The windows of grids whose cells are read in another order.

use crate::grid::{ChunkGrid, IndexOrder, Selection};
use crate::provider::scan::grid::sorted::span;

/// The bytes that the partitions divide equally among their windows. Each partition has one window at a time.
const ALL_BYTES: u64 = 128 << 20;
/// The minimum that a partition may use, in bytes, even if all partitions then use more than [`ALL_BYTES`]. With smaller windows, the
/// same chunks are decoded too often.
const MIN_BYTES: u64 = 32 << 20;
/// The bytes of the index of a cell.
const INDEX_BYTES: u64 = 4;

/// Returns windows that contain the cells in the given order, one window after another. The axes are in
/// that order, each with the order of the indices along it. A window takes at most the bytes of one of `partitions`
/// partitions, among which the first axis is divided, unless its indices are listed:
///
/// ```text
/// ORDER BY lat, lon, time        windows
///
/// lat   0 1 2 3 4 5              0 1 2 | 3 4 5
/// lon   0 1 2                    0 1 2
/// time  0 1 2 3                  0 1 2 3
/// ```
///
/// Returns `None` if more than `most_decodes` chunks would be decoded for each selected one: chunks that several windows need,
/// and chunks between the selected ones.
pub(crate) fn windows(
    chunks: &ChunkGrid,
    axes: &[(usize, IndexOrder)],
    selection: &Selection,
    cell_bytes: u64,
    partitions: u64,
    most_decodes: u64,
) -> Option<ChunkGrid> {
    let span = |axis: usize| span(&selection.axes()[axis]);
    let most_bytes = (ALL_BYTES / partitions.max(1)).max(MIN_BYTES);
    let lengths: Vec<u64> = axes.iter().map(|(axis, _)| chunks.shape()[*axis]).collect();
    let mut extents: Vec<u64> = lengths.iter().map(|length| (*length).max(1)).collect();
    let mut phase = vec![0; axes.len()];
    let mut decodes = 1u64;
    for (set, chunks) in selection.axes().iter().zip(chunks.axes()) {
        let (first, last) = (set.first()?, set.last()?);
        let between = chunks.chunk_at(last) - chunks.chunk_at(first) + 1;
        let selected = set.chunks(chunks).count().max(1);
        decodes = decodes.saturating_mul(between.div_ceil(selected));
    }
    for (number, (axis, order)) in axes.iter().enumerate() {
        let inner = axes[number + 1..].iter().map(|(axis, _)| span(*axis));
        let bytes = inner.fold(cell_bytes.max(INDEX_BYTES), u64::saturating_mul);
        let mut most = most_bytes / bytes.max(1);
        if number == 0 && !matches!(order, IndexOrder::Listed(_)) {
            most = most.min(span(*axis).div_ceil(partitions.max(1)).max(1));
        }
        if most >= span(*axis) {
            break;
        }
        let chunk = chunks.chunk_shape()[*axis];
        let extent = match order {
            // The indices are anywhere along the stored axis.
            IndexOrder::Listed(_) => 1,
            // Whole chunks, or equal parts of a chunk.
            _ if most >= chunk => most - most % chunk,
            _ => chunk.div_ceil(chunk.div_ceil(most.max(1))),
        };
        decodes = decodes.saturating_mul(chunk.min(span(*axis)).div_ceil(extent));
        extents[number] = extent;
        let before = chunk - chunks.axis(*axis).range(0).end % chunk;
        phase[number] = match order {
            IndexOrder::Stored => before % chunk % extent,
            IndexOrder::Reversed => {
                (chunk - (lengths[number] % chunk + before) % chunk) % chunk % extent
            }
            IndexOrder::Listed(_) => 0,
        };
        if most > 0 {
            break;
        }
    }
    (decodes <= most_decodes).then(|| ChunkGrid::new(lengths, extents).with_phase(phase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::IndexSet;

    fn orders(axes: [usize; 3]) -> [(usize, IndexOrder); 3] {
        axes.map(|axis| (axis, IndexOrder::Stored))
    }

    #[test]
    fn windows_are_as_large_as_memory_allows() {
        // 46.9 million cells of four bytes. A latitude is 1 MiB.
        let grid = ChunkGrid::new(vec![720, 181, 360], vec![24, 91, 180]);
        let all = Selection::all(grid.shape());
        let shape = |axes: &[(usize, IndexOrder)], bytes, partitions| {
            let windows = windows(&grid, axes, &all, bytes, partitions, 16)?;
            Some(windows.chunk_shape().to_vec())
        };
        let by_place = orders([1, 2, 0]);
        assert_eq!(shape(&by_place, 4, 1), Some(vec![91, 360, 720]));
        assert_eq!(shape(&by_place, 4, 2), Some(vec![46, 360, 720]));
        assert_eq!(shape(&by_place, 4, 8), Some(vec![23, 360, 720]));
        // A time is 260 KB.
        assert_eq!(shape(&orders([0, 1, 2]), 4, 1), Some(vec![504, 181, 360]));
        // Each latitude and each longitude by itself would decode all chunks 91 times 2 times.
        assert_eq!(shape(&by_place, 4 << 10, 1), None);
        let listed = [
            (1, IndexOrder::Listed((0..181).collect())),
            (2, IndexOrder::Stored),
            (0, IndexOrder::Stored),
        ];
        assert_eq!(shape(&listed, 4, 1), None);
        // The first and the last chunk along time.
        let ends = IndexSet::from_ranges(720, [0..1, 719..720]);
        let ends = Selection::new(vec![ends, IndexSet::all(181), IndexSet::all(360)]);
        assert_eq!(windows(&grid, &by_place, &ends, 4, 1, 14), None);
    }

    #[test]
    fn windows_end_where_chunks_do() {
        let grid = ChunkGrid::new(vec![20, 4], vec![6, 4]).with_phase(vec![2, 0]);
        let all = Selection::all(grid.shape());
        let of = |order: IndexOrder| {
            let axes = [(0, order), (1, IndexOrder::Stored)];
            let windows = windows(&grid, &axes, &all, 1, 3, 1).unwrap();
            windows.axis(0)
        };
        let ranges = |axis: crate::grid::AxisChunks| -> Vec<_> {
            (0..axis.count()).map(|chunk| axis.range(chunk)).collect()
        };
        assert_eq!(
            ranges(of(IndexOrder::Stored)),
            [0..4, 4..10, 10..16, 16..20]
        );
        assert_eq!(
            ranges(of(IndexOrder::Reversed)),
            [0..4, 4..10, 10..16, 16..20]
        );
    }
}
