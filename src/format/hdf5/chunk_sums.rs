//! Checksums of chunk indexes. `hdf5-reader` compares those of headers and B-trees, but not those of the
//! blocks of fixed and extensible arrays.

use crate::format::hdf5::checked_blocks::{CheckedBlocks, integer};
use crate::format::hdf5::source::{Found, Source};

/// Compares the checksums of the data block and the pages of a fixed array.
///
/// # Errors
/// Returns a message if a checksum differs, or a block is outside of the file.
pub(super) fn check_fixed_array(source: &Source, address: u64) -> Found<()> {
    let mut blocks = CheckedBlocks::new(source);
    let header = blocks.read(address, 8 + blocks.length_bytes + blocks.address_bytes)?;
    let (entry, page) = (u64::from(header[6]), page_entries(header[7])?);
    let count = integer(&header[8..][..source.length_size.into()]);
    let Some(block) = blocks
        .addresses(&header[8 + usize::from(source.length_size)..])
        .next()
    else {
        return Ok(());
    };
    let prefix = 6 + blocks.address_bytes;
    if count <= page {
        return blocks.check(block, sum(prefix, product(count, entry)?)?);
    }
    let bitmap = count.div_ceil(page).div_ceil(8);
    let stored = blocks.read(block, sum(prefix, bitmap)?)?;
    let written = &stored[prefix as usize..];
    let first = sum(block, prefix + bitmap + 4)?;
    for number in (0..count.div_ceil(page)).filter(|number| is_set(written, *number)) {
        let entries = page.min(count - number * page);
        let start = product(number, sum(product(page, entry)?, 4)?)?;
        blocks.check(sum(first, start)?, product(entries, entry)?)?;
    }
    Ok(())
}

/// Compares the checksums of the blocks and pages of an extensible array.
///
/// The index block refers to the first data blocks, and to super blocks, which refer to the others. Super
/// block `u` refers to `2^(u / 2)` data blocks, each with `2^((u + 1) / 2)` times the entries of the smallest.
///
/// # Errors
/// Returns a message if a checksum differs, or a block is outside of the file.
pub(super) fn check_extensible_array(source: &Source, address: u64) -> Found<()> {
    let mut blocks = CheckedBlocks::new(source);
    let statistics = 6 * blocks.length_bytes;
    let header = blocks.read(address, 12 + statistics + blocks.address_bytes)?;
    let [entry, index_bits, in_index, smallest, pointers, page_bits] =
        [6, 7, 8, 9, 10, 11].map(|at: usize| header[at]);
    if !smallest.is_power_of_two() || !pointers.is_power_of_two() || index_bits > 64 {
        return Err(format!(
            "an extensible array at {address:#x} with blocks of {smallest} entries, {pointers} pointers and {index_bits} bits, expected powers of two and at most 64 bits"
        ));
    }
    let entry = u64::from(entry);
    // A logarithm of 0 means that no block has pages.
    let page = match page_bits {
        0 => u64::MAX,
        bits => page_entries(bits)?,
    };
    let super_blocks = (u64::from(index_bits) + 1).saturating_sub(smallest.trailing_zeros().into());
    let direct_super_blocks = (2 * u64::from(pointers.trailing_zeros())).min(super_blocks);
    let direct = 2 * (u64::from(pointers) - 1);
    let Some(index) = blocks.addresses(&header[12 + statistics as usize..]).next() else {
        return Ok(());
    };
    let in_index = u64::from(in_index) * entry;
    let addresses = (direct + super_blocks - direct_super_blocks) * blocks.address_bytes;
    let prefix = 6 + blocks.address_bytes;
    let stored = blocks.read(index, prefix + in_index + addresses)?;
    let stored = &stored[(prefix + in_index) as usize..];
    let (direct, indirect) = stored.split_at((direct * blocks.address_bytes) as usize);
    // The prefix of super blocks and data blocks also holds the block's offset in the array.
    let prefix = prefix + u64::from(index_bits).div_ceil(8);
    let shape = |number: u64| {
        let shift = |shift: u64| 1u64.checked_shl(shift as u32).ok_or("too many entries");
        let entries = product(shift(number.div_ceil(2))?, smallest.into())?;
        Ok::<_, String>((shift(number / 2)?, entries))
    };
    let mut direct = direct.chunks_exact(source.offset_size.into());
    for number in 0..direct_super_blocks {
        let (count, entries) = shape(number)?;
        for address in direct.by_ref().take(count as usize) {
            for block in blocks.addresses(address) {
                blocks.check(block, sum(prefix, product(entries, entry)?)?)?;
            }
        }
    }
    let indirect = indirect.chunks_exact(source.offset_size.into());
    for (number, address) in (direct_super_blocks..).zip(indirect) {
        let Some(super_block) = blocks.addresses(address).next() else {
            continue;
        };
        let (count, entries) = shape(number)?;
        let pages = match entries <= page {
            true => 0,
            false => entries.div_ceil(page),
        };
        let bitmaps = product(count, pages.div_ceil(8))?;
        let addresses = product(count, blocks.address_bytes)?;
        let stored = blocks.read(super_block, sum(sum(prefix, bitmaps)?, addresses)?)?;
        let (written, addresses) = stored[prefix as usize..].split_at(bitmaps as usize);
        for (number, address) in (0..).zip(addresses.chunks_exact(source.offset_size.into())) {
            let Some(block) = blocks.addresses(address).next() else {
                continue;
            };
            if pages == 0 {
                blocks.check(block, sum(prefix, product(entries, entry)?)?)?;
                continue;
            }
            blocks.check(block, prefix)?;
            let first = sum(block, prefix + 4)?;
            let bytes = product(page, entry)?;
            for page in (0..pages).filter(|page| is_set(written, number * pages + page)) {
                blocks.check(sum(first, product(page, sum(bytes, 4)?)?)?, bytes)?;
            }
        }
    }
    Ok(())
}

/// Returns the number of entries of a page, from its binary logarithm.
fn page_entries(bits: u8) -> Found<u64> {
    let entries = 1u64.checked_shl(bits.into());
    entries.ok_or_else(|| format!("pages of 2^{bits} entries"))
}

/// Returns `true` if a bit of a bitmap is set. Bit 0 is the highest bit of the first byte.
fn is_set(bitmap: &[u8], bit: u64) -> bool {
    let byte = bitmap.get((bit / 8) as usize);
    byte.is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
}

fn sum(a: u64, b: u64) -> Found<u64> {
    a.checked_add(b).ok_or_else(too_long)
}

fn product(a: u64, b: u64) -> Found<u64> {
    a.checked_mul(b).ok_or_else(too_long)
}

fn too_long() -> String {
    "a chunk index that is longer than the file".to_string()
}
