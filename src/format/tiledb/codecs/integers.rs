//! Filters over windows of integers (bit width reduction, positive delta) and over values (XOR,
//! float scaling).

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Datatype, Representation};

/// An integer of fixed width, in wrapping arithmetic.
///
/// Signed and unsigned integers of one width have the same bits after additions, so that one
/// unsigned type serves both.
pub(super) trait Word: Copy {
    const SIZE: usize;
    fn from_le(bytes: &[u8]) -> Self;
    fn to_le(self, bytes: &mut [u8]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn from_u64(value: u64) -> Self;
    fn to_u64(self) -> u64;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl Word for $word {
            const SIZE: usize = size_of::<$word>();
            fn from_le(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$word>()];
                word.copy_from_slice(&bytes[..size_of::<$word>()]);
                <$word>::from_le_bytes(word)
            }
            fn to_le(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            fn from_u64(value: u64) -> Self {
                value as $word
            }
            fn to_u64(self) -> u64 {
                self as u64
            }
        }
    )*};
}

words!(u8 u16 u32 u64);

/// Calls a function that is generic over [`Word`] with the type of a size.
macro_rules! by_size {
    ($size:expr, $function:ident($($argument:expr),*)) => {
        match $size {
            1 => $function::<u8>($($argument),*),
            2 => $function::<u16>($($argument),*),
            4 => $function::<u32>($($argument),*),
            _ => $function::<u64>($($argument),*),
        }
    };
}
pub(super) use by_size;

/// Consumes the header of bit width reduction and returns the length of the output.
pub(super) fn reduced_length(
    datatype: Datatype,
    metadata: &mut Fields<'_>,
    input: usize,
) -> Decoded<u64> {
    let length = u64::from(metadata.u32("original length")?);
    // Eight bits of input are the least that a window stores for a value.
    let most = input as u64 * datatype.size() as u64;
    if length > most {
        let expected = format!("at most {most}, for {input} bytes");
        return Err(Fault::new("original length", length, expected));
    }
    Ok(length)
}

/// Widens the windows of bit width reduction. The original length was already taken from `metadata`.
pub(super) fn widen(
    datatype: Datatype,
    metadata: &mut Fields<'_>,
    input: &[u8],
    output: &mut [u8],
) -> Decoded<()> {
    by_size!(
        datatype.size(),
        widen_words(datatype, metadata, input, output)
    )
}

fn widen_words<T: Word>(
    datatype: Datatype,
    metadata: &mut Fields<'_>,
    input: &[u8],
    output: &mut [u8],
) -> Decoded<()> {
    let is_signed = datatype.representation() == Representation::Signed;
    let windows = metadata.count("number of windows", T::SIZE + 5)?;
    let (mut input, mut output) = (Fields::new(input), output);
    for _ in 0..windows {
        let offset = T::from_le(metadata.take("window offset", T::SIZE)?);
        let bits = usize::from(metadata.u8("window bit width")?);
        let length = metadata.u32("window length")? as usize;
        let left = output.len();
        let Some((window, rest)) = output.split_at_mut_checked(length) else {
            let expected = format!("at most {left}");
            return Err(Fault::new("window length", length, expected));
        };
        output = rest;
        if bits >= 8 * T::SIZE || !length.is_multiple_of(T::SIZE) {
            window.copy_from_slice(input.take("window", length)?);
            continue;
        }
        let stored = input.take("window", length / T::SIZE * (bits / 8))?;
        let values = window.chunks_exact_mut(T::SIZE);
        match (bits, is_signed) {
            (8, false) => {
                for (value, stored) in values.zip(stored) {
                    T::from_u64(u64::from(*stored)).add(offset).to_le(value);
                }
            }
            (8, true) => {
                for (value, stored) in values.zip(stored) {
                    let stored = i64::from(*stored as i8) as u64;
                    T::from_u64(stored).add(offset).to_le(value);
                }
            }
            (16 | 32, _) => {
                let shift = if is_signed { 64 - bits } else { 0 };
                for (value, stored) in values.zip(stored.chunks_exact(bits / 8)) {
                    let mut word = [0; 8];
                    word[..stored.len()].copy_from_slice(stored);
                    let word = u64::from_le_bytes(word);
                    let stored = (((word << shift) as i64) >> shift) as u64;
                    T::from_u64(stored).add(offset).to_le(value);
                }
            }
            _ => return Err(Fault::new("window bit width", bits, "8, 16, 32 or 64")),
        }
    }
    input.finish("windows")?;
    match output.len() {
        0 => Ok(()),
        left => Err(Fault::new(
            "windows",
            format!("{left} bytes too short"),
            "all values",
        )),
    }
}

/// Adds up the windows of positive delta.
pub(super) fn add_up(
    datatype: Datatype,
    metadata: &mut Fields<'_>,
    input: &[u8],
    output: &mut [u8],
) -> Decoded<()> {
    by_size!(datatype.size(), add_up_words(metadata, input, output))
}

fn add_up_words<T: Word>(
    metadata: &mut Fields<'_>,
    input: &[u8],
    output: &mut [u8],
) -> Decoded<()> {
    let windows = metadata.count("number of windows", T::SIZE + 4)?;
    let (mut input, mut output) = (Fields::new(input), output);
    for _ in 0..windows {
        let mut value = T::from_le(metadata.take("window offset", T::SIZE)?);
        let length = metadata.u32("window length")? as usize;
        let deltas = input.take("window", length)?;
        // Input and output have the same length.
        let (window, rest) = std::mem::take(&mut output).split_at_mut(length);
        output = rest;
        if !length.is_multiple_of(T::SIZE) {
            window.copy_from_slice(deltas);
            continue;
        }
        let deltas = deltas.chunks_exact(T::SIZE);
        for (output, delta) in window.chunks_exact_mut(T::SIZE).zip(deltas) {
            value = value.add(T::from_le(delta));
            value.to_le(output);
        }
    }
    input.finish("windows")
}

/// Undoes XOR within one part.
pub(super) fn undo_xor(size: usize, input: &[u8], output: &mut [u8]) -> Decoded<()> {
    if !input.len().is_multiple_of(size) {
        let expected = format!("a multiple of {size}");
        return Err(Fault::new("XOR part length", input.len(), expected));
    }
    by_size!(size, undo_xor_words(input, output));
    Ok(())
}

fn undo_xor_words<T: Word>(input: &[u8], output: &mut [u8]) {
    let mut value = T::from_u64(0);
    let stored = input.chunks_exact(T::SIZE);
    for (output, stored) in output.chunks_exact_mut(T::SIZE).zip(stored) {
        value = value.xor(T::from_le(stored));
        value.to_le(output);
    }
}

/// Computes `scale * integer + offset` for each integer of `width` bytes of one part.
pub(super) fn unscale(
    datatype: Datatype,
    (scale, offset, width): (f64, f64, usize),
    input: &[u8],
    output: &mut [u8],
) {
    let integers = input.chunks_exact(width).map(|stored| {
        let shift = 64 - 8 * width;
        let mut word = [0; 8];
        word[..width].copy_from_slice(stored);
        ((u64::from_le_bytes(word) << shift) as i64) >> shift
    });
    if datatype.size() == 4 {
        // The integer is rounded to the datatype before it is scaled.
        for (output, integer) in output.chunks_exact_mut(4).zip(integers) {
            let value = scale * f64::from(integer as f32) + offset;
            output.copy_from_slice(&(value as f32).to_le_bytes());
        }
    } else {
        for (output, integer) in output.chunks_exact_mut(8).zip(integers) {
            let value = scale * integer as f64 + offset;
            output.copy_from_slice(&value.to_le_bytes());
        }
    }
}
