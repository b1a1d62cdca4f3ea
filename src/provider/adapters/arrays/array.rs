//! The values of one dataset, independent of its axes.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::DataType;

use crate::error::{Error, ErrorLocation};
use crate::format::array::{ArrayFile, ChunkReader, Dataset, DatasetMetadata, Dtype, Fill};
use crate::format::io::storage::Access;
use crate::grid::reduce::CellType;
use crate::grid::{ChunkGrid, half_coordinate_values};
use crate::provider::adapters::arrays::decoding::{Decoding, RAW_TIMES, UNPACK_ATTRIBUTES, time};
use crate::provider::adapters::arrays::names::{base, group};
use crate::provider::adapters::arrays::values::{self, NullCells};
use crate::provider::catalog::settings::options::{ArrayOptions, ReadOptions};
use crate::provider::source::{CellFormat, ColumnBounds};

/// The maximum number of bytes of a dataset that is read as coordinates.
const MAX_COORDINATES: u64 = 1 << 30;

/// The values of one dataset of an open file.
#[derive(Debug)]
pub(in crate::provider) struct StoredArray {
    file: Arc<dyn ArrayFile>,
    dataset: Dataset,
    dtype: Dtype,
    fill: Option<Fill>,
    /// Further fill values beside `fill`.
    other_fills: Vec<Fill>,
    decoding: Decoding,
    grid: ChunkGrid,
    kept_statistics: CachedStatistics,
}

/// Cached statistics of all chunks of an array: first for the case that nulls of zone maps may be
/// values of the column, then for the case that they are null there.
#[derive(Debug, Default)]
pub(super) struct CachedStatistics(pub [OnceLock<Option<Arc<ColumnBounds>>>; 2]);

impl StoredArray {
    /// Creates the array of a dataset. Metadata that does not fit is ignored, with a warning.
    ///
    /// # Errors
    /// Returns an error if the record of the dataset is invalid.
    pub fn try_new(
        file: &Arc<dyn ArrayFile>,
        dataset: &Dataset,
        metadata: &DatasetMetadata,
        options: &ArrayOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let dtype = dataset.check(file.path())?;
        let mut warn = |field, found: String, expected: String, instead: &str| {
            let location = ErrorLocation::dataset(file.path(), dataset.name());
            let error = Error::malformed(location, field, found, expected);
            warnings.push(format!("{error}; {instead}"));
        };
        let fills: Vec<Fill> = match file.attributes_describe_cells() {
            true => Fill::all(metadata, dtype),
            false => Fill::of(metadata, dtype).into_iter().collect(),
        };
        let (fill, other_fills) = match fills.split_first() {
            Some((first, others)) => (Some(*first), others.to_vec()),
            None => (None, Vec::new()),
        };
        Ok(Self {
            file: Arc::clone(file),
            dtype,
            fill,
            other_fills,
            decoding: Decoding::of(
                metadata,
                dtype,
                options,
                file.attributes_describe_cells(),
                &mut warn,
            ),
            grid: ChunkGrid::new(dataset.shape().to_vec(), dataset.chunk_shape().to_vec()),
            dataset: dataset.clone(),
            kept_statistics: CachedStatistics::default(),
        })
    }

    /// Returns the array with values in CF units of time decoded, as in xarray, even if no attribute
    /// names their Arrow type. Packed values, and values of calendars that timestamps do not have, stay
    /// numbers.
    pub fn with_times(mut self, metadata: &DatasetMetadata, options: &ArrayOptions) -> Self {
        if options.decode_times
            && matches!(self.decoding, Decoding::None)
            && !UNPACK_ATTRIBUTES
                .iter()
                .any(|key| metadata.attrs.contains_key(*key))
            && let Ok(Some(time)) = time(self.coordinates_of_bounds().unwrap_or(metadata))
            && time.has_timestamps()
        {
            self.decoding = Decoding::Time(time, false);
        }
        self
    }

    /// Returns the metadata of the coordinates whose bounds the array has, if it has no unit itself
    /// (CF section 7.1).
    fn coordinates_of_bounds(&self) -> Option<&DatasetMetadata> {
        let has_units = |metadata: &DatasetMetadata| metadata.attrs.contains_key("units");
        let own = self.file.metadata(&self.dataset);
        if self.dataset.shape().last() != Some(&2) || own.is_some_and(has_units) {
            return None;
        }
        let name = self.dataset.name();
        let others = self.file.datasets().iter();
        let others = others.filter(|other| group(other.name()) == group(name));
        let mut others = others.filter_map(|other| self.file.metadata(other));
        others.find(|other| {
            other
                .attrs
                .get("bounds")
                .is_some_and(|bounds| bounds == base(name))
        })
    }

    pub fn file(&self) -> &Arc<dyn ArrayFile> {
        &self.file
    }

    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub fn fill(&self) -> Option<Fill> {
        self.fill
    }

    pub(super) fn decoding(&self) -> &Decoding {
        &self.decoding
    }

    pub fn chunk_grid(&self) -> &ChunkGrid {
        &self.grid
    }

    pub(super) fn kept_statistics(&self) -> &CachedStatistics {
        &self.kept_statistics
    }

    pub fn data_type(&self) -> DataType {
        self.decoding.data_type(self.dtype)
    }

    pub(super) fn missing(&self, options: &ReadOptions) -> NullCells {
        NullCells {
            nan: options.nan_as_null,
            fill: self.fill.filter(|_| options.fill_as_null),
        }
    }

    /// The further fill values, if fill values become null.
    fn others_of(&self, missing: NullCells) -> &[Fill] {
        match missing.fill {
            Some(_) => &self.other_fills,
            None => &[],
        }
    }

    pub fn may_have_nulls(&self, options: &ReadOptions) -> bool {
        self.missing(options).is_possible(self.dtype) || self.decoding.can_be_null()
    }

    pub fn cell_format(&self, options: &ReadOptions) -> Option<CellFormat> {
        let missing = self.missing(options);
        if !matches!(self.decoding, Decoding::None) || !self.others_of(missing).is_empty() {
            return None;
        }
        Some(CellFormat {
            cell_type: match self.dtype {
                Dtype::F16 => CellType::F16,
                Dtype::F32 => CellType::F32,
                Dtype::F64 => CellType::F64,
                Dtype::I8 => CellType::I8,
                Dtype::I16 => CellType::I16,
                Dtype::I32 => CellType::I32,
                Dtype::I64 => CellType::I64,
                Dtype::U8 => CellType::U8,
                Dtype::U16 => CellType::U16,
                Dtype::U32 => CellType::U32,
                Dtype::U64 => CellType::U64,
            },
            fill: missing.fill.map(Fill::bits),
            nan_is_null: missing.nan,
        })
    }

    /// Converts stored cells to the column's values.
    pub(super) fn column(&self, cells: Buffer, missing: NullCells) -> Result<ArrayRef, Error> {
        let stored = values::array(self.dtype, cells, missing, self.others_of(missing));
        self.decoding.decode(stored, || self.location())
    }

    /// Reads all values of a one-dimensional dataset as coordinates, which cannot be null: null strings are
    /// empty. `f16` and `f32` values stand for their shortest decimal number.
    pub fn coordinates(&self) -> Result<ArrayRef, Error> {
        if let (Dtype::F16, Decoding::None) = (self.dtype, &self.decoding) {
            return Ok(half_coordinate_values(&values::halves(self.read_all()?)));
        }
        let values = self.numbers()?;
        if values.null_count() > 0
            && let Some(texts) = values.as_string_opt::<i32>()
        {
            let texts = texts.iter().map(|text| Some(text.unwrap_or_default()));
            return Ok(Arc::new(texts.collect::<StringArray>()));
        }
        if let Some(position) = values
            .nulls()
            .and_then(|nulls| nulls.iter().position(|valid| !valid))
        {
            return Err(Error::malformed(
                self.location(),
                "coordinate",
                format!("null at index {position}"),
                "a value at every index of the axis",
            ));
        }
        Ok(crate::grid::coordinate_values(&values))
    }

    /// Reads all values of a one-dimensional dataset. NaN and fill values are kept; only decoding
    /// to text or to times can give nulls.
    pub fn numbers(&self) -> Result<ArrayRef, Error> {
        let nothing = NullCells {
            nan: false,
            fill: None,
        };
        self.column(self.read_all()?, nothing)
    }

    /// Reads all values of a one-dimensional dataset of time coordinates. The fill value 0 is a time: Zarr writers store 0 as
    /// the fill value if none was set. NaN is kept.
    ///
    /// # Errors
    /// Fails if a coordinate is a fill value.
    pub fn times(&self) -> Result<ArrayRef, Error> {
        let fills = self.fill.iter().chain(&self.other_fills);
        let is_nan = |fill: &Fill| match self.dtype {
            Dtype::F32 => f32::from_bits(fill.bits() as u32).is_nan(),
            Dtype::F64 => f64::from_bits(fill.bits()).is_nan(),
            _ => false,
        };
        let fills = fills.filter(|fill| fill.bits() != 0 && !is_nan(fill));
        let fills: Vec<Fill> = fills.copied().collect();
        let missing = NullCells {
            nan: false,
            fill: fills.first().copied(),
        };
        let others = fills.get(1..).unwrap_or_default();
        let stored = values::array(self.dtype, self.read_all()?, missing, others);
        let position = stored
            .nulls()
            .and_then(|nulls| nulls.iter().position(|valid| !valid));
        match position {
            None => self.decoding.decode(stored, || self.location()),
            Some(position) => Err(Error::malformed(
                self.location(),
                "time coordinate",
                format!("the fill value at index {position}"),
                format!("a time at every index ({RAW_TIMES})"),
            )),
        }
    }

    /// Reads the cells of a one-dimensional dataset. Uses positioned reads, so that cached
    /// coordinates do not keep a memory map alive.
    fn read_all(&self) -> Result<Buffer, Error> {
        // Formats that may leave chunks out can claim any shape, so the size is limited. In the
        // others, memory grows only with the chunks that exist.
        let bytes = self.grid.shape().iter().product::<u64>() * self.dtype.size();
        if bytes > MAX_COORDINATES {
            return Err(Error::malformed(
                self.location(),
                "shape",
                format!("{:?} for a dataset of coordinates", self.grid.shape()),
                format!("at most {MAX_COORDINATES} bytes of coordinates"),
            ));
        }
        let chunks = self.grid.count().unwrap_or(u64::MAX);
        let mut reader = ChunkReader::new(Arc::clone(&self.file), Access::Pread);
        let mut cells = MutableBuffer::new(0);
        for chunk in 0..chunks {
            let bytes = reader.open(&self.dataset, &[chunk])?.raw_bytes as usize;
            while !reader.advance()? {}
            let start = cells.len();
            cells.resize(start + bytes, 0);
            reader.gather(std::slice::from_ref(&(0..bytes)), &mut cells[start..])?;
        }
        Ok(cells.into())
    }

    pub fn location(&self) -> ErrorLocation {
        ErrorLocation::dataset(self.file.path(), self.dataset.name())
    }
}

#[cfg(feature = "cli")]
impl StoredArray {
    /// Returns `true` if the dataset has more than one fill value.
    pub fn has_many_fills(&self) -> bool {
        !self.other_fills.is_empty()
    }

    /// Replaces every further fill value among these cells by the first fill value.
    pub fn unify_fills(&self, cells: &mut [u8]) {
        let Some(fill) = self.fill else {
            return;
        };
        let size = self.dtype.size() as usize;
        let fill = fill.bits().to_le_bytes();
        for cell in cells.chunks_exact_mut(size) {
            let others = self.other_fills.iter();
            let mut others = others.map(|other| other.bits().to_le_bytes());
            if others.any(|other| *cell == other[..size]) {
                cell.copy_from_slice(&fill[..size]);
            }
        }
    }

    /// Returns `true` if the column's values are the stored numbers, scaled by attributes.
    pub fn is_unpacked(&self) -> bool {
        matches!(self.decoding, Decoding::Unpack { .. })
    }

    /// Returns `true` if an attribute of the dataset also applies to the column's values.
    pub fn keeps(&self, attribute: &str) -> bool {
        self.decoding.keeps(attribute)
    }
}
