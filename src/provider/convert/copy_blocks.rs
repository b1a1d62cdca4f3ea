//! Chooses the blocks in which an array is copied when its chunk shape changes.

use crate::grid::ChunkGrid;

/// Returns the extents of the blocks in which an array is copied.
///
/// A block is a multiple of the output's chunks. It grows along the axes on which it would split
/// chunks of the input, as long as it has at most `most_bytes` bytes. A block of one output chunk
/// is used in any case.
pub(super) fn extents(from: &ChunkGrid, to: &[u64], cell_bytes: u64, most_bytes: u64) -> Vec<u64> {
    let shape = from.shape();
    let clipped = |extent: u64, axis: usize| extent.min(shape[axis].max(1));
    let mut window: Vec<u64> = (0..to.len()).map(|axis| clipped(to[axis], axis)).collect();
    let bytes = |window: &[u64]| {
        let mut extents = window.iter();
        extents.try_fold(cell_bytes, |bytes, extent| bytes.checked_mul(*extent))
    };
    loop {
        // Grow the fastest-varying axis first, because neighbouring cells are likely in the same
        // input chunk.
        let grown = (0..to.len()).rev().find_map(|axis| {
            let wanted = clipped(from.chunk_shape()[axis], axis);
            if window[axis] >= wanted {
                return None;
            }
            let mut larger = window.clone();
            // The doubled extent is still a multiple of the output's chunk, or the whole axis.
            larger[axis] = clipped(window[axis].saturating_mul(2), axis);
            bytes(&larger)
                .is_some_and(|bytes| bytes <= most_bytes)
                .then_some(larger)
        });
        match grown {
            Some(larger) => window = larger,
            None => return window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_until_chunks_are_read_once() {
        let from = ChunkGrid::new(vec![1000, 512, 512], vec![1, 512, 512]);
        let tall = [1000, 32, 32];
        assert_eq!(extents(&from, &tall, 4, 1 << 30), [1000, 512, 512]);
        assert_eq!(extents(&from, &tall, 4, 64 << 20), [1000, 32, 512]);
        assert_eq!(extents(&from, &tall, 4, 1), tall);
        assert_eq!(
            extents(&from, &[10, 256, 256], 4, 256 << 20),
            [10, 512, 512]
        );
        assert_eq!(
            extents(&from, &[5000, 7, 600], 4, 64 << 20),
            [1000, 28, 512]
        );
    }
}
