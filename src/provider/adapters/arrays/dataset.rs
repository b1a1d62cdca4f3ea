//! One dataset of a file as a grid.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::datatypes::{Field, FieldRef};
use datafusion::common::{Result, ScalarValue};

use crate::format::array::{ArrayFile, Dataset, DatasetMetadata, Payload, fill_text};
use crate::grid::{Axis, ChunkGrid, CoordinateSource, Selection, Window};
use crate::provider::adapters::arrays::array::StoredArray;
use crate::provider::adapters::arrays::columns::{self, Axes};
use crate::provider::adapters::arrays::coordinates::CoordinateDatasets;
#[cfg(feature = "remote")]
use crate::provider::adapters::arrays::fetching;
use crate::provider::adapters::arrays::names::base;
use crate::provider::adapters::arrays::reader::StoredWindowReader;
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, DimensionDescription, TableDescription,
};
use crate::provider::catalog::settings::options::{ArrayOptions, ReadOptions};
#[cfg(feature = "remote")]
use crate::provider::source::Fetch;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    Availability, CellFormat, ColumnBounds, DATASET, GridSource, WindowReader,
};

/// The maximum number of broken chunks that a description lists. One is usually as telling as a
/// million.
const MAX_PROBLEMS: usize = 3;
/// The maximum number of chunks that a description looks up in a file that does not list its
/// chunks.
const MAX_DESCRIBED: u64 = 1 << 20;

/// One dataset of an open file: its axes, and its values as the only attribute.
#[derive(Debug, Clone)]
pub struct ArrayDataset {
    array: Arc<StoredArray>,
    axes: Axes,
    attributes: Vec<FieldRef>,
    fill_text: Option<String>,
    warnings: Vec<String>,
    options: Arc<ArrayOptions>,
}

impl ArrayDataset {
    /// Opens the first dataset with this exact name.
    ///
    /// # Errors
    /// Returns [`Error`](crate::error::Error) if there is no such dataset, if it cannot be read (an
    /// unknown element type, a chunk extent of zero), or if its times cannot become timestamps.
    pub fn try_new(
        file: &Arc<dyn ArrayFile>,
        name: &str,
        options: &ArrayOptions,
    ) -> Result<Self, crate::error::Error> {
        Self::try_new_shared(file, name, options, &mut CoordinateDatasets::default())
    }

    /// Like [`Self::try_new`], with coordinates that the datasets of a file share.
    pub(super) fn try_new_shared(
        file: &Arc<dyn ArrayFile>,
        name: &str,
        options: &ArrayOptions,
        shared: &mut CoordinateDatasets,
    ) -> Result<Self, crate::error::Error> {
        let dataset = file
            .dataset(name)
            .ok_or_else(|| file.listing().no_such_dataset(name))?;
        let nothing = DatasetMetadata::default();
        let metadata = file.metadata(dataset).unwrap_or(&nothing);
        let mut warnings = Vec::new();
        let array = StoredArray::try_new(file, dataset, metadata, options, &mut warnings)?;
        let array = array.with_times(metadata, options);
        let axes = columns::axes(file, dataset, metadata, options, shared, &mut warnings)?;
        let kept = metadata.attrs.iter();
        let kept = kept.filter(|(key, _)| array.decoding().keeps(key));
        let mut attributes: HashMap<_, _> = kept
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect();
        attributes.insert(DATASET.to_string(), dataset.name().to_string());
        let value = Field::new(
            columns::value_name(dataset, &axes.axes),
            array.data_type(),
            // Nullable in any case, so that no option changes the schema.
            true,
        )
        .with_metadata(attributes);
        Ok(Self {
            axes,
            attributes: vec![Arc::new(value)],
            fill_text: array
                .fill()
                .and_then(|_| fill_text(metadata).map(str::to_string)),
            array: Arc::new(array),
            warnings,
            options: Arc::new(options.clone()),
        })
    }

    /// The file.
    pub fn file(&self) -> &Arc<dyn ArrayFile> {
        self.array.file()
    }

    /// Problems in the metadata of the dataset, such as labels that do not fit its shape. The
    /// metadata concerned is ignored.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The dataset's record in the file.
    pub fn dataset(&self) -> &Dataset {
        self.array.dataset()
    }

    /// Returns `true` if the file or an option names the dimensions. Unnamed dimensions never equal
    /// those of another dataset.
    pub(super) fn has_named_axes(&self) -> bool {
        self.axes.are_named
    }

    /// Returns `true` if the values are the coordinates of the dataset's own dimension.
    pub(super) fn is_coordinate_variable(&self) -> bool {
        self.axes
            .axes
            .iter()
            .any(|axis| *axis.source() == CoordinateSource::OwnValues)
            || (self.axes.are_named
                && self.axes.axes.len() == 1
                && self.axes.axes[0].name() == base(self.dataset().name()))
    }
}

impl GridSource for ArrayDataset {
    fn format(&self) -> &'static str {
        self.file().format()
    }

    fn name(&self) -> &str {
        self.dataset().name()
    }

    fn path(&self) -> &Path {
        self.file().path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        vec![Arc::new(self.clone())]
    }

    fn axes(&self) -> &[Axis] {
        &self.axes.axes
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.attributes
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        self.array.chunk_grid()
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let (file, dataset) = (self.file(), self.dataset());
        #[cfg(feature = "remote")]
        if file.is_remote() && file.listed_chunks().is_none() {
            // Planning must not send a request for each chunk.
            return Ok(dataset.chunk_bytes(self.array.dtype(), chunk));
        }
        let stored = file.chunk(dataset, chunk, options.access)?;
        Ok(stored.stored_bytes)
    }

    fn chunk_cost(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let (file, dataset) = (self.file(), self.dataset());
        if file.listed_chunks().is_none() {
            // Each chunk may be a file of its own, so it is not looked up.
            return Ok(dataset.chunk_bytes(self.array.dtype(), chunk));
        }
        let stored = file.chunk(dataset, chunk, options.access)?;
        Ok(stored.raw_bytes)
    }

    fn may_have_nulls(&self, _attribute: usize, options: &ReadOptions) -> bool {
        self.array.may_have_nulls(options)
    }

    fn cell_format(&self, _attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        self.array.cell_format(options)
    }

    fn availability(&self, _attribute: usize, options: &ReadOptions) -> Availability {
        self.array.availability(options)
    }

    fn window_statistics(
        &self,
        _attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        self.array.window_statistics(windows, options)
    }

    fn chunk_statistics(
        &self,
        _attribute: usize,
        options: &ReadOptions,
    ) -> Result<Option<Arc<ColumnBounds>>> {
        Ok(self.array.chunk_statistics(options))
    }

    fn contained(
        &self,
        _attribute: usize,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        self.array.contained(windows, values, options)
    }

    #[cfg(feature = "remote")]
    fn fetch(
        &self,
        window: &Window,
        _attributes: &[usize],
        _options: &ReadOptions,
    ) -> Option<Fetch> {
        fetching::fetch(&self.array, window)
    }

    fn window_reader(
        &self,
        _attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let array = Arc::clone(&self.array);
        Ok(Box::new(StoredWindowReader::new(array, options)))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let file = self.file();
        let identity = file.identity(self.dataset())?;
        // The recipe is that of the dataset alone.
        let options = self.options.as_ref().clone();
        let options = options.with_auxiliary_coordinates(false);
        let recipe = Recipe::in_file(file.format(), file.path(), self.name(), &options, identity);
        Ok(Some(recipe?))
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        let value = &self.attributes[0];
        let metadata = self.file().metadata(self.dataset());
        let metadata = metadata.map(|metadata| metadata.attrs.clone());
        vec![AttributeDescription {
            name: value.name().clone(),
            stored_type: self.array.dtype().to_string(),
            data_type: value.data_type().clone(),
            fill: self.fill_text.clone(),
            metadata: metadata.unwrap_or_default(),
        }]
    }

    fn describe_chunk(&self, chunk: &[u64], options: &ReadOptions) -> Result<ChunkDescription> {
        let stored = self.file().chunk(self.dataset(), chunk, options.access)?;
        Ok(ChunkDescription {
            codec: self.file().codec(self.dataset(), stored.payload),
            offset: match stored.payload {
                Payload::Raw(offset) | Payload::Zstd(offset) => Some(offset),
                Payload::Encoded(_) => None,
            },
            stored_bytes: stored.stored_bytes,
            raw_bytes: stored.raw_bytes,
        })
    }

    fn describe(&self) -> Result<TableDescription> {
        let (file, dataset) = (self.file(), self.dataset());
        let grid = self.chunk_grid();
        let mut codecs = BTreeSet::new();
        let mut stored_bytes = 0;
        let mut problems = self.warnings.clone();
        problems.extend(self.array.availability(&ReadOptions::default()).unusable);
        let most_problems = problems.len() + MAX_PROBLEMS;
        let chunks = Selection::all(grid.shape()).chunks(grid);
        let count = chunks.count();
        // A file can claim far more chunks than its index has rows.
        let most = file.listed_chunks().unwrap_or(MAX_DESCRIBED);
        #[cfg(feature = "remote")]
        let most = match file.is_remote() && file.listed_chunks().is_none() {
            // Each chunk would take a request.
            true => 0,
            false => most,
        };
        let visited = count.unwrap_or(u64::MAX).min(most);
        for position in 0..visited {
            let Some(chunk) = chunks.nth(position) else {
                break;
            };
            match file.chunk(dataset, &chunk, file.access()) {
                Ok(stored) => {
                    codecs.insert(file.codec(dataset, stored.payload));
                    stored_bytes = u64::saturating_add(stored_bytes, stored.stored_bytes);
                }
                Err(error) if problems.len() < most_problems => problems.push(error.to_string()),
                Err(_) => {}
            }
        }
        match file.listed_chunks() {
            Some(listed) if count != Some(visited) => problems.push(format!(
                "the chunk index has only {listed} rows, fewer than the dataset has chunks"
            )),
            None if most == 0 && count != Some(0) => problems
                .push("stored bytes are not counted for chunks in an object store".to_string()),
            None if count != Some(visited) => problems.push(format!(
                "stored bytes count only the first {visited} chunks"
            )),
            _ => {}
        }
        let dimensions = self
            .axes()
            .iter()
            .map(|axis| DimensionDescription::of(axis, &mut problems))
            .collect();
        Ok(TableDescription {
            name: dataset.name().to_string(),
            format: file.format(),
            location: file.path().display().to_string(),
            dimensions,
            attributes: self.describe_attributes(),
            chunk_shape: dataset.chunk_shape().to_vec(),
            chunks: count,
            codecs: codecs.into_iter().collect(),
            stored_bytes,
            raw_bytes: Selection::all(grid.shape())
                .count()
                .and_then(|cells| cells.checked_mul(self.array.dtype().size())),
            problems,
        })
    }
}
