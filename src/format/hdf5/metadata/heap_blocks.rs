//! Checksums of the indirect blocks of a fractal heap. `hdf5-reader` compares those of its header and of
//! its direct blocks, which hold the objects.

use hdf5_reader::fractal_heap::FractalHeap;

use crate::format::hdf5::checked_blocks::CheckedBlocks;
use crate::format::hdf5::source::{Found, Source};

/// Compares the checksums of the indirect blocks of a heap.
///
/// The blocks in the first two rows of an indirect block have the smallest size, and those in each further
/// row have twice the size of the row before. Blocks above the largest size of direct blocks are indirect.
///
/// # Errors
/// Returns a message if a checksum differs, or a block is outside of the file.
pub(super) fn check_indirect_blocks(source: &Source, heap: &FractalHeap) -> Found<()> {
    let rows = u64::from(heap.current_rows_in_root_indirect);
    if rows == 0 || source.is_undefined(heap.root_block_address) {
        return Ok(());
    }
    let (width, smallest) = (u64::from(heap.table_width), heap.starting_block_size);
    let malformed = || {
        format!("a heap with {width} blocks of {smallest} bytes in a row, expected powers of two")
    };
    let smallest_row = width
        .checked_mul(smallest)
        .filter(|bytes| width.is_power_of_two() && bytes.is_power_of_two())
        .ok_or_else(malformed)?;
    let mut blocks = CheckedBlocks::new(source);
    let filtered_bytes = match heap.io_filters_len {
        0 => 0,
        _ => blocks.length_bytes + 4,
    };
    let prefix = 5 + blocks.address_bytes + u64::from(heap.max_heap_size).div_ceil(8);
    let row_size = |row: u64| match row {
        0 => Some(smallest),
        _ => 1u64.checked_shl(row as u32 - 1)?.checked_mul(smallest),
    };
    let mut pending = vec![(heap.root_block_address, rows)];
    while let Some((address, rows)) = pending.pop() {
        let is_direct =
            |row: &u64| row_size(*row).is_some_and(|size| size <= heap.max_direct_block_size);
        let direct_rows = (0..rows).take_while(is_direct).count() as u64;
        let direct = direct_rows * width * (blocks.address_bytes + filtered_bytes);
        let indirect = (rows - direct_rows) * width * blocks.address_bytes;
        let stored = blocks.read(address, prefix + direct + indirect)?;
        let indirect = &stored[(prefix + direct) as usize..];
        let row_bytes = (width * blocks.address_bytes) as usize;
        for (row, addresses) in (direct_rows..rows).zip(indirect.chunks_exact(row_bytes)) {
            let size = row_size(row).ok_or_else(malformed)?;
            // The rows of a block add up to its size.
            let inner = (size / smallest_row)
                .checked_ilog2()
                .ok_or_else(malformed)?
                + 1;
            let inner = u64::from(inner);
            pending.extend(blocks.addresses(addresses).map(|address| (address, inner)));
        }
    }
    Ok(())
}
