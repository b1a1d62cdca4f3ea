//! Building blocks of zone map entries and index entries: a dataset, its chunks, and hexadecimal
//! values.

use std::fmt;
use std::path::Path;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::error::{Error, ErrorLocation, Result};
use crate::format::array::{Dataset, Dtype, Fill};
use crate::format::tet::footer::Footer;
use crate::format::tet::superblock::MAX_RANK;

/// Maximum number of characters of a hexadecimal value that a message quotes.
const MAX_QUOTED: usize = 40;

/// The parts of a file that its statistics must agree with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescribedFile<'a> {
    pub datasets: &'a [Dataset],
    pub footer: &'a Footer,
    /// The number of rows of the chunk index.
    pub chunk_rows: u64,
}

/// The dataset that an entry describes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryDataset<'a> {
    /// The path of the file that contains the entry.
    path: &'a Path,
    pub dataset: &'a Dataset,
    pub dtype: Dtype,
    /// The fill value. It counts as null, so no entry may list it as a value.
    pub fill: Option<Fill>,
}

impl<'a> EntryDataset<'a> {
    /// Returns the dataset with the given id, or `None` if the dataset cannot be read, so that its
    /// entries cannot be checked.
    pub fn of(path: &'a Path, file: DescribedFile<'a>, id: u64) -> Result<Option<Self>> {
        let datasets = file.datasets;
        let position = usize::try_from(id).ok();
        let Some(dataset) = position.and_then(|id| datasets.get(id)) else {
            return Err(Error::malformed(
                ErrorLocation::file(path),
                "dataset_id",
                id,
                format!("one of the file's {} datasets", datasets.len()),
            ));
        };
        let Ok(dtype) = dataset.check(path) else {
            return Ok(None);
        };
        let metadata = file.footer.metadata.datasets.get(dataset.name());
        let fill = metadata.and_then(|metadata| Fill::of(metadata, dtype));
        Ok(Some(Self {
            path,
            dataset,
            dtype,
            fill,
        }))
    }

    /// Returns an error about the dataset or one of its chunks.
    pub fn malformed(
        &self,
        chunk: Option<&[u64]>,
        field: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Error {
        let location = ErrorLocation {
            chunk: chunk.map(<[u64]>::to_vec),
            ..ErrorLocation::dataset(self.path, self.dataset.name())
        };
        Error::malformed(location, field, found, expected)
    }

    /// Returns the row-major ordinal of a chunk in the chunk grid.
    pub fn ordinal(&self, field: &'static str, chunk: &[u64]) -> Result<u64> {
        let rank = self.dataset.shape().len();
        let ordinal = (chunk.len() == rank).then(|| self.dataset.chunk_ordinal(chunk));
        ordinal.flatten().ok_or_else(|| {
            let grid = self.dataset.chunk_grid();
            self.malformed(
                None,
                field,
                format!("{chunk:?}"),
                format!("chunk indices within the grid {grid:?}"),
            )
        })
    }

    /// Returns the bit pattern of a value, which must have the length of the dtype and must not be
    /// null.
    pub fn bits(&self, chunk: Option<&[u64]>, field: &'static str, hex: &Hex) -> Result<u64> {
        let dtype = self.dtype;
        let expected = if u64::from(hex.bytes) != dtype.size() {
            format!("{} bytes in hexadecimal as of {dtype}", dtype.size())
        } else if dtype.is_nan(hex.bits) {
            "a value other than NaN, since NaN counts as null".to_string()
        } else if self.fill.is_some_and(|fill| fill.bits() == hex.bits) {
            "a value other than the fill value".to_string()
        } else {
            return Ok(hex.bits);
        };
        Err(self.malformed(chunk, field, hex, expected))
    }
}

/// The indices of a chunk in the chunk grid. The document may list more or fewer than there are axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coordinates {
    positions: [u64; MAX_RANK],
    rank: usize,
}

impl Coordinates {
    pub fn as_slice(&self) -> &[u64] {
        &self.positions[..self.rank]
    }
}

impl<'de> Deserialize<'de> for Coordinates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CoordinatesVisitor;

        impl<'de> Visitor<'de> for CoordinatesVisitor {
            type Value = Coordinates;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("up to 8 numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Coordinates, A::Error> {
                let mut positions = [0; MAX_RANK];
                let mut rank = 0;
                while let Some(position) = list.next_element()? {
                    let Some(slot) = positions.get_mut(rank) else {
                        return Err(de::Error::invalid_length(rank + 1, &self));
                    };
                    *slot = position;
                    rank += 1;
                }
                Ok(Coordinates { positions, rank })
            }
        }

        deserializer.deserialize_seq(CoordinatesVisitor)
    }
}

/// A value as the hexadecimal digits of its little-endian bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hex {
    /// The value's bit pattern, zero-extended.
    bits: u64,
    bytes: u8,
}

impl Hex {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() > 16 || !digits.len().is_multiple_of(2) {
            return None;
        }
        let mut bits = 0;
        for pair in digits.rchunks_exact(2) {
            for digit in pair {
                let value = char::from(*digit).to_digit(16)?;
                bits = bits << 4 | u64::from(value);
            }
        }
        // Cannot truncate: there are at most eight bytes.
        let bytes = (digits.len() / 2) as u8;
        Some(Self { bits, bytes })
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in &self.bits.to_le_bytes()[..usize::from(self.bytes)] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("\"")
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HexVisitor;

        impl Visitor<'_> for HexVisitor {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("up to 8 bytes in hexadecimal")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex, E> {
                Hex::parse(text).ok_or_else(|| {
                    let quoted: String = text.chars().take(MAX_QUOTED).collect();
                    E::invalid_value(de::Unexpected::Str(&quoted), &self)
                })
            }
        }

        deserializer.deserialize_str(HexVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_little_endian() {
        let hex = |text| Hex::parse(text).map(|hex| (hex.bits, hex.bytes));
        assert_eq!(hex("000040c0"), Some(((-3f32).to_bits().into(), 4)));
        assert_eq!(hex("FfFe"), Some((0xfeff, 2)));
        assert_eq!(hex("0102030405060708"), Some((0x0807060504030201, 8)));
        assert_eq!(hex(""), Some((0, 0)));
        for broken in ["0", "0g", "+1", "é", "010203040506070809", "0x01", " 1"] {
            assert_eq!(hex(broken), None, "{broken}");
        }
        assert_eq!(Hex::parse("00aB").unwrap().to_string(), "\"00ab\"");
    }

    #[test]
    fn coordinates_have_up_to_eight_positions() {
        let read = |text| serde_json::from_str::<Coordinates>(text);
        assert_eq!(
            read("[1, 0, 18446744073709551615]").unwrap().as_slice(),
            [1, 0, u64::MAX]
        );
        assert!(read("[]").unwrap().as_slice().is_empty());
        assert_eq!(read("[1,2,3,4,5,6,7,8]").unwrap().as_slice().len(), 8);
        for broken in [
            "[1,2,3,4,5,6,7,8,9]",
            "[-1]",
            "[1.0]",
            "[18446744073709551616]",
            "1",
        ] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
