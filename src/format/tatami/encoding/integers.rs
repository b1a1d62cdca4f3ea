//! The encodings of integers. All work on values of 64 bits, sign-extended for signed types, which are
//! truncated to the width of the column.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::Cursor;
use crate::format::tatami::encoding::Word;
use crate::format::tatami::encoding::packing::{packed_bytes, unpack};
use crate::format::tatami::layout::types::Encoding;

/// The number of values that are unpacked at a time.
const BATCH: usize = 512;

/// The maximum length of a group in bytes: the control byte and four values of four bytes.
const MAX_GROUP_BYTES: usize = 17;

/// Appends the `count` integers in `bytes` to `out`.
pub(crate) fn decode_integers<T: Word>(
    encoding: Encoding,
    bytes: &[u8],
    count: usize,
    out: &mut Vec<T>,
) -> Result<(), Fault> {
    let mut fields = Cursor::new(bytes);
    match encoding {
        Encoding::Plain => plain(&mut fields, count, out)?,
        Encoding::Rle => rle(&mut fields, count, out)?,
        Encoding::BitpackFor => {
            let frame = Frame::parse(&mut fields, count)?;
            frame.for_batches(count, |batch| {
                out.extend(
                    batch
                        .iter()
                        .map(|value| T::truncate(frame.base.wrapping_add(*value))),
                );
            });
        }
        Encoding::Delta => delta(&mut fields, count, out)?,
        Encoding::GroupVarint => group_varint(&mut fields, count, out)?,
        Encoding::PforDelta => pfor_delta(&mut fields, count, out)?,
        Encoding::Dictionary | Encoding::Fsst | Encoding::Bitmap => {
            return Err(Fault::new("encoding", encoding, "an encoding of integers"));
        }
    }
    fields.finish("page payload")
}

/// Reads plain values: integers or floats.
fn plain<T: Word>(fields: &mut Cursor<'_>, count: usize, out: &mut Vec<T>) -> Result<(), Fault> {
    let bytes = count.saturating_mul(T::BYTES);
    let bytes = fields.take("page payload", bytes)?;
    out.extend(bytes.chunks_exact(T::BYTES).map(T::from_le));
    Ok(())
}

/// Bit-packed differences from a base.
struct Frame<'a> {
    width: u32,
    base: u64,
    packed: &'a [u8],
}

impl<'a> Frame<'a> {
    fn parse(fields: &mut Cursor<'a>, count: usize) -> Result<Self, Fault> {
        let width = bit_width(fields, 64)?;
        let (base, packed) = match count {
            // A list without values has no base.
            0 => (0, &[][..]),
            _ => (fields.varint("base")?, take_packed(fields, count, width)?),
        };
        Ok(Self {
            width,
            base,
            packed,
        })
    }

    /// Calls `each` with one batch of differences after another.
    fn for_batches(&self, count: usize, mut each: impl FnMut(&[u64])) {
        let mut batch = [0; BATCH];
        let mut first = 0;
        while first < count {
            let batch = &mut batch[..BATCH.min(count - first)];
            unpack(self.packed, self.width, first, batch);
            each(batch);
            first += batch.len();
        }
    }
}

fn bit_width(fields: &mut Cursor<'_>, most: u32) -> Result<u32, Fault> {
    match u32::from(fields.byte("bit width")?) {
        width if (1..=most).contains(&width) => Ok(width),
        width => Err(Fault::new("bit width", width, format!("1 to {most}"))),
    }
}

fn take_packed<'a>(fields: &mut Cursor<'a>, count: usize, width: u32) -> Result<&'a [u8], Fault> {
    fields.take("packed values", packed_bytes(count, width))
}

fn delta<T: Word>(fields: &mut Cursor<'_>, count: usize, out: &mut Vec<T>) -> Result<(), Fault> {
    if count == 0 {
        return Err(Fault::new("number of values", 0, "1 or more"));
    }
    let mut value = fields.varint("first value")?;
    let frame = Frame::parse(fields, count - 1)?;
    out.push(T::truncate(value));
    frame.for_batches(count - 1, |batch| {
        out.extend(batch.iter().map(|packed| {
            let zigzag = frame.base.wrapping_add(*packed);
            let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
            value = value.wrapping_add(difference);
            T::truncate(value)
        }));
    });
    Ok(())
}

fn rle<T: Word>(fields: &mut Cursor<'_>, count: usize, out: &mut Vec<T>) -> Result<(), Fault> {
    let width = bit_width(fields, 64)?;
    let value_bytes = packed_bytes(1, width);
    let mut left = count;
    while left > 0 {
        let control = fields.size("control of a run")?;
        let length = control >> 1;
        if length == 0 || length > left {
            let expected = format!("1 to {left}, the values left");
            return Err(Fault::new("length of a run", length, expected));
        }
        if control & 1 == 1 {
            let mut word = [0; 8];
            word[..value_bytes].copy_from_slice(fields.take("value of a run", value_bytes)?);
            out.resize(out.len() + length, T::truncate(u64::from_le_bytes(word)));
        } else {
            let packed = take_packed(fields, length, width)?;
            let literals = Frame {
                width,
                base: 0,
                packed,
            };
            literals.for_batches(length, |batch| {
                out.extend(batch.iter().map(|value| T::truncate(*value)));
            });
        }
        left -= length;
    }
    Ok(())
}

fn group_varint<T: Word>(
    fields: &mut Cursor<'_>,
    count: usize,
    out: &mut Vec<T>,
) -> Result<(), Fault> {
    // A value takes a byte or more.
    out.reserve(count.min(fields.remaining()));
    let mut left = count;
    while left > 0 {
        // Groups with enough bytes after them are read without a check for each value.
        while left >= 4
            && let Some(group) = fields.rest().first_chunk::<MAX_GROUP_BYTES>()
        {
            let mut at = 1;
            for value in 0..4 {
                let length = usize::from(group[0] >> (2 * value) & 3) + 1;
                let word = [group[at], group[at + 1], group[at + 2], group[at + 3]];
                let value = u32::from_le_bytes(word) & (u32::MAX >> (32 - 8 * length));
                out.push(T::truncate(u64::from(value)));
                at += length;
            }
            fields.take("group", at)?;
            left -= 4;
        }
        if left == 0 {
            break;
        }
        let control = fields.byte("group control")?;
        for value in 0..left.min(4) {
            let length = usize::from(control >> (2 * value) & 3) + 1;
            let bytes = fields.take("group value", length)?;
            let value = bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte));
            out.push(T::truncate(value));
        }
        left -= left.min(4);
    }
    Ok(())
}

fn pfor_delta<T: Word>(
    fields: &mut Cursor<'_>,
    count: usize,
    out: &mut Vec<T>,
) -> Result<(), Fault> {
    let start = out.len();
    let width = bit_width(fields, 32)?;
    let exceptions = fields.byte("number of exceptions")?;
    let mut list = fields.clone();
    for _ in 0..exceptions {
        fields.byte("position of an exception")?;
        fields.varint("value of an exception")?;
    }
    let packed = take_packed(fields, count, width)?;
    let low = Frame {
        width,
        base: 0,
        packed,
    };
    low.for_batches(count, |batch| {
        out.extend(batch.iter().map(|value| T::truncate(*value)))
    });
    for _ in 0..exceptions {
        let position = usize::from(list.byte("position of an exception")?);
        let value = list.varint("value of an exception")?;
        match out.get_mut(start + position) {
            Some(target) => *target = T::truncate(value),
            None => {
                let expected = format!("less than {count}");
                return Err(Fault::new("position of an exception", position, expected));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(encoding: Encoding, bytes: &[u8], count: usize) -> Result<Vec<u16>, String> {
        let mut out = Vec::new();
        decode_integers(encoding, bytes, count, &mut out).map_err(|fault| fault.to_string())?;
        Ok(out)
    }

    #[test]
    fn decodes_small_examples() {
        // Base 100, differences 0, 3, 1 in 2 bits each.
        assert_eq!(
            decode(Encoding::BitpackFor, &[2, 100, 0b01_11_00], 3),
            Ok(vec![100, 103, 101])
        );
        // A single value and an empty list of differences.
        assert_eq!(decode(Encoding::Delta, &[7, 1], 1), Ok(vec![7]));
        // 7, then -1 and +2 zig-zagged to 1 and 4 with base 1.
        assert_eq!(
            decode(Encoding::Delta, &[7, 2, 1, 0b11_00], 3),
            Ok(vec![7, 6, 8])
        );
        // A run of three nines, then two literals.
        assert_eq!(
            decode(Encoding::Rle, &[4, 7, 9, 4, 0x21], 5),
            Ok(vec![9, 9, 9, 1, 2])
        );
        assert_eq!(
            decode(Encoding::GroupVarint, &[0b01_00, 5, 1, 2], 2),
            Ok(vec![5, 0x201])
        );
        assert_eq!(
            decode(Encoding::PforDelta, &[1, 1, 1, 0xac, 2, 0b101], 3),
            Ok(vec![1, 300, 1])
        );
    }

    #[test]
    fn refuses_faulty_lists() {
        for (encoding, bytes, count, expected) in [
            (
                Encoding::BitpackFor,
                &[0u8, 0][..],
                1,
                "bit width is 0, expected 1 to 64",
            ),
            (
                Encoding::BitpackFor,
                &[65, 0],
                1,
                "bit width is 65, expected 1 to 64",
            ),
            (
                Encoding::BitpackFor,
                &[8, 0, 1, 1],
                1,
                "page payload is longer than its contents by 1 bytes",
            ),
            (
                Encoding::Rle,
                &[1, 9, 1],
                3,
                "length of a run is 4, expected 1 to 3, the values left",
            ),
            (
                Encoding::PforDelta,
                &[1, 1, 2, 9, 1],
                2,
                "position of an exception is 2, expected less than 2",
            ),
            (
                Encoding::PforDelta,
                &[33, 0],
                2,
                "bit width is 33, expected 1 to 32",
            ),
            (
                Encoding::Dictionary,
                &[],
                0,
                "encoding is dictionary, expected an encoding of integers",
            ),
            (
                Encoding::Delta,
                &[],
                0,
                "number of values is 0, expected 1 or more",
            ),
        ] {
            let error = decode(encoding, bytes, count).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
