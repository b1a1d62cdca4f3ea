//! Builds Bloom filters.

use crate::format::tatami::bloom::bloom_bits;

/// The number of probes per value.
const PROBES: u32 = 7;
/// The number of bits per value, before the total is rounded up to a power of two.
const BITS_PER_VALUE: u32 = 10;
/// The minimum number of bits of a filter.
const MIN_BITS: u32 = 64;

/// Returns the payload of a filter of values with these hashes, duplicates included.
/// [`MAX_ROW_GROUP_ROWS`](super::options::MAX_ROW_GROUP_ROWS) keeps the number of bits in 32 bits.
pub(super) fn filter(hashes: &[u32]) -> Vec<u8> {
    let bits = (hashes.len() as u32).saturating_mul(BITS_PER_VALUE);
    let bits = bits.max(MIN_BITS).next_power_of_two();
    let mut payload = vec![0; 8 + bits as usize / 8];
    let (head, filter) = payload.split_at_mut(8);
    head[..4].copy_from_slice(&PROBES.to_le_bytes());
    head[4..].copy_from_slice(&bits.to_le_bytes());
    for hash in hashes {
        for bit in bloom_bits(*hash, PROBES, bits) {
            filter[bit as usize / 8] |= 1 << (bit % 8);
        }
    }
    payload
}
