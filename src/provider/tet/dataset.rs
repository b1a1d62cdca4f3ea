//! One dataset of a `.tet` file as a grid.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::common::Result;

use crate::format::tet::{Dataset, DatasetMetadata, Dtype, Fill, TetFile, fill_text};
use crate::grid::{Axis, ChunkGrid, IndexSet, Selection};
use crate::provider::description::{AttributeDescription, DimensionDescription, TableDescription};
use crate::provider::grid_blocks::axis_range;
use crate::provider::options::{ReadOptions, TetOptions};
use crate::provider::source::{GridSource, WindowReader};
use crate::provider::tet::columns;
use crate::provider::tet::reader::TetWindowReader;
use crate::provider::tet::values::{self, Missing};

/// Broken chunks that a description spells out; one is usually as telling as a million.
const MAX_PROBLEMS: usize = 3;

/// One dataset of an open `.tet` file: its axes, and its values as the one attribute.
#[derive(Debug, Clone)]
pub struct TetDataset {
    file: Arc<TetFile>,
    dataset: Dataset,
    dtype: Dtype,
    axes: Vec<Axis>,
    attributes: Vec<FieldRef>,
    fill: Option<Fill>,
    fill_text: Option<String>,
    grid: ChunkGrid,
    warnings: Vec<String>,
}

impl TetDataset {
    /// The dataset with this exact name, or the first of them.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) if there is no such dataset, or if it cannot be read (an unknown element type, a
    /// chunk extent of zero).
    pub fn try_new(
        file: &Arc<TetFile>,
        name: &str,
        options: &TetOptions,
    ) -> Result<Self, crate::error::Error> {
        let dataset = file
            .dataset(name)
            .ok_or_else(|| file.no_such_dataset(name))?
            .clone();
        let dtype = dataset.check(file.path())?;
        let metadata: DatasetMetadata = file.metadata(&dataset).cloned().unwrap_or_default();
        let mut warnings = Vec::new();
        let keep_text = options.text_labels;
        let axes = columns::axes(file, &dataset, &metadata, keep_text, &mut warnings);
        let attributes: HashMap<_, _> = metadata.attrs.clone().into_iter().collect();
        let value = Field::new(
            columns::value_name(&dataset, &axes),
            values::data_type(dtype),
            // Whatever the options say, so that none of them changes the schema.
            true,
        )
        .with_metadata(attributes);
        let fill = Fill::of(&metadata, dtype);
        Ok(Self {
            file: Arc::clone(file),
            grid: ChunkGrid::new(dataset.shape().to_vec(), dataset.chunk_shape().to_vec()),
            dtype,
            axes,
            attributes: vec![Arc::new(value)],
            fill_text: fill.and_then(|_| fill_text(&metadata).map(str::to_string)),
            fill,
            dataset,
            warnings,
        })
    }

    /// The file.
    pub fn file(&self) -> &Arc<TetFile> {
        &self.file
    }

    /// What the footer says of the dataset that does not fit it, and is left unused.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The directory record.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub(super) fn missing(&self, options: &ReadOptions) -> Missing {
        Missing {
            nan: options.nan_as_null,
            fill: self.fill.filter(|_| options.fill_as_null),
        }
    }
}

impl GridSource for TetDataset {
    fn format(&self) -> &'static str {
        "tet"
    }

    fn name(&self) -> &str {
        self.dataset.name()
    }

    fn axes(&self) -> &[Axis] {
        &self.axes
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.attributes
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        &self.grid
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        let row = self.file.chunk_row(&self.dataset, chunk, options.access)?;
        Ok(row.stored_bytes)
    }

    fn may_have_nulls(&self, _attribute: usize, options: &ReadOptions) -> bool {
        self.missing(options).is_possible(self.dtype)
    }

    fn window_reader(
        &self,
        _attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        Ok(Box::new(TetWindowReader::try_new(self.clone(), options)?))
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut codecs = BTreeSet::new();
        let mut stored_bytes = 0;
        let mut problems = self.warnings.clone();
        let most_problems = problems.len() + MAX_PROBLEMS;
        let chunks = Selection::all(self.grid.shape()).chunks(&self.grid);
        let count = chunks.count();
        // A file can claim far more chunks than it has index rows for.
        let visited = count.unwrap_or(u64::MAX).min(self.file.chunk_rows());
        for position in 0..visited {
            let Some(chunk) = chunks.nth(position) else {
                break;
            };
            match self
                .file
                .chunk_row(&self.dataset, &chunk, self.file.options().access)
            {
                Ok(row) => {
                    codecs.insert(row.codec.to_string());
                    stored_bytes = u64::saturating_add(stored_bytes, row.stored_bytes);
                }
                Err(error) if problems.len() < most_problems => problems.push(error.to_string()),
                Err(_) => {}
            }
        }
        if count != Some(visited) {
            problems.push(format!(
                "the chunk index has {visited} rows in all, fewer than this dataset has chunks"
            ));
        }
        let dimensions = self
            .axes
            .iter()
            .map(|axis| {
                let range = axis_range(axis, &IndexSet::all(axis.length()))?;
                Ok(DimensionDescription {
                    name: axis.name().to_string(),
                    extent: axis.length(),
                    data_type: axis.data_type(),
                    range,
                    source: axis.source().to_string(),
                })
            })
            .collect::<Result<_>>()?;
        let value = &self.attributes[0];
        let metadata: BTreeMap<_, _> = value.metadata().clone().into_iter().collect();
        Ok(TableDescription {
            name: self.dataset.name().to_string(),
            format: "tet",
            location: self.file.path().display().to_string(),
            dimensions,
            attributes: vec![AttributeDescription {
                name: value.name().clone(),
                stored_type: self.dtype.to_string(),
                data_type: value.data_type().clone(),
                fill: self.fill_text.clone(),
                metadata,
            }],
            chunk_shape: self.dataset.chunk_shape().to_vec(),
            chunks: count,
            codecs: codecs.into_iter().collect(),
            stored_bytes,
            raw_bytes: Selection::all(self.grid.shape())
                .count()
                .and_then(|cells| cells.checked_mul(self.dtype.size())),
            problems,
        })
    }
}
