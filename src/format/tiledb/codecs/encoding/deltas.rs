//! First and second differences.

use crate::format::tiledb::codecs::encoding::check_whole;
use crate::format::tiledb::codecs::integers::{Word, by_size};
use crate::format::tiledb::fault::Decoded;

/// Appends the first differences of values.
pub(super) fn delta(size: usize, input: &[u8], output: &mut Vec<u8>) -> Decoded<()> {
    check_whole("input of delta", size, input)?;
    output.extend(((input.len() / size) as u64).to_le_bytes());
    by_size!(size, delta_words(input, output));
    Ok(())
}

fn delta_words<T: Word>(input: &[u8], output: &mut Vec<u8>) {
    let mut before = T::from_u64(0);
    for bytes in input.chunks_exact(T::SIZE) {
        let value = T::from_le(bytes);
        push(value.sub(before), output);
        before = value;
    }
}

fn push<T: Word>(value: T, output: &mut Vec<u8>) {
    let start = output.len();
    output.resize(start + T::SIZE, 0);
    value.to_le(&mut output[start..]);
}

/// Appends the bit-packed second differences of values, or the values if differences are too large.
pub(super) fn double_delta(size: usize, input: &[u8], output: &mut Vec<u8>) -> Decoded<()> {
    check_whole("input of double delta", size, input)?;
    by_size!(size, double_delta_words(input, output));
    Ok(())
}

fn double_delta_words<T: Word>(input: &[u8], output: &mut Vec<u8>) {
    let shift = 64 - 8 * T::SIZE as u32;
    // Differences wrap around, so that all of them fit in the width of the values.
    let differences = || {
        let triples = input.windows(3 * T::SIZE).step_by(T::SIZE);
        triples.map(move |values| {
            let value = |index: usize| T::from_le(&values[index * T::SIZE..]);
            let (before, last, value) = (value(0), value(1), value(2));
            let difference = value.sub(last).sub(last.sub(before)).to_u64();
            ((difference << shift) as i64) >> shift
        })
    };
    let magnitudes = differences().fold(0, |all, difference| all | difference.unsigned_abs());
    let bits = (64 - magnitudes.leading_zeros()).max(1);
    output.push(bits as u8);
    output.extend(((input.len() / T::SIZE) as u64).to_le_bytes());
    if bits as usize >= 8 * T::SIZE - 1 {
        output.extend(input);
        return;
    }
    output.extend(&input[..input.len().min(2 * T::SIZE)]);
    // Words are stored little-endian, but their bits are used from the most significant one on.
    let (width, mut buffer, mut filled) = (bits + 1, 0u128, 0);
    for difference in differences() {
        let sign = u64::from(difference < 0) << bits;
        buffer = buffer << width | u128::from(sign | difference.unsigned_abs());
        filled += width;
        if filled >= 64 {
            filled -= 64;
            output.extend(((buffer >> filled) as u64).to_le_bytes());
        }
    }
    if filled > 0 {
        output.extend(((buffer << (64 - filled)) as u64).to_le_bytes());
    }
}
