//! The filter LZF of h5py.

use crate::format::hdf5::source::Found;

/// Decompresses a chunk to at most `most` bytes, replacing the contents of `cells`.
///
/// A control byte below 32 is followed by that many literal bytes and one more. Any other control byte
/// starts a copy of earlier bytes: three bits of length, then 13 bits of distance.
pub(super) fn decompress(stored: &[u8], cells: &mut Vec<u8>, most: usize) -> Found<()> {
    super::reserve(cells, most)?;
    let mut rest = stored;
    let next = |rest: &mut &[u8]| -> Found<usize> {
        let (byte, after) = rest.split_first().ok_or("cut off")?;
        *rest = after;
        Ok(usize::from(*byte))
    };
    while !rest.is_empty() {
        let control = next(&mut rest)?;
        if control < 32 {
            let (literal, after) = rest.split_at_checked(control + 1).ok_or("cut off")?;
            if cells.len() + literal.len() > most {
                return Err(format!("more than {most} bytes"));
            }
            cells.extend_from_slice(literal);
            rest = after;
            continue;
        }
        let mut length = control >> 5;
        if length == 7 {
            length += next(&mut rest)?;
        }
        let distance = ((control & 31) << 8) + next(&mut rest)? + 1;
        copy(cells, distance, length + 2, most)?;
    }
    Ok(())
}

/// Appends `length` bytes from `distance` bytes before the end. The ranges may overlap, which repeats
/// the bytes.
pub(super) fn copy(cells: &mut Vec<u8>, distance: usize, length: usize, most: usize) -> Found<()> {
    let start = cells
        .len()
        .checked_sub(distance)
        .ok_or("a copy from before the start")?;
    if cells.len() + length > most {
        return Err(format!("more than {most} bytes"));
    }
    let mut left = length;
    while left > 0 {
        // The bytes from `start` on repeat, so each step can copy all of them.
        let step = left.min(cells.len() - start);
        cells.extend_from_within(start..start + step);
        left -= step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies() {
        let mut cells = vec![9];
        // "ab", then five bytes from two bytes before.
        decompress(&[1, b'a', b'b', 3 << 5, 1], &mut cells, 7).unwrap();
        assert_eq!(cells, b"abababa");
        // A long copy of a single byte.
        decompress(&[0, b'x', 7 << 5, 200, 0], &mut cells, 300).unwrap();
        assert_eq!(cells, vec![b'x'; 210]);
        for broken in [&[5, 1][..], &[0, 1, 1 << 5], &[1 << 5, 0], &[0, 1, 7 << 5]] {
            decompress(broken, &mut cells, 100).unwrap_err();
        }
        decompress(&[1, b'a', b'b', 3 << 5, 1], &mut cells, 6).unwrap_err();
    }
}
