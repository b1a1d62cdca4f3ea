//! BloscLZ, the compressor that Blosc uses by default.

use crate::format::hdf5::source::Found;

/// Distances of this many bytes and more have two further bytes.
const FAR: usize = 8191;

/// Decompresses a stream into `target`, and returns the number of bytes written.
///
/// A control byte below 32 is followed by that many literal bytes and one more. Any other control byte
/// starts a copy of earlier bytes: three bits of length, then five bits of distance, the rest of the
/// length, and the rest of the distance.
pub(super) fn decompress(stream: &[u8], target: &mut [u8]) -> Found<usize> {
    let mut rest = stream;
    let next = |rest: &mut &[u8]| -> Found<usize> {
        let (byte, after) = rest.split_first().ok_or("cut off")?;
        *rest = after;
        Ok(usize::from(*byte))
    };
    let mut written = 0;
    // The upper bits of the first control byte are the version of the format.
    let mut control = next(&mut rest)? & 31;
    loop {
        if control < 32 {
            let (literal, after) = rest.split_at_checked(control + 1).ok_or("cut off")?;
            let room = target.get_mut(written..written + literal.len());
            room.ok_or("more bytes than expected")?
                .copy_from_slice(literal);
            written += literal.len();
            rest = after;
        } else {
            let mut length = (control >> 5) - 1;
            let mut distance = (control & 31) << 8;
            if length == 6 {
                loop {
                    let more = next(&mut rest)?;
                    length += more;
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = next(&mut rest)?;
            if low == 255 && distance == 31 << 8 {
                let high = next(&mut rest)?;
                distance = (high << 8) + next(&mut rest)? + FAR;
            } else {
                distance += low;
            }
            let (distance, length) = (distance + 1, length + 3);
            let start = written
                .checked_sub(distance)
                .ok_or("a copy from before the start")?;
            let end = written
                .checked_add(length)
                .filter(|end| *end <= target.len());
            let end = end.ok_or("more bytes than expected")?;
            while written < end {
                // The bytes from `start` on repeat, so each step can copy all of them.
                let step = (end - written).min(written - start);
                target.copy_within(start..start + step, written);
                written += step;
            }
        }
        let Some((byte, after)) = rest.split_first() else {
            return Ok(written);
        };
        (control, rest) = (usize::from(*byte), after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies() {
        let mut target = [0; 16];
        // "ab", then five bytes from two bytes before.
        let stream = [1 << 5 | 1, b'a', b'b', 3 << 5, 1];
        assert_eq!(decompress(&stream, &mut target), Ok(7));
        assert_eq!(&target[..7], b"abababa");
        for broken in [&[][..], &[5, 1], &[0, 1, 2 << 5], &[0, 1, 2 << 5, 7]] {
            decompress(broken, &mut target).unwrap_err();
        }
        decompress(&stream, &mut target[..6]).unwrap_err();
    }
}
