//! Dimension labels as columns of dense arrays.
//!
//! A label of a dimension is an array of its own with one value per index. A cell has the value at its
//! index along the dimension.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue, internal_err};

use crate::error::{Error, Result as FormatResult};
use crate::format::tiledb::DimensionLabel;
use crate::grid::{Axis, ChunkGrid, Window};
use crate::provider::adapters::tiledb::columns::Column;
use crate::provider::adapters::tiledb::dense::grid::DenseGrid;
use crate::provider::adapters::tiledb::stored::StoredArray;
use crate::provider::catalog::description::{
    AttributeDescription, ChunkDescription, TableDescription,
};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::axis_bounds::fold;
#[cfg(feature = "remote")]
use crate::provider::source::Fetch;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{
    Availability, CellFormat, ColumnBounds, FetchedBlock, GridSource, ReadCounts, WindowReader,
};

/// The maximum number of values of a label.
const MAX_VALUES: u64 = 1 << 24;

/// Opens a dense array as a grid, whose last attributes are the labels of its dimensions. Labels that are
/// stored outside of the array, or have more than [`MAX_VALUES`] values, are left out.
pub(in crate::provider::adapters::tiledb) fn open_grid(
    stored: Arc<StoredArray>,
) -> FormatResult<Arc<dyn GridSource>> {
    let schema = Arc::clone(stored.array().schema());
    let grid = DenseGrid::try_new(stored)?;
    let axes = grid.axes().iter().map(Axis::name);
    let mut names: HashSet<String> = axes.map(str::to_string).collect();
    names.extend(grid.attributes().iter().map(|field| field.name().clone()));
    let array = grid.stored.array();
    let labels = schema.labels.iter().filter(|label| {
        let axis = grid.axes().get(label.dimension);
        axis.is_some_and(|axis| axis.length() <= MAX_VALUES)
            && array.label_path(label).is_some()
            && names.insert(label.name.clone())
    });
    let labels: Vec<Label> = labels.map(|label| Label::new(&grid, label)).collect();
    if labels.is_empty() {
        return Ok(Arc::new(grid));
    }
    let fields = grid.attributes().iter().cloned();
    let of_labels = labels
        .iter()
        .map(|label| Arc::new(label.column.field(true)));
    Ok(Arc::new(LabelledGrid {
        fields: fields.chain(of_labels).collect(),
        labels,
        grid,
    }))
}

/// A label of a dimension of a grid.
#[derive(Debug)]
struct Label {
    label: DimensionLabel,
    column: Column,
    /// The value at each index of the axis, read on first use: without and with NaN as null, and each of
    /// them without and with fill values as null.
    values: [[OnceLock<ArrayRef>; 2]; 2],
}

impl Label {
    fn new(grid: &DenseGrid, label: &DimensionLabel) -> Self {
        Self {
            column: Column::of_label(grid.path(), label),
            label: label.clone(),
            values: Default::default(),
        }
    }

    /// Returns the value at each index of the axis.
    ///
    /// # Errors
    /// Returns an error if the array of the label cannot be read, or does not have these values.
    fn values(&self, grid: &DenseGrid, options: &ReadOptions) -> Result<&ArrayRef> {
        let kept =
            &self.values[usize::from(options.nan_as_null)][usize::from(options.fill_as_null)];
        if let Some(known) = kept.get() {
            return Ok(known);
        }
        let label = &self.label;
        let invalid = |message: String| Error::invalid(grid.path(), message);
        let stored = grid.stored.label(label)?;
        let attribute = stored.array().schema().attribute_index(&label.attribute);
        let Some(attribute) = attribute else {
            let (name, attribute) = (&label.name, &label.attribute);
            let message = format!("the array of the label {name:?} has no attribute {attribute:?}");
            return Err(invalid(message).into());
        };
        let values = DenseGrid::try_new(Arc::new(stored))?;
        let length = grid.axes()[label.dimension].length();
        let own_length = match values.axes() {
            [axis] => axis.length(),
            _ => 0,
        };
        // Both arrays have integers as coordinates.
        let first = values.first_coordinate(0);
        let start = grid.first_coordinate(label.dimension).checked_sub(first);
        let start = start.and_then(|start| u64::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(length));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= own_length)) else {
            let name = &label.name;
            let message = format!(
                "the label {name:?} has {own_length} values from {first} on, which are not those of all {length} \
                 indices"
            );
            return Err(invalid(message).into());
        };
        let window = Window::new(vec![start..end]);
        let values = values.read_window(&window, &[attribute], options)?;
        match values.into_iter().next() {
            Some(values) if values.data_type() == self.column.data_type() => {
                Ok(kept.get_or_init(|| values))
            }
            _ => {
                let (name, expected) = (&label.name, self.column.data_type());
                let message =
                    format!("the values of the label {name:?} are not of type {expected}");
                Err(invalid(message).into())
            }
        }
    }
}

/// A dense array with the labels of its dimensions as its last attributes.
#[derive(Debug)]
struct LabelledGrid {
    grid: DenseGrid,
    labels: Vec<Label>,
    fields: Vec<FieldRef>,
}

impl LabelledGrid {
    /// Returns the label that is an attribute; `None` for attributes of the array.
    fn label(&self, attribute: usize) -> Option<&Label> {
        let index = attribute.checked_sub(self.grid.attributes().len())?;
        self.labels.get(index)
    }

    /// Returns the bounds of a label in windows.
    fn bounds(
        &self,
        label: &Label,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<ColumnBounds> {
        let values = label.values(&self.grid, options)?;
        let (mut lows, mut highs, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
        for window in windows {
            let range = &window.ranges()[label.label.dimension];
            let length = range.end - range.start;
            let values = values.slice(range.start as usize, length as usize);
            lows.push(fold(&values, false)?);
            highs.push(fold(&values, true)?);
            let repeats = window.cells() / length.max(1);
            nulls.push(values.null_count() as u64 * repeats);
        }
        Ok(ColumnBounds {
            min: ScalarValue::iter_to_array(lows)?,
            max: ScalarValue::iter_to_array(highs)?,
            nulls: UInt64Array::from(nulls),
            sums: None,
            is_exact: true,
        })
    }
}

impl GridSource for LabelledGrid {
    fn format(&self) -> &'static str {
        self.grid.format()
    }

    fn name(&self) -> &str {
        self.grid.name()
    }

    fn path(&self) -> &Path {
        self.grid.path()
    }

    fn parts(&self) -> Vec<Arc<dyn GridSource>> {
        self.grid.parts()
    }

    fn axes(&self) -> &[Axis] {
        self.grid.axes()
    }

    fn attributes(&self) -> &[FieldRef] {
        &self.fields
    }

    fn chunk_grid(&self) -> &ChunkGrid {
        self.grid.chunk_grid()
    }

    fn stored_bytes(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        self.grid.stored_bytes(chunk, options)
    }

    fn chunk_cost(&self, chunk: &[u64], options: &ReadOptions) -> Result<u64> {
        self.grid.chunk_cost(chunk, options)
    }

    fn may_have_nulls(&self, attribute: usize, options: &ReadOptions) -> bool {
        self.label(attribute).is_some() || self.grid.may_have_nulls(attribute, options)
    }

    fn is_stored(&self, attribute: usize) -> bool {
        self.label(attribute).is_none()
    }

    fn cell_format(&self, attribute: usize, options: &ReadOptions) -> Option<CellFormat> {
        match self.label(attribute) {
            Some(_) => None,
            None => self.grid.cell_format(attribute, options),
        }
    }

    fn availability(&self, attribute: usize, options: &ReadOptions) -> Availability {
        match self.label(attribute) {
            Some(_) => Availability {
                is_known: options.zone_maps,
                unusable: None,
            },
            None => self.grid.availability(attribute, options),
        }
    }

    fn window_statistics(
        &self,
        attribute: usize,
        windows: &[Window],
        options: &ReadOptions,
    ) -> Result<Option<ColumnBounds>> {
        match self.label(attribute) {
            Some(_) if windows.is_empty() || !options.zone_maps => Ok(None),
            Some(label) => self.bounds(label, windows, options).map(Some),
            None => self.grid.window_statistics(attribute, windows, options),
        }
    }

    fn chunk_statistics(
        &self,
        attribute: usize,
        options: &ReadOptions,
    ) -> Result<Option<Arc<ColumnBounds>>> {
        match self.label(attribute) {
            Some(_) => Ok(None),
            None => self.grid.chunk_statistics(attribute, options),
        }
    }

    fn contained(
        &self,
        attribute: usize,
        windows: &[Window],
        values: &HashSet<ScalarValue>,
        options: &ReadOptions,
    ) -> Result<Option<BooleanArray>> {
        match self.label(attribute) {
            Some(_) => Ok(None),
            None => self.grid.contained(attribute, windows, values, options),
        }
    }

    #[cfg(feature = "remote")]
    fn fetch(&self, window: &Window, attributes: &[usize], options: &ReadOptions) -> Option<Fetch> {
        let stored = attributes.iter().copied();
        let stored: Vec<usize> = stored
            .filter(|attribute| self.label(*attribute).is_none())
            .collect();
        self.grid.fetch(window, &stored, options)
    }

    fn window_reader(
        &self,
        attributes: &[usize],
        options: &ReadOptions,
    ) -> Result<Box<dyn WindowReader>> {
        let (mut stored, mut columns) = (Vec::new(), Vec::new());
        for attribute in attributes {
            columns.push(match self.label(*attribute) {
                Some(label) => ReadColumn::Label {
                    axis: label.label.dimension,
                    values: Arc::clone(label.values(&self.grid, options)?),
                },
                None => {
                    stored.push(*attribute);
                    ReadColumn::Stored(stored.len() - 1)
                }
            });
        }
        Ok(Box::new(LabelledReader {
            cells: self.grid.window_reader(&stored, options)?,
            columns,
            window: Window::new(Vec::new()),
        }))
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        self.grid.recipe()
    }

    fn renewed(&self) -> Result<Option<Arc<dyn GridSource>>> {
        self.grid.renewed()
    }

    fn describe_attributes(&self) -> Vec<AttributeDescription> {
        let labels = self.labels.iter().map(|label| AttributeDescription {
            name: label.column.name().to_string(),
            stored_type: label.column.stored_type(),
            data_type: label.column.data_type().clone(),
            fill: None,
            metadata: label
                .column
                .field(true)
                .metadata()
                .clone()
                .into_iter()
                .collect(),
        });
        let attributes = self.grid.describe_attributes().into_iter();
        attributes.chain(labels).collect()
    }

    fn describe_chunk(&self, chunk: &[u64], options: &ReadOptions) -> Result<ChunkDescription> {
        self.grid.describe_chunk(chunk, options)
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut description = self.grid.describe()?;
        description.attributes = self.describe_attributes();
        Ok(description)
    }
}

/// A column that a [`LabelledReader`] reads.
enum ReadColumn {
    /// The attribute of the array with this index among those that are read.
    Stored(usize),
    /// A label, with its value at each index of an axis.
    Label { axis: usize, values: ArrayRef },
}

/// Reads attributes of an array, and gathers the values of labels.
struct LabelledReader {
    cells: Box<dyn WindowReader>,
    columns: Vec<ReadColumn>,
    window: Window,
}

impl LabelledReader {
    /// Returns the index along an axis of each cell in runs of cells of the window.
    fn indices(&self, axis: usize, runs: &[Range<u64>]) -> UInt64Array {
        let ranges = self.window.ranges();
        let lengths = ranges.iter().map(|range| range.end - range.start);
        let stride: u64 = lengths.skip(axis + 1).product();
        let range = &ranges[axis];
        let length = (range.end - range.start).max(1);
        let cells = runs.iter().cloned().flatten();
        let indices = cells.map(|cell| range.start + cell / stride.max(1) % length);
        UInt64Array::from_iter_values(indices)
    }
}

impl WindowReader for LabelledReader {
    fn open(&mut self, window: &Window, fetched: Option<FetchedBlock>) -> Result<()> {
        self.window = window.clone();
        self.cells.open(window, fetched)
    }

    fn advance(&mut self) -> Result<bool> {
        self.cells.advance()
    }

    fn cells(&mut self, attribute: usize, range: Range<u64>) -> Result<&[u8]> {
        match self.columns.get(attribute) {
            Some(ReadColumn::Stored(index)) => self.cells.cells(*index, range),
            _ => internal_err!("the cells of attribute {attribute} are not stored"),
        }
    }

    fn read(&mut self, runs: &[Range<u64>]) -> Result<Vec<ArrayRef>> {
        let stored = self.cells.read(runs)?;
        let columns = self.columns.iter().map(|column| match column {
            ReadColumn::Stored(index) => Ok(Arc::clone(&stored[*index])),
            ReadColumn::Label { axis, values } => {
                Ok(take(values, &self.indices(*axis, runs), None)?)
            }
        });
        columns.collect()
    }

    fn counts(&self) -> ReadCounts {
        self.cells.counts()
    }
}
