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
    let entry = u64::from(header[6]);
    let page = Page::of(header[7], entry)?;
    let count = integer(&header[8..][..source.length_size.into()]);
    let Some(block) = blocks
        .addresses(&header[8 + usize::from(source.length_size)..])
        .next()
    else {
        return Ok(());
    };
    let prefix = 6 + blocks.address_bytes;
    if count <= page.entries {
        blocks.check(block, checked_add(prefix, checked_mul(count, entry)?)?)?;
        return Ok(());
    }
    let bitmap = count.div_ceil(page.entries).div_ceil(8);
    let stored = blocks.read(block, checked_add(prefix, bitmap)?)?;
    let written = &stored[prefix as usize..];
    let first = checked_add(block, prefix + bitmap + 4)?;
    page.check(&mut blocks, first, count, |number| is_set(written, number))
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
        0 => None,
        bits => Some(Page::of(bits, entry)?),
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
        let entries = checked_mul(shift(number.div_ceil(2))?, smallest.into())?;
        Ok::<_, String>((shift(number / 2)?, entries))
    };
    let mut direct = direct.chunks_exact(source.offset_size.into());
    for number in 0..direct_super_blocks {
        let (count, entries) = shape(number)?;
        for address in direct.by_ref().take(count as usize) {
            for block in blocks.addresses(address) {
                blocks.check(block, checked_add(prefix, checked_mul(entries, entry)?)?)?;
            }
        }
    }
    let indirect = indirect.chunks_exact(source.offset_size.into());
    for (number, address) in (direct_super_blocks..).zip(indirect) {
        let Some(super_block) = blocks.addresses(address).next() else {
            continue;
        };
        let (count, entries) = shape(number)?;
        let page = page.as_ref().filter(|page| entries > page.entries);
        let pages = page.map_or(0, |page| entries.div_ceil(page.entries));
        let bitmaps = checked_mul(count, pages.div_ceil(8))?;
        let addresses = checked_mul(count, blocks.address_bytes)?;
        let stored = blocks.read(
            super_block,
            checked_add(checked_add(prefix, bitmaps)?, addresses)?,
        )?;
        let (written, addresses) = stored[prefix as usize..].split_at(bitmaps as usize);
        for (number, address) in (0..).zip(addresses.chunks_exact(source.offset_size.into())) {
            let Some(block) = blocks.addresses(address).next() else {
                continue;
            };
            let Some(page) = page else {
                blocks.check(block, checked_add(prefix, checked_mul(entries, entry)?)?)?;
                continue;
            };
            blocks.check(block, prefix)?;
            let is_written = |page| is_set(written, number * pages + page);
            page.check(
                &mut blocks,
                checked_add(block, prefix + 4)?,
                entries,
                is_written,
            )?;
        }
    }
    Ok(())
}

/// The size of the pages of a data block.
struct Page {
    /// The number of entries; fewer on the last page of a fixed array.
    entries: u64,
    entry_bytes: u64,
}

impl Page {
    /// `bits` is the binary logarithm of the number of entries.
    fn of(bits: u8, entry_bytes: u64) -> Found<Self> {
        let entries = 1u64.checked_shl(bits.into());
        Ok(Self {
            entries: entries.ok_or_else(|| format!("pages of 2^{bits} entries"))?,
            entry_bytes,
        })
    }

    /// Compares the checksums of the pages that were written. `first` is the address of the first page, and
    /// `entries` the number of entries on all pages.
    fn check(
        &self,
        blocks: &mut CheckedBlocks<'_>,
        first: u64,
        entries: u64,
        is_written: impl Fn(u64) -> bool,
    ) -> Found<()> {
        let stride = checked_add(checked_mul(self.entries, self.entry_bytes)?, 4)?;
        for number in (0..entries.div_ceil(self.entries)).filter(|number| is_written(*number)) {
            let entries = self.entries.min(entries - number * self.entries);
            let address = checked_add(first, checked_mul(number, stride)?)?;
            blocks.check(address, checked_mul(entries, self.entry_bytes)?)?;
        }
        Ok(())
    }
}

/// Returns `true` if a bit of a bitmap is set. Bit 0 is the highest bit of the first byte.
fn is_set(bitmap: &[u8], bit: u64) -> bool {
    let byte = bitmap.get((bit / 8) as usize);
    byte.is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
}

fn checked_add(a: u64, b: u64) -> Found<u64> {
    a.checked_add(b).ok_or_else(too_long)
}

fn checked_mul(a: u64, b: u64) -> Found<u64> {
    a.checked_mul(b).ok_or_else(too_long)
}

fn too_long() -> String {
    "a chunk index that is longer than the file".to_string()
}
