//! The filter LZ4: blocks of a fixed size, each compressed for itself.

use crate::format::hdf5::source::Found;

/// Decompresses a chunk to at most `most` bytes, replacing the contents of `cells`.
///
/// The chunk starts with its size (eight bytes) and the size of a block (four bytes), followed by the
/// blocks, each after its compressed size (four bytes). All numbers are big-endian. A block that does
/// not become smaller is stored as it is.
pub(super) fn decompress(stored: &[u8], cells: &mut Vec<u8>, most: usize) -> Found<()> {
    let (size, rest) = stored.split_first_chunk().ok_or("no header")?;
    let (block, mut rest) = rest.split_first_chunk().ok_or("no header")?;
    let size = u64::from_be_bytes(*size);
    let size = usize::try_from(size).ok().filter(|size| *size <= most);
    let size = size.ok_or_else(|| format!("more than {most} bytes"))?;
    let block = (u32::from_be_bytes(*block) as usize).min(size);
    if block == 0 && size > 0 {
        return Err("blocks without bytes".to_string());
    }
    // LZ4 makes at most 255 bytes of one.
    if size / 255 > stored.len() {
        return Err(format!("{} bytes, too few for {size} bytes", stored.len()));
    }
    cells.clear();
    cells.resize(size, 0);
    for target in cells.chunks_mut(block.max(1)) {
        let (length, after) = rest.split_first_chunk().ok_or("cut off")?;
        let length = u32::from_be_bytes(*length) as usize;
        let (compressed, after) = after.split_at_checked(length).ok_or("cut off")?;
        rest = after;
        if length == target.len() {
            target.copy_from_slice(compressed);
            continue;
        }
        let written = lz4_flex::block::decompress_into(compressed, target);
        let written = written.map_err(|error| error.to_string())?;
        if written != target.len() {
            return Err(format!(
                "a block of {written} bytes, expected {}",
                target.len()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_what_breaks_them() {
        let compressed = lz4_flex::block::compress(&[7; 100]);
        let mut stored = 103u64.to_be_bytes().to_vec();
        stored.extend(100u32.to_be_bytes());
        stored.extend((compressed.len() as u32).to_be_bytes());
        stored.extend(&compressed);
        stored.extend(3u32.to_be_bytes());
        stored.extend([1, 2, 3]);
        let mut cells = Vec::new();
        decompress(&stored, &mut cells, 103).unwrap();
        assert_eq!(cells, [vec![7; 100], vec![1, 2, 3]].concat());
        decompress(&stored, &mut cells, 102).unwrap_err();
        for end in 0..stored.len() {
            decompress(&stored[..end], &mut cells, 103).unwrap_err();
        }
    }
}
