//! The filter shuffle: the first bytes of all elements, then the second bytes, and so on.

/// Puts the bytes of each element together again, replacing the contents of `elements`. Bytes after
/// the last whole element were not moved.
pub(super) fn unshuffle(stored: &[u8], size: usize, elements: &mut Vec<u8>) {
    elements.clear();
    let count = stored.len() / size.max(1);
    if size <= 1 || count <= 1 {
        elements.extend_from_slice(stored);
        return;
    }
    elements.resize(stored.len(), 0);
    interleave(&stored[..count * size], size, &mut elements[..count * size]);
    elements[count * size..].copy_from_slice(&stored[count * size..]);
}

/// Interleaves planes of bytes. Both slices have the same length, a multiple of `size`.
pub(super) fn interleave(planes: &[u8], size: usize, elements: &mut [u8]) {
    match size {
        2 => fixed::<2>(planes, elements),
        4 => fixed::<4>(planes, elements),
        8 => fixed::<8>(planes, elements),
        _ => {
            let count = planes.len() / size.max(1);
            for (number, plane) in planes.chunks_exact(count.max(1)).enumerate() {
                for (element, byte) in elements[number..].iter_mut().step_by(size).zip(plane) {
                    *element = *byte;
                }
            }
        }
    }
}

/// The size as a constant lets the compiler use vector instructions.
fn fixed<const SIZE: usize>(planes: &[u8], elements: &mut [u8]) {
    let count = planes.len() / SIZE;
    let planes: [&[u8]; SIZE] = std::array::from_fn(|plane| &planes[plane * count..][..count]);
    for (index, element) in elements.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        for plane in 0..SIZE {
            element[plane] = planes[plane][index];
        }
    }
}

/// Undoes a transposition of bits: the lowest bits of the first bytes of all elements, then the next
/// bits. The number of elements is a multiple of eight.
pub(super) fn unshuffle_bits(stored: &[u8], size: usize, elements: &mut [u8]) {
    let count = stored.len() / size.max(1);
    let row = count / 8;
    for byte in 0..size {
        for group in 0..row {
            // The bits of one byte of eight elements.
            let mut bits = [0u8; 8];
            for (bit, stored_bits) in bits.iter_mut().enumerate() {
                *stored_bits = stored[(byte * 8 + bit) * row + group];
            }
            for element in 0..8 {
                let mut value = 0;
                for (bit, stored_bits) in bits.iter().enumerate() {
                    value |= (stored_bits >> element & 1) << bit;
                }
                elements[(group * 8 + element) * size + byte] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_sizes_are_put_together() {
        for size in 1..=9 {
            let original: Vec<u8> = (0..size * 5 + 1).map(|byte| byte as u8).collect();
            let mut shuffled = Vec::new();
            for byte in 0..size {
                shuffled.extend((0..5).map(|element| original[element * size + byte]));
            }
            shuffled.push(original[size * 5]);
            let mut elements = vec![7; 3];
            match size {
                1 => unshuffle(&original, size, &mut elements),
                _ => unshuffle(&shuffled, size, &mut elements),
            }
            assert_eq!(elements, original, "{size}");
        }
        let mut elements = Vec::new();
        unshuffle(&[], 4, &mut elements);
        unshuffle(&[1, 2], 0, &mut elements);
        assert_eq!(elements, [1, 2]);
    }

    #[test]
    fn bits_are_put_together() {
        // Eight elements of two bytes; only element 3 has bits: 0x8001.
        let mut stored = vec![0; 16];
        stored[0] = 1 << 3;
        stored[15] = 1 << 3;
        let mut elements = vec![0; 16];
        unshuffle_bits(&stored, 2, &mut elements);
        let mut expected = vec![0; 16];
        expected[6..8].copy_from_slice(&[0x01, 0x80]);
        assert_eq!(elements, expected);
    }
}
