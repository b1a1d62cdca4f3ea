//! A file whose cells outside of their valid range read as fill values.

use std::collections::BTreeMap;
use std::sync::Arc;

use half::f16;

use crate::error::{Error, Result};
use crate::format::array::dataset::Dataset;
use crate::format::array::decoding::DecodeContext;
use crate::format::array::dtype::Dtype;
use crate::format::array::file::{ArrayFile, GroupAttributes, Payload, StoredChunk};
use crate::format::array::listing::Listing;
#[cfg(feature = "remote")]
use crate::format::array::located::LocatedChunk;
use crate::format::array::metadata::DatasetMetadata;
use crate::format::array::metadata::described::DescribedAxis;
use crate::format::array::metadata::fill::Fill;
use crate::format::io::identity::FileIdentity;
use crate::format::io::storage::{Access, Storage};

/// The attribute that holds the fill value.
const FILL_VALUE: &str = "_FillValue";

/// An array file whose cells outside of the range that the attributes `valid_min`, `valid_max` or
/// `valid_range` give (NetCDF User's Guide, appendix A) become the fill value of their dataset.
///
/// The bounds are compared with the cells as stored, before they are unpacked. A dataset of integers that
/// has a range, and no fill value, gets a fill value outside of the range.
#[derive(Debug)]
pub(crate) struct ValidRangeFile {
    file: Arc<dyn ArrayFile>,
    /// The range and the metadata of each dataset that has a range, by the dataset's id.
    masks: BTreeMap<u64, (Mask, DatasetMetadata)>,
}

/// The valid range of a dataset, and the cell that replaces others.
#[derive(Debug, Clone)]
struct Mask {
    min: Option<Bound>,
    max: Option<Bound>,
    fill: [u8; 8],
    dtype: Dtype,
}

/// A bound of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    Integer(i128),
    Float(f64),
}

impl Bound {
    fn parse(text: &str, dtype: Dtype) -> Option<Self> {
        let text = text.trim();
        if dtype.is_float() {
            return text.parse().ok().map(Self::Float);
        }
        match text.parse() {
            Ok(integer) => Some(Self::Integer(integer)),
            // A bound such as 100.0 has no fraction that integers could be compared with.
            Err(_) => text
                .parse()
                .ok()
                .map(|bound: f64| Self::Integer(bound as i128)),
        }
    }

    fn integer(self) -> i128 {
        match self {
            Self::Integer(bound) => bound,
            Self::Float(bound) => bound as i128,
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(bound) => bound as f64,
            Self::Float(bound) => bound,
        }
    }
}

impl ValidRangeFile {
    /// Wraps a file. Returns the file itself if none of its datasets has a valid range.
    pub fn wrap(file: Arc<dyn ArrayFile>) -> Arc<dyn ArrayFile> {
        let datasets = file.datasets().iter();
        let masks: BTreeMap<_, _> = datasets
            .filter_map(|dataset| {
                Some((
                    dataset.id(),
                    Mask::of(dataset.dtype()?, file.metadata(dataset)?)?,
                ))
            })
            .collect();
        match masks.is_empty() {
            true => file,
            false => Arc::new(Self { file, masks }),
        }
    }
}

impl Mask {
    /// Returns the mask of a dataset with a valid range, and its metadata with a fill value.
    fn of(dtype: Dtype, metadata: &DatasetMetadata) -> Option<(Self, DatasetMetadata)> {
        let attribute = |key: &str| metadata.attrs.get(key).map(String::as_str);
        let (mut min, mut max) = (attribute("valid_min"), attribute("valid_max"));
        let range = attribute("valid_range").and_then(|text| {
            let (min, max) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
            Some((min, max))
        });
        if let Some((low, high)) = range {
            (min, max) = (Some(low), Some(high));
        }
        let [min, max] = [min, max].map(|text| text.and_then(|text| Bound::parse(text, dtype)));
        if min.is_none() && max.is_none() {
            return None;
        }
        let mut metadata = metadata.clone();
        let fill = match Fill::all(&metadata, dtype).first() {
            Some(fill) => fill.bits(),
            None => {
                let text = outside(dtype, min, max)?;
                metadata.attrs.insert(FILL_VALUE.to_string(), text);
                Fill::of(&metadata, dtype)?.bits()
            }
        };
        let mask = Self {
            min,
            max,
            fill: fill.to_le_bytes(),
            dtype,
        };
        Some((mask, metadata))
    }

    /// Replaces the cells outside of the range.
    fn apply(&self, cells: &mut [u8]) {
        macro_rules! integers {
            ($type:ty) => {{
                let (low, high) = (<$type>::MIN as i128, <$type>::MAX as i128);
                let min = self.min.map_or(low, Bound::integer);
                let max = self.max.map_or(high, Bound::integer);
                if min > high || max < low {
                    return self.replace(cells, |_: [u8; size_of::<$type>()]| true);
                }
                // Clamped to the type, whose bounds hold for every cell.
                let (min, max) = (min.max(low) as $type, max.min(high) as $type);
                self.replace(cells, |cell| {
                    let cell = <$type>::from_le_bytes(cell);
                    cell < min || cell > max
                })
            }};
        }
        let min = self.min.map_or(f64::NEG_INFINITY, Bound::float);
        let max = self.max.map_or(f64::INFINITY, Bound::float);
        // Comparisons with NaN are false, so NaN stays.
        let is_out = |cell: f64| cell < min || cell > max;
        match self.dtype {
            Dtype::U8 => integers!(u8),
            Dtype::U16 => integers!(u16),
            Dtype::U32 => integers!(u32),
            Dtype::U64 => integers!(u64),
            Dtype::I8 => integers!(i8),
            Dtype::I16 => integers!(i16),
            Dtype::I32 => integers!(i32),
            Dtype::I64 => integers!(i64),
            Dtype::F16 => self.replace(cells, |cell| is_out(f16::from_le_bytes(cell).to_f64())),
            // The bound of a float is written with the digits of a float.
            Dtype::F32 => {
                let (min, max) = (min as f32, max as f32);
                self.replace(cells, |cell| {
                    let cell = f32::from_le_bytes(cell);
                    cell < min || cell > max
                });
            }
            Dtype::F64 => self.replace(cells, |cell| is_out(f64::from_le_bytes(cell))),
        }
    }

    fn replace<const SIZE: usize>(&self, cells: &mut [u8], is_out: impl Fn([u8; SIZE]) -> bool) {
        for cell in cells.as_chunks_mut::<SIZE>().0 {
            if is_out(*cell) {
                cell.copy_from_slice(&self.fill[..SIZE]);
            }
        }
    }
}

/// Returns a value outside of a range as text: NaN for floats.
fn outside(dtype: Dtype, min: Option<Bound>, max: Option<Bound>) -> Option<String> {
    if dtype.is_float() {
        return Some("NaN".to_string());
    }
    let bits = dtype.size() * 8;
    let (low, high) = match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (0, (1i128 << bits) - 1),
        _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    };
    if min.is_some_and(|min| min.integer() > low) {
        return Some(low.to_string());
    }
    // If the range has all values of the type, there is nothing to replace.
    let is_above = max.is_some_and(|max| max.integer() < high);
    is_above.then(|| high.to_string())
}

impl ArrayFile for ValidRangeFile {
    fn format(&self) -> &'static str {
        self.file.format()
    }

    fn listing(&self) -> &Listing {
        self.file.listing()
    }

    fn metadata(&self, dataset: &Dataset) -> Option<&DatasetMetadata> {
        match self.masks.get(&dataset.id()) {
            Some((_, metadata)) => Some(metadata),
            None => self.file.metadata(dataset),
        }
    }

    fn described_axes(&self, dataset: &Dataset) -> &[DescribedAxis] {
        self.file.described_axes(dataset)
    }

    fn link_target(&self, dataset: &Dataset) -> Option<&Dataset> {
        self.file.link_target(dataset)
    }

    fn groups(&self) -> Option<&GroupAttributes> {
        self.file.groups()
    }

    fn attributes_describe_cells(&self) -> bool {
        self.file.attributes_describe_cells()
    }

    fn verify_checksums(&self) -> Vec<Error> {
        self.file.verify_checksums()
    }

    fn layout_version(&self) -> Option<u32> {
        self.file.layout_version()
    }

    fn has_chunks(&self, dataset: &Dataset) -> bool {
        self.file.has_chunks(dataset)
    }

    fn listed_chunks(&self) -> Option<u64> {
        self.file.listed_chunks()
    }

    fn identity(&self, dataset: &Dataset) -> Result<FileIdentity> {
        self.file.identity(dataset)
    }

    fn chunk(&self, dataset: &Dataset, chunk: &[u64], access: Access) -> Result<StoredChunk> {
        let mut stored = self.file.chunk(dataset, chunk, access)?;
        if self.masks.contains_key(&dataset.id()) {
            stored.payload = Payload::Encoded(self.file.format());
        }
        Ok(stored)
    }

    fn is_compressed(&self, dataset: &Dataset) -> Result<bool> {
        self.file.is_compressed(dataset)
    }

    fn storage(&self, dataset: &Dataset) -> Result<Arc<Storage>> {
        self.file.storage(dataset)
    }

    #[cfg(feature = "remote")]
    fn is_remote(&self) -> bool {
        self.file.is_remote()
    }

    #[cfg(feature = "remote")]
    fn locate(&self, dataset: &Dataset, chunk: &[u64]) -> Result<LocatedChunk> {
        let mut located = self.file.locate(dataset, chunk)?;
        if self.masks.contains_key(&dataset.id()) {
            located.stored.payload = Payload::Encoded(self.file.format());
        }
        Ok(located)
    }

    #[cfg(feature = "remote")]
    fn decode_fetched(
        &self,
        dataset: &Dataset,
        chunk: &[u64],
        bytes: Option<&[u8]>,
        context: &mut DecodeContext,
    ) -> Result<()> {
        let Some(bytes) = bytes else {
            return self.decode(dataset, chunk, context);
        };
        match self.file.chunk(dataset, chunk, Access::Pread)?.payload {
            Payload::Raw(_) => {
                context.cells.clear();
                context.cells.extend_from_slice(bytes);
            }
            _ => self
                .file
                .decode_fetched(dataset, chunk, Some(bytes), context)?,
        }
        if let Some((mask, _)) = self.masks.get(&dataset.id()) {
            mask.apply(&mut context.cells);
        }
        Ok(())
    }

    fn decode(&self, dataset: &Dataset, chunk: &[u64], context: &mut DecodeContext) -> Result<()> {
        let stored = self.file.chunk(dataset, chunk, Access::Pread)?;
        match stored.payload {
            Payload::Encoded(_) => self.file.decode(dataset, chunk, context)?,
            Payload::Raw(offset) => {
                let length = usize::try_from(stored.raw_bytes);
                let length =
                    length.map_err(|error| Error::invalid(self.path(), error.to_string()))?;
                context.cells.resize(length, 0);
                self.file
                    .storage(dataset)?
                    .read_at(offset, &mut context.cells)?;
            }
            // None of the formats with valid ranges has such chunks.
            Payload::Zstd(_) => {
                let message = format!(
                    "dataset {:?} has zstd chunks with a valid range",
                    dataset.name()
                );
                return Err(Error::invalid(self.path(), message));
            }
        }
        if let Some((mask, _)) = self.masks.get(&dataset.id()) {
            mask.apply(&mut context.cells);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(
        dtype: Dtype,
        attributes: &[(&str, &str)],
        cells: &[u8],
    ) -> Option<(Vec<u8>, Option<String>)> {
        let mut metadata = DatasetMetadata::default();
        for (key, value) in attributes {
            metadata.attrs.insert(key.to_string(), value.to_string());
        }
        let (mask, metadata) = Mask::of(dtype, &metadata)?;
        let mut cells = cells.to_vec();
        mask.apply(&mut cells);
        Some((cells, metadata.attrs.get(FILL_VALUE).cloned()))
    }

    #[test]
    fn cells_outside_of_the_range_become_the_fill_value() {
        let found = masked(Dtype::U8, &[("valid_range", "[10,20]")], &[9, 10, 20, 21]);
        assert_eq!(found, Some((vec![0, 10, 20, 0], Some("0".to_string()))));
        let found = masked(
            Dtype::U8,
            &[("valid_max", "20"), ("_FillValue", "7")],
            &[9, 21],
        );
        assert_eq!(found, Some((vec![9, 7], Some("7".to_string()))));
        // A bound that no value of the type is below.
        assert_eq!(masked(Dtype::U8, &[("valid_min", "-5")], &[9]), None);
        let cells: Vec<u8> = [-1.0f32, 0.1, f32::NAN, 9.0]
            .iter()
            .flat_map(|cell| cell.to_le_bytes())
            .collect();
        let (found, fill) = masked(
            Dtype::F32,
            &[("valid_min", "0.1"), ("valid_max", "8")],
            &cells,
        )
        .unwrap();
        let found: Vec<f32> = found
            .as_chunks()
            .0
            .iter()
            .map(|cell| f32::from_le_bytes(*cell))
            .collect();
        assert!(found[0].is_nan() && found[1] == 0.1 && found[2].is_nan() && found[3].is_nan());
        assert_eq!(fill.as_deref(), Some("NaN"));
        let cells: Vec<u8> = [-300i16, 5]
            .iter()
            .flat_map(|cell| cell.to_le_bytes())
            .collect();
        let (found, _) = masked(Dtype::I16, &[("valid_range", "[-10,300000]")], &cells).unwrap();
        assert_eq!(found, [i16::MIN.to_le_bytes(), 5i16.to_le_bytes()].concat());
        assert_eq!(masked(Dtype::I16, &[("units", "m")], &cells), None);
    }
}
