//! Applies the pipeline of one chunk of a tile.

mod compression;
mod deltas;
mod integers;
mod protection;
mod runs;
mod shuffle;

use crate::format::tiledb::codecs::protection::EncryptionKey;
use crate::format::tiledb::codecs::steps::{Step, Steps};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::Filter;

/// Applies filters to chunks. Compression contexts are reused from chunk to chunk.
#[derive(Default)]
pub(crate) struct Encoder {
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

/// A chunk between two filters.
struct Chunk {
    /// The metadata that each filter has added, in the order of the filters. A tile stores them in
    /// reverse.
    metadata: Vec<Vec<u8>>,
    data: Vec<u8>,
}

impl Encoder {
    /// Filters a chunk of values, and appends it to a tile.
    pub fn encode(
        &mut self,
        steps: &Steps,
        key: Option<&EncryptionKey>,
        plain: &[u8],
        tile: &mut Vec<u8>,
    ) -> Decoded<()> {
        let chunk = Chunk {
            metadata: Vec::new(),
            data: plain.to_vec(),
        };
        self.encode_chunk(steps, key, chunk, plain.len(), tile)
    }

    /// Filters texts that are stored without offsets, and appends them to a tile as one chunk.
    /// `offsets` are the start of each text and the end of the last.
    pub fn encode_texts(
        &mut self,
        steps: &Steps,
        key: Option<&EncryptionKey>,
        (texts, offsets): (&[u8], &[u64]),
        tile: &mut Vec<u8>,
    ) -> Decoded<()> {
        let texts_of_cells = || runs::texts(texts, offsets);
        let (metadata, data) = match steps.texts {
            Some(Filter::Rle) => runs::encode_runs(texts_of_cells),
            _ => runs::encode_dictionary(texts_of_cells),
        }?;
        let chunk = Chunk {
            metadata: vec![metadata],
            data,
        };
        self.encode_chunk(steps, key, chunk, texts.len(), tile)
    }

    fn encode_chunk(
        &mut self,
        steps: &Steps,
        key: Option<&EncryptionKey>,
        mut chunk: Chunk,
        original: usize,
        tile: &mut Vec<u8>,
    ) -> Decoded<()> {
        for step in &steps.steps {
            self.apply(step, steps.cell_bytes, key, &mut chunk)?;
        }
        let metadata: usize = chunk.metadata.iter().map(Vec::len).sum();
        for length in [original, chunk.data.len(), metadata] {
            tile.extend(length_u32("length of a chunk", length)?.to_le_bytes());
        }
        chunk
            .metadata
            .iter()
            .rev()
            .for_each(|piece| tile.extend(piece));
        tile.extend(&chunk.data);
        Ok(())
    }

    /// Applies one filter.
    fn apply(
        &mut self,
        step: &Step,
        cell_bytes: usize,
        key: Option<&EncryptionKey>,
        chunk: &mut Chunk,
    ) -> Decoded<()> {
        let (datatype, size, input) = (step.datatype, step.datatype.size(), &chunk.data);
        let (metadata, data) = match step.filter {
            Filter::Md5 | Filter::Sha256 => {
                let parts = chunk.metadata.iter().rev().chain([input]);
                let table = protection::checksums(step.filter, parts, chunk.metadata.len());
                chunk.metadata.push(table);
                return Ok(());
            }
            Filter::Byteshuffle => (parts(&[input.len()])?, shuffle::shuffle_bytes(size, input)),
            Filter::Bitshuffle => {
                let (head, tail) = input.split_at(input.len() / 8 * 8);
                let mut data = shuffle::shuffle_bits(size, head);
                data.extend(tail);
                match (head.len(), tail.len()) {
                    (head, 0) => (parts(&[head])?, data),
                    (head, tail) => (parts(&[head, tail])?, data),
                }
            }
            Filter::Xor => (parts(&[input.len()])?, integers::xor(size, input)?),
            Filter::FloatScale {
                scale,
                offset,
                width,
            } => {
                let scaling = (scale, offset, usize::from(width));
                let data = integers::scale(datatype, scaling, input)?;
                (parts(&[data.len()])?, data)
            }
            Filter::BitWidthReduction { max_window } => {
                integers::reduce(datatype, max_window, input)?
            }
            Filter::PositiveDelta { max_window } => {
                integers::subtract(datatype, max_window, input)?
            }
            _ => return self.compress(step, cell_bytes, key, chunk),
        };
        chunk.metadata.push(metadata);
        chunk.data = data;
        Ok(())
    }

    /// Compresses or encrypts both the metadata of earlier filters and the data.
    fn compress(
        &mut self,
        step: &Step,
        cell_bytes: usize,
        key: Option<&EncryptionKey>,
        chunk: &mut Chunk,
    ) -> Decoded<()> {
        let mut table = Vec::new();
        table.extend(length_u32("number of parts", chunk.metadata.len())?.to_le_bytes());
        table.extend(1u32.to_le_bytes());
        let mut data = Vec::with_capacity(chunk.data.len() / 2);
        for part in chunk.metadata.iter().rev().chain([&chunk.data]) {
            let start = data.len();
            let mut protection = None;
            match step.filter {
                Filter::Gzip { level } => compression::gzip(level, part, &mut data)?,
                Filter::Zstd { level } => {
                    compression::zstd(&mut self.zstd, level, part, &mut data)?
                }
                Filter::Lz4 { .. } => compression::lz4(part, &mut data)?,
                Filter::Bzip2 { level } => compression::bzip2(level, part, &mut data)?,
                Filter::Rle => runs::encode(cell_bytes, part, &mut data)?,
                Filter::DoubleDelta { .. } => {
                    deltas::double_delta(step.delta_bytes(), part, &mut data)?;
                }
                Filter::Delta { .. } => deltas::delta(step.delta_bytes(), part, &mut data)?,
                _ => {
                    let Some(key) = key else {
                        return Err(Fault::new("encryption key", "missing", "a key of 32 bytes"));
                    };
                    protection = Some(key.encrypt(part, &mut data)?);
                }
            }
            table.extend(length_u32("length of a part", part.len())?.to_le_bytes());
            let stored = length_u32("stored length of a part", data.len() - start)?;
            table.extend(stored.to_le_bytes());
            table.extend(protection.iter().flatten());
        }
        chunk.metadata = vec![table];
        chunk.data = data;
        Ok(())
    }
}

/// Returns a list of part lengths, the metadata of several filters.
fn parts(lengths: &[usize]) -> Decoded<Vec<u8>> {
    let mut metadata = (lengths.len() as u32).to_le_bytes().to_vec();
    for length in lengths {
        metadata.extend(length_u32("length of a part", *length)?.to_le_bytes());
    }
    Ok(metadata)
}

fn length_u32(field: &'static str, length: usize) -> Decoded<u32> {
    u32::try_from(length).map_err(|_| Fault::new(field, length, "less than 2^32"))
}

/// Checks that bytes are whole values.
fn check_whole(filter: &'static str, size: usize, input: &[u8]) -> Decoded<()> {
    if input.len().is_multiple_of(size) {
        return Ok(());
    }
    let found = format!("{} bytes", input.len());
    let expected = format!("a multiple of {size} bytes");
    Err(Fault::new(filter, found, expected))
}

#[cfg(test)]
mod tests;
