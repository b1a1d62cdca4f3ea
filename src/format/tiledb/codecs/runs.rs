//! Runs and dictionaries of cells.

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};

/// Maximum number of texts per stored byte, of which run lengths can claim any number.
const MAX_TEXTS_PER_BYTE: usize = 1 << 20;

/// Repeats the cells of one part: each run is a cell and a big-endian number of two bytes.
pub(super) fn repeat(cell_bytes: usize, input: &[u8], output: &mut [u8]) -> Decoded<()> {
    let run_bytes = cell_bytes.saturating_add(2);
    if !input.len().is_multiple_of(run_bytes) {
        let expected = format!("a multiple of {run_bytes}");
        return Err(Fault::new("length of runs", input.len(), expected));
    }
    let mut output = output;
    for run in input.chunks_exact(run_bytes) {
        let (cell, count) = run.split_at(cell_bytes);
        let count = usize::from(count[0]) << 8 | usize::from(count[1]);
        let length = count * cell_bytes;
        let left = output.len() / cell_bytes;
        let Some((cells, rest)) = output.split_at_mut_checked(length) else {
            let expected = format!("at most {left} cells");
            return Err(Fault::new("run length", count, expected));
        };
        output = rest;
        match cell {
            [byte] => cells.fill(*byte),
            _ => cells
                .chunks_exact_mut(cell_bytes)
                .for_each(|to| to.copy_from_slice(cell)),
        }
    }
    match output.len() {
        0 => Ok(()),
        left => Err(Fault::new(
            "runs",
            format!("{left} bytes too short"),
            "all cells",
        )),
    }
}

/// The texts of a tile and the place for them.
pub(super) struct Texts<'a> {
    /// The number of bytes of all texts.
    pub length: usize,
    /// The number of texts.
    pub cells: usize,
    pub output: &'a mut Vec<u8>,
    pub offsets: &'a mut Vec<u64>,
}

impl Texts<'_> {
    /// Reads the part lengths, and checks them against the bytes and the expected output. Buffers
    /// then grow with the texts that are found, not by lengths that are only stated.
    fn start(&mut self, metadata: &mut Fields<'_>, input: usize) -> Decoded<()> {
        let parts = (
            metadata.u32("number of metadata parts")?,
            metadata.u32("number of data parts")?,
        );
        if parts != (0, 1) {
            let found = format!("{} and {}", parts.0, parts.1);
            return Err(Fault::new("numbers of parts of texts", found, "0 and 1"));
        }
        let lengths = [
            ("length of texts", self.length),
            ("stored length of texts", input),
            ("length of offsets", self.cells.saturating_mul(8)),
        ];
        for (field, expected) in lengths {
            let found = metadata.u32(field)? as usize;
            if found != expected {
                return Err(Fault::new(field, found, expected));
            }
        }
        if self.cells / MAX_TEXTS_PER_BYTE > input {
            let expected = format!("at most {MAX_TEXTS_PER_BYTE} per byte, of {input} bytes");
            return Err(Fault::new("number of texts", self.cells, expected));
        }
        self.output.clear();
        self.offsets.clear();
        Ok(())
    }

    /// Appends a text some number of times.
    fn push(&mut self, text: &[u8], count: usize) -> Decoded<()> {
        let (bytes, cells) = (
            self.length - self.output.len(),
            self.cells - self.offsets.len(),
        );
        let is_within = count
            .checked_mul(text.len())
            .is_some_and(|length| length <= bytes);
        if !is_within || count > cells {
            let expected = format!("at most {cells} texts and {bytes} bytes");
            let found = format!("{count} texts of {} bytes", text.len());
            return Err(Fault::new("texts", found, expected));
        }
        for _ in 0..count {
            self.offsets.push(self.output.len() as u64);
            self.output.extend_from_slice(text);
        }
        Ok(())
    }

    /// Checks that all texts were found, and appends the end of the last.
    fn finish(self) -> Decoded<()> {
        let found = (self.offsets.len(), self.output.len());
        if found != (self.cells, self.length) {
            let found = format!("{} texts of {} bytes", found.0, found.1);
            let expected = format!("{} texts of {} bytes", self.cells, self.length);
            return Err(Fault::new("texts", found, expected));
        }
        self.offsets.push(self.length as u64);
        Ok(())
    }
}

/// Reads a big-endian integer of `width` bytes.
fn big_endian(fields: &mut Fields<'_>, field: &'static str, width: usize) -> Decoded<usize> {
    let bytes = fields.take(field, width)?;
    let value = bytes
        .iter()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    Ok(usize::try_from(value).unwrap_or(usize::MAX))
}

/// Reads a width in bytes.
fn width(metadata: &mut Fields<'_>, field: &'static str) -> Decoded<usize> {
    match metadata.u8(field)? {
        width @ 1..=8 => Ok(usize::from(width)),
        other => Err(Fault::new(field, other, "1 to 8")),
    }
}

/// Repeats texts: each run is a number, a length and a text.
pub(super) fn repeat_texts(
    metadata: &mut Fields<'_>,
    input: &[u8],
    mut texts: Texts<'_>,
) -> Decoded<()> {
    texts.start(metadata, input.len())?;
    let run_width = width(metadata, "width of run lengths")?;
    let length_width = width(metadata, "width of text lengths")?;
    let mut runs = Fields::new(input);
    while runs.remaining() > 0 {
        let count = big_endian(&mut runs, "run length", run_width)?;
        let length = big_endian(&mut runs, "text length", length_width)?;
        texts.push(runs.take("text", length)?, count)?;
    }
    texts.finish()
}

/// Looks up texts in a dictionary, which is in the metadata.
pub(super) fn look_up_texts(
    metadata: &mut Fields<'_>,
    input: &[u8],
    mut texts: Texts<'_>,
) -> Decoded<()> {
    texts.start(metadata, input.len())?;
    let id_width = width(metadata, "width of dictionary ids")?;
    let length_width = width(metadata, "width of text lengths")?;
    let dictionary_bytes = u64::from(metadata.u32("length of the dictionary")?);
    let mut stored = Fields::new(metadata.take_u64("dictionary", dictionary_bytes)?);
    let mut dictionary = Vec::new();
    while stored.remaining() > 0 {
        let length = big_endian(&mut stored, "text length", length_width)?;
        dictionary.push(stored.take("text", length)?);
    }
    let mut ids = Fields::new(input);
    while ids.remaining() > 0 {
        let id = big_endian(&mut ids, "dictionary id", id_width)?;
        let Some(text) = dictionary.get(id) else {
            let expected = format!("less than {}", dictionary.len());
            return Err(Fault::new("dictionary id", id, expected));
        };
        texts.push(text, 1)?;
    }
    texts.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_cells() {
        let mut output = [0; 10];
        repeat(2, &[1, 2, 0, 3, 3, 4, 0, 2], &mut output).unwrap();
        assert_eq!(output, [1, 2, 1, 2, 1, 2, 3, 4, 3, 4]);
        for (bytes, length) in [(&[1, 0, 3][..], 2), (&[1, 0, 3], 4), (&[1, 0], 1)] {
            repeat(1, bytes, &mut vec![0; length]).unwrap_err();
        }
    }
}
