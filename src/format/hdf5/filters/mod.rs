//! Filters: the steps from the stored bytes of a chunk to its elements.

mod blosc;
mod blosclz;
mod checksum;
mod lz4;
mod lzf;
mod shuffle;

use hdf5_reader::filters::{nbit, scaleoffset, szip};
use hdf5_reader::messages::filter_pipeline::FilterDescription;

use crate::format::array::DecodeContext;
use crate::format::hdf5::source::Found;

/// The part of a chunk that is decoded at once. Larger chunks are decoded only if the stored bytes
/// can hold that much.
const UNQUESTIONED_BYTES: usize = 32 << 20;
/// Elements per stored byte that larger chunks can have at most. Deflate reaches about 1,000.
const MAX_RATIO: usize = 1 << 16;
/// Bytes that filters, such as checksums and compressors of noise, may add to a chunk.
const MAX_ADDED: usize = 64 << 10;
/// Maximum number of filters of a dataset. A filter mask has a bit for each.
const MAX_FILTERS: usize = 32;

/// The filters of a dataset, in the order in which they were applied.
#[derive(Debug, Clone, Default)]
pub(super) struct Pipeline {
    filters: Vec<Filter>,
}

/// A filter and its parameters.
#[derive(Debug, Clone)]
struct Filter {
    kind: FilterKind,
    parameters: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterKind {
    Deflate,
    Shuffle,
    Fletcher32,
    Szip,
    Nbit,
    ScaleOffset,
    Lzf,
    Blosc,
    Lz4,
    Zstd,
}

impl FilterKind {
    /// Returns the filter with an identifier, by the registry of the HDF Group.
    fn of(id: u16) -> Option<Self> {
        Some(match id {
            1 => Self::Deflate,
            2 => Self::Shuffle,
            3 => Self::Fletcher32,
            4 => Self::Szip,
            5 => Self::Nbit,
            6 => Self::ScaleOffset,
            32000 => Self::Lzf,
            32001 => Self::Blosc,
            32004 => Self::Lz4,
            32015 => Self::Zstd,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Deflate => "deflate",
            Self::Shuffle => "shuffle",
            Self::Fletcher32 => "fletcher32",
            Self::Szip => "szip",
            Self::Nbit => "nbit",
            Self::ScaleOffset => "scaleoffset",
            Self::Lzf => "lzf",
            Self::Blosc => "blosc",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    fn compresses(self) -> bool {
        !matches!(self, Self::Shuffle | Self::Fletcher32)
    }
}

/// Returns the name of a filter that is not supported.
fn unsupported(filter: &FilterDescription) -> String {
    let name = match filter.id {
        307 => "bzip2",
        32008 => "bitshuffle",
        32013 => "zfp",
        32017 | 32024 => "sz",
        32026 => "blosc2",
        32028 => "sperr",
        id => {
            let name = filter
                .name
                .as_deref()
                .unwrap_or_default()
                .trim_end_matches('\0');
            return match name {
                "" => format!("the filter {id}"),
                name => format!("the filter {name:?} ({id})"),
            };
        }
    };
    format!("the filter {name} ({})", filter.id)
}

impl Pipeline {
    /// Creates the pipeline of a dataset with elements of `size` bytes.
    ///
    /// # Errors
    /// Returns a message that names the first filter that is not supported.
    pub fn of(stored: Vec<FilterDescription>, size: u64) -> Found<Self> {
        if stored.len() > MAX_FILTERS {
            return Err(format!("{} filters, more than {MAX_FILTERS}", stored.len()));
        }
        let mut filters = Vec::with_capacity(stored.len());
        for filter in stored {
            let Some(kind) = FilterKind::of(filter.id) else {
                return Err(format!("{}, which is not supported", unsupported(&filter)));
            };
            let mut parameters = filter.client_data;
            if kind == FilterKind::Shuffle && parameters.is_empty() {
                parameters.push(u32::try_from(size).unwrap_or(1));
            }
            filters.push(Filter { kind, parameters });
        }
        Ok(Self { filters })
    }

    /// Returns `true` if any filter compresses.
    pub fn compresses(&self) -> bool {
        self.filters.iter().any(|filter| filter.kind.compresses())
    }

    /// Returns the names of the filters, separated by commas.
    pub fn names(&self) -> String {
        let names: Vec<_> = self
            .filters
            .iter()
            .map(|filter| filter.kind.name())
            .collect();
        names.join(", ")
    }

    /// Returns `true` if no filter is left after applying the mask.
    pub fn is_empty(&self, mask: u32) -> bool {
        (0..self.filters.len()).all(|index| is_masked(mask, index))
    }

    /// Decodes the stored bytes of `context` to its cells: `expected` bytes. `mask` has a bit for each
    /// filter that was not applied.
    ///
    /// # Errors
    /// Returns a message if the bytes are broken, or decode to another number of bytes.
    pub fn decode(&self, context: &mut DecodeContext, mask: u32, expected: usize) -> Found<()> {
        let stored = context.stored.len();
        if expected > UNQUESTIONED_BYTES && expected / MAX_RATIO > stored {
            return Err(format!(
                "{stored} bytes, too few for {expected} bytes of elements"
            ));
        }
        let applied: Vec<&Filter> = {
            let filters = self.filters.iter().enumerate();
            let applied = filters.filter(|(index, _)| !is_masked(mask, *index));
            applied.map(|(_, filter)| filter).collect()
        };
        for (left, filter) in applied.iter().enumerate().rev() {
            let most = match left {
                0 => expected,
                _ => expected
                    .saturating_add(expected / 8)
                    .saturating_add(MAX_ADDED),
            };
            let decoded = filter.decode(context, most);
            decoded.map_err(|found| format!("{}: {found}", filter.kind.name()))?;
            std::mem::swap(&mut context.stored, &mut context.cells);
        }
        std::mem::swap(&mut context.stored, &mut context.cells);
        match context.cells.len() {
            length if length == expected => Ok(()),
            length => Err(format!("{length} bytes when decoded, expected {expected}")),
        }
    }
}

fn is_masked(mask: u32, index: usize) -> bool {
    mask & (1 << index) != 0
}

impl Filter {
    /// Decodes the stored bytes of `context` to its cells, which are at most `most` bytes.
    fn decode(&self, context: &mut DecodeContext, most: usize) -> Found<()> {
        let DecodeContext {
            cells,
            stored,
            zstd,
        } = context;
        let text = |error: hdf5_reader::error::Error| error.to_string();
        match self.kind {
            FilterKind::Deflate => inflate(stored, cells, most)?,
            FilterKind::Shuffle => {
                let size = self.parameters.first().map_or(1, |size| *size as usize);
                shuffle::unshuffle(stored, size, cells);
            }
            FilterKind::Fletcher32 => {
                let length = checksum::fletcher32(stored)?.len();
                std::mem::swap(stored, cells);
                cells.truncate(length);
            }
            FilterKind::Szip => {
                *cells =
                    szip::decompress_with_limit(stored, &self.parameters, most).map_err(text)?;
            }
            FilterKind::Nbit => {
                *cells =
                    nbit::decompress_with_limit(stored, &self.parameters, most).map_err(text)?;
            }
            FilterKind::ScaleOffset => {
                *cells = scaleoffset::decompress_with_limit(stored, &self.parameters, most)
                    .map_err(text)?;
            }
            FilterKind::Lzf => lzf::decompress(stored, cells, most)?,
            FilterKind::Lz4 => lz4::decompress(stored, cells, most)?,
            FilterKind::Blosc => blosc::decompress(stored, cells, zstd, most)?,
            FilterKind::Zstd => {
                reserve(cells, most)?;
                let zstd = zstd.get().map_err(|error| error.to_string())?;
                zstd.decompress_to_buffer(stored, cells)
                    .map_err(|error| error.to_string())?;
            }
        }
        match cells.len() <= most {
            true => Ok(()),
            false => Err(format!("more than {most} bytes")),
        }
    }
}

/// Clears a buffer, and makes room for `most` bytes. The system provides memory only for the bytes that
/// are written.
fn reserve(buffer: &mut Vec<u8>, most: usize) -> Found<()> {
    buffer.clear();
    let reserved = buffer.try_reserve_exact(most);
    reserved.map_err(|error| error.to_string())
}

/// Decompresses a zlib stream.
fn inflate(stored: &[u8], cells: &mut Vec<u8>, most: usize) -> Found<()> {
    use flate2::{Decompress, FlushDecompress, Status};
    // One byte more shows that a stream is too long. Deflate makes at most 1032 bytes of one.
    let limit = stored.len().saturating_mul(1032).saturating_add(1);
    reserve(cells, most.saturating_add(1).min(limit))?;
    let mut stream = Decompress::new(true);
    match stream.decompress_vec(stored, cells, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok(()),
        Ok(_) if stream.total_in() < stored.len() as u64 => Err(format!("more than {most} bytes")),
        Ok(_) => Err("the stream is cut off".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn pipeline(filters: &[(u16, &[u32])]) -> Pipeline {
        let filters = filters.iter().map(|(id, parameters)| FilterDescription {
            id: *id,
            name: None,
            client_data: parameters.to_vec(),
        });
        Pipeline::of(filters.collect(), 4).unwrap()
    }

    fn decoded(pipeline: &Pipeline, stored: &[u8], mask: u32, expected: usize) -> Found<Vec<u8>> {
        let mut context = DecodeContext {
            stored: stored.to_vec(),
            cells: vec![9; 100],
            ..DecodeContext::default()
        };
        pipeline.decode(&mut context, mask, expected)?;
        Ok(context.cells)
    }

    #[test]
    fn masked_filters_are_skipped() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let deflated = encoder.finish().unwrap();
        let both = pipeline(&[(2, &[4]), (1, &[6])]);
        assert_eq!(
            decoded(&both, &deflated, 0, 8).unwrap(),
            [1, 3, 5, 7, 2, 4, 6, 8]
        );
        assert_eq!(
            decoded(&both, &deflated, 1, 8).unwrap(),
            [1, 2, 3, 4, 5, 6, 7, 8]
        );
        assert_eq!(decoded(&both, &[5; 8], 3, 8).unwrap(), [5; 8]);
        for end in 0..deflated.len() {
            decoded(&both, &deflated[..end], 0, 8).unwrap_err();
        }
        decoded(&both, &deflated, 0, 7).unwrap_err();
        decoded(&both, &deflated, 0, 9).unwrap_err();
        assert!(both.is_empty(3) && !both.is_empty(2));
        assert_eq!(both.names(), "shuffle, deflate");
    }

    #[test]
    fn unsupported_filters_are_named() {
        let of = |id, name: Option<&str>| {
            let filter = FilterDescription {
                id,
                name: name.map(str::to_string),
                client_data: Vec::new(),
            };
            Pipeline::of(vec![filter], 4).unwrap_err()
        };
        assert_eq!(
            of(32026, None),
            "the filter blosc2 (32026), which is not supported"
        );
        assert_eq!(
            of(999, Some("own\0")),
            "the filter \"own\" (999), which is not supported"
        );
    }

    #[test]
    fn few_bytes_do_not_stand_for_many() {
        let found = decoded(&pipeline(&[(1, &[6])]), &[0; 20], 0, 1 << 30).unwrap_err();
        assert!(found.contains("too few"), "{found}");
    }
}
