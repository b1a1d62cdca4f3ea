//! The filter fletcher32: a checksum after the bytes of a chunk.

use hdf5_reader::checksum;

use crate::format::hdf5::source::Found;

/// Checks the checksum at the end, and returns the bytes before it.
pub(super) fn fletcher32(stored: &[u8]) -> Found<&[u8]> {
    let (content, sum) = stored.split_last_chunk::<4>().ok_or("no checksum")?;
    let computed = checksum::fletcher32(content);
    // HDF5 up to 1.6.2 swapped the bytes of each half on little-endian machines.
    let swapped = [sum[1], sum[0], sum[3], sum[2]];
    match [*sum, swapped].map(u32::from_le_bytes).contains(&computed) {
        true => Ok(content),
        false => Err(format!(
            "the checksum is {:#010x}, expected {computed:#010x}",
            u32::from_le_bytes(*sum)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_are_accepted() {
        let content = [1, 2, 3, 4, 5, 6];
        let [a, b, c, d] = checksum::fletcher32(&content).to_le_bytes();
        for sum in [[a, b, c, d], [b, a, d, c]] {
            let stored = [content.as_slice(), &sum].concat();
            assert_eq!(fletcher32(&stored).unwrap(), content);
        }
        fletcher32(&[content.as_slice(), &[a, b, c, d ^ 1]].concat()).unwrap_err();
        fletcher32(&[1, 2]).unwrap_err();
    }
}
