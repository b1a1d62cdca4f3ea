//! Byteshuffle and bitshuffle.

use crate::format::tiledb::codecs::shuffle::{BITSHUFFLE_BLOCK_BYTES, transpose};

/// Splits values of `size` bytes into planes: the first bytes of all values, the second bytes, and so
/// on. Bytes of an incomplete last value stay as they are.
pub(super) fn shuffle_bytes(size: usize, input: &[u8]) -> Vec<u8> {
    let count = input.len() / size;
    let (values, rest) = input.split_at(count * size);
    let mut output = vec![0; values.len()];
    for (plane, output) in output.chunks_exact_mut(count.max(1)).enumerate() {
        for (byte, value) in output.iter_mut().zip(values.chunks_exact(size)) {
            *byte = value[plane];
        }
    }
    output.extend(rest);
    output
}

/// Splits values of `size` bytes into rows of bits.
pub(super) fn shuffle_bits(size: usize, input: &[u8]) -> Vec<u8> {
    if !input.len().is_multiple_of(8) || !input.len().is_multiple_of(size) {
        return input.to_vec();
    }
    let mut output = vec![0; input.len()];
    let blocks = input.chunks(BITSHUFFLE_BLOCK_BYTES);
    for (block, output) in blocks.zip(output.chunks_mut(BITSHUFFLE_BLOCK_BYTES)) {
        // A row holds whole bytes, so up to seven values at the end are stored unshuffled.
        let row_bytes = block.len() / size / 8;
        let (values, rest) = block.split_at(row_bytes * 8 * size);
        let (rows, rest_out) = output.split_at_mut(values.len());
        rest_out.copy_from_slice(rest);
        for (group, values) in values.chunks_exact(8 * size).enumerate() {
            for byte in 0..size {
                let bytes = std::array::from_fn(|value| values[value * size + byte]);
                let bits = transpose(u64::from_le_bytes(bytes)).to_le_bytes();
                for (bit, row) in bits.iter().enumerate() {
                    rows[(8 * byte + bit) * row_bytes + group] = *row;
                }
            }
        }
    }
    output
}
