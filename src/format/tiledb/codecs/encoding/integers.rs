//! Filters over windows of integers (bit width reduction, positive delta) and over values (XOR,
//! float scaling).

use crate::format::tiledb::codecs::encoding::{check_whole, length_u32};
use crate::format::tiledb::codecs::integers::{Word, by_size};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Datatype, Representation, Scalar};

/// Returns the length of windows over `input` in bytes: whole values, at least one.
fn window_bytes(size: usize, max_window: u32, input: &[u8]) -> usize {
    let most = input.len().min(max_window as usize);
    (most / size * size).max(size)
}

/// Returns the bit whose inversion maps the values of a datatype to unsigned integers in the same
/// order.
fn sign_bit<T: Word>(datatype: Datatype) -> u64 {
    match datatype.representation() {
        Representation::Signed => 1 << (8 * T::SIZE - 1),
        _ => 0,
    }
}

/// Stores the distance of values from the smallest one of their window, in as few bytes as possible.
pub(super) fn reduce(
    datatype: Datatype,
    max_window: u32,
    input: &[u8],
) -> Decoded<(Vec<u8>, Vec<u8>)> {
    by_size!(datatype.size(), reduce_words(datatype, max_window, input))
}

fn reduce_words<T: Word>(
    datatype: Datatype,
    max_window: u32,
    input: &[u8],
) -> Decoded<(Vec<u8>, Vec<u8>)> {
    let is_signed = datatype.representation() == Representation::Signed;
    let sign = sign_bit::<T>(datatype);
    let rank = |bytes: &[u8]| T::from_le(bytes).to_u64() ^ sign;
    let windows = input.chunks(window_bytes(T::SIZE, max_window, input));
    let mut metadata = length_u32("original length", input.len())?
        .to_le_bytes()
        .to_vec();
    metadata.extend((windows.len() as u32).to_le_bytes());
    let mut data = Vec::with_capacity(input.len());
    for window in windows {
        let ranks = || window.chunks_exact(T::SIZE).map(rank);
        let (low, high) = ranks().fold((u64::MAX, 0), |(low, high), rank| {
            (low.min(rank), high.max(rank))
        });
        // Stored values of signed datatypes are signed, but never negative.
        let limit = |width: u32| (1u64 << (width - u32::from(is_signed))) - 1;
        let width = [8, 16, 32]
            .into_iter()
            .filter(|width| *width < 8 * T::SIZE as u32)
            .find(|width| high.saturating_sub(low) < limit(*width));
        let is_whole = window.len().is_multiple_of(T::SIZE);
        let (offset, width) = match width {
            Some(width) if is_whole => (low, width),
            _ => (sign, 8 * T::SIZE as u32),
        };
        metadata.extend(&(offset ^ sign).to_le_bytes()[..T::SIZE]);
        metadata.push(width as u8);
        metadata.extend(length_u32("window length", window.len())?.to_le_bytes());
        if width == 8 * T::SIZE as u32 {
            data.extend(window);
            continue;
        }
        for rank in ranks() {
            data.extend(&(rank - low).to_le_bytes()[..width as usize / 8]);
        }
    }
    Ok((metadata, data))
}

/// Stores the differences of values that never decrease within a window.
pub(super) fn subtract(
    datatype: Datatype,
    max_window: u32,
    input: &[u8],
) -> Decoded<(Vec<u8>, Vec<u8>)> {
    by_size!(datatype.size(), subtract_words(datatype, max_window, input))
}

fn subtract_words<T: Word>(
    datatype: Datatype,
    max_window: u32,
    input: &[u8],
) -> Decoded<(Vec<u8>, Vec<u8>)> {
    let sign = sign_bit::<T>(datatype);
    let rank = |bytes: &[u8]| T::from_le(bytes).to_u64() ^ sign;
    let windows = input.chunks(window_bytes(T::SIZE, max_window, input));
    let mut metadata = (windows.len() as u32).to_le_bytes().to_vec();
    let mut data = Vec::with_capacity(input.len());
    for window in windows {
        let is_whole = window.len().is_multiple_of(T::SIZE);
        let first = match is_whole {
            true => rank(window),
            false => sign,
        };
        metadata.extend(&(first ^ sign).to_le_bytes()[..T::SIZE]);
        metadata.extend(length_u32("window length", window.len())?.to_le_bytes());
        if !is_whole {
            data.extend(window);
            continue;
        }
        let mut before = first;
        for value in window.chunks_exact(T::SIZE).map(rank) {
            let Some(difference) = value.checked_sub(before) else {
                let expected = "values that never decrease, for positive-delta";
                return Err(Fault::new("values", "decreasing", expected));
            };
            data.extend(&difference.to_le_bytes()[..T::SIZE]);
            before = value;
        }
    }
    Ok((metadata, data))
}

/// Stores the first value, and every other value as its XOR with the value before.
pub(super) fn xor(size: usize, input: &[u8]) -> Decoded<Vec<u8>> {
    check_whole("input of XOR", size, input)?;
    let shifted = std::iter::repeat_n(&0, size).chain(input);
    Ok(input.iter().zip(shifted).map(|(a, b)| a ^ b).collect())
}

/// Stores `(value - offset) / scale`, rounded to an integer of `width` bytes.
pub(super) fn scale(
    datatype: Datatype,
    (scale, offset, width): (f64, f64, usize),
    input: &[u8],
) -> Decoded<Vec<u8>> {
    let size = datatype.size();
    check_whole("input of float-scale", size, input)?;
    let bound = 2f64.powi(8 * width as i32 - 1);
    let mut output = Vec::with_capacity(input.len() / size * width);
    for bytes in input.chunks_exact(size) {
        let value = match Scalar::from_bytes(datatype, bytes) {
            Some(Scalar::Float(value)) => value,
            _ => f64::NAN,
        };
        let scaled = ((value - offset) / scale).round();
        if !(-bound..bound).contains(&scaled) {
            let expected = format!("a value that float-scale stores in {width} bytes");
            return Err(Fault::new("value", value, expected));
        }
        output.extend(&(scaled as i64).to_le_bytes()[..width]);
    }
    Ok(output)
}
