//! Runs and dictionaries of cells.

use std::collections::HashMap;

use crate::format::tiledb::codecs::encoding::{check_whole, length_u32};
use crate::format::tiledb::fault::Decoded;

/// Appends runs of equal cells.
pub(super) fn encode(cell_bytes: usize, input: &[u8], output: &mut Vec<u8>) -> Decoded<()> {
    check_whole("input of RLE", cell_bytes, input)?;
    let mut cells = input.chunks_exact(cell_bytes).peekable();
    while let Some(cell) = cells.next() {
        let mut count = 1u16;
        while count < u16::MAX && cells.next_if_eq(&cell).is_some() {
            count += 1;
        }
        output.extend(cell);
        output.extend(count.to_be_bytes());
    }
    Ok(())
}

/// Returns the texts of cells, given the start of each and the end of the last.
pub(super) fn texts<'a>(
    values: &'a [u8],
    offsets: &'a [u64],
) -> impl Iterator<Item = &'a [u8]> + Clone {
    let cells = offsets.windows(2);
    cells.map(|cell| {
        values
            .get(cell[0] as usize..cell[1] as usize)
            .unwrap_or_default()
    })
}

/// Returns the number of bytes that hold a value.
fn width(largest: usize) -> usize {
    match largest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Appends a big-endian integer of `width` bytes.
fn push_big_endian(value: usize, width: usize, output: &mut Vec<u8>) {
    output.extend(&(value as u64).to_be_bytes()[8 - width..]);
}

/// Returns the lengths at the start of the metadata of encoded texts.
fn lengths<'a>(texts: impl Iterator<Item = &'a [u8]>, stored: usize) -> Decoded<Vec<u8>> {
    let (cells, bytes) = texts.fold((0, 0), |(cells, bytes), text| {
        (cells + 1, bytes + text.len())
    });
    let offsets = 8usize.saturating_mul(cells);
    let mut metadata = Vec::new();
    metadata.extend([0u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
    for length in [bytes, stored, offsets] {
        metadata.extend(length_u32("length of texts", length)?.to_le_bytes());
    }
    Ok(metadata)
}

/// Encodes runs of equal texts: the number, the length and the text of each run.
pub(super) fn encode_runs<'a, I: Iterator<Item = &'a [u8]>>(
    texts: impl Fn() -> I,
) -> Decoded<(Vec<u8>, Vec<u8>)> {
    let mut runs: Vec<(&[u8], usize)> = Vec::new();
    for text in texts() {
        match runs.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => runs.push((text, 1)),
        }
    }
    let run_width = width(runs.iter().map(|(_, count)| *count).max().unwrap_or(0));
    let length_width = width(runs.iter().map(|(text, _)| text.len()).max().unwrap_or(0));
    let mut data = Vec::new();
    for (text, count) in runs {
        push_big_endian(count, run_width, &mut data);
        push_big_endian(text.len(), length_width, &mut data);
        data.extend(text);
    }
    let mut metadata = lengths(texts(), data.len())?;
    metadata.extend([run_width as u8, length_width as u8]);
    Ok((metadata, data))
}

/// Encodes texts as ids in a dictionary, which is part of the metadata.
pub(super) fn encode_dictionary<'a, I: Iterator<Item = &'a [u8]>>(
    texts: impl Fn() -> I,
) -> Decoded<(Vec<u8>, Vec<u8>)> {
    let (mut cells, mut longest) = (0, 0);
    for text in texts() {
        cells += 1;
        longest = longest.max(text.len());
    }
    let (id_width, length_width) = (width(cells), width(longest));
    let mut ids: HashMap<&[u8], usize> = HashMap::new();
    let (mut dictionary, mut data) = (Vec::new(), Vec::new());
    for text in texts() {
        let next = ids.len();
        let id = *ids.entry(text).or_insert_with(|| {
            push_big_endian(text.len(), length_width, &mut dictionary);
            dictionary.extend(text);
            next
        });
        push_big_endian(id, id_width, &mut data);
    }
    let mut metadata = lengths(texts(), data.len())?;
    metadata.extend([id_width as u8, length_width as u8]);
    metadata.extend(length_u32("length of the dictionary", dictionary.len())?.to_le_bytes());
    metadata.extend(dictionary);
    Ok((metadata, data))
}
