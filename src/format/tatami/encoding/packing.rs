//! Packs integers into a fixed number of bits, lowest bits first, and unpacks them.

use crate::format::tatami::encoding::Word;

/// Returns the number of bits of a value, at least 1.
pub fn bit_width(value: u64) -> u32 {
    (64 - value.leading_zeros()).max(1)
}

/// Returns the number of bytes of `count` packed values of `width` bits each.
pub fn packed_bytes(count: usize, width: u32) -> usize {
    count.saturating_mul(width as usize).div_ceil(8)
}

/// Appends values that have at most `width` bits.
pub fn put_packed(width: u32, words: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let (mut buffer, mut used) = (0u64, 0);
    for word in words {
        buffer |= word << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&buffer.to_le_bytes());
            used -= 64;
            // The bits that did not fit.
            buffer = if used == 0 { 0 } else { word >> (width - used) };
        }
    }
    out.extend_from_slice(&buffer.to_le_bytes()[..packed_bytes(1, used)]);
}

/// Fills `out` with packed values of `width` bits, 1 to 64. `first` is the index in `bytes` of the first value.
pub fn unpack<T: Word>(bytes: &[u8], width: u32, first: usize, out: &mut [T]) {
    let width = width as usize;
    let mask = u64::MAX >> (64 - width);
    let mut bit = first * width;
    if width > 57 {
        // A value may span nine bytes.
        for value in out {
            let word = match bytes.get(bit / 8..).and_then(|rest| rest.first_chunk()) {
                Some(word) => *word,
                None => load::<16>(bytes, bit / 8),
            };
            *value = T::truncate((u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask);
            bit += width;
        }
        return;
    }
    // Values that lie in an eight-byte word inside of `bytes`, counted from the byte of their first bit.
    let last = bytes.len().checked_sub(8);
    let whole = last.map_or(0, |last| {
        (last * 8 + 7)
            .checked_sub(bit)
            .map_or(0, |bits| bits / width + 1)
    });
    let (whole, tail) = out.split_at_mut(whole.min(out.len()));
    for value in whole {
        let word = bytes.get(bit / 8..).and_then(|rest| rest.first_chunk());
        let word = u64::from_le_bytes(word.copied().unwrap_or_default());
        *value = T::truncate((word >> (bit % 8)) & mask);
        bit += width;
    }
    for value in tail {
        let word = u64::from_le_bytes(load(bytes, bit / 8));
        *value = T::truncate((word >> (bit % 8)) & mask);
        bit += width;
    }
}

/// Returns the `N` bytes from `at` on, followed by zeros after the end.
fn load<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.len().min(N);
    word[..length].copy_from_slice(&rest[..length]);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_is_unpacked_from_every_start() {
        for width in 1..=64u32 {
            let mut state = u64::from(width);
            let values: Vec<u64> = (0..70)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state ^ state >> 29) & u64::MAX >> (64 - width)
                })
                .collect();
            let mut bytes = vec![0u8; packed_bytes(70, width)];
            for (index, value) in values.iter().enumerate() {
                for bit in 0..width as usize {
                    let at = index * width as usize + bit;
                    bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
                }
            }
            let mut packed = Vec::new();
            put_packed(width, values.iter().copied(), &mut packed);
            assert_eq!(packed, bytes, "width {width}");
            for first in 0..70 {
                let mut out = vec![0u64; 70 - first];
                unpack(&bytes, width, first, &mut out);
                assert_eq!(out, values[first..], "width {width}, from {first}");
                let mut out = vec![0u32; 70 - first];
                unpack(&bytes, width, first, &mut out);
                let low = values[first..].iter().map(|value| *value as u32);
                assert!(out.into_iter().eq(low), "width {width}, from {first}");
            }
        }
    }
}
