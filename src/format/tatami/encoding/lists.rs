//! The encodings of lists of `u32` in a search segment: bit packing, group varint, and bit packing with
//! exceptions (PFORDELTA). The writer of pages encodes integers with the same functions.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, put_varint};
use crate::format::tatami::encoding::packing::{bit_width, packed_bytes, put_packed, unpack};

/// Fills `out` with packed values of `width` bits each, lowest bits first. Returns the bytes after them.
pub fn read_packed(cursor: &mut Cursor<'_>, width: u32, out: &mut [u32]) -> Result<(), Fault> {
    if !(1..=32).contains(&width) {
        return Err(Fault::new("bit width", width, "1 to 32"));
    }
    let bytes = cursor.take("packed values", packed_bytes(out.len(), width))?;
    unpack(bytes, width, 0, out);
    Ok(())
}

/// Appends values that have at most `width` bits.
pub fn put_list(out: &mut Vec<u8>, width: u32, values: &[u32]) {
    put_packed(width, values.iter().map(|value| u64::from(*value)), out);
}

/// Fills `out` with values in group varint encoding: a control byte per four values holds their lengths.
pub fn read_group_varint(cursor: &mut Cursor<'_>, out: &mut [u32]) -> Result<(), Fault> {
    for group in out.chunks_mut(4) {
        let mut control = cursor.byte("group varint")?;
        for value in group {
            let length = usize::from(control & 3) + 1;
            control >>= 2;
            let mut bytes = [0; 4];
            bytes[..length].copy_from_slice(cursor.take("group varint", length)?);
            *value = u32::from_le_bytes(bytes);
        }
    }
    Ok(())
}

/// Appends values of at most 32 bits in group varint encoding.
pub fn put_group_varint<T: Copy + Into<u64>>(out: &mut Vec<u8>, values: &[T]) {
    for group in values.chunks(4) {
        let control = out.len();
        out.push(0);
        for (index, value) in group.iter().enumerate() {
            let value: u64 = (*value).into();
            let length = packed_bytes(1, bit_width(value));
            out[control] |= (length as u8 - 1) << (2 * index);
            out.extend_from_slice(&value.to_le_bytes()[..length]);
        }
    }
}

/// Fills `out`, of at most 256 values, with values in PFORDELTA encoding.
pub fn read_pfor(cursor: &mut Cursor<'_>, out: &mut [u32]) -> Result<(), Fault> {
    let [width, exceptions] = cursor.array("pfor header")?;
    // The exceptions come before the packed values, which they overwrite.
    let mut after = cursor.clone();
    for _ in 0..exceptions {
        after.byte("pfor exception")?;
        after.varint("pfor exception")?;
    }
    read_packed(&mut after, u32::from(width), out)?;
    for _ in 0..exceptions {
        let position = usize::from(cursor.byte("pfor exception")?);
        let value = cursor.varint("pfor exception")?;
        let value = u32::try_from(value)
            .map_err(|_| Fault::new("pfor exception", value, "at most 32 bits"))?;
        let count = out.len();
        *out.get_mut(position).ok_or_else(|| {
            Fault::new(
                "position of a pfor exception",
                position,
                format!("less than {count}"),
            )
        })? = value;
    }
    *cursor = after;
    Ok(())
}

/// Returns the width for values of at most 32 bits in PFORDELTA encoding that takes the fewest bytes, and the
/// bytes of the exceptions and the packed values. If several widths are equal, returns the smallest.
pub fn pfor_width<T: Copy + Into<u64>>(values: &[T]) -> (u32, usize) {
    // The bytes that the values of each width take as exceptions.
    let mut exception_bytes = [0; 33];
    for value in values {
        let width = bit_width((*value).into());
        exception_bytes[width as usize] += 1 + width.div_ceil(7) as usize;
    }
    let mut exceptions: usize = exception_bytes.iter().sum();
    let mut best = (32, usize::MAX);
    for width in 1..=32 {
        exceptions -= exception_bytes[width as usize];
        let bytes = packed_bytes(values.len(), width) + exceptions;
        if bytes < best.1 {
            best = (width, bytes);
        }
    }
    best
}

/// Appends at most 256 values of at most 32 bits in PFORDELTA encoding, with the width that takes the fewest
/// bytes. The limit follows from the index of an exception, which is a single byte.
pub fn put_pfor<T: Copy + Into<u64>>(out: &mut Vec<u8>, values: &[T]) {
    let (width, _) = pfor_width(values);
    let start = out.len();
    // Not all of 256 values are exceptions: that takes more bytes than none.
    out.extend_from_slice(&[width as u8, 0]);
    for (position, value) in values.iter().enumerate() {
        let value: u64 = (*value).into();
        if bit_width(value) > width {
            out[start + 1] += 1;
            out.push(position as u8);
            put_varint(out, value);
        }
    }
    let mask = u64::MAX >> (64 - width);
    put_packed(
        width,
        values.iter().map(|value| (*value).into() & mask),
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip_in_every_encoding() {
        let mut state = 1u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        for width in 1..=32 {
            for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 127, 128, 255, 256] {
                let values: Vec<u32> = (0..count)
                    .map(|_| match random() % 20 {
                        0 => random().wrapping_mul(3),
                        _ => random().wrapping_mul(3) >> (32 - width),
                    })
                    .collect();
                let low: Vec<u32> = values
                    .iter()
                    .map(|&v| (u64::from(v) % (1 << width)) as u32)
                    .collect();
                let mut out = vec![0; count];
                let mut bytes = Vec::new();
                put_list(&mut bytes, width, &low);
                let mut cursor = Cursor::new(&bytes);
                read_packed(&mut cursor, width, &mut out).unwrap();
                assert_eq!((&out, cursor.remaining()), (&low, 0));
                for encoding in 0..2 {
                    let mut bytes = Vec::new();
                    match encoding {
                        0 => put_group_varint(&mut bytes, &values),
                        _ => put_pfor(&mut bytes, &values),
                    }
                    let mut read = |bytes: &[u8]| {
                        let mut cursor = Cursor::new(bytes);
                        match encoding {
                            0 => read_group_varint(&mut cursor, &mut out)?,
                            _ => read_pfor(&mut cursor, &mut out)?,
                        }
                        assert_eq!(cursor.remaining(), 0);
                        Ok::<_, Fault>(out.clone())
                    };
                    assert_eq!(read(&bytes).unwrap(), values);
                    for length in 0..bytes.len() {
                        assert!(read(&bytes[..length]).is_err());
                    }
                }
            }
        }
    }

    #[test]
    fn widths_and_positions_are_checked() {
        let mut out = [0; 4];
        assert!(read_packed(&mut Cursor::new(&[0; 99]), 33, &mut out).is_err());
        assert!(read_pfor(&mut Cursor::new(&[0, 0, 0]), &mut out).is_err());
        assert!(read_pfor(&mut Cursor::new(&[1, 1, 4, 9, 0]), &mut out).is_err());
        read_pfor(&mut Cursor::new(&[1, 1, 3, 9, 0b0101]), &mut out).unwrap();
        assert_eq!(out, [1, 0, 1, 9]);
    }
}
