//! Byteshuffle and bitshuffle.

use crate::format::tiledb::fault::{Decoded, Fault};

/// Bytes that bitshuffle transforms independently of all others.
pub(super) const BITSHUFFLE_BLOCK_BYTES: usize = 8192;

/// Joins the planes of bytes of one part into values of `size` bytes.
pub(super) fn unshuffle_bytes(size: usize, input: &[u8], output: &mut [u8]) {
    match size {
        2 => join_planes::<2>(input, output),
        4 => join_planes::<4>(input, output),
        8 => join_planes::<8>(input, output),
        _ => output.copy_from_slice(input),
    }
}

fn join_planes<const SIZE: usize>(input: &[u8], output: &mut [u8]) {
    let count = input.len() / SIZE;
    let (shuffled, rest) = input.split_at(count * SIZE);
    let (values, rest_out) = output.as_chunks_mut::<SIZE>();
    // With at least one value, there are exactly `SIZE` planes.
    if count > 0 {
        let planes: [&[u8]; SIZE] =
            std::array::from_fn(|plane| &shuffled[plane * count..(plane + 1) * count]);
        for (index, value) in values.iter_mut().enumerate() {
            *value = std::array::from_fn(|plane| planes[plane][index]);
        }
    }
    rest_out.copy_from_slice(rest);
}

/// Joins the rows of bits of one part into values of `size` bytes.
pub(super) fn unshuffle_bits(size: usize, input: &[u8], output: &mut [u8]) -> Decoded<()> {
    if input.len() != output.len() {
        return Err(Fault::new("bitshuffle part", input.len(), output.len()));
    }
    if !input.len().is_multiple_of(8) || !input.len().is_multiple_of(size) {
        output.copy_from_slice(input);
        return Ok(());
    }
    let blocks = input.chunks(BITSHUFFLE_BLOCK_BYTES);
    for (block, output) in blocks.zip(output.chunks_mut(BITSHUFFLE_BLOCK_BYTES)) {
        // Rows hold whole bytes, so that up to seven values at the end are stored as they are.
        let row_bytes = block.len() / size / 8;
        let (rows, rest) = block.split_at(row_bytes * 8 * size);
        let (values, rest_out) = output.split_at_mut(rows.len());
        rest_out.copy_from_slice(rest);
        for group in 0..row_bytes {
            let values = &mut values[group * 8 * size..(group + 1) * 8 * size];
            for byte in 0..size {
                let mut bits = 0;
                for bit in 0..8 {
                    let row = rows[(8 * byte + bit) * row_bytes + group];
                    bits |= u64::from(row) << (8 * bit);
                }
                for (value, byte_of_value) in transpose(bits).to_le_bytes().iter().enumerate() {
                    values[value * size + byte] = *byte_of_value;
                }
            }
        }
    }
    Ok(())
}

/// Transposes a matrix of 8 x 8 bits, one row per byte.
pub(super) fn transpose(mut bits: u64) -> u64 {
    let mut swap = (bits ^ (bits >> 7)) & 0x00aa_00aa_00aa_00aa;
    bits ^= swap ^ (swap << 7);
    swap = (bits ^ (bits >> 14)) & 0x0000_cccc_0000_cccc;
    bits ^= swap ^ (swap << 14);
    swap = (bits ^ (bits >> 28)) & 0x0000_0000_f0f0_f0f0;
    bits ^ swap ^ (swap << 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_bits() {
        let bits = 0x0102_0408_1020_4081;
        for (row, column) in (0..8).flat_map(|row| (0..8).map(move |column| (row, column))) {
            let one = 1u64 << (8 * row + column);
            assert_eq!(transpose(one), 1 << (8 * column + row));
        }
        assert_eq!(transpose(transpose(bits)), bits);
    }

    #[test]
    fn bytes_and_leftovers() {
        let mut output = [0; 11];
        unshuffle_bytes(4, &[1, 5, 2, 6, 3, 7, 4, 8, 9, 10, 11], &mut output);
        assert_eq!(output, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let mut short = [0; 3];
        unshuffle_bytes(8, &[1, 2, 3], &mut short);
        assert_eq!(short, [1, 2, 3]);
    }

    #[test]
    fn bits_by_the_definition() {
        let mut state = 1u64;
        for (size, values) in [(1, 24), (2, 4200), (4, 7), (4, 2056), (8, 1025)] {
            let length = size * values;
            let plain: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            })
            .take(length)
            .collect();
            let mut stored = Vec::new();
            for block in plain.chunks(BITSHUFFLE_BLOCK_BYTES) {
                let row = block.len() / size / 8;
                let mut rows = vec![0u8; row * 8 * size];
                for bit in 0..row * 8 * size * 8 {
                    let (value, row_index) = (bit / (8 * size), bit % (8 * size));
                    let byte = block[value * size + row_index / 8];
                    rows[row_index * row + value / 8] |=
                        (byte >> (row_index % 8) & 1) << (value % 8);
                }
                let rest = &block[rows.len()..];
                stored.extend(rows);
                stored.extend(rest);
            }
            let mut output = vec![0; length];
            unshuffle_bits(size, &stored, &mut output).unwrap();
            assert_eq!(output, plain, "{values} values of {size} bytes");
        }
    }
}
