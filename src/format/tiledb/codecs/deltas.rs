//! First and second differences.

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::codecs::integers::{Word, by_size};
use crate::format::tiledb::fault::{Decoded, Fault};

/// Adds up the first differences of one part.
pub(super) fn undo_delta(size: usize, input: &[u8], output: &mut [u8]) -> Decoded<()> {
    by_size!(size, undo_delta_words(input, output))
}

fn undo_delta_words<T: Word>(input: &[u8], output: &mut [u8]) -> Decoded<()> {
    let mut input = Fields::new(input);
    check_values::<T>(&mut input, output.len())?;
    let mut value = T::from_u64(0);
    let deltas = input.take("deltas", output.len())?.chunks_exact(T::SIZE);
    for (output, delta) in output.chunks_exact_mut(T::SIZE).zip(deltas) {
        value = value.add(T::from_le(delta));
        value.to_le(output);
    }
    input.finish("deltas")
}

/// Checks the stored number of values against the length of the output.
fn check_values<T: Word>(input: &mut Fields<'_>, length: usize) -> Decoded<()> {
    let count = input.u64("number of values")?;
    if count.checked_mul(T::SIZE as u64) == Some(length as u64) {
        return Ok(());
    }
    let expected = format!("{length} bytes of {} each", T::SIZE);
    Err(Fault::new("number of values", count, expected))
}

/// Adds up the bit-packed second differences of one part.
pub(super) fn undo_double_delta(size: usize, input: &[u8], output: &mut [u8]) -> Decoded<()> {
    by_size!(size, undo_double_delta_words(input, output))
}

fn undo_double_delta_words<T: Word>(input: &[u8], output: &mut [u8]) -> Decoded<()> {
    let mut input = Fields::new(input);
    let bits = u32::from(input.u8("bit size")?);
    check_values::<T>(&mut input, output.len())?;
    if bits as usize >= 8 * T::SIZE - 1 {
        output.copy_from_slice(input.take("values", output.len())?);
        return input.finish("values");
    }
    let first = output.len().min(2 * T::SIZE);
    let (heads, packed) = output.split_at_mut(first);
    heads.copy_from_slice(input.take("first values", first)?);
    if packed.is_empty() {
        return input.finish("second differences");
    }
    let (mut before, mut last) = (T::from_le(heads), T::from_le(&heads[T::SIZE..]));
    let width = bits + 1;
    let needed = ((packed.len() / T::SIZE) as u64 * u64::from(width)).div_ceil(64);
    if needed * 8 != input.remaining() as u64 {
        let expected = format!("{needed} words of 8 bytes");
        return Err(Fault::new(
            "second differences",
            input.remaining(),
            expected,
        ));
    }
    // Words are stored little-endian, but their bits are used from the most significant one on.
    let mut words = input.rest().as_chunks::<8>().0.iter();
    let (mut buffer, mut left) = (0u128, 0u32);
    for output in packed.chunks_exact_mut(T::SIZE) {
        if left < width {
            let word = words.next().map_or(0, |word| u64::from_le_bytes(*word));
            buffer = buffer << 64 | u128::from(word);
            left += 64;
        }
        left -= width;
        let taken = (buffer >> left) as u64;
        let is_negative = taken >> bits & 1 == 1;
        let taken = taken & ((1 << bits) - 1);
        let difference = if is_negative {
            taken.wrapping_neg()
        } else {
            taken
        };
        let value = T::from_u64(difference).add(last).add(last).sub(before);
        value.to_le(output);
        (before, last) = (last, value);
    }
    Ok(())
}
