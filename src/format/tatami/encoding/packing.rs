//! Unpacks integers with a fixed number of bits.

/// Returns the bytes of `count` packed values of `width` bits each, or `None` if they exceed the address
/// space.
pub fn packed_bytes(count: usize, width: u8) -> Option<usize> {
    count
        .checked_mul(usize::from(width))
        .map(|bits| bits.div_ceil(8))
}

/// Fills `out` with packed values of `width` bits, lowest bits first. `first` is the index in `bytes` of the
/// first value.
pub fn unpack(bytes: &[u8], width: u8, first: usize, out: &mut [u64]) {
    let width = usize::from(width);
    let mask = u64::MAX >> (64 - width);
    let mut bit = first * width;
    if width > 57 {
        // A value may span nine bytes.
        for value in out {
            let word = match bytes.get(bit / 8..).and_then(|rest| rest.first_chunk()) {
                Some(word) => *word,
                None => load::<16>(bytes, bit / 8),
            };
            *value = (u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask;
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
        *value = (u64::from_le_bytes(word.copied().unwrap_or_default()) >> (bit % 8)) & mask;
        bit += width;
    }
    for value in tail {
        *value = (u64::from_le_bytes(load(bytes, bit / 8)) >> (bit % 8)) & mask;
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
    fn unpacks_every_width_from_every_start() {
        for width in 1..=64u8 {
            let mut state = u64::from(width);
            let values: Vec<u64> = (0..70)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state ^ state >> 29) & u64::MAX >> (64 - width)
                })
                .collect();
            let mut bytes = vec![0u8; packed_bytes(70, width).unwrap()];
            for (index, value) in values.iter().enumerate() {
                for bit in 0..usize::from(width) {
                    let at = index * usize::from(width) + bit;
                    bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
                }
            }
            for first in 0..70 {
                let mut out = vec![0; 70 - first];
                unpack(&bytes, width, first, &mut out);
                assert_eq!(out, values[first..], "width {width}, from {first}");
            }
        }
    }
}
